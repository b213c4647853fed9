"""Every tuned example, loaded as `rllib train file` does, trains for some iterations, made small."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_gigpo.algorithms.ppo import PPOConfig
from rllib_gigpo.cli.config_file import load_config_file
from tests.alfworld_cases import needs_alfworld
from tests.textarena_cases import needs_textarena
from tests.webshop_cases import needs_webshop

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for path in (ROOT / "tuned_examples").rglob("*.py")
    # `papers/` holds what settings share.
    if path.name != "__init__.py" and path.parent.name != "papers"
)
# Settings of the papers, for GPUs, say where they are from; a sweep is no single training; SmolLM2 is not in the
# repository. test_smoke.py runs them.
TINY = [
    path
    for path in FILES
    if "\nSource: " not in path.read_text() and "_sweep" not in path.stem and "_smollm2" not in path.stem
]
ITERATIONS = 3
NEEDS = {"alfworld": needs_alfworld, "textarena": needs_textarena, "webshop": needs_webshop}
# Of an episode. Sokoban's levels must be solvable within the step limit, which 6 is for those of its example.
MOST_STEPS = 6


def needs_of(path: Path) -> Any:
    return NEEDS.get(path.stem.split("_")[0], ())


def example_id(path: Path) -> str:
    return path.relative_to(ROOT / "tuned_examples").with_suffix("").as_posix()


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=example_id(p), marks=needs_of(p)) for p in TINY],
)
def test_a_tuned_example_trains(path: Path) -> None:
    (experiment,) = load_config_file(path)
    assert experiment.stop["training_iteration"] > ITERATIONS
    config: Any = experiment.config
    config.environment(env_config={**config.env_config, "max_steps": MOST_STEPS})
    # PPO compares no members of a group with each other, and has no group_size.
    groups, members = (4, 1) if isinstance(config, PPOConfig) else (2, 2)
    config.training(groups_per_iteration=groups, num_minibatches=1)
    if members > 1:
        config.training(group_size=members)
    algo = config.build_algo()
    try:
        for _ in range(ITERATIONS):
            rollouts = algo.train()["env_runners"]
            assert rollouts["endings"]["env_failure"] == rollouts["endings"]["prompt_overflow"] == 0
            assert rollouts["truncated_prompts"] == 0, "max_prompt_tokens is too small for this environment's prompts"
            # More with dynamic sampling.
            assert rollouts["num_episodes"] >= groups * members
        weights = algo.learner_group.get_weights()
        assert all(np.isfinite(array).all() for module in weights.values() for array in module.values())
    finally:
        algo.stop()


@pytest.mark.parametrize("path", FILES, ids=example_id)
def test_it_says_how_to_run_it_and_has_a_name(path: Path) -> None:
    text = path.read_text()
    assert f"\n    rllib train file tuned_examples/{example_id(path)}.py\n" in text.split('"""')[1]
    # From the file, not from what is installed: that may be older.
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["rllib_gigpo.examples"]
    module = f"rllib_gigpo.tuned_examples.{example_id(path).replace('/', '.')}"
    assert entries.get(example_id(path)) == module
