"""Algorithm, env runner, connectors and learner together, in one process."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig
from rllib_gigpo.algorithms.grpo.grpo import GRPO, GRPOConfig
from rllib_gigpo.columns import PROMPT_IDS, RESPONSE_IDS, ROLLOUT_LOGP, TASK
from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.rows import TokenRows
from tests.algorithm_cases import largest_difference, record_samples, small_config, weights_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


@pytest.mark.parametrize("config_class", [GRPOConfig, GiGPOConfig])
def test_an_iteration_trains_and_reports(config_class):
    algo = small_config(config_class).build_algo()
    before = weights_of(algo)
    result = algo.train()
    assert largest_difference(before, weights_of(algo)) > 0
    env_runners, groups = result["env_runners"], result["rollout_groups"]
    learner = result["learners"]["default_policy"]
    assert env_runners["num_episodes"] == 16
    assert sum(env_runners["endings"].values()) == 16
    assert 0 <= env_runners["success_rate"] <= 1
    assert groups["num_groups"] == 4
    assert learner["entropy"] > 0
    # One weight set samples and learns; what is left is float32 rounding in batches of another shape.
    assert learner["sampler_learner_gap_max"] <= 1e-4
    assert learner["weights_version_lag_mean"] == 0
    assert ("step_advantage_std" in groups) == (config_class is GiGPOConfig)
    algo.stop()


def test_a_gap_between_sampler_and_learner_above_the_limit_ends_the_run():
    algo = small_config(GRPOConfig, group_size=2, groups_per_iteration=2, sampler_gap_limit=1e-12).build_algo()
    with pytest.raises(RuntimeError, match=r"'default_policy': .*more than sampler_gap_limit=1e-12"):
        algo.train()
    algo.stop()


def test_a_budget_cuts_training_trajectories_and_no_others():
    config = small_config(GRPOConfig, group_size=2, groups_per_iteration=2).env_runners(max_trajectory_steps=1)
    algo = config.build_algo()
    endings = algo.train()["env_runners"]["endings"]
    assert endings["straggler_cut"] > 0
    assert sum(endings.values()) == 4
    assert algo.evaluate()["env_runners"]["endings"]["straggler_cut"] == 0
    algo.stop()


def test_learner_log_probs_are_those_of_the_sampled_tokens():
    algo = small_config().build_algo()
    episodes = record_samples(algo)
    learner = algo.learner_group._learner
    algo._sample(algo._next_plan())
    prompts, responses, logp = (
        [value for e in episodes for value in e.get_extra_model_outputs(key)]
        for key in (PROMPT_IDS, RESPONSE_IDS, ROLLOUT_LOGP)
    )
    rows = TokenRows.from_lists(prompts, responses, logp)
    np.testing.assert_allclose(learner.compute_log_probs(rows), rows.rollout_logp, atol=1e-4)

    first_response_token = rows.lengths[0] - rows.response_lengths[0]
    changed = rows.token_ids.copy()
    changed[first_response_token] = (changed[first_response_token] + 1) % 300
    other = TokenRows(**{**vars(rows), "token_ids": changed})
    assert np.abs(learner.compute_log_probs(other) - rows.rollout_logp).max() > 1e-2
    algo.stop()


def test_the_same_seed_gives_the_same_tasks_tokens_and_weights():
    runs = []
    for _ in range(2):
        algo = small_config().build_algo()
        episodes = record_samples(algo)
        algo.train()
        algo.train()
        tokens = [tuple(ids) for e in episodes for ids in e.get_extra_model_outputs(RESPONSE_IDS)]
        runs.append(([e.get_infos(0)[TASK] for e in episodes], tokens, weights_of(algo)))
        algo.stop()
    assert runs[0][0] == runs[1][0]
    assert runs[0][1] == runs[1][1]
    assert largest_difference(runs[0][2], runs[1][2]) == 0


def test_another_seed_gives_other_tasks():
    algo = small_config().debugging(seed=1).build_algo()
    assert algo._next_plan().groups != small_config().build_algo()._next_plan().groups


def test_restore_and_continue_equals_uninterrupted(tmp_path):
    algo = small_config().build_algo()
    algo.train()
    path = algo.save_to_path(str(tmp_path / "checkpoint"))
    algo.train()
    expected = weights_of(algo)

    # In place: the algorithm is ahead of the checkpoint that it goes back to.
    algo.restore_from_path(path)
    result = algo.train()
    assert result["training_iteration"] == 2
    assert largest_difference(expected, weights_of(algo)) <= 1e-6
    algo.stop()

    restored = type(algo).from_checkpoint(path)
    restored.train()
    assert largest_difference(expected, weights_of(restored)) <= 1e-6
    restored.stop()


def test_a_fixed_learning_rate_is_the_configs_not_the_checkpoints(tmp_path):
    algo = small_config(lr=1e-3).build_algo()
    algo.train()
    path = algo.save_to_path(str(tmp_path / "checkpoint"))
    saved = weights_of(algo)
    algo.stop()
    frozen = small_config(lr=0.0).build_algo()
    frozen.restore_from_path(path)
    frozen.train()
    assert largest_difference(saved, weights_of(frozen)) == 0
    frozen.stop()


def test_after_a_restore_the_engine_samples_from_the_restored_weights(tmp_path):
    algo = small_config().build_algo()
    path = algo.save_to_path(str(tmp_path / "checkpoint"))
    served = algo.env_runner.module.get_state()
    algo.train()
    assert largest_difference(served, algo.env_runner.module.get_state()) > 0
    algo.restore_from_path(path)
    assert largest_difference(served, algo.env_runner.module.get_state()) == 0
    algo.stop()


def test_evaluation_plays_a_fixed_panel_and_leaves_training_alone():
    algo = small_config().build_algo()
    cursor = algo._task_cursor
    first, second = algo.evaluate()["env_runners"], algo.evaluate()["env_runners"]
    assert first == second
    assert first["panel_size"] == 8
    assert first["num_episodes"] == 8
    assert algo._task_cursor == cursor
    other = small_config(GRPOConfig).debugging(seed=5).build_algo()
    assert other.evaluate()["env_runners"]["panel_hash"] == first["panel_hash"]
    algo.stop()
    other.stop()


def test_evaluation_has_its_own_sampling_parameters():
    config = small_config().evaluation(evaluation_config=GiGPOConfig.overrides(temperature=0.0))
    algo = config.build_algo()
    assert algo.evaluation_config.sampling_params().temperature == 0
    assert algo.config.sampling_params().temperature == 1
    algo.evaluate()
    outcomes = algo._last_panel.outcomes
    by_hand: dict = {}
    for outcome in outcomes:
        observation, _ = make_env("EZPoints").reset(options={"task": outcome["task"]})
        by_hand.setdefault(observation, set()).add((outcome["won"], outcome["length"]))
    # Greedy play is a function of the hand.
    assert all(len(results) == 1 for results in by_hand.values())
    algo.stop()


class _EverySecondRaisesOnce(gym.Wrapper):
    """Every second environment that is made raises in its third step."""

    made = 0

    def __init__(self, config):
        super().__init__(make_env("EZPoints"))
        self.breaks = _EverySecondRaisesOnce.made % 2 == 1
        _EverySecondRaisesOnce.made += 1
        self.steps = 0

    def step(self, action):
        self.steps += 1
        if self.breaks and self.steps == 3:
            raise OSError("the simulator died")
        return super().step(action)


def test_training_goes_on_when_environments_fail():
    algo = small_config().environment(_EverySecondRaisesOnce).build_algo()
    result = algo.train()
    failures = result["env_runners"]["endings"]["env_failure"]
    assert failures > 0
    assert failures + result["env_runners"]["num_episodes"] + result["env_runners"]["dropped_episodes"] == 16
    assert result["env_runners"]["env_failure_causes"]["OSError"] == failures
    algo.stop()


class _NeverStarts(gym.Wrapper):
    def __init__(self, config):
        super().__init__(make_env("EZPoints"))

    def reset(self, *, seed=None, options=None):
        raise OSError("no data folder")


def test_a_run_in_which_every_environment_fails_ends_with_the_cause():
    algo = small_config().environment(_NeverStarts).build_algo()
    with pytest.raises(RuntimeError, match=r"(?s)all 16 trajectories .*OSError: no data folder"):
        algo.training_step()
    with pytest.raises(RuntimeError, match=r"(?s)all 8 trajectories .*OSError: no data folder"):
        algo.evaluate()
    algo.stop()


class _RaisesOnOddTasks(gym.Wrapper):
    def __init__(self, config):
        super().__init__(make_env("EZPoints"))

    def reset(self, *, seed=None, options=None):
        self.odd = options["task"] % 2 == 1
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self.odd:
            raise OSError("the simulator died")
        observation, _, _, _, info = super().step(action)
        return observation, 10.0, True, False, {**info, "won": True}


def test_levels_that_cannot_be_generated_end_the_run_with_the_options_to_change():
    levels = {"size": 5, "min_solution_length": 40, "max_solution_length": 50, "max_steps": 50, "max_tries": 2}
    config = small_config(groups_per_iteration=1, group_size=2).environment("Sokoban", env_config=levels)
    algo = config.build_algo()
    with pytest.raises(RuntimeError, match=r"(?s)all 2 trajectories .*none of max_tries=2 levels .*lower min_solution"):
        algo.train()
    algo.stop()


def test_a_panel_task_that_fails_is_not_won():
    algo = small_config().environment(_RaisesOnOddTasks).build_algo()
    panel = algo.evaluate()["env_runners"]
    assert (panel["panel_size"], panel["num_episodes"], panel["success_rate"]) == (8, 4, 0.5)
    algo.stop()


def test_connectors_hold_no_state():
    algo = small_config().build_algo()
    runner = algo.env_runner
    before = [pipeline.get_state() for pipeline in (runner._env_to_module, runner._module_to_env)]
    attributes = [dict(vars(piece)) for p in (runner._env_to_module, runner._module_to_env) for piece in p.connectors]
    algo.train()
    assert before == [pipeline.get_state() for pipeline in (runner._env_to_module, runner._module_to_env)]
    assert attributes == [vars(piece) for p in (runner._env_to_module, runner._module_to_env) for piece in p.connectors]
    algo.stop()


def test_one_or_many_micro_batches_give_the_same_weights():
    weights = []
    for budget in (100_000, 200):
        algo = small_config(optimizer="sgd", lr=0.1, num_minibatches=1, micro_batch_tokens=budget).build_algo()
        algo.train()
        weights.append(weights_of(algo))
        algo.stop()
    assert largest_difference(*weights) <= 1e-6


def test_the_embedded_model_loads_by_the_ordinary_path_after_training(tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    algo = small_config().build_algo()
    algo.train()
    saved = algo.save_to_path(str(tmp_path / "checkpoint"))
    directory = f"{saved}/learner_group/learner/rl_module/default_policy/huggingface"
    model = AutoModelForCausalLM.from_pretrained(directory)
    assert AutoTokenizer.from_pretrained(directory).chat_template
    trained = weights_of(algo)
    own = dict(model.named_parameters())
    assert all(torch.equal(own[name].detach(), torch.from_numpy(trained[name])) for name in trained)
    algo.stop()


class NoAdvantages(GRPO):
    """Training with the KL term alone."""

    def compute_advantages(self, rows):
        return np.zeros(len(rows), np.float32)


def test_with_the_kl_term_alone_a_perturbed_policy_returns_to_its_model():
    config = small_config(GRPOConfig, kl_coeff=1.0, train_on_zero_signal_groups=True, lr=3e-4, groups_per_iteration=1)
    config.algo_class = NoAdvantages
    algo = config.generation(max_response_tokens=16).build_algo()
    # The second step of it sees what rounding and weight decay leave of a first step without a gradient.
    assert algo.train()["learners"]["default_policy"]["kl_to_reference"] < 1e-6
    rng = np.random.default_rng(0)
    perturbed = {
        name: (array + 0.05 * rng.standard_normal(array.shape)).astype(np.float32)
        for name, array in sorted(weights_of(algo).items())
    }
    algo.learner_group._learner.module["default_policy"].set_state(perturbed)
    algo.deliver_weights()
    kls = [float(algo.train()["learners"]["default_policy"]["kl_to_reference"]) for _ in range(6)]
    assert np.mean(kls[-2:]) < 0.5 * kls[0], kls
    algo.stop()


def test_an_iteration_without_any_signal_is_not_the_end_of_a_run():
    # Nobody can win in one step, and invalid actions cost nothing.
    config = small_config(invalid_action_penalty=0.0).environment(env_config={"max_steps": 1})
    algo = config.build_algo()
    for _ in range(2):
        result = algo.train()
        assert result["rollout_groups"]["zero_signal_share"] == 1.0
        assert result["learners"]["default_policy"]["skipped_optimizer_steps"] > 0
    algo.stop()
