"""What the operations of an iteration take, by torch's profiler.

    python benchmarks/profile_iteration.py [--env Household] [--top 12]

GiGPO with an embedded model, in one process and one thread; the second iteration is profiled. Prints the operations
that took the most time of their own as a Markdown table, and the share of the time outside of torch.
"""

from __future__ import annotations

from typing import Annotated

import ray
import torch
import typer
from iteration import configs
from machine import this_machine
from torch.profiler import ProfilerActivity, profile, record_function

WHOLE = "iteration"


def main(
    env: Annotated[str, typer.Option(help="EZPoints or Household.")] = "Household",
    top: Annotated[int, typer.Option(min=1)] = 12,
) -> None:
    """Prints a Markdown table."""
    torch.set_num_threads(1)
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    config = configs(None)[f"{env}, embedded"].env_runners(num_env_runners=0).learners(num_learners=0)
    algo = config.build_algo()
    algo.train()
    with profile(activities=[ProfilerActivity.CPU]) as profiler, record_function(WHOLE):
        algo.train()
    algo.stop()
    ray.shutdown()
    averages = sorted(profiler.key_averages(), key=lambda average: -average.self_cpu_time_total)
    total = sum(average.self_cpu_time_total for average in averages)
    typer.echo("| operation | calls | share of the iteration |\n|---|---|---|")
    for average in averages[: top + 1]:
        name = "outside of torch" if average.key == WHOLE else average.key
        typer.echo(f"| {name} | {average.count:,} | {average.self_cpu_time_total / total:.1%} |")
    typer.echo(f"\n{env}; {this_machine()}")


if __name__ == "__main__":
    typer.run(main)
