"""Tries an experiment out: with a tiny model, little data and one iteration, whatever machine it is meant for."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllib_gigpo import registry
from rllib_gigpo.cli.experiment import Checkpoints, Experiment
from rllib_gigpo.cli.tracking import Tracking

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

# What a machine with little memory and no GPU can do; any value that a config sets itself gives way to these.
_SMALL: dict[str, Any] = {
    "engine": "hf",
    "engine_options": {},
    "engine_sleep_level": None,
    "model_dtype": "float32",
    "max_response_tokens": 16,
    "max_trajectory_steps": 4,
    "groups_per_iteration": 2,
    "max_sampling_rounds": 2,
    "num_minibatches": 1,
    "num_epochs": 1,
    "micro_batch_tokens": 16_384,
    "tasks": None,
    "evaluation_tasks": None,
    "evaluation_duration": 2,
    "evaluation_interval": None,
    "env_workers": 0,
    "env_worker_memory_limit_mb": None,
    "env_worker_max_episodes": None,
    "num_env_runners": 0,
    "num_learners": 0,
    "num_gpus_per_env_runner": 0,
    "num_gpus_per_learner": 0,
    "sharding": None,
    "mixed_precision": False,
}
_SMALL_LORA_RANK = 2


def smoke_experiment(experiment: Experiment) -> Experiment:
    """One training of one iteration by this process: of the first point of a search space, without a restored
    checkpoint.

    The model is the tiny one that comes with the environment, or with another one where none does: it reads and writes
    any text, though not to any end.
    """
    from rllib_gigpo.cli.search_space import first_variant

    return replace(
        experiment,
        config=_small(first_variant(experiment.config)),
        stop={"training_iteration": 1.0},
        num_samples=1,
        checkpoints=Checkpoints(),
        restore=None,
        max_failures=0,
        scheduler="FIFO",
        scheduler_config={},
        tracking=Tracking(),
    )


def _small(config: AlgorithmConfig) -> AlgorithmConfig:
    config = config.copy(copy_frozen=False)
    known = vars(config)
    small = {key: value for key, value in _SMALL.items() if key in known}
    small["group_size"] = getattr(config, "min_group_size", 1)
    if known.get("lora_rank") is not None:
        small |= {"lora_rank": _SMALL_LORA_RANK, "lora_alpha": None}
    if known.get("overlong_penalty_buffer"):
        small["overlong_penalty_buffer"] = None
    if config.env in registry.environment_names():
        small["env_config"] = {**config.env_config, **registry.environment(config.env).small_env_config}
    positions = config.max_prompt_tokens + small["max_response_tokens"]
    model = _tiny_model(config.env, small.get("env_config", config.env_config))
    small["model_path"] = str(_model_with_context(model, positions))
    return config.update_from_dict(small)


def _tiny_model(env: Any, env_config: Mapping[str, Any]) -> Path:
    """The model that comes with the environment and these options, or else with the first one that has any for them."""
    names = registry.environment_names()
    for name in [env, *names] if env in names else names:
        if (found := registry.environment(name).embedded_model_of(env_config)) is not None:
            return found
    raise ValueError("no installed environment comes with a tiny model; give one with model_path, without --smoke")


def _model_with_context(model: Path, positions: int) -> Path:
    """The model itself, or a copy that takes prompts of any length: its positions are rotations, of which there are
    always more. The copy goes when this process ends."""
    config = json.loads((model / "config.json").read_text())
    # Of a vision-language model, its language model's.
    of_text = config.get("text_config", config)
    if of_text.get("max_position_embeddings", positions) >= positions:
        return model
    of_text["max_position_embeddings"] = positions
    folder = Path(tempfile.mkdtemp(prefix="rllib-smoke-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = shutil.copytree(model, folder / model.name)
    (copy / "config.json").write_text(json.dumps(config))
    return copy
