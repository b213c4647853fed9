"""Which env runner a config gets, and what is refused, with several agents."""

from pathlib import Path
from typing import Any

import pytest
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.policy.policy import PolicySpec
from ray.tune.registry import register_env

from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_runners.group_env_runner import GroupEnvRunner
from rllib_gigpo.env_runners.multi_agent_group_env_runner import MultiAgentGroupEnvRunner
from tests.algorithm_cases import small_config
from tests.tiny_models import save_tiny_model
from tests.two_agents import TwoAgents, own_module, two_agent_config

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def test_the_runner_follows_the_environment_or_else_the_config(model: Path) -> None:
    def chosen(config: Any) -> type:
        config.validate()
        return config.env_runner_cls

    assert chosen(small_config()) is GroupEnvRunner
    assert chosen(two_agent_config(model, modules="default")) is MultiAgentGroupEnvRunner
    assert chosen(two_agent_config(model).environment("tests.two_agents.TwoAgents")) is MultiAgentGroupEnvRunner
    assert chosen(two_agent_config(model).environment(lambda context: TwoAgents(context))) is MultiAgentGroupEnvRunner
    unknown = two_agent_config(model, modules="default").environment(lambda context: TwoAgents(context))
    assert chosen(unknown) is GroupEnvRunner


class ChangingNames(MultiAgentEnv):
    possible_agents = ("ann", "ann")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c.multi_agent(policy_mapping_fn=lambda agent_id, episode, **kwargs: agent_id),
            r"maps agent 'ann' to module 'ann', which is not one of \['ANN', 'BOB'\]",
        ),
        (lambda c: c.multi_agent(policies={"X"}), r"maps agent 'ann' to module 'ANN', which is not one of \['X'\]"),
        (lambda c: c.multi_agent(policy_mapping_fn=5), "policy_mapping_fn=5 must be a function"),
        (lambda c: c.multi_agent(policies_to_train=["X"]), r"policies_to_train=.*\(X\)"),
        (lambda c: c.multi_agent(policies_to_train=[]), "trains nothing"),
        (lambda c: c.update_from_dict({"policies_to_train": "ANN"}), "policies_to_train='ANN' must be a list"),
        (lambda c: c.update_from_dict({"policies_to_train": 3}), "policies_to_train=3 must be a list"),
        (
            lambda c: c.update_from_dict({"algorithm_config_overrides_per_module": 3}),
            "algorithm_config_overrides_per_module=3 must be a dict",
        ),
        (
            lambda c: c.environment("RelayHousehold", env_config={}),
            r"maps agent 'finder' to module 'FINDER', which is not one of \['ANN', 'BOB'\]",
        ),
        (lambda c: c.multi_agent(policies={"ANN": PolicySpec(config={"lr": 1}), "BOB": PolicySpec()}), "overrides"),
        (lambda c: c.multi_agent(count_steps_by="agent_steps"), "count_steps_by='agent_steps' does not apply"),
        (
            lambda c: c.rl_module(algorithm_config_overrides_per_module={"X": {"lr": 1e-3}}),
            r"\['X'\]: there is no such module.*\['ANN', 'BOB'\]",
        ),
        (
            lambda c: c.rl_module(algorithm_config_overrides_per_module={"BOB": 5}),
            r"\['BOB'\]=5 must be a dict",
        ),
        (
            lambda c: c.rl_module(algorithm_config_overrides_per_module={"BOB": {"group_size": 2}}),
            r"\['BOB'\]: group_size cannot differ between modules.*model_path",
        ),
        (
            lambda c: c.rl_module(algorithm_config_overrides_per_module={"BOB": {"model_path": "/nowhere"}}),
            r"\['BOB'\]: .*/nowhere",
        ),
        (
            lambda c: c.rl_module(algorithm_config_overrides_per_module={"BOB": {"lr": "fast"}}),
            r"\['BOB'\]: lr='fast' must be a number",
        ),
        (lambda c: c.environment("EZPoints"), "'EZPoints' is no RLlib MultiAgentEnv"),
        (lambda c: c.environment(make_env("EZPoints").unwrapped.__class__), "is no RLlib MultiAgentEnv"),
    ],
)
def test_a_wrong_value_is_named_before_anything_starts(model: Path, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){message}"):
        change(two_agent_config(model)).validate()


@pytest.mark.parametrize(
    ("create", "modules", "message"),
    [
        (lambda context: make_env("EZPoints"), "own", "is no RLlib MultiAgentEnv"),
        (lambda context: TwoAgents(context), "default", "is an RLlib MultiAgentEnv; say so with multi_agent"),
        (lambda context: ChangingNames(), "own", r"possible_agents=\['ann', 'ann'\].*distinct strings"),
        (lambda context: MultiAgentEnv(), "own", r"possible_agents=\[\]"),
    ],
)
def test_what_only_the_environment_tells_is_refused_by_its_runner(
    model: Path, create: Any, modules: str, message: str
) -> None:
    register_env("anything", create)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        two_agent_config(model, modules=modules).environment("anything").build_algo()


def test_a_file_may_name_policies_in_a_list(model: Path) -> None:
    config = two_agent_config(model).update_from_dict({"policies": ["ANN", "BOB", "EVE"]})
    config.validate()
    assert list(config.policies) == ["ANN", "BOB", "EVE"]
    config = two_agent_config(model).update_from_dict({"policies": {"ANN": None, "BOB": None}})
    config.validate()
    assert list(config.policies) == ["ANN", "BOB"]
    with pytest.raises(ValueError, match="`policies` must be"):
        two_agent_config(model).update_from_dict({"policies": "ANN"})
    with pytest.raises(ValueError, match="policies=None must be a list"):
        two_agent_config(model).update_from_dict({"policies": None})
    with pytest.raises(ValueError, match="PolicyID=ANN"):
        two_agent_config(model).update_from_dict({"policies": {"ANN": {"lr": 1}}})


def test_a_mapping_that_goes_wrong_later_ends_the_run(model: Path) -> None:
    def breaks_in_one_trajectory(agent_id: str, episode: Any, **kwargs: Any) -> str:
        return "EVE" if episode.id_ == "1_0" else own_module(agent_id, episode)

    algo = two_agent_config(model).multi_agent(policy_mapping_fn=breaks_in_one_trajectory).build_algo()
    try:
        with pytest.raises(ValueError, match="maps agent 'ann' to module 'EVE'"):
            algo.train()
    finally:
        algo.stop()
