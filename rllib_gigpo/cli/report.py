"""`rllib report`: what happened in a run, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rllib_gigpo.cli.errors import reported_errors


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or of a trial of Tune.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Default: report.html in RUN.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of errors.")] = False,
) -> None:
    """Write the curves of a run, and the credit of every recorded step, to one HTML file.

    The file needs no network and can be sent to others. It shows what the run recorded: by default two rollout groups
    of each iteration, `.reporting(recorded_groups=2)`.
    """
    with reported_errors(verbose):
        from rllib_gigpo.report.html_report import write_report
        from rllib_gigpo.report.run_data import read_run

        data = read_run(run)
        target = run / "report.html" if out is None else out
        if target.suffix not in (".html", ".htm") or target.is_dir():
            raise ValueError(f"{target} cannot be the report: name a file that ends in .html with --out")
        if not target.absolute().parent.is_dir():
            raise ValueError(f"--out {out}: the folder {target.absolute().parent} does not exist")
        write_report(data, target)
        typer.echo(f"report: {target}")
