"""Weight delivery from a learner to an env runner in another process, beside two copies of as many bytes in memory.

    python benchmarks/weight_delivery.py [--smollm2 models/smollm2-135m-instruct] [--json FILE]

Deliveries and copies take turns; medians count. A delivery copies each weight twice, whatever the number of env runners
of a node: into Ray's object store, which is new memory, and from there into a runner's model. The copies that it is
compared with are one into new memory, and one into memory that is there, by one thread each. Most of an adapter's
delivery is the proof, a forward pass of 16 tokens by the learner and at the same time one by the runner: both are timed
where they happen, and the longer one is taken off. Parts of a delivery are also measured one by one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import ray
import typer
from machine import this_machine
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_gigpo.algorithms.group_policy.weight_delivery import take_weights
from rllib_gigpo.algorithms.grpo import GRPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

PARTS = ("calls of both actors", "finding the weights", "ray.put", "ray.get", "taking them")
COLUMNS = "| weights | MB | two copies, s | delivery, s | of it the proof, s | without the proof, for two copies |"


def main(
    smollm2: Annotated[Path | None, typer.Option(help="Model directory, see `make smollm2`.", exists=True)] = None,
    repetitions: Annotated[int, typer.Option(min=1)] = 25,
    json_file: Annotated[Path | None, typer.Option("--json", dir_okay=False)] = None,
) -> None:
    """Prints a Markdown table; with --json, writes the ratios too."""
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    models: dict[str, dict[str, Any]] = {"EZPoints, embedded": {"model_path": str(embedded_model_path("EZPoints"))}}
    if smollm2 is not None:
        models["SmolLM2-135M, adapter of rank 32"] = {"model_path": str(smollm2), "lora_rank": 32}
        models["SmolLM2-135M"] = {"model_path": str(smollm2)}
    typer.echo(f"{COLUMNS}\n{'|---' * 6}|")
    ratios, parts_of = {}, {}
    for name, language_model in models.items():
        algo = _algorithm(language_model)
        num_bytes = take_weights(algo.learner_group, by_reference=True).num_bytes
        copies, delivery, proof, beside_proof = _measure(algo, num_bytes, repetitions)
        parts_of[name] = _parts(algo, repetitions)
        algo.stop()
        ratios[name] = beside_proof / copies
        typer.echo(
            f"| {name} | {num_bytes / 1e6:.1f} | {copies:.4f} | {delivery:.4f} | {proof:.4f} | {ratios[name]:.1f} |"
        )
    ray.shutdown()
    typer.echo(f"\n| of a delivery, s | {' | '.join(PARTS)} |\n{'|---' * (1 + len(PARTS))}|")
    for name, parts in parts_of.items():
        typer.echo(f"| {name} | {' | '.join(f'{part:.4f}' for part in parts)} |")
    typer.echo(f"\n{this_machine()}")
    if json_file is not None:
        json_file.write_text(json.dumps({"benchmark": "weight_delivery", "ratios": ratios}, indent=1))


def _algorithm(language_model: dict[str, Any]) -> Algorithm:
    config = (
        GRPOConfig()
        .environment("EZPoints")
        .language_model(**language_model)
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .training(group_size=2, groups_per_iteration=1)
        .env_runners(num_env_runners=1, num_envs_per_env_runner=2)
        .learners(num_learners=1)
        .debugging(seed=0)
    )
    return config.build_algo()


def _measure(algo: Any, num_bytes: int, repetitions: int) -> tuple[float, float, float, float]:
    """Median seconds of two copies of `num_bytes`, a delivery, its longer probe, and of a delivery without that."""
    source, target = np.ones(num_bytes, np.uint8), np.zeros(num_bytes, np.uint8)

    def time_probes(owner: Any) -> None:
        probe, owner.probe_seconds = owner.probe, 0.0

        def timed(argument: Any) -> Any:
            start = time.perf_counter()
            answer = probe(argument)
            owner.probe_seconds = time.perf_counter() - start
            return answer

        owner.probe = timed

    _of_learner(algo, time_probes)
    _of_runner(algo, lambda runner: time_probes(runner.engines[DEFAULT_MODULE_ID]))
    copies, deliveries, proofs = [], [], []
    for _ in range(repetitions):
        copies.append(_seconds(lambda: np.copyto(target, source.copy())))
        deliveries.append(_seconds(algo.deliver_weights))
        of_runner = _of_runner(algo, lambda runner: runner.engines[DEFAULT_MODULE_ID].probe_seconds)
        proofs.append(max(of_runner, _of_learner(algo, lambda learner: learner.probe_seconds)))
    beside_proof = median(delivery - proof for delivery, proof in zip(deliveries, proofs, strict=True))
    return median(copies), median(deliveries), median(proofs), beside_proof


def _parts(algo: Any, repetitions: int) -> tuple[float, ...]:
    """Median seconds of `PARTS`."""

    def nothing() -> None:
        _of_learner(algo, lambda learner: None)
        _of_runner(algo, lambda runner: None)

    def give(learner: Any) -> tuple[float, float, list[ray.ObjectRef]]:
        weights: list[Any] = []
        module = learner.module[DEFAULT_MODULE_ID].unwrapped()
        finding = _seconds(lambda: weights.append(module.network_weights(copy=False)))
        reference: list[ray.ObjectRef] = []
        return finding, _seconds(lambda: reference.append(ray.put(weights[0]))), reference

    def take(runner: Any, reference: list[ray.ObjectRef]) -> tuple[float, float]:
        weights: list[Any] = []
        getting = _seconds(lambda: weights.append(ray.get(reference[0])))
        return getting, _seconds(lambda: runner.engines[DEFAULT_MODULE_ID].deliver(weights[0], 0))

    def once() -> tuple[float, ...]:
        finding, putting, reference = _of_learner(algo, give)
        return _seconds(nothing), finding, putting, *_of_runner(algo, partial(take, reference=reference))

    return tuple(map(median, zip(*(once() for _ in range(repetitions)), strict=True)))


def _of_learner(algo: Any, call: Callable[[Any], Any]) -> Any:
    (answer,) = algo.learner_group.foreach_learner(call)
    return answer.get()


def _of_runner(algo: Any, call: Callable[[Any], Any]) -> Any:
    (answer,) = algo.env_runner_group.foreach_env_runner(call, local_env_runner=False)
    return answer


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    typer.run(main)
