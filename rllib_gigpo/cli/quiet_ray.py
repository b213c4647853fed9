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
    # The tokenizers warn in every process that forks after their first use.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not verbose:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        warnings.simplefilter("ignore")
        # RLlib greets every config with a warning about its API stack. Importing Ray resets the loggers above this one.
        logging.getLogger("ray.rllib.algorithms.algorithm_config").setLevel(logging.ERROR)


def start_ray(num_cpus: int, verbose: bool) -> None:
    """Starts a local Ray with at least `num_cpus` logical CPUs, or joins the cluster of RAY_ADDRESS.

    Ray would wait for ever, and silently, for CPUs that a machine does not have.
    """
    import ray

    if ray.is_initialized():
        return
    of_cluster = bool(os.environ.get("RAY_ADDRESS"))
    ray.init(
        num_cpus=None if of_cluster else max(num_cpus, os.cpu_count() or 1),
        include_dashboard=None if of_cluster else False,
        log_to_driver=verbose,
        logging_level=logging.INFO if verbose else logging.ERROR,
    )
