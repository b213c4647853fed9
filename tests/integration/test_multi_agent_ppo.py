"""PPO with several agents: a critic for each module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_gigpo.algorithms.ppo.ppo import PPO, PPOConfig
from tests.learner_cases import max_difference
from tests.tiny_models import save_tiny_model
from tests.two_agents import two_agent_config

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]

MODULES = {"ANN", "BOB", "ANN_critic", "BOB_critic"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def ppo_config(model: Path, **env_config: Any) -> Any:
    config = two_agent_config(model, config_class=PPOConfig, **env_config)
    return config.training(group_size=1, groups_per_iteration=8, critic_lr=1e-2)


def trained_for(algo: PPO, iterations: int) -> dict[str, float]:
    """Largest change of a weight, by module, in so many iterations."""
    before = weights_of(algo)
    for _ in range(iterations):
        algo.train()
    return {module_id: max_difference(before[module_id], own) for module_id, own in weights_of(algo).items()}


def weights_of(algo: PPO) -> dict[str, dict[str, np.ndarray]]:
    weights = algo.learner_group.get_weights()
    return {module_id: {name: array.copy() for name, array in own.items()} for module_id, own in weights.items()}


def test_the_critic_of_a_module_that_acted_for_nobody_learns_nothing(model: Path) -> None:
    algo = ppo_config(model, kind="silent").build_algo()
    changes = trained_for(algo, 2)
    algo.stop()
    assert changes["BOB"] == changes["BOB_critic"] == 0
    assert min(changes["ANN"], changes["ANN_critic"]) > 0


@pytest.mark.parametrize("value_level", ["step", "token"])
def test_advantages_are_normalized_over_the_modules_own_rows(model: Path, value_level: str) -> None:
    algo = ppo_config(model).training(value_level=value_level).build_algo()
    recorded, with_credit = [], algo.with_credit
    algo.with_credit = lambda *rows: recorded.append(with_credit(*rows)) or recorded[-1]
    algo.train()
    algo.stop()
    of_module = recorded[0].by_module("")
    assert of_module.keys() == {"ANN", "BOB"}
    for own in of_module.values():
        advantages = own.advantages if value_level == "step" else own.token_advantages
        # Not all equal, or they would be 0.
        np.testing.assert_allclose((advantages.mean(), advantages.std(ddof=1)), (0, 1), atol=1e-4)


def test_adapters_of_policies_share_a_model_and_those_of_critics_another(model: Path) -> None:
    algo = ppo_config(model).language_model(lora_rank=2).build_algo()
    modules = algo.learner_group._learner.module
    networks = {id_: module.body if id_.endswith("_critic") else module.lm for id_, module in modules.items()}
    base = {
        id_: {p.data_ptr() for name, p in network.named_parameters() if "lora" not in name}
        for id_, network in networks.items()
    }
    assert base.keys() == MODULES
    assert base["ANN"] == base["BOB"] and base["ANN_critic"] == base["BOB_critic"]
    assert not base["ANN"] & base["ANN_critic"]
    changes = trained_for(algo, 2)
    algo.stop()
    assert min(changes.values()) > 0


def test_a_checkpoint_continues_with_all_critics(model: Path, tmp_path: Path) -> None:
    algo = ppo_config(model).build_algo()
    algo.train()
    path = algo.save_to_path(tmp_path / "checkpoint")
    algo.train()
    expected = weights_of(algo)
    algo.stop()
    restored = PPO.from_checkpoint(path)
    restored.train()
    found = weights_of(restored)
    restored.stop()
    assert {id_: max_difference(expected[id_], found[id_]) for id_ in expected} == dict.fromkeys(MODULES, 0)


def test_a_critic_has_the_kind_of_optimizer_of_its_policy(model: Path) -> None:
    overrides = {"BOB": PPOConfig.overrides(optimizer="adamw", weight_decay=0.5)}
    algo = ppo_config(model).rl_module(algorithm_config_overrides_per_module=overrides).build_algo()
    learner = algo.learner_group._learner
    optimizers = {id_: learner.get_optimizer(id_) for id_ in MODULES}
    algo.stop()
    kinds = {id_: (type(o).__name__, o.param_groups[0]["weight_decay"]) for id_, o in optimizers.items()}
    assert kinds["ANN"] == kinds["ANN_critic"] == ("SGD", 0.01)
    assert kinds["BOB"] == kinds["BOB_critic"] == ("AdamW", 0.5)
    assert optimizers["BOB_critic"].param_groups[0]["lr"] == 1e-2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c.multi_agent(policies={"ANN", "BOB", "BOB_critic"}),
            r"names 'BOB_critic', the module that is the critic of 'BOB'",
        ),
        (
            lambda c: c.training(value_level="token").rl_module(
                algorithm_config_overrides_per_module={"BOB": {"ratio": "sequence"}}
            ),
            r"\['BOB'\]: ratio='sequence' is one per response, and value_level='token'",
        ),
    ],
)
def test_what_does_not_go_with_a_critic_is_named(model: Path, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        change(ppo_config(model)).validate()
