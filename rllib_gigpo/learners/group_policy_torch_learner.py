"""Trains a language-model policy on ragged token rows: mini-batches by count, micro-batches by tokens, clipped loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import ALL_MODULES, NUM_ENV_STEPS_SAMPLED_LIFETIME, WEIGHTS_SEQ_NO
from ray.rllib.utils.schedules.scheduler import Scheduler

from rllib_gigpo.inference.weights_probe import Probe
from rllib_gigpo.learners.finite_steps import FiniteSteps
from rllib_gigpo.learners.gradient_accumulation import accumulate_gradients
from rllib_gigpo.learners.losses import (
    aggregated_sum,
    kl_penalty,
    policy_loss,
    token_entropy,
    token_log_probs,
    truncated_importance_weights,
)
from rllib_gigpo.learners.micro_batches import mini_batches
from rllib_gigpo.learners.optimizers import make_optimizer
from rllib_gigpo.learners.reference_policy import ReferencePolicy, is_reference_needed
from rllib_gigpo.learners.response_scores import score_in_loss, score_responses
from rllib_gigpo.learners.sharded_torch_learner import ShardedTorchLearner
from rllib_gigpo.learners.update_metrics import MiniBatchCounts, MiniBatchMetrics
from rllib_gigpo.rl_modules.sharded_tensors import whole
from rllib_gigpo.rows import TokenRowBatch, TokenRows
from rllib_gigpo.unfilled_memory import leave_new_tensors_unfilled

UPDATE_SECONDS = "update_seconds"


class GroupPolicyTorchLearner(ShardedTorchLearner):
    """Learner of every critic-free group algorithm: `update(batch=TokenRowBatch(...))`.

    With several learners, give each its own batch (`batch_refs`, one per learner); a batch may be empty. Learners take
    the same optimizer steps, and the loss is normalised over all of them, so with one mini-batch the weights become
    those of one learner with all rows. RLlib's own arguments of `update` for epochs and mini-batches are not read.

    Read from the config: num_epochs, num_minibatches (a count), micro_batch_tokens (padded tokens per forward pass),
    clip_low, clip_high, dual_clip, ratio, loss_aggregation, max_response_tokens, importance_weight_cap (None is off),
    temperature (of sampling), optimizer ("adamw" | "sgd"), adam_betas, weight_decay, lr, grad_clip (global norm; None
    is off), seed, kl_coeff (of the KL to the model at `model_path`; a number, or a schedule [[timestep, value], …]),
    kl_estimator ("k1" | "k2" | "k3"), kl_in ("loss" | "reward"), offload_reference, entropy_coeff.

    Logs, per module and over all learners, the metrics that `MiniBatchMetrics` names.
    """

    @override(TorchLearner)
    def build(self) -> None:
        leave_new_tensors_unfilled()
        super().build()
        # RLlib compiles the modules of a MultiRLModule only where that itself is a TorchRLModule, which it never is.
        if self._torch_compile_forward_train:
            for module_id in sorted(self.module.keys()):
                self.module[module_id].unwrapped().compile(self._torch_compile_cfg)
        self.finite_steps = FiniteSteps(self.metrics)
        self._references: dict[str, ReferencePolicy] = {}
        self._kl_coeffs: dict[str, Scheduler] = {}
        for module_id in self.policy_ids():
            config = self.config.get_config_for_module(module_id)
            if is_reference_needed(config.kl_coeff):
                self._references[module_id] = ReferencePolicy(
                    self.module[module_id].unwrapped(),
                    torch.device(self._device),
                    shard=None if self._mesh is None else self.shard,
                    offload=config.offload_reference,
                )
                # A penalty in the reward is not in the loss as well, where the KL is a metric only.
                self._kl_coeffs[module_id] = Scheduler(config.kl_coeff if config.kl_in == "loss" else 0.0)

    @override(ShardedTorchLearner)
    def learning_rate(self, module_id: str) -> Any:
        return self.config.get_config_for_module(module_id).lr

    @override(Learner)
    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        super().before_gradient_based_update(timesteps=timesteps)
        self._update_start = time.perf_counter()
        for kl_coeff in self._kl_coeffs.values():
            kl_coeff.update(timestep=timesteps.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0))

    @override(Learner)
    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        super().after_gradient_based_update(timesteps=timesteps)
        seconds = time.perf_counter() - self._update_start
        self.metrics.log_value((ALL_MODULES, UPDATE_SECONDS), seconds, reduce="max", window=1)

    @override(TorchLearner)
    def configure_optimizers_for_module(self, module_id: str, config: AlgorithmConfig | None = None) -> None:
        assert config is not None
        parameters = self.get_parameters(self.module[module_id])
        params = [param for param in parameters if param.requires_grad]
        optimizer = make_optimizer(params, config, dtypes={param.dtype for param in parameters}, module_id=module_id)
        lr = self.learning_rate(module_id)
        self.register_optimizer(module_id=module_id, optimizer=optimizer, params=params, lr_or_lr_schedule=lr)

    # --- From the batch of an update to mini-batches.

    @override(Learner)
    def _create_iterator_if_necessary(self, *, training_data: TrainingData, **kwargs: Any) -> Iterator[TokenRowBatch]:
        batch = training_data.batch
        if not isinstance(batch, TokenRowBatch):
            raise TypeError(
                f"{type(self).__name__} learns from a TokenRowBatch, not from {type(batch).__name__}: call "
                "update(batch=...) without remote learners, else update(batch_refs=[...]) with one per learner"
            )
        unknown = sorted(batch.policy_batches.keys() - set(self.policy_ids()))
        if unknown:
            raise ValueError(f"the batch has rows for modules {unknown}; this learner has {self.policy_ids()}")
        return self._mini_batches(batch)

    def _mini_batches(self, batch: TokenRowBatch) -> Iterator[TokenRowBatch]:
        """Yields num_epochs × num_minibatches batches; the number is the same on every learner, whatever its rows."""
        num_epochs, count = self.config.num_epochs, self.config.num_minibatches
        # Every learner must take part for every module, also where its own shard has no rows of it.
        no_rows = TokenRows.from_lists([], [], [])
        rows = {
            module_id: batch.policy_batches.get(module_id, no_rows)
            for module_id in self.policy_ids()
            if self.should_module_be_updated(module_id, batch)
        }
        # The policy before the first step, and the reference, are scored once, whatever the number of steps.
        with_old = num_epochs * count > 1
        rows = {module_id: self._scored(part, module_id, with_old=with_old) for module_id, part in rows.items()}
        for epoch in range(num_epochs):
            rng = np.random.default_rng([self.config.seed or 0, self._weights_seq_no, epoch])
            splits = {module_id: mini_batches(len(part), count, rng) for module_id, part in rows.items()}
            for step in range(count):
                yield TokenRowBatch(
                    {module_id: part.take(splits[module_id][step]) for module_id, part in rows.items()},
                    env_steps=batch.count * (step + 1) // count - batch.count * step // count,
                )

    def _scored(self, rows: TokenRows, module_id: str, *, with_old: bool) -> TokenRows:
        """The rows with the log-probabilities that they still lack and their loss needs."""
        if with_old and self._any_lacks(rows, "old_logp"):
            old = score_in_loss(rows, lambda in_loss: self.compute_log_probs(in_loss, module_id))
            rows = rows.with_old_logp(old)
        if module_id in self._references and self._any_lacks(rows, "reference_logp"):
            reference = score_in_loss(rows, lambda in_loss: self.compute_reference_log_probs(in_loss, module_id))
            rows = rows.with_reference_logp(reference)
        return rows

    def _any_lacks(self, rows: TokenRows, column: str) -> bool:
        """Whether rows lack a column, which a learner without rows cannot tell: with sharded models, in which all must
        go through them or none, the rows of any learner."""
        lacks = getattr(rows, column) is None
        if self._mesh is None:
            return lacks
        of_any = torch.tensor(int(lacks and len(rows) > 0), device=self._device)
        torch.distributed.all_reduce(of_any, op=torch.distributed.ReduceOp.MAX)
        return bool(of_any)

    @override(Learner)
    def _set_slicing_by_batch_id(self, batch: TokenRowBatch, *, value: bool) -> TokenRowBatch:
        return batch

    @override(Learner)
    def _log_metrics(self, batch: TokenRowBatch) -> None:
        # RLlib's counters refuse a batch without steps, an ordinary thing here: an empty shard or mini-batch.
        if batch.env_steps() > 0 and any(len(rows) for rows in batch.policy_batches.values()):
            super()._log_metrics(batch)

    # --- One mini-batch: one optimizer step.

    @override(TorchLearner)
    def _update(self, batch: Mapping[str, TokenRows], **kwargs: Any) -> tuple[dict, dict[str, float], dict]:
        return {}, {module_id: self._update_module(module_id, rows) for module_id, rows in batch.items()}, {}

    def _update_module(self, module_id: str, rows: TokenRows) -> float:
        """Takes the optimizer step of one mini-batch, or skips it on every learner alike; returns the loss."""
        config = self.config.get_config_for_module(module_id)
        where: dict[str, Any] = {"device": self._device, "distributed": self.distributed}
        counts = MiniBatchCounts.over_learners(
            rows,
            aggregation=config.loss_aggregation,
            max_response_tokens=config.max_response_tokens,
            # `update` has counted itself already: the weights it starts from are one version older.
            weights_version=self._weights_seq_no - 1,
            **where,
        )
        self._mini_batch_metrics = metrics = MiniBatchMetrics(
            self.metrics,
            module_id,
            counts,
            is_first_learner=self._learner_index == 0,
            has_reference=module_id in self._references,
            **where,
        )
        if counts.rows_in_loss == 0:
            metrics.log(None)
            return 0.0

        self._accumulate_gradients(module_id, config, rows.take(np.flatnonzero(rows.in_loss)), counts.denominator)
        params = [param for param in self.module[module_id].parameters() if param.grad is not None]
        gradient_norm = torch.nn.utils.get_total_norm([param.grad for param in params])
        values = metrics.read(whole(gradient_norm))
        metrics.log(values)
        if not self.finite_steps.may_take(module_id, values["non_finite"] == 0, policy_id=module_id):
            return values["total"] / counts.denominator
        if config.grad_clip is not None:
            torch.nn.utils.clip_grads_with_norm_(params, config.grad_clip, gradient_norm)
        for _, optimizer in self.get_optimizers_for_module(module_id):
            optimizer.step()
        return values["total"] / counts.denominator

    def _accumulate_gradients(self, module_id: str, config: AlgorithmConfig, rows: TokenRows, denominator: int) -> None:
        """Forward and backward passes of `rows`, all in the loss; gradients end up averaged over the learners."""
        module = self.module[module_id]
        for _, optimizer in self.get_optimizers_for_module(module_id):
            optimizer.zero_grad(set_to_none=True)
        # DDP averages over learners, while the denominator already is that of all of them.
        scale = (torch.distributed.get_world_size() if self.distributed else 1) / denominator

        def loss_of(batch: dict[str, Any]) -> torch.Tensor:
            fwd_out = module.forward_train(batch)
            loss_sum = self.compute_loss_for_module(module_id=module_id, config=config, batch=batch, fwd_out=fwd_out)
            return loss_sum * scale

        accumulate_gradients(
            module,
            rows,
            loss_of,
            micro_batch_tokens=config.micro_batch_tokens,
            pad_id=self._pad_id(module_id),
            device=self._device,
        )

    @override(Learner)
    def compute_loss_for_module(
        self, *, module_id: str, config: AlgorithmConfig, batch: dict[str, Any], fwd_out: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        """The loss of a micro-batch, summed over its K rows with M response tokens: the policy loss, the KL to the
        reference policy where there is one, and the entropy bonus.

        Adds its metrics to `self._mini_batch_metrics`.

        Args:
            module_id: The module.
            config: Its config.
            batch: See `micro_batch_tensors`.
            fwd_out: {"logits": [M, V]}.

        Returns:
            A scalar, to be divided by the denominator of the mini-batch.
        """
        logits, rollout_logp = fwd_out["logits"], batch["rollout_logp"]
        logp = token_log_probs(logits, batch["response_ids"], _temperature(config))
        # Without old log-probs this is the only step on these rows: the policy before it is the policy itself.
        old_logp = logp.detach() if batch["old_logp"] is None else batch["old_logp"]
        cap = config.importance_weight_cap
        loss = policy_loss(
            logp,
            old_logp,
            batch["advantages"],
            batch["response_lengths"],
            clip_low=config.clip_low,
            clip_high=config.clip_high,
            ratio=config.ratio,
            aggregation=config.loss_aggregation,
            dual_clip=config.dual_clip,
            importance_weights=None if cap is None else truncated_importance_weights(old_logp, rollout_logp, cap),
            token_advantages=batch["token_advantages"],
        )
        total, reference_kl = loss.loss_sum, None
        if (reference_logp := batch["reference_logp"]) is not None:
            penalty = kl_penalty(logp, reference_logp, config.kl_estimator)
            kl_sum = aggregated_sum(penalty, batch["response_lengths"], config.loss_aggregation)
            total = total + self._kl_coeffs[module_id].get_current_value() * kl_sum
            reference_kl = kl_penalty(logp.detach(), reference_logp, "k3")
        # Without a bonus, entropy is a metric, and the graph of another tensor of logits is saved.
        entropy = token_entropy(logits if config.entropy_coeff else logits.detach(), _temperature(config))
        if config.entropy_coeff:
            entropy_sum = aggregated_sum(entropy, batch["response_lengths"], config.loss_aggregation)
            total = total - config.entropy_coeff * entropy_sum
        self._mini_batch_metrics.add_micro_batch(
            loss,
            total=total,
            entropy=entropy,
            gap=(old_logp - rollout_logp).abs(),
            attention_mask=batch["attention_mask"],
            num_row_tokens=batch["num_row_tokens"],
            reference_kl=reference_kl,
        )
        return total

    # --- Scoring.

    # Columns of TokenRows, and the methods that compute them.
    scorers: ClassVar[dict[str, str]] = {
        "old_logp": "compute_log_probs",
        "reference_logp": "compute_reference_log_probs",
    }

    def score(self, batch: TokenRowBatch, columns: Collection[str]) -> dict[str, dict[str, np.ndarray]]:
        """Computes columns of token rows under the current weights, without exchange with other learners.

        Args:
            batch: Rows per module; M response tokens in one of them.
            columns: Names out of `scorers`.

        Returns:
            {module id: {column: float32[M]}}, packed like `rollout_logp`.
        """
        return {
            module_id: {name: getattr(self, self.scorers[name])(rows, module_id) for name in columns}
            for module_id, rows in batch.policy_batches.items()
        }

    def compute_log_probs(
        self, rows: TokenRows, module_id: str = DEFAULT_MODULE_ID, *, temperature: float | None = None
    ) -> np.ndarray:
        """Log-probabilities of the response tokens under the current weights and the sampling temperature.

        Each learner may have any number of rows; without an exchange between them, unless the model is sharded.

        Args:
            rows: The rows, with M response tokens.
            module_id: The module.
            temperature: Instead of the one of sampling.

        Returns:
            float32[M], packed like `rows.rollout_logp`.
        """
        module = self.module[module_id].unwrapped()
        return self._score(
            rows, lambda batch: module.forward_train(batch)["logits"], module.network, module_id, temperature
        )

    def compute_reference_log_probs(self, rows: TokenRows, module_id: str = DEFAULT_MODULE_ID) -> np.ndarray:
        """As `compute_log_probs`, under the reference policy, which there is where kl_coeff is not 0."""
        reference = self._references[module_id]
        with reference.in_use():
            return self._score(rows, reference.logits, reference.network, module_id, None)

    def _score(
        self,
        rows: TokenRows,
        logits_of: Callable[[dict[str, Any]], torch.Tensor],
        network: torch.nn.Module,
        module_id: str,
        temperature: float | None,
    ) -> np.ndarray:
        config = self.config.get_config_for_module(module_id)
        return score_responses(
            rows,
            logits_of,
            network=network,
            temperature=_temperature(config) if temperature is None else temperature,
            micro_batch_tokens=config.micro_batch_tokens,
            pad_id=self._pad_id(module_id),
            device=self._device,
        )

    @override(ShardedTorchLearner)
    def probe(self, module_id: str = DEFAULT_MODULE_ID) -> tuple[Probe, np.ndarray]:
        """The module's probe, of n tokens, and its log-probs at temperature 1, float32[n - 1], as engines give them."""
        if module_id in self._gathered_probes:
            return self._gathered_probes[module_id]
        probe = self.module[module_id].unwrapped().probe()
        ids = probe.token_ids
        row = TokenRows.from_lists([ids[:1]], [ids[1:]], [np.zeros(len(ids) - 1)], images=[probe.images])
        return probe, self.compute_log_probs(row, module_id, temperature=1.0)

    def _pad_id(self, module_id: str) -> int:
        return self.module[module_id].unwrapped().tokenizer.pad_token_id

    # --- State.

    @override(Learner)
    def set_state(self, state: dict[str, Any]) -> None:
        """Takes weights also where they are older than its own: RLlib's learner would skip those of a checkpoint that
        a running algorithm goes back to, and would keep its version where the checkpoint's is 0."""
        if WEIGHTS_SEQ_NO in state:
            self._weights_seq_no = 0
        super().set_state(state)


def _temperature(config: AlgorithmConfig) -> float:
    """Greedy sampling (0) reports log-probabilities of the untempered model."""
    return config.temperature or 1.0
