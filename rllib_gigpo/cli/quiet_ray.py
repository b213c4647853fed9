"""Ray without its chatter: what the command shows is training."""

from __future__ import annotations

import logging
import os
import warnings


def quiet_ray(verbose: bool) -> None:
    """Settings that Ray reads when it is imported; call it before that. What the user has set stays."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's coming default, which it otherwise announces in every worker.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Tune would give each trial a working folder of its own, where relative paths in a config lead nowhere.
    os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
    # Tune's new output prints tables even where it is told to be silent.
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    # The tokenizers warn in every process that forks after their first use.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not verbose:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        warnings.simplefilter("ignore")
        # RLlib greets every config with a warning about its API stack. Importing Ray resets the loggers above this one.
        logging.getLogger("ray.rllib.algorithms.algorithm_config").setLevel(logging.ERROR)
        # The command itself says which trials failed, and why.
        for name in ("ray.tune.tune", "ray.tune.execution.tune_controller"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
