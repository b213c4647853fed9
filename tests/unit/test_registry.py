"""Names of algorithms, environments and examples, in this package and in Ray."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rllib_gigpo import registry
from rllib_gigpo.environment_entry import EnvironmentEntry

pytestmark = pytest.mark.unit


def test_the_package_s_own_names_are_registered() -> None:
    assert {"GiGPO", "GRPO"} <= set(registry.algorithm_names())
    assert "EZPoints" in registry.environment_names()
    assert "gigpo/ezpoints_text_tiny" in registry.example_names()
    assert registry.example_module("gigpo/ezpoints_text_tiny") == "rllib_gigpo.tuned_examples.gigpo.ezpoints_text_tiny"


def test_every_algorithm_and_environment_loads_under_its_name() -> None:
    for name in registry.algorithm_names():
        assert registry.algorithm_class(name).__name__ == name
    for name in registry.environment_names():
        entry = registry.environment(name)
        assert entry.name == name
        assert callable(entry.load().step)


@pytest.mark.parametrize(
    ("find", "kind", "wrong", "right"),
    [
        (registry.algorithm_class, "algorithm", "gigpo", "GiGPO"),
        (registry.environment, "environment", "EZPoint", "EZPoints"),
        (registry.example_module, "example", "gigpo/ezpoints_tiny", "gigpo/ezpoints_text_tiny"),
    ],
)
def test_an_unknown_name_is_one_error_with_the_nearest_and_all_known_names(find, kind, wrong, right) -> None:
    with pytest.raises(ValueError, match=f"unknown {kind} '{wrong}'. Did you mean '{right}'\\? Known: .*{right}"):
        find(wrong)


def test_an_unlike_name_gets_no_suggestion() -> None:
    with pytest.raises(ValueError, match=r"unknown environment 'zzz'\. Known: "):
        registry.environment("zzz")


def test_two_distributions_with_one_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [EntryPoint("Mine", f"package_{n}:MINE", registry.ENVIRONMENTS) for n in (1, 2)]
    monkeypatch.setattr(registry, "_installed", lambda group, state_of_path: both)
    with pytest.raises(ValueError, match=r"'Mine'.*package_1:MINE and package_2:MINE"):
        registry.environment_names()


def test_a_distribution_that_is_installed_meanwhile_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "LateGame" not in registry.environment_names()
    metadata = tmp_path / "late_game-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: late-game\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{registry.ENVIRONMENTS}]\nLateGame = late_game:LATE_GAME\n")
    assert "LateGame" in registry.environment_names()


def test_an_entry_point_of_a_wrong_type_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = EntryPoint("Mine", "collections:OrderedDict", registry.ENVIRONMENTS)
    monkeypatch.setattr(registry, "_installed", lambda group, state_of_path: [wrong])
    with pytest.raises(TypeError, match=r"'Mine'.*must be an EnvironmentEntry"):
        registry.environment("Mine")


def test_an_environment_entry_without_class_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'Mine': entry_point is 'package\.module'"):
        EnvironmentEntry("Mine", "package.module", agent_format=None)  # type: ignore[arg-type]


def test_an_environment_entry_imports_nothing_before_load() -> None:
    entry = EnvironmentEntry("Mine", "a_package_that_is_not_there:Env", agent_format=None)  # type: ignore[arg-type]
    with pytest.raises(ModuleNotFoundError):
        entry.load()


def test_ray_finds_algorithm_and_environment_by_name() -> None:
    from ray.tune.registry import ENV_CREATOR, _global_registry, get_trainable_cls

    assert get_trainable_cls("GiGPO") is registry.algorithm_class("GiGPO")
    env = _global_registry.get(ENV_CREATOR, "EZPoints")({})
    assert type(env) is registry.environment("EZPoints").load()


def test_a_name_of_rllibs_own_algorithm_stays_rllibs_in_ray() -> None:
    from ray.rllib.algorithms.ppo import PPO
    from ray.tune.registry import get_trainable_cls

    assert get_trainable_cls("PPO") is PPO
    assert registry.algorithm_class("PPO") is not PPO
