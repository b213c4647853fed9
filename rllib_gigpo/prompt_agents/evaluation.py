"""An evaluation by prompting, from its settings to its numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ray.rllib.env.env_context import EnvContext

from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.agent_formats.agent_presets import AgentPreset
from rllib_gigpo.env_runners.environment_pool import EnvironmentPool, InlinePool
from rllib_gigpo.env_runners.environment_worker import CreatorContext
from rllib_gigpo.env_runners.panel_hash import panel_hash
from rllib_gigpo.env_runners.rollout_plan import evaluation_groups
from rllib_gigpo.env_runners.task_stream import TaskStream
from rllib_gigpo.env_runners.worker_pool import WorkerLimits, WorkerPool
from rllib_gigpo.environments import check_environment, check_observation_space, environment_creator
from rllib_gigpo.inference.chat import ChatEngine
from rllib_gigpo.inference.protocol import SamplingParams
from rllib_gigpo.prompt_agents.panel_run import play_panel
from rllib_gigpo.prompt_agents.player import PromptedPlayer
from rllib_gigpo.prompt_agents.records import TaskRecord
from rllib_gigpo.prompt_agents.results import check_any_played, results_of


@dataclass(frozen=True)
class PanelSettings:
    """What is played, and how.

    Attributes:
        env: A registered name, a Gymnasium id or a class path.
        env_config: Its options.
        episodes: Tasks on the panel, the same as those on which trainings are evaluated.
        trials: At most, of each task; None for as many as the preset says.
        sampling: How answers are sampled; a stop string of the agent format is added.
        seed: Of the answers.
        concurrency: Tasks that are played at once.
        env_workers: Processes for the environments; 0 keeps them in this one.

    Raises:
        ValueError: A number is too small.
    """

    env: str
    sampling: SamplingParams
    env_config: Mapping[str, Any] = field(default_factory=dict)
    episodes: int = 128
    trials: int | None = None
    seed: int = 0
    concurrency: int = 16
    env_workers: int = 0

    def __post_init__(self) -> None:
        least = {"episodes": 1, "trials": 1, "concurrency": 1, "env_workers": 0}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise ValueError(f"{name} is {value}; it must be at least {lowest}")


def evaluate_prompting(
    settings: PanelSettings,
    preset: AgentPreset,
    agent_format: AgentFormat,
    engine: ChatEngine,
    *,
    when_done: Callable[[TaskRecord], None] = lambda record: None,
) -> tuple[dict[str, Any], list[TaskRecord]]:
    """Plays a panel with a prompted model.

    Args:
        settings: What is played.
        preset: How the model is prompted.
        agent_format: The environment's, or a changed one.
        engine: Answers; closed afterwards.
        when_done: Called with the record of each task that is over.

    Returns:
        The numbers, see `results_of`, with `panel_hash`; and the record of each task.

    Raises:
        ValueError: The environment cannot be made or shows pictures; the endpoint refuses all requests; trials are
            asked for without reflection.
        RuntimeError: The endpoint is down; or all tasks failed.
    """
    trials = preset.trials if settings.trials is None else settings.trials
    if trials > 1 and preset.reflection_template is None:
        raise ValueError(f"trials={trials} without reflection would try the same again; use the agent reflexion")
    check_environment(settings.env)
    tasks = TaskStream(settings.seed).evaluation_panel(settings.episodes)
    sampling = replace(settings.sampling, stop=(*settings.sampling.stop, *agent_format.stop))
    player = PromptedPlayer(preset, agent_format, engine, sampling)
    pool = _pool(settings)
    try:
        check_observation_space(None if pool.is_multi_agent else pool.single_observation_space, model_path=None)
        plans = evaluation_groups(tasks, settings.seed)
        records = asyncio.run(play_panel(plans, player, engine, pool, trials=trials, when_done=when_done))
    finally:
        pool.close()
    check_any_played(records)
    digest = panel_hash(settings.env, settings.env_config, tasks, [record.first_observation for record in records])
    return {**results_of(records, player.counts, engine.usage), "panel_hash": digest}, records


def _pool(settings: PanelSettings) -> EnvironmentPool:
    """The environments. Raises ValueError where they do not take `env_config`."""
    try:
        return _made_pool(settings)
    except TypeError as error:
        raise ValueError(f"env={settings.env!r} with env_config={dict(settings.env_config)}: {error}") from error


def _made_pool(settings: PanelSettings) -> EnvironmentPool:
    num_envs = min(settings.concurrency, settings.episodes)
    create = environment_creator(settings.env)
    context = CreatorContext(dict(settings.env_config), worker_index=0, num_workers=0)
    if settings.env_workers:
        return WorkerPool(create, context, num_envs, num_workers=settings.env_workers, limits=WorkerLimits(300.0))
    return InlinePool(lambda: create(EnvContext(**vars(context))), num_envs)
