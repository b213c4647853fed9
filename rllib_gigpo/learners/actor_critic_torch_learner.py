"""Trains a policy and, beside it, a critic: a model of its own with its own optimizer and learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.utils.annotations import override

from rllib_gigpo.learners.gradient_accumulation import accumulate_gradients
from rllib_gigpo.learners.group_policy_torch_learner import GroupPolicyTorchLearner
from rllib_gigpo.learners.losses import value_loss
from rllib_gigpo.learners.response_scores import score_tokens
from rllib_gigpo.rl_modules.critic_rl_module import CriticRLModule, critic_id
from rllib_gigpo.rows import TokenRows


class ActorCriticTorchLearner(GroupPolicyTorchLearner):
    """As `GroupPolicyTorchLearner`, for policies that have a critic each, a `CriticRLModule` under `critic_id`.

    Rows need `values`, as `score` computes them before the update, and `value_targets`. Critic and policy see the same
    mini-batches; the critic learns from every row, also from those out of the loss.

    Read from the config besides: critic_lr, value_level ("step": the value of a row is that of its prompt; "token": one
    per response token), value_clip, value_loss_coeff.

    Logs under the policy, per mini-batch and over all learners: value_loss (mean, without its coefficient),
    value_clip_fraction, critic_gradient_norm (before clipping), and the sum skipped_critic_steps (those with a gradient
    that was not finite).
    """

    scorers: ClassVar[dict[str, str]] = {**GroupPolicyTorchLearner.scorers, "values": "compute_values"}

    @override(GroupPolicyTorchLearner)
    def policy_ids(self) -> list[str]:
        return [module_id for module_id in super().policy_ids() if not self._is_critic(module_id)]

    @override(GroupPolicyTorchLearner)
    def learning_rate(self, module_id: str) -> Any:
        return self.config.critic_lr if self._is_critic(module_id) else super().learning_rate(module_id)

    @override(GroupPolicyTorchLearner)
    def configure_optimizers_for_module(self, module_id: str, config: AlgorithmConfig | None = None) -> None:
        policy_of = {critic_id(policy_id): policy_id for policy_id in self.policy_ids()}
        if module_id in policy_of:
            config = self.config.get_config_for_module(policy_of[module_id])
        super().configure_optimizers_for_module(module_id, config)

    @override(TorchLearner)
    def _update(self, batch: Mapping[str, TokenRows], **kwargs: Any) -> tuple[dict, dict[str, float], dict]:
        answer = super()._update(batch, **kwargs)
        for policy_id, rows in batch.items():
            self._update_critic(policy_id, rows)
        return answer

    def compute_values(self, rows: TokenRows, module_id: str = DEFAULT_MODULE_ID) -> np.ndarray:
        """Values under the current weights of a policy's critic: float32[M], one per response token of `rows`; with
        values of steps, all tokens of a row share the row's."""
        config = self.config.get_config_for_module(module_id)
        module = self.module[critic_id(module_id)].unwrapped()
        values = score_tokens(
            self._rows_of_values(rows),
            lambda batch: module.forward_train(batch)["values"],
            network=module.network,
            micro_batch_tokens=config.micro_batch_tokens,
            pad_id=self._pad_id(module_id),
            device=self._device,
        )
        return values if config.value_level == "token" else np.repeat(values, rows.response_lengths)

    def _update_critic(self, policy_id: str, rows: TokenRows) -> None:
        """Takes the critic's optimizer step of one mini-batch, or skips it on every learner alike."""
        # There are no rows of a module that acted for nobody.
        if len(rows) and (rows.values is None or rows.value_targets is None):
            missing = "values" if rows.values is None else "value_targets"
            raise ValueError(f"the rows of {policy_id} have no {missing}, from which its critic learns")
        config, module = self.config.get_config_for_module(policy_id), self.module[critic_id(policy_id)]
        rows = self._rows_of_values(rows)
        count = int(self._over_learners(torch.tensor(rows.num_response_tokens, dtype=torch.int64)))
        if count == 0:
            return
        optimizers = [optimizer for _, optimizer in self.get_optimizers_for_module(critic_id(policy_id))]
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        # DDP averages over learners, while the count already is that of all of them.
        scale = config.value_loss_coeff * (torch.distributed.get_world_size() if self.distributed else 1) / count
        sums = torch.zeros(2, dtype=torch.float64, device=self._device)

        def loss_of(batch: dict[str, Any]) -> torch.Tensor:
            values = module.forward_train(batch)["values"]
            loss = value_loss(values, batch["value_targets"], batch["values"], value_clip=config.value_clip)
            sums.add_(torch.stack([loss.loss_sum.detach().double(), loss.clipped.double()]))
            return loss.loss_sum * scale

        accumulate_gradients(
            module,
            rows,
            loss_of,
            micro_batch_tokens=config.micro_batch_tokens,
            pad_id=self._pad_id(policy_id),
            device=self._device,
        )
        params = [param for param in module.parameters() if param.grad is not None]
        gradient_norm = torch.nn.utils.get_total_norm([param.grad for param in params])
        is_broken = ~(sums.sum() + gradient_norm).isfinite()
        # The same on every learner: sums over all of them.
        loss_sum, clipped, broken = self._over_learners(torch.cat([sums, is_broken.to(sums)[None]])).tolist()
        is_finite = self.finite_steps.may_take(critic_id(policy_id), broken == 0, policy_id=policy_id)
        if is_finite:
            if config.grad_clip is not None:
                torch.nn.utils.clip_grads_with_norm_(params, config.grad_clip, gradient_norm)
            for optimizer in optimizers:
                optimizer.step()
            self._log_critic(policy_id, "value_loss", loss_sum / count)
            self._log_critic(policy_id, "value_clip_fraction", clipped / count)
            self._log_critic(policy_id, "critic_gradient_norm", float(gradient_norm))
        # RLlib adds up what the learners log.
        skipped = float(not is_finite and self._learner_index == 0)
        self._log_critic(policy_id, "skipped_critic_steps", skipped, reduce="sum")

    def _rows_of_values(self, rows: TokenRows) -> TokenRows:
        """With one response token for each value that the critic gives: all of them, or the first of each row."""
        return rows if self.config.value_level == "token" else rows.first_response_tokens()

    def _over_learners(self, values: torch.Tensor) -> torch.Tensor:
        """The sum of `values` (any shape) over the learners, on the device."""
        values = values.to(self._device)
        if self.distributed:
            torch.distributed.all_reduce(values)
        return values

    def _log_critic(self, policy_id: str, name: str, value: float, reduce: str = "mean") -> None:
        self.metrics.log_value((policy_id, name), value, reduce=reduce)

    def _is_critic(self, module_id: str) -> bool:
        return isinstance(self.module[module_id].unwrapped(), CriticRLModule)
