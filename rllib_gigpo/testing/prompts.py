"""Whether the prompts of an environment fit into what a config allows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.columns import PROMPT_IDS
from rllib_gigpo.connectors.prompts import DROPPED_TURNS, PROMPT_OVERFLOW, HistoryMemory, PromptBuilder
from rllib_gigpo.env_checks.making import creator
from rllib_gigpo.env_checks.recording import tasks_for
from rllib_gigpo.environments import default_agent_format
from rllib_gigpo.testing.contract import Environment, EnvironmentContractError, environment_name
from rllib_gigpo.testing.random_play import moments_before_actions


class PromptLengths(NamedTuple):
    """What `check_prompts` measured.

    Attributes:
        longest: Tokens of the longest prompt.
        mean: Tokens, over all prompts.
        shortened_share: Share of prompts that lost turns of history.
    """

    longest: int
    mean: float
    shortened_share: float


def check_prompts(
    env: Environment,
    env_config: Mapping[str, Any] | None = None,
    *,
    model_path: str | Path,
    max_prompt_tokens: int,
    agent_format: AgentFormat | None = None,
    episodes: int = 10,
    seed: int = 0,
    max_steps: int = 100,
) -> PromptLengths:
    """Plays at random and builds every prompt as a rollout does, with the model's tokenizer and chat template.

    Args:
        env, env_config: As in `check_env`.
        model_path: Directory of the model; its weights are not read.
        max_prompt_tokens: As in `config.generation(max_prompt_tokens=…)`. Images count as the tokens that they are.
        agent_format: As `config.resolved_agent_format()` has it; None is the environment's own.
        episodes: To play, each on a task of its own.
        seed: Of tasks, resets and actions.
        max_steps: Of an episode.

    Raises:
        EnvironmentContractError: A prompt does not fit even without its history, where its trajectory would end.
        ValueError: As in `check_env`, `model_path` is no model directory, or the template cannot be rendered.
    """
    from rllib_gigpo.rl_modules.causal_lm_facade import facade_spec
    from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec

    name, options = environment_name(env), dict(env_config or {})
    format_ = agent_format or default_agent_format(name, options)
    module = facade_spec(causal_lm_spec(str(model_path))).build()
    memory = HistoryMemory(history_length=format_.history_length)
    builder = PromptBuilder(prompt_template=format_.prompt_template, max_prompt_tokens=max_prompt_tokens)
    lengths, shortened = [], 0
    for task in tasks_for(seed, episodes):
        for _, episode in moments_before_actions(creator(name, options), task, seed, max_steps=max_steps):
            shared: dict[str, Any] = {}
            memory(rl_module=module, batch={}, episodes=[episode], shared_data=shared)
            prompt = builder(rl_module=module, batch={}, episodes=[episode], shared_data=shared)
            if prompt[PROMPT_OVERFLOW]:
                raise EnvironmentContractError(
                    f"{name}: task {task}, step {len(episode)}: the prompt takes more than "
                    f"max_prompt_tokens={max_prompt_tokens} even without history. Raise it, or show less"
                )
            lengths.append(len(prompt[PROMPT_IDS]))
            shortened += prompt[DROPPED_TURNS] > 0
    return PromptLengths(max(lengths), float(np.mean(lengths)), shortened / len(lengths))
