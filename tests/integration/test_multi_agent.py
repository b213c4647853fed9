"""Training with several agents: one module, one each, or an adapter each; in one process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPO, GiGPOConfig
from rllib_gigpo.cli.main import app
from rllib_gigpo.columns import ENDING, GROUP_ID, MEMBER, PROMPT_IDS, RESPONSE_IDS
from rllib_gigpo.env_runners import silence
from rllib_gigpo.rows import TokenRows
from tests.algorithm_cases import record_samples
from tests.learner_cases import max_difference
from tests.tiny_models import save_tiny_model, tiny_tokenizer
from tests.two_agents import TwoAgents, two_agent_config

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("other"), seed=5)


@pytest.fixture
def build() -> Iterator[Any]:
    """Builds algorithms, which stop at the end of the test."""
    built = []

    def of(config: Any) -> GiGPO:
        built.append(config.build_algo())
        return built[-1]

    yield of
    for algo in built:
        algo.stop()


def weights_of(algo: Any) -> dict[str, dict[str, np.ndarray]]:
    return algo.learner_group.get_weights()


def changes(before: dict[str, dict[str, np.ndarray]], after: dict[str, dict[str, np.ndarray]]) -> dict[str, float]:
    """Largest change of a weight, by module."""
    return {module_id: max_difference(before[module_id], after[module_id]) for module_id in before}


def record_rows(algo: Any) -> list[TokenRows]:
    """The rows of every update from now on."""
    updates: list[TokenRows] = []
    update = algo._update
    algo._update = lambda rows: update(updates.append(rows) or rows)
    return updates


def agents_in(rows: TokenRows) -> set[str]:
    """Whose prompts the rows hold, by what they say."""
    ends = np.cumsum(rows.lengths)
    texts = [tiny_tokenizer().decode(rows.token_ids[end - n : end]) for end, n in zip(ends, rows.lengths, strict=True)]
    return {agent for agent in ("ann", "bob") for text in texts if f"\n{agent} in step" in text}


def tokens_of(episodes: list) -> dict[tuple, list[list[int]]]:
    return {
        (e.get_infos(0)[GROUP_ID], e.get_infos(0)[MEMBER], e.agent_id): [
            ids.tolist() for ids in e.get_extra_model_outputs(RESPONSE_IDS)
        ]
        for e in episodes
    }


# --- Rollouts.


def test_agents_that_act_together_sample_in_one_batch_whatever_the_room(model: Path, build: Any) -> None:
    config = two_agent_config(model, modules="shared")
    wide, narrow = build(config), build(config.copy().env_runners(num_envs_per_env_runner=4))
    samples = record_samples(wide), record_samples(narrow)
    wide.train()
    narrow.train()
    stats = wide.env_runner.engines["SHARED"].take_stats()
    # 3 steps, 2 groups of 4, 2 agents.
    assert (stats.batches, stats.rows) == (3, 3 * 2 * 4 * 2)
    assert tokens_of(samples[0]) == tokens_of(samples[1])


def test_agents_that_are_shown_the_same_sample_apart(model: Path, build: Any) -> None:
    algo = build(two_agent_config(model, modules="shared", anonymous=True))
    episodes = record_samples(algo)
    algo.train()
    first = {key: ids[0] for key, ids in tokens_of(episodes).items()}
    assert any(first[group, member, "ann"] != first[group, member, "bob"] for group, member, _ in first)


def test_a_budget_cuts_the_trajectory_of_all_agents(model: Path, build: Any) -> None:
    algo = build(two_agent_config(model, modules="shared").env_runners(max_trajectory_steps=2))
    episodes = record_samples(algo)
    assert algo.train()["env_runners"]["endings"]["straggler_cut"] == 8
    assert len(episodes) == 16
    assert all(len(e) == 2 and e.is_truncated and e.get_infos(-1)[ENDING] == "straggler_cut" for e in episodes)


def test_agents_that_take_turns_wait_for_each_other_and_keep_their_rewards(model: Path, build: Any) -> None:
    algo = build(two_agent_config(model, kind="turns", steps=4, team_reward=10.0))
    episodes = record_samples(algo)
    algo.train()
    stats = {name: engine.take_stats() for name, engine in algo.env_runner.engines.items()}
    # In every step the 8 members ask the same module: batches of 8, and not of whoever comes first.
    assert {name: (s.batches, s.rows) for name, s in stats.items()} == {"ANN": (2, 16), "BOB": (2, 16)}
    assert len(episodes) == 16
    for episode in episodes:
        assert len(episode) == 2
        actions = [len(episode.get_actions(t)) % 2 for t in range(2)]
        assert list(episode.get_rewards()) == [actions[0], actions[1] + 10.0]
        # History shows an agent its own turns only.
        texts = [tiny_tokenizer().decode(ids) for ids in episode.get_extra_model_outputs(PROMPT_IDS)]
        assert all(f"{episode.agent_id} in step" in text for text in texts)


def test_an_environment_that_fails_takes_its_member_from_all_agents(
    model: Path, build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    algo = build(two_agent_config(model))
    episodes = record_samples(algo)
    monkeypatch.setattr(TwoAgents, "fails_once", True)
    results = algo.train()["env_runners"]
    members = {(e.get_infos(0)[GROUP_ID], e.get_infos(0)[MEMBER]) for e in episodes}
    agents = {
        member: {e.agent_id for e in episodes if (e.get_infos(0)[GROUP_ID], e.get_infos(0)[MEMBER]) == member}
        for member in members
    }
    assert len(members) == 7 and all(found == {"ann", "bob"} for found in agents.values())
    assert results["endings"]["env_failure"] == 1 and results["endings"]["won"] == 7
    assert results["env_failure_causes"]["ConnectionError"] == 1
    assert results["num_episodes"] == 7 and results["group_size_mean"] == 3.5


def test_members_must_start_with_equal_observations_of_all_agents(
    model: Path, build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    algo = build(two_agent_config(model))
    reset, resets = TwoAgents.reset, []

    def bob_sees_something_else_once(self: TwoAgents, **kwargs: Any) -> Any:
        observations, infos = reset(self, **kwargs)
        resets.append(1)
        return ({**observations, "bob": "?"} if len(resets) == 2 else observations), infos

    monkeypatch.setattr(TwoAgents, "reset", bob_sees_something_else_once)
    results = algo.train()["env_runners"]
    assert results["env_failure_causes"]["UnequalStart"] == 1
    assert results["agents"]["ann"]["steps"] == results["agents"]["bob"]["steps"] == 7 * 3


def test_an_agent_that_ends_early_leaves_the_others_to_go_on(model: Path, build: Any) -> None:
    algo = build(two_agent_config(model, kind="early", team_reward=10.0))
    episodes = record_samples(algo)
    results = algo.train()["env_runners"]
    ann = [e for e in episodes if e.agent_id == "ann"]
    assert {len(e) for e in ann} == {1} and {len(e) for e in episodes if e.agent_id == "bob"} == {3}
    assert all(e.get_return() >= 10 and e.is_terminated and e.get_infos(-1)[ENDING] == "won" for e in ann)
    assert results["episode_len_mean"] == 3 and results["num_env_steps_sampled"] == 8 * 3
    assert results["num_agent_steps_sampled"] == {"ann": 8, "bob": 24}


def test_an_agent_that_never_acts_is_loud_and_trains_nothing(
    model: Path, build: Any, caplog: pytest.LogCaptureFixture
) -> None:
    algo = build(two_agent_config(model, kind="silent"))
    before = weights_of(algo)
    results = algo.train()
    assert "agent 'bob' acted in none of the 8 trajectories" in caplog.text
    assert "module 'BOB' acted for no agent" in caplog.text
    assert results["env_runners"]["agents"]["bob"] == {"steps": 0, "silent_trajectories": 8}
    changed = changes(before, weights_of(algo))
    assert changed["BOB"] == 0 < changed["ANN"]


def test_a_module_that_goes_on_without_an_act_ends_the_run_unless_it_is_not_to_learn(
    model: Path, build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "SILENT_ITERATIONS_ALLOWED", 1)
    config = two_agent_config(model, kind="silent", steps=1)
    algo = build(config)
    algo.train()
    with pytest.raises(RuntimeError, match=r"module 'BOB' acted for no agent in 2 iterations.*policies_to_train"):
        algo.train()
    only_ann_learns = build(config.copy(copy_frozen=False).multi_agent(policies_to_train=["ANN"]))
    for _ in range(2):
        only_ann_learns.train()


def test_every_metric_of_agents_and_modules_is_in_the_glossary(model: Path, build: Any) -> None:
    results = build(two_agent_config(model)).train()["env_runners"]
    glossary = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    assert results["agents"].keys() == {"ann", "bob"} and results["modules"].keys() == {"ANN", "BOB"}
    for place, of in (("agents", results["agents"]["ann"]), ("modules", results["modules"]["ANN"])):
        assert all(f"| {place}/…/{name} |" in glossary for name in of)
    assert "rewards_without_act" in results and "| rewards_without_act |" in glossary


# --- Modules.


def test_each_module_learns_from_its_own_agents_rows(model: Path, build: Any) -> None:
    algo = build(two_agent_config(model))
    before, updates = weights_of(algo), record_rows(algo)
    assert changes({"x": before["ANN"]}, {"x": before["BOB"]})["x"] == 0
    results = algo.train()
    of_module = updates[0].by_module("")
    assert {name: agents_in(rows) for name, rows in of_module.items()} == {"ANN": {"ann"}, "BOB": {"bob"}}
    assert {name: len(rows) for name, rows in of_module.items()} == {"ANN": 24, "BOB": 24}
    after = weights_of(algo)
    assert min(changes(before, after).values()) > 1e-4
    assert max_difference(after["ANN"], after["BOB"]) > 1e-4
    # The engines serve what the learners have, and the samplers' log-probs are the learners'.
    assert results["weight_delivery"]["weights_probe_gap_max"] <= 1e-5
    assert all(results["learners"][name]["sampler_learner_gap_max"] <= 1e-4 for name in ("ANN", "BOB"))
    assert {engine.weights_version for engine in algo.env_runner.engines.values()} == {1}


@pytest.mark.parametrize(("modules", "name"), [("shared", "SHARED"), ("default", "default_policy")])
def test_a_shared_module_learns_from_all_agents(model: Path, build: Any, modules: str, name: str) -> None:
    algo = build(two_agent_config(model, modules=modules))
    before, updates = weights_of(algo), record_rows(algo)
    algo.train()
    assert {name_: agents_in(rows) for name_, rows in updates[0].by_module("").items()} == {name: {"ann", "bob"}}
    assert changes(before, weights_of(algo))[name] > 1e-4


def test_modules_have_their_own_model_rate_and_reference(model: Path, other_model: Path, build: Any) -> None:
    overrides = {"BOB": GiGPOConfig.overrides(model_path=str(other_model), kl_coeff=0.5, lr=1e-3)}
    algo = build(two_agent_config(model).rl_module(algorithm_config_overrides_per_module=overrides))
    before = weights_of(algo)
    assert max_difference(before["ANN"], before["BOB"]) > 0.1
    algo.train()
    learned = algo.train()["learners"]
    assert "kl_to_reference" not in learned["ANN"] and learned["BOB"]["kl_to_reference"] > 0
    assert learned["ANN"]["default_optimizer_learning_rate"] == pytest.approx(1e-2)
    assert learned["BOB"]["default_optimizer_learning_rate"] == pytest.approx(1e-3)


def test_a_policy_that_is_not_to_train_acts_and_stays(model: Path, build: Any) -> None:
    algo = build(two_agent_config(model).multi_agent(policies_to_train=["BOB"]))
    before = weights_of(algo)
    results = algo.train()
    changed = changes(before, weights_of(algo))
    assert changed["ANN"] == 0 < changed["BOB"]
    assert results["env_runners"]["modules"]["ANN"]["steps"] == 24
    assert "policy_loss" not in results["learners"].get("ANN", {})


def test_adapters_share_one_base_model_and_learn_apart(model: Path, build: Any, tmp_path: Path) -> None:
    overrides = {"BOB": GiGPOConfig.overrides(lora_targets=["q_proj"])}
    config = two_agent_config(model).language_model(lora_rank=4)
    algo = build(config.rl_module(algorithm_config_overrides_per_module=overrides))
    before = weights_of(algo)
    for modules in (algo.learner_group._learner.module, algo.env_runner.module):
        ann, bob = (
            {name: p for name, p in modules[module_id].lm.named_parameters() if "lora" not in name}
            for module_id in ("ANN", "BOB")
        )
        assert len(ann) == len(bob) > 20
        assert {p.data_ptr() for p in ann.values()} == {p.data_ptr() for p in bob.values()}
        assert not any(p.requires_grad for p in ann.values())
    base = {name: p.detach().clone() for name, p in ann.items()}
    results = algo.train()
    assert min(changes(before, weights_of(algo)).values()) > 0
    assert all(bool((p == base[name]).all()) for name, p in ann.items())
    assert results["weight_delivery"]["weights_probe_gap_max"] <= 1e-5
    trained = weights_of(algo)
    assert {len(weights) for weights in trained.values()} == {28, 4}
    restored = GiGPO.from_checkpoint(algo.save_to_path(tmp_path / "checkpoint"))
    assert changes(trained, weights_of(restored)) == {"ANN": 0, "BOB": 0}
    restored.stop()


class OnlyAnnIsRewarded(TwoAgents):
    def step(self, actions: dict[str, str]) -> Any:
        observations, rewards, *endings = super().step(actions)
        return observations, {"ann": rewards.get("ann", 0.0)}, *endings


@pytest.mark.parametrize(("to_train", "kept"), [(["ANN", "BOB"], 2), (["ANN"], 2), (["BOB"], 0)])
def test_dynamic_sampling_looks_for_signal_where_a_module_learns(
    model: Path, build: Any, to_train: list[str], kept: int
) -> None:
    config = two_agent_config(model).environment(OnlyAnnIsRewarded).multi_agent(policies_to_train=to_train)
    results = build(config.training(dynamic_sampling=True, max_sampling_rounds=4)).train()["rollout_groups"]
    assert results["missing_groups"] == 2 - kept
    assert results["groups_without_signal"] == results["sampled_groups"] - results["surplus_groups"] - kept


# --- Checkpoints, exports, evaluation.


def test_a_checkpoint_holds_all_modules_and_continues_exactly(
    model: Path, other_model: Path, build: Any, tmp_path: Path
) -> None:
    own_copy = save_tiny_model(tmp_path / "model", seed=5)
    overrides = {"BOB": GiGPOConfig.overrides(model_path=str(own_copy))}
    config = two_agent_config(model).training(optimizer="adamw", lr=1e-3)
    algo = build(config.rl_module(algorithm_config_overrides_per_module=overrides))
    algo.train()
    saved = weights_of(algo)
    checkpoint = Path(algo.save_to_path(tmp_path / "checkpoint"))
    samples = record_samples(algo)
    algo.train()
    further = weights_of(algo)
    algo.restore_from_path(checkpoint)
    assert changes(saved, weights_of(algo)) == {"ANN": 0, "BOB": 0}

    # Bob's model is gone: his own, in the checkpoint, takes its place.
    for file in own_copy.iterdir():
        file.unlink()
    own_copy.rmdir()
    new = GiGPO.from_checkpoint(checkpoint)
    assert changes(saved, weights_of(new)) == {"ANN": 0, "BOB": 0}
    again = record_samples(new)
    new.train()
    assert tokens_of(again) == tokens_of(samples)
    assert changes(further, weights_of(new)) == {"ANN": 0, "BOB": 0}
    new.stop()

    def export(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["export", str(checkpoint), *arguments])

    assert export(str(tmp_path / "one"), "--module", "BOB").exit_code == 0
    assert export(str(tmp_path / "all")).exit_code == 0
    assert (tmp_path / "one" / "config.json").is_file()
    assert sorted(folder.name for folder in (tmp_path / "all").iterdir()) == ["ANN", "BOB"]
    bob = [(tmp_path / folder / "model.safetensors").read_bytes() for folder in ("one", "all/BOB")]
    assert bob[0] == bob[1] != (tmp_path / "all" / "ANN" / "model.safetensors").read_bytes()
    refused = export(str(tmp_path / "none"), "--module", "EVE")
    assert refused.exit_code == 2 and "it has ANN, BOB" in refused.output


def test_the_panel_has_one_outcome_a_task(model: Path, build: Any, tmp_path: Path) -> None:
    algo = build(two_agent_config(model, kind="turns"))
    first = algo.evaluate()["env_runners"]
    assert first["num_episodes"] == first["panel_size"] == 3
    outcomes = json.loads((Path(algo.save_to_path(tmp_path / "c")) / "evaluation_panel.json").read_text())["outcomes"]
    assert [outcome["length"] for outcome in outcomes] == [3, 3, 3]
    assert all(outcome["task_id"] == f"task {outcome['task']}" for outcome in outcomes)
    algo.train()
    assert algo.evaluate()["env_runners"]["panel_hash"] == first["panel_hash"]
    other = build(two_agent_config(model, kind="together"))
    assert other.evaluate()["env_runners"]["panel_hash"] != first["panel_hash"]
