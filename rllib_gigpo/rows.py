"""One environment step is one training row: step rows hold what credit assignment needs, token rows the learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from ray.rllib.policy.sample_batch import MultiAgentBatch

from rllib_gigpo.images import StoredImage


@dataclass(frozen=True)
class StepRows:
    """What credit assignment reads: T step rows, those of a trajectory contiguous and in time order.

    Attributes:
        rewards: float32[T], the environment's rewards, without the invalid-action penalty.
        invalid: bool[T], True where the action was invalid.
        trajectory_ids: int64[T].
        group_ids: int64[T], the rollout group of each row; with several agents, that of its group, agent and module.
        anchor_ids: int64[T], equal for two rows of one group that show the same anchor state.
        terminated: bool[T], True on the last row of a trajectory that ended by itself (not by a limit).
        response_lengths: int64[T], response tokens.
    """

    rewards: np.ndarray
    invalid: np.ndarray
    trajectory_ids: np.ndarray
    group_ids: np.ndarray
    anchor_ids: np.ndarray
    terminated: np.ndarray
    response_lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        counts = (len(np.unique(ids)) for ids in (self.trajectory_ids, self.group_ids, self.anchor_ids))
        return "StepRows({} rows, {} trajectories, {} groups, {} anchor states)".format(len(self), *counts)

    def take(self, indices: np.ndarray) -> StepRows:
        """The rows of `indices` (int64[K]), in that order; trajectories must stay whole."""
        return StepRows(**{field.name: getattr(self, field.name)[indices] for field in fields(self)})


@dataclass(frozen=True)
class TokenRows:
    """What the learner reads: T ragged rows of tokens, packed back to back, never padded.

    With N the number of all tokens and M the number of all response tokens:

    Attributes:
        token_ids: int32[N], prompt then response of row 0, prompt then response of row 1, ...
        lengths: int64[T], tokens per row, prompt and response.
        response_lengths: int64[T], response tokens per row, at least 1.
        rollout_logp: float32[M], log-probability of each response token when it was sampled.
        advantages: float32[T], one per row, the same for every token of its response.
        in_loss: bool[T]. A row with False takes part in neither surrogate nor KL; its response tokens still count in
            the denominator of the loss.
        weights_version: int64[T], version of the weights that sampled the row.
        old_logp: float32[M] or None, log-probabilities under the policy before the first optimizer step of this batch.
        reference_logp: float32[M] or None, log-probabilities under the reference policy.
        token_advantages: float32[M] or None, one per response token, in place of `advantages` where there are any.
        values: float32[M] or None, the critic's before the first optimizer step, of the state before each response
            token; values of steps are the same for every token of the response.
        value_targets: float32[M] or None, what the critic learns; laid out like `values`.
        module_ids: str[T] or None, the module that sampled each row; None where there is one module only.
        images: object[T] or None, a tuple for each row: handles of its prompt's images, in the order of their
            placeholders. None where no row has any. Pixels are not in here, see `rllib_gigpo.images`.
    """

    token_ids: np.ndarray
    lengths: np.ndarray
    response_lengths: np.ndarray
    rollout_logp: np.ndarray
    advantages: np.ndarray
    in_loss: np.ndarray
    weights_version: np.ndarray
    old_logp: np.ndarray | None = None
    reference_logp: np.ndarray | None = None
    token_advantages: np.ndarray | None = None
    values: np.ndarray | None = None
    value_targets: np.ndarray | None = None
    module_ids: np.ndarray | None = None
    images: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        return f"TokenRows({len(self)} rows, {self.num_tokens} tokens, {self.num_response_tokens} of them of responses)"

    @property
    def num_tokens(self) -> int:
        return int(self.lengths.sum())

    @property
    def num_response_tokens(self) -> int:
        return int(self.response_lengths.sum())

    def take(self, indices: np.ndarray) -> TokenRows:
        """The rows of `indices` (int64[K]), in that order."""
        of_tokens = packed_indices(self.lengths, indices)
        of_response = packed_indices(self.response_lengths, indices)
        return TokenRows(
            token_ids=self.token_ids[of_tokens],
            lengths=self.lengths[indices],
            response_lengths=self.response_lengths[indices],
            rollout_logp=self.rollout_logp[of_response],
            advantages=self.advantages[indices],
            in_loss=self.in_loss[indices],
            weights_version=self.weights_version[indices],
            **self._optional_columns(of_response),
            module_ids=None if self.module_ids is None else self.module_ids[indices],
            images=None if self.images is None else self.images[indices],
        )

    def first_response_tokens(self) -> TokenRows:
        """The same rows with each response cut to its first token: M = T, and every column has one value per row."""
        prompt_and_one = self.lengths - self.response_lengths + 1
        position = np.arange(self.num_tokens) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        first = np.cumsum(self.response_lengths) - self.response_lengths
        return replace(
            self,
            token_ids=self.token_ids[position < np.repeat(prompt_and_one, self.lengths)],
            lengths=prompt_and_one,
            response_lengths=np.ones_like(self.response_lengths),
            rollout_logp=self.rollout_logp[first],
            **self._optional_columns(first),
        )

    def with_response_columns(self, **columns: np.ndarray) -> TokenRows:
        """The same rows with these columns, by name: old_logp, values, …; float32[M] each."""
        for name, column in columns.items():
            if name not in _OPTIONAL_COLUMNS:
                raise ValueError(f"{name!r} is no column of response tokens; those are {_OPTIONAL_COLUMNS}")
            if column.shape != self.rollout_logp.shape:
                raise ValueError(
                    f"{name} has shape {column.shape}, the rows have {self.rollout_logp.shape} response tokens"
                )
        return replace(self, **columns)

    def rows_of_modules(self, only_module_id: str) -> dict[str, np.ndarray]:
        """int64[K], the rows of each module that has any; all are of `only_module_id` where `module_ids` is None."""
        if self.module_ids is None:
            return {only_module_id: np.arange(len(self))}
        return {str(id_): np.flatnonzero(self.module_ids == id_) for id_ in np.unique(self.module_ids)}

    def by_module(self, only_module_id: str) -> dict[str, TokenRows]:
        """The rows of each module, see `rows_of_modules`, without `module_ids`."""
        if self.module_ids is None:
            return {only_module_id: self}
        alike = replace(self, module_ids=None)
        return {id_: alike.take(rows) for id_, rows in self.rows_of_modules(only_module_id).items()}

    def with_old_logp(self, old_logp: np.ndarray) -> TokenRows:
        """The same rows with `old_logp` (float32[M])."""
        return self.with_response_columns(old_logp=old_logp)

    def with_reference_logp(self, reference_logp: np.ndarray) -> TokenRows:
        """The same rows with `reference_logp` (float32[M])."""
        return self.with_response_columns(reference_logp=reference_logp)

    def with_advantages(self, advantages: np.ndarray, in_loss: np.ndarray) -> TokenRows:
        """The same rows with `advantages` (float32[T]) and `in_loss` (bool[T])."""
        for name, column in (("advantages", advantages), ("in_loss", in_loss)):
            if column.shape != (len(self),):
                raise ValueError(f"{name} has shape {column.shape}, there are {len(self)} rows")
        return replace(self, advantages=advantages, in_loss=in_loss)

    @classmethod
    def from_lists(
        cls,
        prompts: list[np.ndarray],
        responses: list[np.ndarray],
        rollout_logp: list[np.ndarray],
        *,
        advantages: np.ndarray | None = None,
        in_loss: np.ndarray | None = None,
        weights_version: np.ndarray | None = None,
        module_ids: np.ndarray | None = None,
        images: Sequence[tuple[StoredImage, ...]] | None = None,
    ) -> TokenRows:
        """Packs T prompts (int[P_i]), responses (int[R_i]) and their log-probabilities (float[R_i]).

        Raises:
            ValueError: A row has an empty prompt or response, or not one log-probability per response token.
        """
        rows = len(prompts)
        for i, (prompt, response, logp) in enumerate(zip(prompts, responses, rollout_logp, strict=True)):
            if len(prompt) == 0 or len(response) == 0:
                raise ValueError(
                    f"row {i} has {len(prompt)} prompt and {len(response)} response tokens; both need at least one"
                )
            if len(response) != len(logp):
                raise ValueError(f"row {i} has {len(response)} response tokens and {len(logp)} log-probabilities")
        pieces = [piece for pair in zip(prompts, responses, strict=True) for piece in pair]
        response_lengths = np.fromiter((len(r) for r in responses), np.int64, rows)
        return cls(
            token_ids=np.concatenate(pieces).astype(np.int32) if rows else np.zeros(0, np.int32),
            lengths=np.fromiter((len(p) for p in prompts), np.int64, rows) + response_lengths,
            response_lengths=response_lengths,
            rollout_logp=np.concatenate(rollout_logp).astype(np.float32) if rows else np.zeros(0, np.float32),
            advantages=np.zeros(rows, np.float32) if advantages is None else np.asarray(advantages, np.float32),
            in_loss=np.ones(rows, bool) if in_loss is None else np.asarray(in_loss, bool),
            weights_version=np.zeros(rows, np.int64)
            if weights_version is None
            else np.asarray(weights_version, np.int64),
            module_ids=module_ids,
            images=_image_column(images) if images is not None and any(images) else None,
        )

    @classmethod
    def concat(cls, parts: list[TokenRows]) -> TokenRows:
        """All rows of `parts`, in order. Raises ValueError without parts, or where only some have a column."""
        if not parts:
            raise ValueError("nothing to concatenate")
        columns: dict[str, Any] = {}
        for field in fields(cls):
            values = [getattr(part, field.name) for part in parts]
            missing = sum(value is None for value in values)
            if 0 < missing < len(values):
                raise ValueError(f"{field.name} is set on {len(values) - missing} of {len(values)} parts")
            columns[field.name] = None if missing else np.concatenate(values)
        return cls(**columns)

    def _optional_columns(self, of_response: np.ndarray) -> dict[str, Any]:
        """The items `of_response` (int64[m]) of each optional column that is set."""
        columns = {name: getattr(self, name) for name in _OPTIONAL_COLUMNS}
        return {name: None if column is None else column[of_response] for name, column in columns.items()}


# Columns of TokenRows with one value per response token that not every algorithm has.
_OPTIONAL_COLUMNS = ("old_logp", "reference_logp", "token_advantages", "values", "value_targets")


def _image_column(images: Sequence[tuple[StoredImage, ...]]) -> np.ndarray:
    """object[T] of T tuples."""
    column = np.empty(len(images), object)
    # One by one: numpy would make a table of tuples of equal length.
    for row, of_row in enumerate(images):
        column[row] = tuple(of_row)
    return column


class TokenRowBatch(MultiAgentBatch):
    """Token rows per module, in the shape that RLlib's `LearnerGroup.update` hands around.

    RLlib's own batches are rectangles that its sharders and iterators slice; token rows are ragged, so a Learner that
    takes this batch brings its own iterator (see `GroupPolicyTorchLearner`).
    """

    def __init__(self, rows_per_module: dict[str, TokenRows], env_steps: int):
        self.policy_batches = rows_per_module
        self.count = env_steps


def packed_indices(lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Positions, in an array packed with `lengths` (int64[T]), of all items of `rows` (int64[K]), in their order."""
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(lengths) else np.zeros(0, np.int64)
    counts = lengths[rows]
    first_of_row = np.cumsum(counts) - counts
    return np.arange(int(counts.sum())) - np.repeat(first_of_row, counts) + np.repeat(starts[rows], counts)
