"""PPO: advantages from the values of a critic, a second model that learns beside the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.utils.annotations import override

from rllib_gigpo.algorithms.group_policy.fixed_keys import check_fixed_keys
from rllib_gigpo.algorithms.group_policy.group_policy import GroupPolicy
from rllib_gigpo.algorithms.group_policy.group_policy_config import GroupPolicyConfig
from rllib_gigpo.algorithms.group_policy.group_sampling import ROLLOUT_GROUP_RESULTS
from rllib_gigpo.algorithms.group_policy.scoring import VALUES
from rllib_gigpo.algorithms.ppo.advantages import GAEAdvantages, explained_variance, gae_advantages, token_columns
from rllib_gigpo.rows import StepRows, TokenRows, packed_indices

if TYPE_CHECKING:
    from ray.rllib.core.learner.learner import Learner


class PPOConfig(GroupPolicyConfig):
    """Configures PPO (Schulman et al. 2017, arXiv 1707.06347) for multi-turn agents: the baseline with a critic.

    Example:
        >>> from rllib_gigpo.algorithms.ppo import PPOConfig
        >>> config = PPOConfig().environment("EZPoints").training(groups_per_iteration=128, critic_lr=1e-5)
    """

    # What a trajectory is compared with is the critic's value: one is enough for a group.
    min_group_size = 1

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or PPO)
        self.group_size = 1
        self.groups_per_iteration = 128
        self.gamma = 1.0
        self.lambda_ = 1.0
        self.value_level: Literal["step", "token"] = "step"
        self.bootstrap_truncated = False
        self.advantage_normalization: Literal["batch", "none"] = "batch"
        self.critic_lr: float | list[list[float]] = 1e-5
        self.value_clip: float | None = 0.5
        self.value_loss_coeff = 0.5

    @override(GroupPolicyConfig)
    def training(
        self,
        *,
        lambda_: float = NotProvided,
        value_level: Literal["step", "token"] = NotProvided,
        bootstrap_truncated: bool = NotProvided,
        advantage_normalization: Literal["batch", "none"] = NotProvided,
        critic_lr: float | list[list[float]] = NotProvided,
        value_clip: float | None = NotProvided,
        value_loss_coeff: float = NotProvided,
        **kwargs: Any,
    ) -> PPOConfig:
        """Sets the training parameters.

        Args:
            lambda_: λ of the advantage recursion, in [0, 1]; 0 is the one-step error, 1 the return less the value.
            value_level: "step": the value of a prompt, and one advantage per step; gamma and lambda_ act from step to
                step. "token": a value and an advantage per response token; both act from token to token.
            bootstrap_truncated: Whether a trajectory that was cut off continues in the value of its last state. If not,
                a limit counts as an end.
            advantage_normalization: Over the whole "batch" (of steps, or of tokens), or "none".
            critic_lr: Learning rate of the critic: a number, or a schedule [[timestep, value], …].
            value_clip: How far an update may move a value, in units of the return; None is off.
            value_loss_coeff: Of the mean squared error of the values. With AdamW it matters only against grad_clip.
            kwargs: As in `GroupPolicyConfig.training`.
        """
        super().training(**kwargs)
        self._set(
            lambda_=lambda_,
            value_level=value_level,
            bootstrap_truncated=bootstrap_truncated,
            advantage_normalization=advantage_normalization,
            critic_lr=critic_lr,
            value_clip=value_clip,
            value_loss_coeff=value_loss_coeff,
        )
        return self

    @override(GroupPolicyConfig)
    def validate(self) -> None:
        super().validate()
        if not 0 <= self.lambda_ <= 1:
            self._value_error(f"lambda_={self.lambda_!r} must be in [0, 1].")
        for key, choices in (("value_level", ("step", "token")), ("advantage_normalization", ("batch", "none"))):
            if getattr(self, key) not in choices:
                self._value_error(f"{key}={getattr(self, key)!r} is unknown; choose {choices[0]!r} or {choices[1]!r}.")
        for key in ("value_clip", "value_loss_coeff"):
            if getattr(self, key) is not None and not getattr(self, key) > 0:
                self._value_error(f"{key}={getattr(self, key)!r} must be greater than 0.")
        if self.value_level == "token" and self.ratio != "token":
            self._value_error(
                f"ratio={self.ratio!r} is one per response, and value_level='token' gives an advantage per token: set "
                "training(ratio='token'), or value_level='step'."
            )
        for problem in check_fixed_keys(self, advantage_norm="std", reference="paper", dynamic_sampling=False):
            self._value_error(problem)
        self._check_critic_ids()

    def _check_critic_ids(self) -> None:
        from rllib_gigpo.rl_modules.critic_rl_module import critic_id

        for policy_id in self.policies:
            if critic_id(policy_id) in self.policies:
                self._value_error(
                    f"multi_agent(policies=…) names {critic_id(policy_id)!r}, the module that is the critic of "
                    f"{policy_id!r}: give that policy another name."
                )

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type[Learner]:
        from rllib_gigpo.learners.actor_critic_torch_learner import ActorCriticTorchLearner

        return ActorCriticTorchLearner

    @override(AlgorithmConfig)
    def get_multi_rl_module_spec(self, *, inference_only: bool = False, **kwargs: Any) -> MultiRLModuleSpec:
        """RLlib's, with a critic beside each policy; where modules are for inference, the policies alone."""
        from rllib_gigpo.rl_modules.critic_rl_module import critic_id, critic_spec

        spec = super().get_multi_rl_module_spec(inference_only=inference_only, **kwargs)
        if not inference_only:
            policies = dict(spec.rl_module_specs)
            spec.add_modules({critic_id(policy_id): critic_spec(policy) for policy_id, policy in policies.items()})
        return spec

    @override(GroupPolicyConfig)
    def scores(self) -> tuple[str, ...]:
        return (*super().scores(), VALUES)


class PPO(GroupPolicy):
    """Proximal policy optimization with a learned critic."""

    config: PPOConfig

    @classmethod
    @override(GroupPolicy)
    def get_default_config(cls) -> PPOConfig:
        return PPOConfig()

    @override(GroupPolicy)
    def with_credit(self, step_rows: StepRows, token_rows: TokenRows) -> TokenRows:
        """Token rows with advantages and with what the critic learns: of steps, or of their tokens."""
        assert token_rows.values is not None
        lengths = step_rows.response_lengths
        first_token = np.cumsum(lengths) - lengths
        of_tokens = self.config.value_level == "token"
        values = token_rows.values if of_tokens else token_rows.values[first_token]
        advantages, targets = np.zeros_like(values), np.zeros_like(values)
        for own in token_rows.rows_of_modules(DEFAULT_MODULE_ID).values():
            at = packed_indices(lengths, own) if of_tokens else own
            estimate = self._estimate(step_rows.take(own), values[at])
            advantages[at], targets[at] = estimate.total, estimate.returns
        self._log(
            ROLLOUT_GROUP_RESULTS,
            {
                "value_mean": float(values.mean()),
                "value_target_mean": float(targets.mean()),
                "explained_variance": explained_variance(values, targets),
            },
        )
        if not of_tokens:
            rows = self.with_advantages(step_rows, token_rows, advantages)
            return rows.with_response_columns(value_targets=np.repeat(targets, lengths))
        # Of a step, for the metrics: the mean over its tokens.
        of_steps = np.add.reduceat(advantages, first_token) / lengths
        rows = self.with_advantages(step_rows, token_rows, of_steps.astype(np.float32))
        return rows.with_response_columns(token_advantages=advantages, value_targets=targets)

    def _estimate(self, rows: StepRows, values: np.ndarray) -> GAEAdvantages:
        """Of one module's steps, or of their M tokens; `values`: float32[T] or float32[M]."""
        columns = token_columns(rows) if self.config.value_level == "token" else rows
        return gae_advantages(
            columns.rewards,
            values,
            columns.trajectory_ids,
            gamma=self.config.gamma,
            lambda_=self.config.lambda_,
            terminated=columns.terminated if self.config.bootstrap_truncated else None,
            normalize=self.config.advantage_normalization == "batch",
            invalid=columns.invalid,
            invalid_action_penalty=self.config.invalid_action_penalty,
            std_floor=self.config.advantage_std_floor,
        )
