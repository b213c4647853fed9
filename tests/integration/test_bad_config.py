"""Every wrong config is one clear error, before anything is built."""

import shutil

import pytest

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

pytestmark = pytest.mark.integration


def good_config() -> GiGPOConfig:
    return (
        GiGPOConfig()
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
        (lambda c: c.env_runners(num_envs_per_env_runner=4), "num_envs_per_env_runner=4.*group_size=8"),
        (lambda c: c.learners(num_learners=129), "num_learners=129.*group_size=8 x groups_per_iteration=16"),
        (lambda c: c.evaluation(evaluation_num_env_runners=1), "evaluation_num_env_runners=1"),
        (lambda c: c.agent_format(prompt_template="{{ observaton }}"), "observaton"),
        (lambda c: c.agent_format(response_parser="xml"), "xml"),
        (lambda c: c.training(kl_coeff=-0.1), "kl_coeff=-0.1 must not be negative"),
        (lambda c: c.training(kl_coeff=[[0, 0.1], [10, -1]]), "must not be negative"),
        (lambda c: c.training(kl_coeff=[[5, 0.1], [10, 0.0]]), "kl_coeff=.*first timestep must be 0"),
        (lambda c: c.training(kl_coeff="high"), "kl_coeff='high' must be a number or a schedule"),
        (lambda c: c.training(kl_estimator="k4"), "kl_estimator='k4'.*'k1', 'k2', 'k3'"),
        (lambda c: c.training(entropy_coeff=-1), "entropy_coeff=-1"),
        (lambda c: c.language_model(lora_rank=0), "lora_rank=0"),
        (lambda c: c.language_model(lora_rank=4, lora_alpha=0), "lora_alpha=0"),
        (lambda c: c.language_model(lora_alpha=4), "lora_alpha=4 does nothing without"),
        (lambda c: c.language_model(lora_rank=4, lora_targets=["q_prj"]), "'q_prj'.*Did you mean 'q_proj'.*down_proj"),
        (lambda c: c.language_model(lora_rank=4, lora_targets="q_proj"), "lora_targets is 'q_proj'.*a list"),
        (lambda c: c.language_model(lora_rank=4, lora_targets=[]), "a list"),
        (lambda c: c.language_model(model_path=None), "model_path is not set"),
        (lambda c: c.language_model(model_path="/nowhere"), "/nowhere"),
    ],
)
def test_a_wrong_value_is_named(change, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        change(good_config()).validate()


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
