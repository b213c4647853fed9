"""What a learner reports of a mini-batch, over all learners. Values stay on the device until all are read at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_gigpo.learners.losses import Aggregation, PolicyLoss, loss_denominator
from rllib_gigpo.rows import TokenRows

SAMPLER_LEARNER_GAP_MEAN = "sampler_learner_gap_mean"
NON_FINITE_GRADIENTS = "non_finite_gradients"

_SUMS = (
    "loss",
    "total",
    "reference_kl",
    "tokens",
    "entropy",
    "ratio",
    "clipped",
    "kl",
    "gap",
    "micro_batches",
    "padded",
    "padding",
    "row_tokens",
    "non_finite",
)
_MAXIMA = ("ratio_max", "gap_max", "gradient_norm")


class MiniBatchCounts(NamedTuple):
    """What a mini-batch holds over all learners."""

    denominator: int  # of the loss
    rows: int
    rows_in_loss: int
    response_tokens: int
    weights_version_lag: int  # summed over rows: updates between the weights that sampled a row and the present ones

    @classmethod
    def over_learners(
        cls,
        rows: TokenRows,
        *,
        aggregation: Aggregation,
        max_response_tokens: int | None,
        weights_version: int,
        device: torch.device | str,
        distributed: bool,
    ) -> MiniBatchCounts:
        """Counts `rows` and, with `distributed`, adds what the other learners counted; all of them must call it."""
        denominator = loss_denominator(torch.from_numpy(rows.response_lengths), aggregation, max_response_tokens)
        lag = int((weights_version - rows.weights_version).sum())
        counts = [int(denominator), len(rows), int(rows.in_loss.sum()), rows.num_response_tokens, lag]
        if not distributed:
            return cls(*counts)
        tensor = torch.tensor(counts, dtype=torch.int64, device=device)
        torch.distributed.all_reduce(tensor)
        return cls(*tensor.tolist())


class MiniBatchMetrics:
    """Collects a mini-batch's metrics over its micro-batches and logs them under its module.

    Means over the mini-batches of an update:
        policy_loss.
        entropy: of the sampling distribution, nats per response token in the loss.
        ratio_mean: probability ratio of new and old policy, per token.
        clip_fraction: share of tokens that clipping leaves without gradient.
        kl_to_old: k3 estimate of KL(old ‖ new) per token.
        kl_to_reference: k3 estimate of KL(new ‖ reference) per token; only with a reference policy.
        gradient_norm: global norm before clipping.
        sampler_learner_gap_mean: |old log-prob − the sampler's log-prob| per token.
        padding_share: of the tokens in forward passes.
        shared_prefix_share: of the tokens of the rows in the loss, that which was not computed again since an earlier
            row of the micro-batch begins with the same tokens.
        rows_in_loss_share.
        weights_version_lag_mean: 0 where the very weights that the update starts from sampled the rows.
    Maxima: ratio_max, sampler_learner_gap_max.
    Sums: response_tokens (those out of the loss included), num_micro_batches, skipped_optimizer_steps and, of these,
    non_finite_gradients: those whose loss or gradient is not finite. Nothing else is logged of these, or means would be
    NaN for the other mini-batches too.
    """

    def __init__(
        self,
        logger: MetricsLogger,
        module_id: str,
        counts: MiniBatchCounts,
        *,
        device: torch.device | str,
        distributed: bool,
        is_first_learner: bool,
        has_reference: bool = False,
    ):
        self._logger = logger
        self._module_id = module_id
        self._counts = counts
        self._distributed = distributed
        self._is_first_learner = is_first_learner
        self._has_reference = has_reference
        # Named up front: a learner without rows adds nothing, and still has to hold the same names as the others.
        self._sums = torch.zeros(len(_SUMS), dtype=torch.float64, device=device)
        self._maxima = torch.zeros(len(_MAXIMA), dtype=torch.float64, device=device)

    def add_micro_batch(
        self,
        loss: PolicyLoss,
        *,
        total: torch.Tensor,
        entropy: torch.Tensor,
        gap: torch.Tensor,
        attention_mask: torch.Tensor,
        num_row_tokens: int,
        reference_kl: torch.Tensor | None = None,
    ) -> None:
        """Adds a micro-batch of M response tokens.

        Args:
            loss: Its policy loss.
            total: A scalar, the sum of all terms of its loss.
            entropy: float[M].
            gap: float[M], |old log-prob − the sampler's|.
            attention_mask: int64[…], of the tokens in the pass, 0 at padding.
            num_row_tokens: Of the rows, each with its prefix.
            reference_kl: float[M], k3 estimates; None without a reference policy.
        """
        size = attention_mask.numel()
        clipped = loss.clipped_low + loss.clipped_high + loss.dual_clipped
        values = {
            "loss": loss.loss_sum,
            "total": total,
            "reference_kl": total.new_zeros(()) if reference_kl is None else reference_kl.sum(),
            "tokens": loss.tokens,
            "entropy": entropy.sum(),
            "ratio": loss.ratio_sum,
            "clipped": clipped,
            "kl": loss.approx_kl_sum,
            "gap": gap.sum(),
            "micro_batches": loss.tokens.new_ones(()),
            "padded": loss.tokens.new_full((), size),
            "padding": size - attention_mask.sum(),
            "row_tokens": loss.tokens.new_full((), num_row_tokens),
            "non_finite": ~total.detach().isfinite(),
        }
        self._sums += torch.stack([values[name].detach().to(torch.float64) for name in _SUMS])
        self._raise_maxima(ratio_max=loss.ratio_max, gap_max=gap.max())

    def read(self, gradient_norm: torch.Tensor) -> dict[str, float]:
        """Everything collected, over all learners, with `gradient_norm` (a scalar): the one wait for the device.

        `non_finite` counts losses of micro-batches and gradients of learners that are not finite. Maxima cannot tell:
        what a NaN becomes in an exchange of maxima is up to the backend.
        """
        self._raise_maxima(gradient_norm=gradient_norm)
        self._sums[_SUMS.index("non_finite")] += ~gradient_norm.to(self._sums.device).isfinite()
        if self._distributed:
            torch.distributed.all_reduce(self._sums, op=torch.distributed.ReduceOp.SUM)
            torch.distributed.all_reduce(self._maxima, op=torch.distributed.ReduceOp.MAX)
        return dict(zip(_SUMS + _MAXIMA, torch.cat([self._sums, self._maxima]).tolist(), strict=True))

    def log(self, values: dict[str, float] | None) -> None:
        """Logs the mini-batch; `values` is what `read` returned, or None where nothing counted."""
        counts = self._counts
        non_finite = values is not None and values["non_finite"] > 0
        self._log_sum("response_tokens", counts.response_tokens)
        self._log_sum("skipped_optimizer_steps", values is None or non_finite)
        self._log_sum(NON_FINITE_GRADIENTS, non_finite)
        if counts.rows:
            self._log("rows_in_loss_share", counts.rows_in_loss / counts.rows)
            self._log("weights_version_lag_mean", counts.weights_version_lag / counts.rows)
        if values is None or non_finite:
            return
        self._log("policy_loss", values["loss"] / counts.denominator)
        for name, key in (
            ("entropy", "entropy"),
            ("ratio_mean", "ratio"),
            ("clip_fraction", "clipped"),
            ("kl_to_old", "kl"),
            (SAMPLER_LEARNER_GAP_MEAN, "gap"),
        ):
            self._log(name, values[key] / values["tokens"])
        if self._has_reference:
            self._log("kl_to_reference", values["reference_kl"] / values["tokens"])
        self._log("ratio_max", values["ratio_max"], reduce="max")
        self._log("sampler_learner_gap_max", values["gap_max"], reduce="max")
        self._log("gradient_norm", values["gradient_norm"])
        self._log("padding_share", values["padding"] / values["padded"])
        self._log("shared_prefix_share", 1 - (values["padded"] - values["padding"]) / values["row_tokens"])
        self._log_sum("num_micro_batches", values["micro_batches"])

    def _raise_maxima(self, **values: torch.Tensor) -> None:
        for name, value in values.items():
            slot = self._maxima[_MAXIMA.index(name)]
            slot.copy_(torch.maximum(slot, value.detach().to(torch.float64)))

    def _log(self, name: str, value: Any, reduce: str = "mean") -> None:
        self._logger.log_value((self._module_id, name), value, reduce=reduce)

    def _log_sum(self, name: str, value: float) -> None:
        # Values are those of all learners already, and RLlib adds up what the learners log.
        self._log(name, float(value) if self._is_first_learner else 0.0, reduce="sum")
