"""Table and picture of a sweep.

    python benchmarks/sweep_plot.py RUN OUT

RUN is a run's folder with trials.json. Writes OUT.md, the trials from the best to the worst, and OUT.png, their success
over the iterations.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def main(
    run: Annotated[Path, typer.Argument(help="A run's folder with trials.json.", exists=True, file_okay=False)],
    out: Annotated[Path, typer.Argument(help="Where to write, without a suffix.")],
) -> None:
    """Write OUT.md and OUT.png, the table and the picture of a sweep."""
    sweep = json.loads((run / "trials.json").read_text())
    trials = sorted(sweep["trials"], key=lambda trial: -(trial["score"] or 0.0))
    curves = {trial["trial"]: success_by_iteration(run / trial["trial"]) for trial in trials}
    out.with_suffix(".md").write_text(table(trials, curves))
    draw(trials, curves, out.with_suffix(".png"))


def success_by_iteration(trial: Path) -> dict[int, float]:
    """The success rate of each iteration; of one that a resumed trial repeated, the last."""
    results = map(json.loads, (trial / "result.json").read_text().splitlines())
    return {result["training_iteration"]: result["env_runners"]["success_rate"] for result in results}


def table(trials: list[dict[str, Any]], curves: dict[str, dict[int, float]]) -> str:
    """Markdown: parameters, success in the first, the last and the mean of the last three iterations."""
    lines = ["| parameters | first | last | mean of the last 3 |", "|---|---|---|---|"]
    for trial in trials:
        success = [value for _, value in sorted(curves[trial["trial"]].items())]
        last = sum(success[-3:]) / len(success[-3:])
        lines.append(f"| {trial['parameters']} | {success[0]:.2f} | {success[-1]:.2f} | {last:.2f} |")
    return "\n".join(lines) + "\n"


def draw(trials: list[dict[str, Any]], curves: dict[str, dict[int, float]], path: Path) -> None:
    """A line for each trial."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 5), layout="constrained")
    for trial in trials:
        points = sorted(curves[trial["trial"]].items())
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=trial["parameters"])
    axes.set(xlabel="iteration", ylabel="success of the iteration's games", ylim=(0, 1))
    axes.grid(alpha=0.3)
    figure.legend(fontsize=7, loc="outside lower center", ncols=2)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    typer.run(main)
