"""Learners that hold parts of the models: what asks one of them for its state asks all of them first."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.utils.annotations import override

from rllib_gigpo.learners.learner_calls import call_remote_learners


class ShardedLearnerGroup(LearnerGroup):
    """A group of `ShardedTorchLearner`s with config.sharding "fsdp".

    Saves and gives its state as a group of whole learners does, so that any number of learners, sharded or not, can go
    on from it. Restoring needs nothing of this: each learner reads all and takes its part.
    """

    _is_gathered = False

    @contextmanager
    def gathered(self, *, with_optimizers: bool) -> Iterator[None]:
        """Within it the first learner has the whole state in its host memory, and answers for all.

        Args:
            with_optimizers: Whether the optimizers' state is wanted too; of nested calls the outermost decides.

        Raises:
            RuntimeError: A learner failed; see `call_remote_learners`.
        """
        # Saving asks for the state in turn: the first learner would take no part in a second exchange.
        if self._is_gathered:
            yield
            return
        self._call_all("gather", {"with_optimizers": with_optimizers})
        self._is_gathered = True
        try:
            yield
        except BaseException:
            # A learner that has died of it cannot release anything, which is not what went wrong.
            with suppress(RuntimeError):
                self._release()
            raise
        self._release()

    def _release(self) -> None:
        self._is_gathered = False
        self._call_all("release", {})

    @override(LearnerGroup)
    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        with self.gathered(with_optimizers=True):
            return super().get_state(components, not_components=not_components, **kwargs)

    @override(LearnerGroup)
    def save_to_path(self, *args: Any, **kwargs: Any) -> str:
        with self.gathered(with_optimizers=True):
            return super().save_to_path(*args, **kwargs)

    def _call_all(self, method: str, arguments: dict[str, Any]) -> None:
        call_remote_learners(self, method, [arguments] * len(self), action=f"call of {method}")
