"""Learning curves of several algorithms, with several seeds, on the tasks that the embedded models play.

    python benchmarks/learning_curves.py run [--suite ezpoints] [--jobs 2]    trains, and writes benchmarks/curves/*.csv
    python benchmarks/learning_curves.py report                               tables and pictures in docs/results/

Each run is a process of its own with one thread. `run` can be stopped at any time: what the CSV files already hold is
not run again. Suites write separate files, so that two `run`s of different suites can go side by side.
"""

from __future__ import annotations

import csv
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from curve_data import COLUMNS, METRIC_PATHS, add_run, csv_path, read_rows, record_machine, run_of
from curve_settings import SUITES, Run, planned_run, planned_runs

CURVES = Path(__file__).parent / "curves"
LINES_OF_A_FAILURE = 30

app = typer.Typer(help="Learning curves.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Out = Annotated[Path, typer.Option(help="Folder of the CSV files.", file_okay=False)]
Suites = Annotated[list[str] | None, typer.Option("--suite", help=f"Of {', '.join(SUITES)}. Default: all.")]
Algorithms = Annotated[list[str] | None, typer.Option("--algorithm", help="Registered name. Default: all.")]
Iterations = Annotated[int | None, typer.Option(min=1, hidden=True, help="Instead of the suite's own number.")]


@app.command()
def run(
    suite: Suites = None,
    algorithm: Algorithms = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time; each takes one core.")] = 1,
    out: Out = CURVES,
    iterations: Iterations = None,
) -> None:
    """Trains every run that the CSV files do not hold yet."""
    suites, algorithms = _known_suites(suite), _known_algorithms(algorithm)
    out.mkdir(parents=True, exist_ok=True)
    record_machine(out)
    finished = {run_of(row) for name in suites for row in read_rows(csv_path(out, name))}
    wanted = [planned for name in suites for planned in planned_runs(name) if planned.algorithm in algorithms]
    missing = [planned for planned in wanted if planned not in finished]
    typer.echo(f"{len(wanted) - len(missing)} runs are there, {len(missing)} to go")
    failures = 0
    with TemporaryDirectory(prefix="learning_curves_") as scratch:
        for done, (planned, rows, output) in enumerate(_finished_runs(missing, jobs, Path(scratch), iterations), 1):
            if rows:
                add_run(csv_path(out, planned.suite), rows)
                typer.echo(f"{done}/{len(missing)} {planned.id}: panel {_panel_text(rows)}, {_seconds(rows):.0f} s")
            else:
                failures += 1
                typer.echo(f"{done}/{len(missing)} {planned.id} FAILED:\n{output}", err=True)
    if failures:
        typer.echo(f"{failures} runs failed; the next call tries them again", err=True)
        raise typer.Exit(1)


@app.command()
def report(
    suite: Suites = None,
    out: Out = CURVES,
    results: Annotated[Path, typer.Option(file_okay=False)] = Path(__file__).parents[1] / "docs" / "results",
) -> None:
    """Writes a table and a picture for each suite; without --suite, for each that has runs."""
    from curve_report import write_report

    for name in _known_suites(suite or [name for name in SUITES if read_rows(csv_path(out, name))]):
        for path in write_report(csv_path(out, name), results):
            typer.echo(path)


@app.command(hidden=True)
def one(run_id: str, rows_file: Path, iterations: Iterations = None) -> None:
    """Trains one run in this process and writes its rows to a CSV file."""
    planned = planned_run(run_id)
    with rows_file.open("w", newline="", buffering=1) as file:  # by the line: to be looked at meanwhile
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_train(planned, iterations or SUITES[planned.suite].iterations))


def _finished_runs(
    runs: list[Run], jobs: int, scratch: Path, iterations: int | None
) -> Iterator[tuple[Run, list[dict[str, str]], str]]:
    """Each run with what `_run_in_process` returns for it, as they finish; started in the order of `runs`."""
    pool = ThreadPoolExecutor(jobs)
    try:
        tasks = {pool.submit(_run_in_process, r, scratch / str(i), iterations): r for i, r in enumerate(runs)}
        for task in as_completed(tasks):
            yield tasks[task], *task.result()
    finally:
        # Ctrl-C would otherwise wait for all runs that have not even started.
        pool.shutdown(cancel_futures=True)


def _run_in_process(planned: Run, folder: Path, iterations: int | None) -> tuple[list[dict[str, str]], str]:
    """Returns the run's rows, none if it failed, and the end of what it printed."""
    folder.mkdir()
    rows_file, log = folder / "rows.csv", folder / "log.txt"
    command = [sys.executable, __file__, "one", planned.id, str(rows_file)]
    if iterations is not None:
        command += ["--iterations", str(iterations)]
    with log.open("w") as output:
        # One thread: with a model this small more of them only wait for each other.
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
    rows = read_rows(rows_file) if done.returncode == 0 else []
    return rows, "\n".join(log.read_text(errors="replace").splitlines()[-LINES_OF_A_FAILURE:])


def _train(planned: Run, iterations: int) -> Iterator[dict[str, Any]]:
    """One row per iteration; row 0 is before training."""
    import ray
    import torch

    torch.set_num_threads(1)
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    algo = planned.config().build_algo()
    try:
        yield _row(planned, 0, panel_success_rate=_panel_success(algo))
        for iteration in range(1, iterations + 1):
            start = time.perf_counter()
            result = algo.train()
            row = _row(planned, iteration, seconds=round(time.perf_counter() - start, 3), **_metrics(result))
            if iteration == iterations:
                row["panel_success_rate"] = _panel_success(algo)
            yield row
    finally:
        algo.stop()
        ray.shutdown()


def _row(planned: Run, iteration: int, **columns: Any) -> dict[str, Any]:
    return {
        "suite": planned.suite,
        "environment": SUITES[planned.suite].environment,
        "algorithm": planned.algorithm,
        "ratio": planned.ratio,
        "advantage_std_floor": planned.advantage_std_floor,
        "seed": planned.seed,
        "setting": planned.setting,
        "iteration": iteration,
        **columns,
    }


def _metrics(result: dict[str, Any]) -> dict[str, float | None]:
    """By column; None for what the algorithm does not report."""
    return {column: _metric(result, path) for column, path in METRIC_PATHS.items()}


def _metric(result: dict[str, Any], path: str) -> float | None:
    value: Any = result
    for key in path.split("/"):
        value = value.get(key) if value is not None else None
    return None if value is None else float(f"{float(value):.6g}")


def _panel_success(algo: Any) -> float:
    return float(algo.evaluate()["env_runners"]["success_rate"])


def _known_suites(names: list[str] | None) -> list[str]:
    if unknown := sorted(set(names or ()) - set(SUITES)):
        raise typer.BadParameter(f"unknown suite {unknown[0]!r}; known: {', '.join(SUITES)}", param_hint="--suite")
    return list(names or SUITES)


def _known_algorithms(names: list[str] | None) -> list[str]:
    known = sorted({run.algorithm for name in SUITES for run in planned_runs(name)})
    if unknown := sorted(set(names or ()) - set(known)):
        raise typer.BadParameter(f"unknown algorithm {unknown[0]!r}; known: {', '.join(known)}")
    return list(names or known)


def _panel_text(rows: list[dict[str, str]]) -> str:
    return f"{float(rows[0]['panel_success_rate']):.3f} to {float(rows[-1]['panel_success_rate']):.3f}"


def _seconds(rows: list[dict[str, str]]) -> float:
    return sum(float(row["seconds"]) for row in rows if row["seconds"])


if __name__ == "__main__":
    app()
