"""Every wrong config is one clear error, before anything is built."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from ray import tune

from rllib_gigpo.algorithms.dapo import DAPOConfig
from rllib_gigpo.algorithms.gagpo.gagpo import GAGPOConfig
from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig
from rllib_gigpo.algorithms.reinforce import REINFORCEPlusPlusConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.inference import vllm_options

pytestmark = pytest.mark.integration


def good_config(config_class: type = GiGPOConfig) -> Any:
    return (
        config_class()
        .environment("EZPoints")
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        .generation(max_prompt_tokens=160, max_response_tokens=32)
    )


def test_the_good_config_is_good():
    good_config().validate()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.environment("EZPonts"), "EZPonts.*EZPoints"),
        (lambda c: c.training(train_batch_size=512), "train_batch_size.*groups_per_iteration"),
        (lambda c: c.training(train_batch_size_per_learner=512), "train_batch_size.*groups_per_iteration"),
        (lambda c: c.training(minibatch_size=32), "minibatch_size=32.*num_minibatches"),
        (lambda c: c.training(group_size=1), "group_size=1 is too small.*at least 2"),
        (lambda c: c.training(advantage_norm="stdev"), "advantage_norm='stdev'.*'std', 'mean'"),
        (lambda c: c.training(clip_low=0), "clip_low=0"),
        (lambda c: c.training(anchor="obs"), "anchor='obs'.*'observation'"),
        (lambda c: c.training(num_minibatches=0), "num_minibatches=0"),
        (lambda c: c.generation(temperature=0), "temperature=0.*random"),
        (lambda c: c.generation(max_prompt_tokens=100_000), "max_position_embeddings"),
        (lambda c: c.generation(engine="tgi"), "engine='tgi'"),
        (lambda c: c.generation(engine_options={"max_num_seqs": 8}), "engine_options=.*does nothing with engine='hf'"),
        (lambda c: c.training(sampler_gap_limit=0), "sampler_gap_limit=0 must be greater than 0"),
        (lambda c: c.training(sampler_gap_warning="low"), "sampler_gap_warning='low' must be a finite number"),
        (lambda c: c.env_runners(max_trajectory_steps=0), "max_trajectory_steps=0 must be an integer of at least 1"),
        (lambda c: c.env_runners(max_trajectory_tokens=1.5), r"max_trajectory_tokens=1\.5 must be an integer"),
        (lambda c: c.env_runners(num_envs_per_env_runner=4), "num_envs_per_env_runner=4.*group_size=8"),
        (lambda c: c.learners(num_learners=129), "num_learners=129.*group_size=8 x groups_per_iteration=16"),
        (lambda c: c.evaluation(evaluation_num_env_runners=1), "evaluation_num_env_runners=1"),
        (lambda c: c.agent_format(prompt_template="{{ observaton }}"), "observaton"),
        (lambda c: c.agent_format(prompt_template="{{ history[0].reward }}"), r"unknown fields \['reward'\]"),
        (lambda c: c.agent_format(prompt_template="{{ observation }}", history_length=2), "history_length=2 has no"),
        (lambda c: c.agent_format(prompt_template="nowhere.jinja"), "prompt_template='nowhere.jinja' holds no"),
        (lambda c: c.update_from_dict({"prompt_template": "nowhere.jinja"}), "prompt_template='nowhere.jinja'"),
        (lambda c: c.agent_format(response_parser="xml"), "xml"),
        (lambda c: c.agent_format(response_parser="no_such_module:parse"), "'no_such_module:parse' cannot be imported"),
        (lambda c: c.agent_format(response_parser="os.path:sep"), "response_parser='os.path:sep' is a str"),
        (lambda c: c.agent_format(response_parser="json:loads"), "'loads' raised JSONDecodeError.*on the response ''"),
        (lambda c: c.agent_format(response_parser=len), "'len' returned 0 for the response ''"),
        (lambda c: c.training(kl_coeff=-0.1), "kl_coeff=-0.1 must not be negative"),
        (lambda c: c.training(kl_coeff=[[0, 0.1], [10, -1]]), "must not be negative"),
        (lambda c: c.training(kl_coeff=[[5, 0.1], [10, 0.0]]), "kl_coeff=.*first timestep must be 0"),
        (lambda c: c.training(kl_coeff=[[0, 0.1], [10, 0.2], [5, 0.3]]), "kl_coeff=.*timesteps in increasing order"),
        (lambda c: c.training(lr=[[0, 1e-3], [-10, 1e-4]]), "lr=.*timesteps in increasing order"),
        (lambda c: c.training(kl_coeff="high"), "kl_coeff='high' must be a number or a schedule"),
        (lambda c: c.training(kl_estimator="k4"), "kl_estimator='k4'.*'k1', 'k2', 'k3'"),
        (lambda c: c.training(entropy_coeff=-1), "entropy_coeff=-1"),
        (lambda c: c.language_model(lora_rank=0), "lora_rank=0"),
        (lambda c: c.language_model(lora_rank=4, lora_alpha=0), "lora_alpha=0"),
        (lambda c: c.language_model(lora_alpha=4), "lora_alpha=4 does nothing without"),
        (lambda c: c.language_model(lora_rank=4, lora_targets=["q_prj"]), "'q_prj'.*Did you mean 'q_proj'.*down_proj"),
        (lambda c: c.language_model(lora_rank=4, lora_targets="q_proj"), "lora_targets is 'q_proj'.*a list"),
        (lambda c: c.language_model(lora_rank=4, lora_targets=[]), "a list"),
        (lambda c: c.language_model(lora_rank=4, lora_targets=7), "lora_targets is 7.*a list"),
        (lambda c: c.language_model(lora_rank=4, lora_targets=(t for t in ["q_proj"])), "lora_targets is <gen.*a list"),
        (lambda c: c.language_model(model_path=None), "model_path is not set"),
        (lambda c: c.language_model(model_path="/nowhere"), "/nowhere"),
        (lambda c: c.language_model(model_path=5), "model_path=5 must be"),
        (lambda c: c.language_model(model_dtype="float16"), "model_dtype='float16'.*bfloat16"),
        (lambda c: c.training(grad_clip=0), "grad_clip=0 must be"),
        (lambda c: c.training(grad_clip_by="value"), "grad_clip_by='value' must be 'global_norm'"),
        (lambda c: c.training(lr=None), "lr=None must be a number or a schedule"),
        (lambda c: c.training(lr="1e-6"), "lr='1e-6' must be a number or a schedule"),
        (lambda c: c.training(lr=math.inf), "lr=inf must be"),
        (lambda c: c.training(lr=[[0, 1e-3], [9, -1e-3]]), "lr=.*must not be negative"),
        (lambda c: c.training(lr=[[0, 1e-3], [9, math.nan]]), "lr=.*finite"),
        (lambda c: c.training(lr=[[0, 1e-3], 9]), "lr=.*must be a number or a schedule"),
        (lambda c: c.training(adam_betas=(0.9, 1.0)), "adam_betas=.*must be two numbers"),
        (lambda c: c.training(adam_betas=0.9), "adam_betas=0.9 must be two numbers"),
        (lambda c: c.training(train_on_zero_signal_groups="no"), "train_on_zero_signal_groups='no' must be True or"),
        (lambda c: c.training(dynamic_sampling=1), "dynamic_sampling=1 must be True or False"),
        (
            lambda c: c.training(dynamic_sampling=True, max_sampling_rounds=0),
            "max_sampling_rounds=0 must be an integer",
        ),
        (
            lambda c: c.training(dynamic_sampling=True, train_on_zero_signal_groups=True),
            "train_on_zero_signal_groups=True contradicts dynamic_sampling=True",
        ),
        (lambda c: c.debugging(seed=2**32), "seed=4294967296 must be"),
        (lambda c: c.debugging(seed=1.5), "seed=1.5 must be"),
        (lambda c: c.env_runners(max_weight_lag=1), "max_weight_lag=1 .*num_env_runners=0 both are one process"),
        (lambda c: c.env_runners(max_weight_lag=True), "max_weight_lag=True must be an integer"),
        (lambda c: c.env_runners(num_cpus_per_env_runner=-2), "num_cpus_per_env_runner=-2 must be"),
        (lambda c: c.learners(num_gpus_per_learner="all"), "num_gpus_per_learner='all' must be"),
        (lambda c: c.learners(num_learners=1.0), "num_learners=1.0 must be an integer"),
        (lambda c: c.env_runners(batch_mode="truncate_episodes"), "batch_mode=.*must be 'complete_episodes'"),
        (lambda c: c.environment(tasks="abc"), "tasks='abc' must be a list"),
        (lambda c: c.environment(tasks=[]), r"tasks=\[\] must be a list"),
        (lambda c: c.environment(tasks=np.arange(3)), "tasks=array.*must be a list"),
        (lambda c: c.evaluation(evaluation_tasks=range(3)), r"evaluation_duration=128.*evaluation_tasks holds \(3\)"),
        (lambda c: c.evaluation(evaluation_duration="auto"), "evaluation_duration='auto' must be an integer"),
        (lambda c: c.evaluation(evaluation_duration_unit="timesteps"), "evaluation_duration_unit=.*must be 'episodes'"),
        (
            lambda c: c.evaluation(evaluation_config={"temprature": 0}),
            "evaluation_config: .*did you mean 'temperature'",
        ),
        (lambda c: c.evaluation(evaluation_config={"temperature": -2}), "evaluation_config: temperature is -2"),
        (lambda c: c.evaluation(evaluation_config={"env_config": {"max_steps": 3}}), "env_config has no effect"),
        (lambda c: c.evaluation(evaluation_config={"top_p": "all"}), "evaluation_config: top_p='all' must be"),
        (lambda c: c.evaluation(evaluation_config={"explore": False}), "explore=False.*temperature=0"),
        (lambda c: c.evaluation(evaluation_config=5), "evaluation_config=5 must be a dict"),
        (lambda c: c.environment(env_config=[1]), r"env_config=\[1\] must be a dict"),
        (lambda c: c.environment(5), "env=5 must be"),
        (lambda c: c.environment(str), "env=<class 'str'> must be"),
        (lambda c: c.environment("no_such_package.Env"), "'no_such_package.Env'.*cannot be imported"),
        (lambda c: c.environment("gymnasium.NoSuchEnv"), "'gymnasium.NoSuchEnv'.*cannot be imported"),
        (lambda c: c.environment("gymnasium.spaces.Discrete"), "'gymnasium.spaces.Discrete' must be"),
        (lambda c: c.multi_agent(policies={"one", "two"}), "multi_agent.*does not apply: env=.EZPoints. is no RLlib"),
        (
            lambda c: c.api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False),
            "enable_rl_module_and_learner=False must be True",
        ),
        (lambda c: c.agent_format(prompt_template=5), "prompt_template=5 must be a string"),
        (lambda c: c.agent_format(history_length="2"), "history_length='2' must be an integer"),
        (lambda c: c.agent_format(history_length=-3), "history_length is -3; it must be"),
        (lambda c: c.agent_format(response_parser=["x"]), r"response_parser is \['x'\]; known are"),
        (lambda c: c.agent_format(stop="END"), "stop='END' must be"),
        (lambda c: c.agent_format(stop=["END", 5]), "stop=.*must be"),
        (lambda c: c.agent_format(examples=[["a question without an answer"]]), "examples=.*pairs of strings"),
    ],
)
def test_a_wrong_value_is_named(change, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        change(good_config()).validate()


@pytest.mark.parametrize(
    "key",
    [
        *("gamma", "clip_low", "clip_high", "dual_clip", "importance_weight_cap", "advantage_std_floor"),
        *("invalid_action_penalty", "step_advantage_weight", "weight_decay", "top_p", "temperature", "kl_coeff"),
        *("similarity_threshold", "entropy_coeff", "lr", "grad_clip"),
    ],
)
@pytest.mark.parametrize("value", ["0.5", True, math.nan, math.inf, [0.5]], ids=repr)
def test_what_is_no_finite_number_is_named(key, value):
    config = good_config().update_from_dict({key: value})
    with pytest.raises(ValueError, match=f"^{key}=.* must be .*number"):
        config.validate()


@pytest.mark.parametrize("key", ["top_k", "num_minibatches", "group_size", "num_epochs", "max_prompt_tokens"])
@pytest.mark.parametrize("value", ["2", True, 2.5, None], ids=repr)
def test_what_is_no_integer_is_named(key, value):
    with pytest.raises(ValueError, match=f"^{key}={value!r} must be an integer"):
        good_config().update_from_dict({key: value}).validate()


@pytest.mark.parametrize(
    "key",
    ["lr", "seed", "grad_clip", "num_env_runners", "num_learners", "num_gpus", "env_runner_health_probe_timeout_s"],
)
def test_minus_one_does_not_become_the_default(key):
    # RLlib leaves values of -1 out of a config's state.
    with pytest.raises(ValueError, match=f"^{key}=-1 must"):
        good_config().update_from_dict({key: -1}).validate()


def test_the_keys_of_one_algorithm_are_checked_too():
    config = GAGPOConfig().update_from_dict({"lambda": "0.9"})
    with pytest.raises(ValueError, match=r"^lambda_='0.9' must be a finite number"):
        config.validate()


@pytest.mark.parametrize(
    ("config_class", "keys", "message"),
    [
        (DAPOConfig, {"overlong_penalty_buffer": 33}, "overlong_penalty_buffer=33 is more than max_response_tokens=32"),
        (
            DAPOConfig,
            {"overlong_penalty_buffer": -2},
            "overlong_penalty_buffer=-2 must be an integer of at least 0, or",
        ),
        (DAPOConfig, {"overlong_penalty_buffer": 1.5}, "overlong_penalty_buffer=1.5 must be an integer"),
        (DAPOConfig, {"overlong_penalty": -2}, "overlong_penalty=-2 must not be negative"),
        (DAPOConfig, {"overlong_penalty": "1"}, "overlong_penalty='1' must be a finite number"),
        (
            REINFORCEPlusPlusConfig,
            {"group_size": 1, "dynamic_sampling": True},
            "dynamic_sampling looks for groups whose members differ.*group_size=1",
        ),
    ],
)
def test_a_wrong_value_of_an_algorithms_own_key_is_named(config_class, keys, message):
    with pytest.raises(ValueError, match=message):
        good_config(config_class).training(**keys).validate()


def test_evaluation_may_cut_responses_before_the_penalty_of_training_begins():
    config = good_config(DAPOConfig).training(overlong_penalty_buffer=32)
    config.evaluation(evaluation_config={"max_response_tokens": 8}).validate()


class _OwnEnv(gym.Env):
    def __init__(self, context=None):
        self.observation_space = self.action_space = gym.spaces.Text(10)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.environment(_OwnEnv),
        lambda c: c.environment(lambda context: _OwnEnv()),
        lambda c: c.environment("CartPole-v1"),
        lambda c: c.environment("gymnasium.envs.classic_control.cartpole.CartPoleEnv"),
        lambda c: c.environment(tasks=range(3)),
        lambda c: c.evaluation(evaluation_tasks=("a", "b"), evaluation_duration=2),
        lambda c: c.evaluation(evaluation_config={"temperature": 0}),
        lambda c: c.evaluation(evaluation_config=GiGPOConfig.overrides(temperature=0.5, evaluation_duration=4)),
        lambda c: c.training(lr=[[0, 1e-3], [300, 1e-4]], kl_coeff=((0, 0.1), (10, 0))),
        lambda c: c.training(grad_clip=None, lr=0, adam_betas=[0, 0.5], train_on_zero_signal_groups=False),
        lambda c: c.debugging(seed=2**32 - 1),
        lambda c: c.learners(num_cpus_per_learner="auto", num_gpus_per_learner=0.5),
        lambda c: c.agent_format(stop=["END"], history_length=0, response_parser="think_action"),
        lambda c: c.agent_format(examples=[["Target: 7. Current: 3", "<action>+</action>"]]),
        lambda c: c.agent_format(history_length="full", response_parser="rllib_gigpo.agent_formats:first_action"),
        lambda c: c.agent_format(
            prompt_template="rllib_gigpo.env_adapters.gym_cards.prompts:EZPOINTS_JSON_PROMPT",
            response_parser="json_action",
            history_length=2,
        ),
        lambda c: c.update_from_dict({"stop": ["END"]}),
    ],
)
def test_a_good_value_is_accepted(change):
    change(good_config()).validate()


def test_messages_leave_out_how_to_switch_the_checks_off_and_that_works():
    with pytest.raises(ValueError) as error:
        good_config().training(clip_low=0).validate()
    assert "suppress" not in str(error.value)
    good_config().training(clip_low="much").experimental(_validate_config=False).validate()


def test_a_relative_model_path_becomes_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert GiGPOConfig().language_model(model_path="my/model").model_path == str(tmp_path / "my/model")
    assert GiGPOConfig().update_from_dict({"model_path": "m"}).model_path == str(tmp_path / "m")
    assert GiGPOConfig().language_model(model_path="~/m").model_path == str(Path.home() / "m")
    searched = GiGPOConfig().language_model(model_path=tune.grid_search(["a", "/b"]))
    assert searched.model_path == {"grid_search": [str(tmp_path / "a"), "/b"]}


def test_a_prompt_template_from_a_file_is_read_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(f"{name}.jinja").write_text(f"{name} {{{{ observation }}}}")
    assert GiGPOConfig().agent_format(prompt_template="a.jinja").prompt_template == "a {{ observation }}"
    assert GiGPOConfig().update_from_dict({"prompt_template": "b.jinja"}).prompt_template == "b {{ observation }}"
    searched = GiGPOConfig().agent_format(prompt_template=tune.grid_search(["a.jinja", "b.jinja", None]))
    assert searched.prompt_template == {"grid_search": ["a {{ observation }}", "b {{ observation }}", None]}


def test_search_spaces_stay_as_they_are():
    space, domain = tune.grid_search([["END"], None]), tune.loguniform(1e-6, 1e-4)
    config = good_config().agent_format(stop=space).training(lr=domain)
    assert config.stop == space
    assert config.lr is domain


@pytest.mark.parametrize(
    ("missing", "message"),
    [("tokenizer.json", "tokenizer"), ("chat_template.jinja", "chat template"), ("model.safetensors", "weights")],
)
def test_an_incomplete_model_directory_is_named(tmp_path, missing, message):
    directory = tmp_path / "model"
    shutil.copytree(embedded_model_path("EZPoints"), directory)
    (directory / missing).unlink()
    with pytest.raises(ValueError, match=f"{directory}.*{message}"):
        good_config().language_model(model_path=str(directory)).validate()


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(ValueError, match="'grup_size'; did you mean 'group_size'"):
        GiGPOConfig().update_from_dict({"grup_size": 4})
    with pytest.raises(TypeError, match="'groupsize'; did you mean 'group_size'"):
        GiGPOConfig().training(groupsize=4)


def test_a_whole_config_survives_the_way_through_a_dict():
    config = good_config().training(group_size=4, step_advantage_weight=0.5, optimizer="sgd")
    again = GiGPOConfig().update_from_dict(config.to_dict())
    assert (again.group_size, again.step_advantage_weight, again.optimizer) == (4, 0.5, "sgd")
    again.validate()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.generation(engine_options=[1]), r"engine_options=\[1\] must be a dict"),
        (
            lambda c: c.generation(engine_options={"model": "x"}),
            r"'model' cannot be set; .*\(model_path=…",
        ),
        (
            lambda c: c.generation(engine_options={"mm_processor_kwargs": {"max_pixels": 784}}),
            "'mm_processor_kwargs' cannot be set; it follows from the model directory, with whose image processor",
        ),
        (lambda c: c.generation(engine_options={"hf_overrides": {}}), "'hf_overrides' cannot be set"),
        (lambda c: c.generation(engine_options={"tensor_parallel_size": "2"}), "tensor_parallel_size='2' must be an"),
        (
            lambda c: c.generation(engine_options={"tensor_parallel_size": 2}).env_runners(num_gpus_per_env_runner=1),
            r"= 2 needs as many GPUs, but num_gpus_per_env_runner=1: set env_runners\(num_gpus_per_env_runner=2\)",
        ),
        (lambda c: c.generation(engine_sleep_level=3), "engine_sleep_level=3 must be 1 or 2"),
        (lambda c: c.generation(engine_sleep_level=1), "num_gpus_per_env_runner=0: set it to None"),
        (lambda c: c.language_model(lora_rank=1000), "lora_rank=1000 is more than engine='vllm' serves, 512"),
    ],
)
def test_what_the_vllm_engine_cannot_serve_is_refused_before_anything_starts(
    change: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_options, "is_installed", lambda name: True)
    good_config().generation(engine="vllm").validate()
    with pytest.raises(ValueError, match=message):
        change(good_config().generation(engine="vllm")).validate()


def test_the_vllm_engine_without_vllm_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_options, "is_installed", lambda name: False)
    with pytest.raises(ValueError, match=r"engine='vllm' needs vLLM, .* pip install 'rllib-gigpo\["):
        good_config().generation(engine="vllm").validate()


def test_a_model_without_a_tokenizer_is_refused_before_an_engine_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_options, "is_installed", lambda name: True)
    shutil.copytree(embedded_model_path("EZPoints"), tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()
    config = good_config().generation(engine="vllm").language_model(model_path=str(tmp_path / "model"))
    with pytest.raises(ValueError, match="has no tokenizer"):
        config.validate()


def test_a_head_size_that_vllm_lacks_on_the_cpu_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_options, "is_installed", lambda name: True)
    shutil.copytree(embedded_model_path("EZPoints"), tmp_path / "model")
    config_file = tmp_path / "model" / "config.json"
    content = json.loads(config_file.read_text())
    config_file.write_text(json.dumps({**content, "num_attention_heads": 8, "num_key_value_heads": 4}))
    config = good_config().generation(engine="vllm").language_model(model_path=str(tmp_path / "model"))
    with pytest.raises(ValueError, match=r"attention heads of size 16; on the CPU, engine='vllm' serves only sizes 32"):
        config.validate()
    # On a GPU it would do.
    config.env_runners(num_gpus_per_env_runner=1).validate()
