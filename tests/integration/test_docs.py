"""What the documents say is so."""

import re
from pathlib import Path

import pytest

from rllib_gigpo.algorithms.dapo import DAPOConfig
from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.algorithms.ppo import PPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]

ROOT = Path(__file__).parents[2]
# What RLlib itself logs into the same places, explained in its own documentation.
RLLIB_METRICS = re.compile(
    r"num_(agent|env|module|non_trainable|trainable|episodes)_?\w*|module_train_batch_size_mean|sample$|weights_seq_no"
    r"|default_optimizer_learning_rate|diff_num_grad_updates_vs_sampler_policy|\w*throughput\w*|time_between_sampling"
)


def documented_metrics() -> set[str]:
    """Names in the first column of the glossary's tables; `a_mean, _max` stands for a_mean and a_max."""
    names: set[str] = set()
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        cell = line.split("|")[1].strip() if line.startswith("|") else ""
        parts = [part.strip() for part in cell.split(",") if part.strip()]
        for part in parts:
            names.add(part)
            if part.startswith("_"):
                stems = [parts[0].split("_")[:i] for i in range(1, len(parts[0].split("_")) + 1)]
                names |= {"_".join(stem) + part for stem in stems}
            if "/" in part:
                names.add(part.split("/")[-1])
                names.add(part.split("/")[0])
            elif "/" in parts[0]:
                names.add(part)
    names |= set(re.findall(r"`(\w+)`", (ROOT / "docs" / "metrics.md").read_text()))
    return names


@pytest.mark.parametrize(
    ("config_class", "kl_in"), [(GiGPOConfig, "loss"), (DAPOConfig, "loss"), (PPOConfig, "reward")]
)
def test_every_metric_is_in_the_glossary(config_class, kl_in):
    algo = (
        config_class()
        .environment("EZPoints")
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .training(group_size=4, groups_per_iteration=2, lr=1e-4, kl_coeff=0.01, kl_in=kl_in)
        .evaluation(evaluation_duration=4, evaluation_interval=1)
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .debugging(seed=0)
        .build_algo()
    )
    result = algo.train()
    algo.stop()
    known = documented_metrics()
    places = {
        "env_runners": result["env_runners"],
        "rollout_groups": result["rollout_groups"],
        "learners/default_policy": result["learners"]["default_policy"],
        "evaluation/env_runners": result["evaluation"]["env_runners"],
    }
    unknown = [
        f"{place}/{name}"
        for place, metrics in places.items()
        for name in metrics
        if name not in known and not RLLIB_METRICS.fullmatch(name)
    ]
    assert unknown == []
    endings = set(result["env_runners"]["endings"])
    assert endings <= known


def test_the_troubleshooting_page_names_metrics_and_settings_that_exist():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    named = {name.split("=")[0].split("/")[-1] for name in re.findall(r"`([a-z_/…]+(?:=[^`]*)?)`", page)}
    assert len(named) > 30
    unknown = {name for name in named - documented_metrics() if not hasattr(GiGPOConfig(), name)}
    assert unknown == {"anchor_state", "hf", "make", "ray"}  # an info, an engine, and programs
