"""What is shown while the command waits: a moving line with the time that has passed, on a terminal only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def waiting(text: str, *, console: Console | None = None, hidden: bool = False) -> Iterator[None]:
    """Shows `text` during the block, and takes it away afterwards.

    Args:
        text: What is waited for.
        console: Where the block prints, too; None is stderr, and a block that prints nothing.
        hidden: Whether to show nothing. A file, a pipe or a console that is quiet shows nothing either.
    """
    shown = console or Console(stderr=True)
    if hidden or shown.quiet or not shown.is_terminal:
        yield
        return
    with wait_line(shown, text, redirect=console is not None):
        yield


def wait_line(console: Console, text: str, *, redirect: bool = True) -> Progress:
    """The moving line itself; a context manager.

    Args:
        console: A terminal.
        text: What is waited for.
        redirect: Whether what is printed meanwhile goes above the line.
    """
    line = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=redirect,
        redirect_stderr=redirect,
    )
    line.add_task(text, total=None)
    return line
