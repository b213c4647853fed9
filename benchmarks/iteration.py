"""Where the seconds of a training iteration go, with an env runner and a learner in processes of their own.

    python benchmarks/iteration.py [--smollm2 models/smollm2-135m-instruct] [--json FILE]

GiGPO: the embedded models of EZPoints and Household with the sizes of their tuned examples and, where its directory is
given, SmolLM2-135M on NumberLine, with an adapter and with all weights. The driver times its phases; the env runner and
the learner time what they do in them; the rest of such a phase is what it took Ray to ask and answer. What `train()`
took beyond all phases is RLlib's: results, metrics, checks. Seconds are the median over the iterations after the first;
shares are of the sum of all of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import ray
import torch
import typer
from machine import this_machine
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

WARM_UP = 1
# Of the driver's phases: the path of its timer, and of the timer of the process that does the work in it.
PHASES = {
    "sample": ("timers/env_runner_sampling_timer", "env_runners/sample"),
    "credit": ("timers/credit_assignment", None),
    "update": ("timers/learner_update_timer", "learners/__all_modules__/update_seconds"),
    "deliver": ("timers/synch_weights", None),
}
# What is not the work of a language-model agent.
OVERHEAD = ("sample, asking and answering", "update, asking and answering", "RLlib's results and checks")


def configs(smollm2: Path | None) -> dict[str, GiGPOConfig]:
    """The trainings, by what the table calls them."""
    found = {
        "EZPoints, embedded": _embedded("EZPoints", groups=8, lr=3e-4),
        "Household, embedded": _embedded("Household", groups=16, lr=5e-4),
    }
    if smollm2 is not None:
        found |= {
            "NumberLine, SmolLM2-135M, adapter": _smollm2(smollm2, lora_rank=32),
            "NumberLine, SmolLM2-135M": _smollm2(smollm2),
        }
    return found


def phases(seconds: float, result: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of one `train()` by phase; they sum up to `seconds`."""
    found = {}
    rest = seconds
    for name, (timer, inner_timer) in PHASES.items():
        whole = _at(result, timer)
        rest -= whole
        inner = whole if inner_timer is None else _at(result, inner_timer)
        found[name] = inner
        if inner_timer is not None:
            found[f"{name}, asking and answering"] = whole - inner
    return {**found, OVERHEAD[-1]: rest}


def main(
    smollm2: Annotated[Path | None, typer.Option(help="Model directory, see `make smollm2`.", exists=True)] = None,
    iterations: Annotated[int, typer.Option(min=1)] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", dir_okay=False)] = None,
) -> None:
    """Prints a Markdown table; with --json, writes the shares too."""
    torch.set_num_threads(1)
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    shares = {name: _measure(name, config, iterations) for name, config in configs(smollm2).items()}
    ray.shutdown()
    typer.echo(f"\n{this_machine()}")
    if json_file is not None:
        ratios = {f"{name}: {phase}": share for name, of_run in shares.items() for phase, share in of_run.items()}
        json_file.write_text(json.dumps({"benchmark": "iteration", "ratios": ratios}, indent=1))


def _measure(name: str, config: AlgorithmConfig, iterations: int) -> dict[str, float]:
    """Trains and prints a table; returns the shares by phase, that of the overhead and that of the credit."""
    algo = config.build_algo()
    runs: list[dict[str, float]] = []
    for iteration in range(WARM_UP + iterations):
        start = time.perf_counter()
        result = algo.train()
        seconds = time.perf_counter() - start
        if iteration >= WARM_UP:
            runs.append(phases(seconds, result))
    algo.stop()
    total = sum(sum(run.values()) for run in runs)
    shares = {phase: sum(run[phase] for run in runs) / total for phase in runs[0]}
    shares["overhead"] = sum(shares[phase] for phase in OVERHEAD)
    typer.echo(f"\n{name}, {total / iterations:.2f} s an iteration\n\n| phase | seconds | share |\n|---|---|---|")
    for phase, share in shares.items():
        of_phase = "" if phase == "overhead" else f"{median(run[phase] for run in runs):.4f}"
        typer.echo(f"| {phase} | {of_phase} | {share:.2%} |")
    return shares


def _embedded(env: str, *, groups: int, lr: float) -> GiGPOConfig:
    return (
        _processes(GiGPOConfig().environment(env))
        .language_model(model_path=str(embedded_model_path(env)))
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .training(group_size=8, groups_per_iteration=groups, num_minibatches=4, lr=lr)
    )


def _smollm2(path: Path, **language_model: Any) -> GiGPOConfig:
    # Few rows: an iteration of full weights is to take seconds on a CPU.
    return (
        _processes(GiGPOConfig().environment("NumberLine", env_config={"max_position": 2, "max_steps": 2}))
        .language_model(model_path=str(path), **language_model)
        .generation(max_prompt_tokens=256, max_response_tokens=24)
        .training(group_size=4, groups_per_iteration=4, num_minibatches=2, lr=1e-5)
    )


def _processes(config: GiGPOConfig) -> GiGPOConfig:
    return config.env_runners(num_env_runners=1).learners(num_learners=1).debugging(seed=0)


def _at(result: Mapping[str, Any], path: str) -> float:
    value: Any = result
    for key in path.split("/"):
        value = value[key]
    return float(value)


if __name__ == "__main__":
    typer.run(main)
