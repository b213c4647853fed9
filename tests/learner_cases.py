"""Learner configs and token rows that the tests of one and of several learners share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec

from rllib_gigpo.learners.actor_critic_torch_learner import ActorCriticTorchLearner
from rllib_gigpo.learners.group_policy_torch_learner import GroupPolicyTorchLearner
from rllib_gigpo.learners.sharded_learner_group import ShardedLearnerGroup
from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from rllib_gigpo.rl_modules.critic_rl_module import critic_id, critic_spec
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rows import TokenRowBatch, TokenRows

# Plain gradient descent, one step, no clipping of gradients: updates of different splits are comparable to rounding.
_SETTINGS: dict[str, Any] = {
    "num_minibatches": 1,
    "num_epochs": 1,
    "clip_low": 0.2,
    "clip_high": 0.2,
    "dual_clip": None,
    "ratio": "token",
    "loss_aggregation": "token-mean",
    "importance_weight_cap": None,
    "kl_coeff": 0.0,
    "kl_estimator": "k3",
    "kl_in": "loss",
    "entropy_coeff": 0.0,
    "micro_batch_tokens": 4096,
    "max_response_tokens": 16,
    "temperature": 1.0,
    "optimizer": "sgd",
    "adam_betas": (0.9, 0.999),
    "weight_decay": 0.0,
    "grad_clip": None,
    "seed": 0,
    "sharding": None,
    "mixed_precision": False,
    "offload_reference": False,
    "learner_stall_timeout_s": 120.0,
    "lr": 0.1,
}


# Of the critic, where there is one.
_CRITIC_SETTINGS: dict[str, Any] = {
    "critic_lr": 0.1,
    "value_level": "step",
    "value_clip": None,
    "value_loss_coeff": 0.5,
}


def build_learner_group(model_directory: Path, **settings: Any) -> LearnerGroup:
    """A learner group over the model of a directory; `settings` as of `learner_parts`."""
    config, spec = learner_parts(model_directory, **settings)
    group_class = LearnerGroup if config.sharding is None else ShardedLearnerGroup
    return group_class(config=config, module_spec=spec)


def learner_parts(
    model_directory: Path,
    *,
    num_learners: int = 0,
    dtype: Any = "float32",
    lora: LoraSettings | None = None,
    critic: bool = False,
    freeze_vision_tower: bool = False,
    gradient_checkpointing: bool = False,
    share_prefixes: bool = True,
    **settings: Any,
) -> tuple[Any, MultiRLModuleSpec]:
    """What `build_learner_group` makes a group of: a config, and the spec of the modules."""
    learner_class = ActorCriticTorchLearner if critic else GroupPolicyTorchLearner
    config = AlgorithmConfig().learners(learner_class=learner_class, num_learners=num_learners)
    for name, value in {**_SETTINGS, **(_CRITIC_SETTINGS if critic else {}), **settings}.items():
        setattr(config, name, value)
    policy = causal_lm_spec(
        str(model_directory),
        dtype=dtype,
        lora=lora,
        freeze_vision_tower=freeze_vision_tower,
        gradient_checkpointing=gradient_checkpointing,
        share_prefixes=share_prefixes,
    )
    spec = policy.as_multi_rl_module_spec()
    if critic:
        spec.add_modules({critic_id(DEFAULT_MODULE_ID): critic_spec(policy)})
    return config, spec


def random_rows(count: int, *, seed: int = 0, vocabulary: int = 259) -> TokenRows:
    """Rows of random tokens with prompts of 3–30 and responses of 1–12 tokens and random advantages."""
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(3, vocabulary, rng.integers(3, 31)) for _ in range(count)]
    responses = [rng.integers(3, vocabulary, rng.integers(1, 13)) for _ in range(count)]
    return TokenRows.from_lists(
        prompts,
        responses,
        [np.full(len(response), -5.0, np.float32) for response in responses],
        advantages=rng.standard_normal(count),
    )


def sharing_rows(count: int, *, seed: int = 0, vocabulary: int = 259) -> TokenRows:
    """As `random_rows`, with prompts that begin alike: all with 12 tokens, one in three with 9 more, some wholly."""
    rows = random_rows(count, seed=seed, vocabulary=vocabulary)
    rng = np.random.default_rng(seed + 1)
    common, kinds = rng.integers(3, vocabulary, 12), rng.integers(3, vocabulary, (3, 9))
    ends = [rng.integers(3, vocabulary, size) for size in (1, 5, 20)]
    prompts = [np.concatenate([common, kinds[row % 3], ends[int(rng.integers(3))]]) for row in range(count)]
    starts = np.cumsum(rows.lengths)[:, None] - np.stack([rows.response_lengths, np.zeros_like(rows.lengths)], axis=1)
    return TokenRows.from_lists(
        prompts,
        [rows.token_ids[start:end] for start, end in starts],
        np.split(rows.rollout_logp, np.cumsum(rows.response_lengths)[:-1]),
        advantages=rows.advantages,
    )


def batch_of(rows: TokenRows) -> TokenRowBatch:
    """The rows as the batch of the only module."""
    return TokenRowBatch({DEFAULT_MODULE_ID: rows}, env_steps=len(rows))


def weights_of(group: LearnerGroup) -> dict[str, np.ndarray]:
    """The weights of the only module, from the first learner."""
    return group.get_weights()[DEFAULT_MODULE_ID]


def max_difference(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> float:
    """Largest absolute difference of two sets of weights with the same names."""
    assert first.keys() == second.keys()
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)
