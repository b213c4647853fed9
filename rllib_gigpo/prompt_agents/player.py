"""What a prompted agent does in one step: its prompt, the model's answer, the parsed action."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rllib_gigpo.agent_formats import AgentFormat, ParsedResponse, PromptTemplate, Turn, parse, response_parser
from rllib_gigpo.agent_formats.agent_presets import (
    AGENT_VARIABLES,
    REFLECTION_VARIABLES,
    AgentPreset,
    AgentTemplate,
    AgentTurn,
)
from rllib_gigpo.agent_formats.thoughts import thought_of
from rllib_gigpo.columns import ADMISSIBLE_ACTIONS
from rllib_gigpo.inference.chat import ChatClient, ChatEngine, ChatRequest
from rllib_gigpo.inference.protocol import SamplingParams

TRUNCATED_PROMPTS = "truncated_prompts"
RESPONSE_CUT = "response_cut"


class PromptOverflow(Exception):
    """A prompt that does not fit into the context, even without history."""


@dataclass
class AgentMemory:
    """What an agent of a trial has gone through.

    Attributes:
        observation, info: What it was shown last.
        turns: Its earlier steps, oldest first.
        responses: The whole text of each of its answers.
        reflections: What it wrote after earlier trials of the task.
    """

    observation: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)
    turns: list[AgentTurn] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    reflections: list[str] = field(default_factory=list)


class _Shown(NamedTuple):
    """What a prompt shows."""

    memory: AgentMemory
    turns: Sequence[AgentTurn]  # the latest of the memory's


class PromptedPlayer:
    """Asks a chat engine for actions, and for reflections.

    Args:
        preset: How to prompt.
        agent_format: The environment's, or a changed one.
        engine: Answers.
        sampling: How answers are sampled; `agent_format.stop` ends them.

    Raises:
        ValueError: The agent format has worked examples.
    """

    def __init__(self, preset: AgentPreset, agent_format: AgentFormat, engine: ChatEngine, sampling: SamplingParams):
        if agent_format.examples:
            raise ValueError("examples: a prompted agent has no turns of conversation; put them into prompt_template")
        self.counts: Counter[str] = Counter()
        self._format = agent_format
        self._engine = engine
        self._sampling = sampling
        self._most_reflections = preset.most_reflections
        self._own_prompt = PromptTemplate(agent_format.prompt_template)
        self._prompt = AgentTemplate(preset.prompt_template, key="prompt_template", variables=AGENT_VARIABLES)
        self._reflection: AgentTemplate | None = None
        if preset.reflection_template is not None:
            key = "reflection_template"
            self._reflection = AgentTemplate(preset.reflection_template, key=key, variables=REFLECTION_VARIABLES)
        self._parser = response_parser(agent_format.response_parser)

    @property
    def reflects(self) -> bool:
        """Whether it writes anything after a trial."""
        return self._reflection is not None

    async def act(
        self, client: ChatClient, memory: AgentMemory, *, seed: int, order: tuple[int, ...]
    ) -> ParsedResponse:
        """The next action of an agent; its step is in the memory afterwards.

        Raises:
            PromptOverflow: There is no room for what it is to see.
            RequestFailed, EndpointRefused, EndpointDown: See `ChatClient.ask`.
        """
        message = self._message(self._prompt, memory, ending=None)
        answer = await client.ask(ChatRequest(message, seed, self._sampling, order))
        self.counts[RESPONSE_CUT] += answer.finish_reason == "length"
        parsed = parse(self._parser, answer.text)
        memory.turns.append(AgentTurn(memory.observation, thought_of(answer.text), parsed.action))
        memory.responses.append(answer.text)
        return parsed

    async def reflect(
        self, client: ChatClient, memory: AgentMemory, ending: str, *, seed: int, order: tuple[int, ...]
    ) -> str:
        """A note on a trial that was not won. Raises as `act`."""
        assert self._reflection is not None
        message = self._message(self._reflection, memory, ending=ending)
        answer = await client.ask(ChatRequest(message, seed, self._sampling, order))
        self.counts[RESPONSE_CUT] += answer.finish_reason == "length"
        # As a note it stands between others, on a line of its own, and must not end a thought of the next try.
        return " ".join(answer.text.replace("<think>", " ").replace("</think>", " ").split())

    def _message(self, template: AgentTemplate, memory: AgentMemory, *, ending: str | None) -> str:
        """The message of now, without the oldest turns where all do not fit."""
        length = self._format.history_length
        turns = memory.turns
        if not template.shows_history and length != "full":
            turns = turns[len(turns) - min(length, len(turns)) :]
        for dropped in range(len(turns) + 1):
            message = self._rendered(template, _Shown(memory, turns[dropped:]), ending)
            if self._engine.fits(message, self._sampling):
                self.counts[TRUNCATED_PROMPTS] += dropped > 0
                return message
        self.counts[TRUNCATED_PROMPTS] += len(turns) > 0
        raise PromptOverflow(f"step {len(memory.turns)}: the prompt does not fit, even without history")

    def _rendered(self, template: AgentTemplate, shown: _Shown, ending: str | None) -> str:
        memory, step = shown.memory, len(shown.memory.turns)
        task = memory.info.get("task_description")
        own_history = [] if template.shows_history else [Turn(t.observation, t.action) for t in shown.turns]
        try:
            own = self._own_prompt.render(
                observation=memory.observation,
                history=own_history,
                step=step,
                task=task,
                admissible_actions=memory.info.get(ADMISSIBLE_ACTIONS),
            )
        except Exception as error:  # a template computes: it may divide by zero, or ask for a file
            raise ValueError(f"prompt_template cannot be rendered at step {step}: {error}") from error
        return template.render(
            prompt=own,
            history=shown.turns,
            reflections=memory.reflections[-self._most_reflections :],
            task=task,
            step=step,
            ending=ending,
        )
