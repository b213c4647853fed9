"""One process for several trials of Tune, one after the other."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.utils.annotations import override
from ray.tune.result import TRIAL_INFO
from ray.tune.trainable import Trainable

# Where the process writes what it prints, which Tune has set before it asks for a reset.
_OUTPUT = (
    *("_stdout_context", "_stdout_fp", "_stdout_stream", "_stdout_file"),
    *("_stderr_context", "_stderr_fp", "_stderr_stream", "_stderr_file", "_stderr_logging_handler"),
)


class ReusableAlgorithm(Algorithm):
    """An algorithm for `tune.TuneConfig(reuse_actors=True)`: a process is kept, with what it has imported."""

    @override(Trainable)
    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Stops learners and env runners, and becomes another trial's algorithm.

        Nothing of the old one is left but the process: the model is loaded again, and Tune restores the trial's
        checkpoint afterwards.
        """
        self.cleanup()
        output = {name: getattr(self, name) for name in _OUTPUT}
        again: Any = type(self).__init__
        again(self, config={**new_config, TRIAL_INFO: self._trial_info}, storage=self._storage)
        for name, value in output.items():
            setattr(self, name, value)
        return True
