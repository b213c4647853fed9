"""Whether the cluster has what an Algorithm asks for: Ray itself would wait for it, for ever and in silence."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

import ray
from ray.util import get_current_placement_group

logger = logging.getLogger(__name__)


def check_cluster_resources(bundles: Sequence[Mapping[str, float]]) -> None:
    """Checks that the cluster, were it idle, has room for processes.

    Inside a placement group (a Tune trial) nothing is checked: it holds the resources already. A cluster that grows on
    demand must have grown before.

    Args:
        bundles: What each process asks for, {"CPU": 1, "GPU": 0, ...}.

    Raises:
        ValueError: It has not; the message says what was asked for and what there is.
    """
    if not bundles:
        return
    if not ray.is_initialized():
        ray.init()
    if get_current_placement_group() is not None:
        return
    asked: Counter[str] = Counter()
    for bundle in bundles:
        asked.update(bundle)
    exists = ray.cluster_resources()
    lacking = sorted(name for name, amount in asked.items() if amount > exists.get(name, 0))
    if lacking:
        raise ValueError(
            f"env runners and learners ask for {_text(asked, asked)}, but the cluster has {_text(exists, asked)}: "
            f"not enough {' and '.join(lacking)}. Lower num_env_runners or num_learners, or what each of them asks for "
            "(num_cpus_per_env_runner, num_gpus_per_learner, …), or give Ray more: ray.init(num_cpus=…)."
        )
    free = ray.available_resources()
    if any(amount > free.get(name, 0) for name, amount in asked.items()):
        logger.warning(
            "env runners and learners ask for %s, of which %s is free: waiting until others give theirs back",
            _text(asked, asked),
            _text(free, asked),
        )


def _text(amounts: Mapping[str, float], names: Mapping[str, float]) -> str:
    return ", ".join(f"{amounts.get(name, 0):g} {name}" for name in sorted(names) if names[name])
