"""One process for several trials of Tune, one after the other."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.utils.annotations import override
from ray.tune.result import TRIAL_INFO
from ray.tune.trainable import Trainable

# Where the process writes what it prints, which Tune has set before it asks for a reset.
_OUTPUT = ("stdout_context", "stdout_fp", "stdout_stream", "stdout_file")
_OUTPUT += ("stderr_context", "stderr_fp", "stderr_stream", "stderr_file", "stderr_logging_handler")


class ReusableAlgorithm(Algorithm):
    """An algorithm for `tune.TuneConfig(reuse_actors=True)`: a process is kept, with what it has imported."""

    @override(Trainable)
    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Stops learners and env runners, and becomes another trial's algorithm.

        Nothing of the old one is left but the process: the model is loaded again, and Tune restores the trial's
        checkpoint afterwards.
        """
        self.cleanup()
        output = {f"_{name}": getattr(self, f"_{name}") for name in _OUTPUT}
        config = {**new_config, TRIAL_INFO: self._trial_info}
        type(self).__init__(self, config=config, storage=self._storage)  # type: ignore[misc]
        vars(self).update(output)
        return True
