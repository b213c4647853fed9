"""Saving and restoring an algorithm whole: with a manifest, atomically where the file system can, loudly on failure."""

from __future__ import annotations

import json
import logging
import tempfile
from typing import Any, Self

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.utils.annotations import override
from ray.train._internal.session import _TrainingResult
from ray.tune.trainable import Trainable
from ray.util.debug import log_once

from rllib_gigpo.algorithms.group_policy.checkpoint_fallback import whole_checkpoint
from rllib_gigpo.algorithms.group_policy.checkpoints import (
    check_checkpoint,
    config_with_own_model,
    locate,
    saved_whole,
    write_class,
    write_manifest,
)
from rllib_gigpo.algorithms.group_policy.evaluation_panel import EvaluationPanel
from rllib_gigpo.algorithms.group_policy.reusable_algorithm import ReusableAlgorithm
from rllib_gigpo.algorithms.group_policy.weight_loading import load_weights, weight_folders

logger = logging.getLogger(__name__)

EVALUATION_PANEL_FILE = "evaluation_panel.json"


class CheckpointedAlgorithm(ReusableAlgorithm):
    """An RLlib algorithm whose checkpoints are checked when written and when read."""

    _last_panel: EvaluationPanel | None = None

    def deliver_weights(self) -> int:
        """Gives the learners' weights to every env runner; called after a restore. Returns their version."""
        raise NotImplementedError

    @override(Algorithm)
    def save_to_path(self, path: Any = None, *, filesystem: Any = None, **kwargs: Any) -> str:
        """Saves everything that it takes to continue; the last evaluation's panel too. Tune's `save_checkpoint` ends
        here as well.

        Args:
            path: A directory, which need not exist, or a URI. None: a new temporary directory.
            filesystem: Of the path, where that is no local path or URI.
            kwargs: RLlib's own.

        Returns:
            The path.

        Raises:
            RuntimeError: A learner could not write its part.
        """
        path, filesystem = locate(tempfile.mkdtemp() if path is None else path, filesystem)
        with saved_whole(path, filesystem) as directory:
            super().save_to_path(directory, filesystem=filesystem, **kwargs)
            write_class(directory, filesystem, self)
            self._check_learners("save their state")
            if self._last_panel is not None:
                with filesystem.open_output_stream(f"{directory}/{EVALUATION_PANEL_FILE}") as stream:
                    stream.write(json.dumps(self._last_panel.to_json(), indent=1).encode())
            write_manifest(directory, filesystem, type(self))
        return path

    @override(Algorithm)
    def restore_from_path(
        self, path: Any, *, component: str | None = None, filesystem: Any = None, **kwargs: Any
    ) -> None:
        """Goes back, or on, to a checkpoint, of any number of env runners and learners; the runners get its weights.

        Args:
            path: A path, or a URI. It holds pickles, which can run any code: trust its origin.
            component: Restores this component alone, from its own directory `path`.
            filesystem: Of the path, where that is no local path or URI.
            kwargs: RLlib's own.

        Raises:
            ValueError: `path` holds no whole checkpoint of this algorithm.
            RuntimeError: A learner could not read its part.
        """
        path, filesystem = locate(path, filesystem)
        if component is None:
            check_checkpoint(path, filesystem, type(self))
            _tell_what_runs(path)
            self._last_panel = None
        else:
            kwargs["component"] = component
        super().restore_from_path(path, filesystem=filesystem, **kwargs)
        self._check_learners("restore their state")
        self.deliver_weights()

    @override(Trainable)
    def restore(self, checkpoint_path: Any) -> None:
        """Tune's way to `restore_from_path`; where the checkpoint it names is gone or damaged, another of the trial.

        Args:
            checkpoint_path: Of Tune, a training result with a checkpoint in it. A path or a Ray `Checkpoint` is that or
                none.

        Raises:
            ValueError: There is no whole checkpoint of this algorithm.
        """
        if isinstance(checkpoint_path, _TrainingResult) and self._storage is not None:
            checkpoint = whole_checkpoint(checkpoint_path.checkpoint, self._storage, type(self))
            checkpoint_path = _TrainingResult(checkpoint, checkpoint_path.metrics)
        super().restore(checkpoint_path)

    @classmethod
    @override(Algorithm)
    def from_checkpoint(cls, path: Any, filesystem: Any = None, **kwargs: Any) -> Self:
        """A new algorithm in the state of a checkpoint.

        Args:
            path: A path, a URI, or a Ray `Checkpoint`. It holds pickles, which can run any code: trust its origin.
            filesystem: Of the path, where that is no local path or URI.
            kwargs: `config=` replaces the config that was saved, for another number of env runners or learners.

        Raises:
            ValueError: `path` holds no whole checkpoint of this algorithm, or the directory at `model_path` is gone and
                the checkpoint's own model cannot take its place: with LoRA, or a KL term.
        """
        path, filesystem = locate(path, filesystem)
        check_checkpoint(path, filesystem, cls)
        _tell_what_runs(path)
        if "config" not in kwargs and (config := config_with_own_model(path, filesystem)) is not None:
            kwargs["config"] = config
        return super().from_checkpoint(path, filesystem=filesystem, **kwargs)

    def load_weights(self, path: Any, *, module_id: str | None = None, filesystem: Any = None) -> None:
        """Takes the weights of a model, and nothing else: optimizer, schedules, counters and critic stay as they are.

        Reads safetensors, so nothing of `path` is run: for models of others. Every process of a learner must be able to
        read `path`.

        Args:
            path: A checkpoint of any algorithm, or a Hugging Face directory of the same architecture; with LoRA, the
                PEFT directory of an adapter. A path, a URI, or a Ray `Checkpoint`.
            module_id: The module that gets them; None for every one that acts.
            filesystem: Of the path, where that is no local path or URI.

        Raises:
            ValueError: `path` holds neither, or weights are missing, unknown, of another shape, or only there as
                pickles; the message names them, and the module's weights are as they were.
        """
        path, filesystem = locate(path, filesystem)
        folders = weight_folders(path, filesystem, policies=self.config.policies, module_id=module_id)
        load_weights(self.learner_group, folders, filesystem)
        self.deliver_weights()

    def _check_learners(self, action: str) -> None:
        """Raises RuntimeError where a learner has failed: RLlib logs the failures of learners' components, no more."""
        alive, all_learners = len(self.learner_group.foreach_learner(lambda _: None)), max(1, len(self.learner_group))
        if alive < all_learners:
            raise RuntimeError(
                f"{all_learners - alive} of {all_learners} learners failed to {action}; the cause is logged above"
            )


def _tell_what_runs(path: str) -> None:
    """Says, once a process, what restoring a checkpoint executes."""
    if log_once("rllib_gigpo_checkpoint_pickles"):
        logger.warning(
            "restoring %s unpickles its *.pkl files, which runs whatever code they name: restore only what you trust. "
            "load_weights(…) takes a model's weights alone and runs nothing.",
            path,
        )
