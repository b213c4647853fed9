"""Token rows as rollouts make them, without a model: groups of members that follow an expert most of the time.

Prompts are those of the environments' agent formats; a response is a thought of random words and the action. How alike
the members of a group are, and with it how much their prompts share, is set by how often they follow the expert.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from soak_episodes import EXPERT_OPTIONS
from soak_experts import EXPERTS
from transformers import PreTrainedTokenizerBase

from rllib_gigpo.agent_formats import PromptTemplate, Turn
from rllib_gigpo.agent_formats.chat import encode_prompt
from rllib_gigpo.columns import ADMISSIBLE_ACTIONS
from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_checks.player import SINGLE_AGENT, Moment, Player
from rllib_gigpo.env_checks.recording import random_action
from rllib_gigpo.environments import default_agent_format
from rllib_gigpo.rows import TokenRows

_WORDS = ("the", "a", "is", "it", "on", "in", "and", "then", "now", "go", "look", "take", "put", "see", "task", "next")


class Play(NamedTuple):
    """What is played.

    Attributes:
        env: A registered environment.
        options: Its `env_config`.
        thought_words: Fewest and most words of a response's thought; (0, 0) for responses of the action alone.
    """

    env: str
    options: dict[str, Any]
    thought_words: tuple[int, int]


def rollout_rows(
    play: Play,
    tokenizer: PreTrainedTokenizerBase,
    *,
    groups: int,
    group_size: int = 8,
    follows_expert: float = 0.75,
    max_tokens: int = 4096,
    seed: int = 0,
) -> TokenRows:
    """Rows of `groups` rollout groups, step by step, member by member; longer ones than `max_tokens` are left out.

    Args:
        play: The environment.
        tokenizer: Of the model.
        groups: A task each.
        group_size: Members of a group.
        follows_expert: Share of the steps in which a member does what the expert would; else it acts at random.
        max_tokens: Of a row.
        seed: Of actions and thoughts.
    """
    agent_format = default_agent_format(play.env, play.options)
    template = PromptTemplate(agent_format.prompt_template)
    length = agent_format.history_length
    player = Player(make_env(play.env, **play.options, **EXPERT_OPTIONS.get(play.env, {})))
    rng = np.random.default_rng(seed)
    prompts, responses = [], []
    for task in range(groups):
        for _ in range(group_size):
            moment = player.reset(task, seed)
            choose = EXPERTS[play.env](player, task, moment)
            description = moment.infos[SINGLE_AGENT].get("task_description")
            turns: list[Turn] = []
            while not moment.ended:
                shown = turns if length == "full" else turns[len(turns) - min(length, len(turns)) :]
                message = template.render(
                    observation=moment.observations[SINGLE_AGENT],
                    history=shown,
                    step=len(turns),
                    task=description,
                    admissible_actions=moment.infos[SINGLE_AGENT].get(ADMISSIBLE_ACTIONS),
                )
                action = _action(moment, choose if rng.random() < follows_expert else None, rng)
                prompts.append(encode_prompt(tokenizer, message))
                responses.append(tokenizer.encode(_response(play, action, rng), add_special_tokens=False))
                turns.append(Turn(str(moment.observations[SINGLE_AGENT]), action, None))
                moment = player.step({SINGLE_AGENT: action})
    player.env.close()
    fits = [row for row in range(len(prompts)) if len(prompts[row]) + len(responses[row]) <= max_tokens]
    return TokenRows.from_lists(
        [prompts[row] for row in fits],
        [np.array(responses[row]) for row in fits],
        [np.full(len(responses[row]), -1.0) for row in fits],
        advantages=rng.standard_normal(len(fits)),
    )


def _action(moment: Moment, choose: Callable[[Moment], dict[Any, str]] | None, rng: np.random.Generator) -> str:
    if choose is not None:
        try:
            return choose(moment)[SINGLE_AGENT]
        # An expert that knows a way from the start has lost it after a step at random.
        except (StopIteration, IndexError, KeyError, RuntimeError):
            pass
    return random_action(moment.infos[SINGLE_AGENT], rng)


def _response(play: Play, action: str, rng: np.random.Generator) -> str:
    fewest, most = play.thought_words
    if not most:
        return f"<action>{action}</action>"
    thought = " ".join(rng.choice(_WORDS, int(rng.integers(fewest, most + 1))))
    return f"<think>{thought}</think><action>{action}</action>"
