"""Whether the cluster has what an Algorithm asks for: Ray itself would wait for it, for ever and in silence."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import ray
from ray.util import get_current_placement_group

logger = logging.getLogger(__name__)


def check_cluster_resources(bundles: Sequence[Mapping[str, float]]) -> None:
    """Checks that the cluster, were it idle, has room for processes: all together, and each on one machine.

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
    # Ray counts in ten-thousandths; a sum of floats may be above what it is the sum of.
    lacking = sorted(name for name, amount in asked.items() if round(amount, 4) > exists.get(name, 0))
    if lacking:
        raise ValueError(
            f"env runners and learners ask for {_text(asked, asked)}, but the cluster has {_text(exists, asked)}: "
            f"not enough {' and '.join(lacking)}. Lower num_env_runners or num_learners, or what each of them asks for "
            "(num_cpus_per_env_runner, num_gpus_per_learner, …), or give Ray more: ray.init(num_cpus=…)."
        )
    # Two that take more than a half of a GPU each share none.
    num_gpus = sum(math.ceil(gpus) for bundle in bundles if (gpus := bundle.get("GPU", 0)) > 0.5)
    if num_gpus > exists.get("GPU", 0):
        raise ValueError(
            f"env runners and learners ask for {_text(asked, asked)}, in parts of more than half a GPU that take "
            f"{num_gpus} GPUs, but the cluster has {_text(exists, asked)}. Lower num_env_runners or num_learners, or "
            "num_gpus_per_env_runner or num_gpus_per_learner."
        )
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for bundle in bundles:
        if not any(all(node.get(name, 0) >= amount for name, amount in bundle.items()) for node in nodes):
            raise ValueError(
                f"an env runner or learner asks for {_text(bundle, bundle)}, and no machine of the cluster has that: "
                f"{'; '.join(_text(node, bundle) for node in nodes)}. Lower what each of them asks for "
                "(num_cpus_per_env_runner, num_gpus_per_learner, …)."
            )
    free = ray.available_resources()
    if any(round(amount, 4) > free.get(name, 0) for name, amount in asked.items()):
        logger.warning(
            "env runners and learners ask for %s, of which %s is free: waiting until others give theirs back",
            _text(asked, asked),
            _text(free, asked),
        )


def _text(amounts: Mapping[str, float], names: Mapping[str, float]) -> str:
    return ", ".join(f"{amounts.get(name, 0):g} {name}" for name in sorted(names) if names[name])
