"""Training with `max_weight_lag=1` beside the same training without, on an environment with latency.

    python benchmarks/overlap.py [--iterations 15] [--latency-ms 20] [--lr 3e-4] [--num-epochs 8]

EZPoints, whose steps sleep, as those of an environment that asks a server do; the embedded model, one env runner, the
learner in the driver. Both trainings live at once and take turns, iteration by iteration, so that both meet the same
machine; between its turns none has anything going on. They have the same seed, so the same tasks.

Prints what each iteration took and learned, then as a Markdown table medians of the seconds, the ratio, and success on
the evaluation panel before and after.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Annotated, Any

import gymnasium as gym
import ray
import torch
import typer
from machine import this_machine

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path, make_env
from rllib_gigpo.env_adapters.gym_cards import EZPOINTS

WARM_UP = 1


class SlowEZPoints(gym.Wrapper):
    """EZPoints that sleeps `env_config["latency_s"]` in each step."""

    def __init__(self, config: Any):
        super().__init__(make_env("EZPoints"))
        self._latency_s = config["latency_s"]

    def step(self, action: str) -> Any:
        time.sleep(self._latency_s)
        return super().step(action)


def config_of(max_weight_lag: int, latency_s: float, lr: float, num_epochs: int) -> Any:
    return (
        GiGPOConfig()
        .environment(SlowEZPoints, env_config={"latency_s": latency_s})
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        # A wrapper has no agent format of its own, and without one prompts show history, which the model does not know.
        .agent_format(
            prompt_template=EZPOINTS.agent_format.prompt_template, history_length=EZPOINTS.agent_format.history_length
        )
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .training(group_size=8, groups_per_iteration=4, num_minibatches=2, lr=lr, advantage_std_floor=1.0)
        .training(adam_betas=(0.9, 0.95), weight_decay=0.0, num_epochs=num_epochs)
        .evaluation(evaluation_duration=64)
        .env_runners(num_env_runners=1, max_weight_lag=max_weight_lag)
        .learners(num_learners=0)
        .reporting(recorded_groups=0)
        .debugging(seed=0)
    )


def main(
    iterations: Annotated[int, typer.Option(min=WARM_UP + 1)] = 15,
    latency_ms: Annotated[float, typer.Option(min=0, help="Sleep of a step.")] = 20.0,
    lr: Annotated[float, typer.Option(min=0, help="Learning rate.")] = 3e-4,
    num_epochs: Annotated[int, typer.Option(min=1, help="Of an update, which makes it longer.")] = 8,
) -> None:
    """Prints a line for each iteration and way, then a Markdown table and the ratios."""
    torch.set_num_threads(1)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ways = {
        "synchronous": config_of(0, latency_ms / 1000, lr, num_epochs).build_algo(),
        "max_weight_lag=1": config_of(1, latency_ms / 1000, lr, num_epochs).build_algo(),
    }
    before = {way: success(algo) for way, algo in ways.items()}
    rows: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    print(f"{'iteration':>9} {'way':17}{'seconds':>9}{'sampling':>10}{'update':>8}{'success':>9}{'lag':>5}{'gap':>8}")
    for iteration in range(iterations):
        # Who goes first meets another machine than who comes second.
        for way in list(ways) if iteration % 2 else list(ways)[::-1]:
            row = one_iteration(ways[way])
            rows[way].append(row)
            print(
                f"{iteration + 1:>9} {way:17}{row['seconds']:9.2f}{row['sampling']:10.2f}{row['update']:8.2f}"
                f"{row['success']:9.3f}{row['lag']:5.1f}{row['gap']:8.4f}",
                flush=True,
            )
    after = {way: success(algo) for way, algo in ways.items()}
    print_table(rows, before, after)
    print(f"{iterations} iterations, {latency_ms:g} ms, lr {lr:g}, {num_epochs} epochs; {this_machine()}")
    for algo in ways.values():
        algo.stop()


def success(algo: Any) -> float:
    return float(algo.evaluate()["env_runners"]["success_rate"])


def one_iteration(algo: Any) -> dict[str, float]:
    start = time.perf_counter()
    result = algo.train()
    seconds = time.perf_counter() - start
    update = result["learners"]["default_policy"]
    return {
        "seconds": seconds,
        # Of the rollouts themselves; with overlap, most of it is in the time of the update before.
        "sampling": float(result["env_runners"]["sample"]),
        "update": float(result["timers"]["learner_update_timer"]),
        "success": float(result["env_runners"]["success_rate"]),
        "lag": float(update["weights_version_lag_mean"]),
        "gap": float(update["sampler_learner_gap_mean"]),
    }


def print_table(rows: dict[str, list[dict[str, float]]], before: dict[str, float], after: dict[str, float]) -> None:
    """Medians without the first iterations, in which overlap has nothing to overlap with."""
    print("\n| | seconds an iteration | sampler gap, nats | success before | in the last 5 iterations | after |")
    print("|---|---|---|---|---|---|")
    for way, all_rows in rows.items():
        measured = all_rows[WARM_UP:]
        seconds, gap = (median(row[key] for row in measured) for key in ("seconds", "gap"))
        last = sum(row["success"] for row in all_rows[-5:]) / len(all_rows[-5:])
        print(f"| {way} | {seconds:.2f} | {gap:.4f} | {before[way]:.3f} | {last:.3f} | {after[way]:.3f} |")
    pairs = list(zip(*(all_rows[WARM_UP:] for all_rows in rows.values()), strict=True))
    ratios = sorted(synchronous["seconds"] / overlapped["seconds"] for synchronous, overlapped in pairs)
    total = sum(pair[0]["seconds"] for pair in pairs) / sum(pair[1]["seconds"] for pair in pairs)
    print(
        f"\niterations per second, with overlap / without: {total:.2f} over all, {median(ratios):.2f} in the median "
        f"pair, {ratios[0]:.2f}-{ratios[-1]:.2f}"
    )


if __name__ == "__main__":
    typer.run(main)
