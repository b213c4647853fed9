"""`rllib report`: what happened in a run, or in several, as one HTML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rllib_gigpo.cli.errors import reported_errors
from rllib_gigpo.cli.waiting import waiting


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or of trials of Tune.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Default: report.html in RUN; of several runs, comparison.html here."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the file, and the last numbers of each run.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of errors.")] = False,
) -> None:
    """Write the curves of a run, or of several, and the credit of every recorded step, to one HTML file.

    The file needs no network and can be sent to others. It shows what the run recorded: by default two rollout groups
    of each iteration, `.reporting(recorded_groups=2)`.

    Example: rllib report runs/my_run runs/another_run --out both.html
    """
    with reported_errors(verbose):
        with waiting("reading the runs", hidden=verbose):
            from rllib_gigpo.report.html_report import run_summary, write_report
            from rllib_gigpo.report.run_data import read_run

            found = [read_run(run) for run in runs]
        default = runs[0] / "report.html" if len(runs) == 1 else Path("comparison.html")
        target = default if out is None else out
        if target.suffix not in (".html", ".htm") or target.is_dir():
            raise ValueError(f"{target} cannot be the report: name a file that ends in .html with --out")
        if not target.absolute().parent.is_dir():
            raise ValueError(f"--out {out}: the folder {target.absolute().parent} does not exist")
        if len({run.resolve() for run in runs}) < len(runs):
            raise ValueError("a run is named twice; name different ones to compare")
        with waiting("drawing the report", hidden=verbose):
            write_report(found, target)
        if as_json:
            summaries = [run_summary(run) for run in found]
            typer.echo(json.dumps({"report": str(target.absolute()), "runs": summaries}, indent=2))
        else:
            typer.echo(f"report: {target}")
