"""Plays one trial: the game asks the player, the player asks the engine, and everything ends in the trial's record."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from rllib_gigpo.agent_formats import ParsedResponse
from rllib_gigpo.columns import INVALID_REASON, IS_ACTION_VALID, SERVICE_FAILURE, SERVICE_FAILURE_DETAILS, WON
from rllib_gigpo.env_runners import endings
from rllib_gigpo.env_runners.multi_agent_answers import MultiAgentStart, MultiAgentStep
from rllib_gigpo.env_runners.rollout_plan import GroupPlan
from rllib_gigpo.failures import failure_of
from rllib_gigpo.inference.chat import ChatClient, RequestFailed
from rllib_gigpo.prompt_agents.games import Game
from rllib_gigpo.prompt_agents.player import AgentMemory, PromptedPlayer, PromptOverflow
from rllib_gigpo.prompt_agents.records import REQUEST_FAILURE, Trial

logger = logging.getLogger(__name__)


class TrialRun:
    """A trial while it is played.

    Args:
        plan: The task, and its seeds.
        number: Of the trial, from 0.
        game: The environment.
        player: Plays all agents.
        client: Of the player's engine.
    """

    def __init__(self, plan: GroupPlan, number: int, game: Game, player: PromptedPlayer, client: ChatClient):
        self.trial = Trial()
        self._plan = plan
        self._number = number
        self._game = game
        self._player = player
        self._client = client
        self._reflections: Mapping[str, list[str]] = {}

    async def start(self, reflections: Mapping[str, list[str]]) -> MultiAgentStart | None:
        """Resets the game; None where that failed, which ends the trial.

        Args:
            reflections: By agent, what it wrote after earlier trials.
        """
        try:
            start = await self._game.start(self._plan.env_seed, self._plan.task)
        except Exception as failure:
            self._fail_env(failure)
            return None
        self._reflections = reflections
        return start

    async def play(self, start: MultiAgentStart) -> None:
        """Plays to the end.

        Raises:
            EndpointRefused, EndpointDown: Nothing more can be asked.
            ValueError: The prompt template or the response parser fails.
        """
        self._show(start.observations, start.infos)
        acting = list(start.observations)
        while self.trial.ending is None:
            answers = await self._ask(acting)
            step = None if answers is None else await self._step(answers)
            if step is not None:
                acting = list(step.observations)

    async def _ask(self, acting: list[str]) -> dict[str, ParsedResponse] | None:
        """The parsed answers of all agents that act now; None where one has none, which ends the trial.

        One after the other: a client takes one request at a time, and games in which agents act together are rare.
        """
        answers = {}
        try:
            for place, agent_id in enumerate(acting):
                named = (agent_id,) if self._game.is_multi_agent else ()
                answers[agent_id] = await self._player.act(
                    self._client,
                    self.trial.memories[agent_id],
                    seed=self._plan.request_seed(self._number, self.trial.steps, *named),
                    order=(self._plan.group_id, place),
                )
        except PromptOverflow as failure:
            self.trial.fail(endings.PROMPT_OVERFLOW, endings.PROMPT_OVERFLOW, failure)
            return None
        except RequestFailed as failure:
            self.trial.fail(REQUEST_FAILURE, failure.cause, failure)
            return None
        return answers

    async def _step(self, answers: dict[str, ParsedResponse]) -> MultiAgentStep | None:
        """Gives the actions to the game; None where it failed, which ends the trial."""
        try:
            step = await self._game.step({agent_id: parsed.action for agent_id, parsed in answers.items()})
        except Exception as failure:
            self._fail_env(failure)
            return None
        trial = self.trial
        trial.steps += 1
        trial.actions += len(answers)
        trial.total_return += sum(step.rewards.values())
        for agent_id, parsed in answers.items():
            info = step.infos[agent_id]
            if not (parsed.is_valid and bool(info.get(IS_ACTION_VALID, True))):
                trial.invalid[parsed.reason or info.get(INVALID_REASON, "inadmissible_action")] += 1
        failed = next((info for info in step.infos.values() if info.get(SERVICE_FAILURE)), None)
        if failed is not None:
            cause = str(failed[SERVICE_FAILURE])
            trial.fail(endings.SERVICE_FAILURE, cause, str(failed.get(SERVICE_FAILURE_DETAILS, cause)))
        elif step.all_terminated:
            won = any(bool(info.get(WON, False)) for info in step.infos.values())
            trial.ending = endings.WON if won else endings.LOST
        elif step.all_truncated:
            trial.ending = endings.STEP_LIMIT
        self._show(step.observations, step.infos)
        return step

    def _show(self, observations: Mapping[str, str], infos: Mapping[str, dict]) -> None:
        for agent_id, observation in observations.items():
            if agent_id not in self.trial.memories:
                notes = list(self._reflections.get(agent_id, ()))
                self.trial.memories[agent_id] = AgentMemory(reflections=notes)
            memory = self.trial.memories[agent_id]
            memory.observation, memory.info = observation, infos[agent_id]

    def _fail_env(self, failure: Exception) -> None:
        self.trial.fail(endings.ENV_FAILURE, failure_of(failure).cause, failure)
        logger.info("task %r: the environment failed, which ends its trial", self._plan.task, exc_info=failure)
