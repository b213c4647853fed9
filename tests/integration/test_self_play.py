"""Self-play: who plays whom, which weights are kept, and what the numbers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.algorithms.group_policy.self_play import FIRST_VERSION, LEARNER, OpponentMapping, self_play_modules
from rllib_gigpo.env_adapters import embedded_model_path

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]

MODULES = [LEARNER, FIRST_VERSION, "past_1", "past_2"]


def config(**self_play: Any) -> GiGPOConfig:
    return (
        GiGPOConfig()
        .environment("Nim", env_config={"most_stones": 7})
        .self_play(**{"self_play_agent": "player", "past_versions": 2, "snapshot_interval": 1, **self_play})
        .language_model(model_path=str(embedded_model_path("Nim")))
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .training(group_size=4, groups_per_iteration=4, lr=1e-3)
        .evaluation(evaluation_duration=6)
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .debugging(seed=0)
    )


def weights(algo: Any) -> dict[str, dict[str, np.ndarray]]:
    state = algo.learner_group.get_weights()
    return {module: dict(state[module]) for module in MODULES}


def equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(first[name], second[name]) for name in first)


def test_copies_are_kept_in_turn_and_the_first_version_stays(tmp_path: Any) -> None:
    algo = config().build_algo()
    start = weights(algo)
    assert all(equal(start[module], start[LEARNER]) for module in MODULES)
    seen = []
    for _ in range(3):
        result = algo.train()
        seen.append(weights(algo))
    one, two, three = seen
    assert not equal(one[LEARNER], start[LEARNER])
    assert equal(one["past_1"], one[LEARNER]) and equal(one["past_2"], start[LEARNER])
    assert equal(two["past_1"], one[LEARNER]) and equal(two["past_2"], two[LEARNER])
    assert equal(three["past_1"], three[LEARNER]) and equal(three["past_2"], two[LEARNER])
    assert all(equal(after[FIRST_VERSION], start[LEARNER]) for after in seen)
    # What plays is what is kept: the engines have proved it, and the modules count their acts.
    rollouts = result["env_runners"]
    assert rollouts["modules"][LEARNER]["steps"] == rollouts["agents"]["player"]["steps"]
    # NaN where RLlib knows a metric from an iteration before, and a module has not been drawn in this one.
    steps = [own["steps"] for name, own in rollouts["modules"].items() if name != LEARNER]
    assert np.nansum(steps) == rollouts["agents"]["opponent"]["steps"]
    assert rollouts["agents"]["player"]["return_mean"] == pytest.approx(rollouts["modules"][LEARNER]["return_mean"])
    evaluated = algo.evaluate()["env_runners"]
    assert set(evaluated["modules"]) == {LEARNER, FIRST_VERSION}

    algo.save_to_path(tmp_path / "checkpoint")
    algo.stop()
    restored = type(algo).from_checkpoint(str(tmp_path / "checkpoint"))
    again = weights(restored)
    assert all(equal(again[module], three[module]) for module in MODULES)
    assert restored.evaluate()["env_runners"]["success_rate"] == evaluated["success_rate"]
    restored.stop()


def test_members_of_a_group_have_the_same_opponent_and_groups_have_all_of_them() -> None:
    mapping = OpponentMapping("player", past_versions=2)

    def opponent(group: int, member: int, in_evaluation: bool = False) -> str:
        episode = MultiAgentEpisode()
        episode.custom_data.update({"group_id": group, "member": member, "in_evaluation": in_evaluation})
        assert mapping("player", episode) == LEARNER
        return mapping("opponent", episode)

    for group in range(20):
        assert len({opponent(group, member) for member in range(4)}) == 1
    counts = {name: sum(opponent(group, 0) == name for group in range(600)) for name in MODULES[1:]}
    # 200 each; a binomial standard deviation is 12.
    assert all(150 < count < 250 for count in counts.values()), counts
    assert {opponent(group, 0, in_evaluation=True) for group in range(20)} == {FIRST_VERSION}
    assert mapping("opponent", MultiAgentEpisode()) == FIRST_VERSION


@pytest.mark.parametrize(
    ("self_play", "message"),
    [
        (
            {"self_play_agent": "me"},
            "self_play_agent='me' is no agent of env='Nim'; there are",
        ),
        ({"past_versions": 0}, "past_versions=0 must be an integer of at least 1"),
        ({"snapshot_interval": 0}, "snapshot_interval=0 must be an integer of at least 1"),
    ],
)
def test_wrong_settings_are_named(self_play: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**self_play).validate()


def test_policies_that_do_not_fit_are_named() -> None:
    clashing = config().multi_agent(policies={LEARNER, "other"})
    with pytest.raises(ValueError, match="needs the policies"):
        clashing.validate()


def test_a_file_can_ask_for_self_play() -> None:
    from_file = GiGPOConfig().update_from_dict({"env": "Nim", "self_play_agent": "player", "past_versions": 1})
    assert set(from_file.policies) == set(self_play_modules(1))
    assert from_file.policies_to_train == [LEARNER]
