"""Starts Ray, or joins a cluster, and says what a run asks for that is not there."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ray

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

Resources = Mapping[str, float]


class MissingResourcesError(ValueError):
    """A run asks for more than the cluster has; Ray would wait for ever, and silently."""


@dataclass(frozen=True)
class RayOptions:
    """How to start Ray.

    Attributes:
        address: Of a running cluster, or "auto"; None starts Ray on this machine, unless RAY_ADDRESS is set.
        num_cpus: Logical CPUs of a local Ray; None is as many as the machine has, or as the runs need.
        num_gpus: Of a local Ray; None is as many as there are.
        object_store_memory: Bytes, of a local Ray.
    """

    address: str | None = None
    num_cpus: int | None = None
    num_gpus: int | None = None
    object_store_memory: int | None = None

    def __post_init__(self) -> None:
        of_local = {
            "--ray-num-cpus": self.num_cpus,
            "--ray-num-gpus": self.num_gpus,
            "--ray-object-store-memory": self.object_store_memory,
        }
        given = [name for name, value in of_local.items() if value is not None]
        if self.address not in (None, "local") and given:
            raise ValueError(f"{', '.join(given)} cannot be used with --ray-address: the cluster has its resources")


@contextmanager
def ray_session(options: RayOptions, configs: Iterable[AlgorithmConfig], *, verbose: bool) -> Iterator[None]:
    """Ray with room for each of `configs` alone. Ends it afterwards, unless it was running before.

    Raises:
        MissingResourcesError: One of `configs` asks for more than there is.
    """
    bundles = [resource_bundles(config) for config in configs]
    started_here = not ray.is_initialized()
    if started_here:
        _start(options, max((_total(request).get("CPU", 1) for request in bundles), default=1), verbose)
    try:
        for request in bundles:
            check_resources(request, ray.cluster_resources(), [node["Resources"] for node in ray.nodes()])
        yield
    finally:
        if started_here:
            ray.shutdown()


def resource_bundles(config: AlgorithmConfig) -> list[dict[str, float]]:
    """What Tune would ask for a trial of `config`: one bundle for each process."""
    bundles = config.algo_class.default_resource_request(config.to_dict()).bundles
    return [dict(bundle) for bundle in bundles]


def check_resources(bundles: Iterable[Resources], cluster: Resources, nodes: Iterable[Resources]) -> None:
    """Raises MissingResourcesError if the cluster has less than all bundles, or no node has room for one of them."""
    bundles, nodes = list(bundles), list(nodes)
    asked = _total(bundles)
    lacking = [name for name, amount in asked.items() if amount > cluster.get(name, 0)]
    if lacking:
        raise MissingResourcesError(
            f"the run asks for {_text(asked, asked)} ({len(bundles)} processes), but Ray has {_text(cluster, asked)}. "
            f"Lower num_env_runners, num_learners or what each of them takes, or give Ray more"
        )
    for bundle in bundles:
        if not any(all(node.get(name, 0) >= amount for name, amount in bundle.items()) for node in nodes):
            biggest = "; ".join(_text(node, bundle) for node in nodes)
            raise MissingResourcesError(
                f"one process of the run asks for {_text(bundle, bundle)}, but no machine of the cluster has that: "
                f"{biggest}"
            )


def _start(options: RayOptions, needed_cpus: float, verbose: bool) -> None:
    address = options.address or os.environ.get("RAY_ADDRESS")
    of_cluster = address not in (None, "", "local")
    own = {} if of_cluster else {"include_dashboard": False}
    if not of_cluster:
        # More logical CPUs than the machine has: a run with many small actors is slow then, not impossible.
        own["num_cpus"] = options.num_cpus or max(int(-(-needed_cpus // 1)), os.cpu_count() or 1)  # type: ignore[assignment]
    ray.init(
        # "local", since without an address Ray joins a cluster that was started on this machine.
        address=address if of_cluster else "local",
        num_gpus=options.num_gpus,
        object_store_memory=options.object_store_memory,
        log_to_driver=verbose,
        logging_level=logging.INFO if verbose else logging.ERROR,
        **own,
    )


def _total(bundles: Iterable[Resources]) -> dict[str, float]:
    total: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            total[name] = total.get(name, 0) + amount
    # Ray counts in ten-thousandths; a sum of floats may be above what it is the sum of.
    return {name: round(amount, 4) for name, amount in total.items() if amount > 0}


def _text(amounts: Resources, names: Iterable[Any]) -> str:
    return ", ".join(f"{amounts.get(name, 0):g} {name}" for name in names)
