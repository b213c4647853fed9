"""Training progress on the console: a live table on a terminal, one line per iteration elsewhere."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from rllib_gigpo.cli.waiting import wait_line

MISSING = "–"
_ROWS_SHOWN = 15


class Column(NamedTuple):
    """A number of the train result: its heading, its path in the result, and its format."""

    heading: str
    path: str
    format: str


COLUMNS = (
    Column("iteration", "training_iteration", "d"),
    Column("success", "env_runners/success_rate", ".3f"),
    Column("return", "env_runners/episode_return_mean", ".3f"),
    Column("steps", "env_runners/episode_len_mean", ".2f"),
    Column("response tokens", "env_runners/response_tokens_mean", ".1f"),
    Column("invalid", "env_runners/invalid_action_share", ".3f"),
    Column("zero-signal", "rollout_groups/zero_signal_share", ".3f"),
    Column("entropy", "learners/default_policy/entropy", ".3f"),
    Column("grad norm", "learners/default_policy/gradient_norm", ".3f"),
    Column("seconds", "time_this_iter_s", ".1f"),
)


def value_at(result: Mapping[str, Any], path: str) -> Any:
    """The value at "a/b/c" of a nested result, or None."""
    value: Any = result
    for key in path.split("/"):
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def cells(result: Mapping[str, Any]) -> list[str]:
    """One text per column; a value that is not there, or no number, is a dash."""
    return [_cell(value_at(result, column.path), column.format) for column in COLUMNS]


def numbers(result: Mapping[str, Any]) -> dict[str, float | None]:
    """Each column's value by its path; None for one that is not there, or no finite number."""
    found = {column.path: value_at(result, column.path) for column in COLUMNS}
    return {
        path: value if isinstance(value, int | float) and math.isfinite(value) else None
        for path, value in found.items()
    }


def _cell(value: Any, number_format: str) -> str:
    # NaN is the only number that is unequal to itself.
    if not isinstance(value, int | float) or value != value:
        return MISSING
    return format(int(value) if number_format == "d" else value, number_format)


class Progress:
    """Shows one row per training iteration; a context manager.

        with Progress(console) as progress:
            progress.show(algo.train())

    On a terminal the table keeps the latest rows in view, and below it for how long the next one has been waited for.
    Elsewhere (a file, a pipe, CI) each iteration is a line.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: deque[list[str]] = deque(maxlen=_ROWS_SHOWN)
        self._live = Live(console=console, refresh_per_second=2) if console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
            self._live.update(self._view())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._live is not None:
            if self._rows:
                self._live.update(self._table(), refresh=True)
            self._live.stop()

    def show(self, result: Mapping[str, Any]) -> None:
        """Adds the row of a train result."""
        row = cells(result)
        if self._live is None:
            texts = (f"{column.heading} {cell}" for column, cell in zip(COLUMNS, row, strict=True))
            self._console.print("  ".join(texts), highlight=False, markup=False, soft_wrap=True)
            return
        self._rows.append(row)
        self._live.update(self._view(), refresh=True)

    def _view(self) -> Group:
        wait = wait_line(self._console, "next iteration: sampling, then the update")
        return Group(*([self._table()] if self._rows else []), wait)

    def _table(self) -> Table:
        # All of it in the 80 columns that a terminal has at least.
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
        for column in COLUMNS:
            table.add_column(column.heading.replace("-", "-\n"), justify="right")
        for row in self._rows:
            table.add_row(*row)
        return table
