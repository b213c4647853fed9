"""What the command shows while it works: on a terminal a table and a moving line, elsewhere neither."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rllib_gigpo.cli.progress import Progress
from rllib_gigpo.cli.waiting import waiting

pytestmark = pytest.mark.unit

RESULT = {"training_iteration": 7, "env_runners": {"success_rate": 0.25}, "time_this_iter_s": 3.0}


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=200)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_what_is_waited_for_and_takes_it_away() -> None:
    console = terminal()
    with waiting("loading the model", console=console):
        pass
    assert "loading the model" in written(console)
    # Its last act: to the start of the line, which is erased.
    assert written(console).endswith("\x1b[2K")


@pytest.mark.parametrize(
    "console", [Console(file=io.StringIO()), Console(file=io.StringIO(), force_terminal=True, quiet=True)]
)
def test_a_file_and_a_quiet_command_show_nothing(console: Console) -> None:
    with waiting("loading the model", console=console), Progress(console):
        pass
    assert written(console) == ""


def test_hidden_shows_nothing() -> None:
    console = terminal()
    with waiting("loading the model", console=console, hidden=True):
        pass
    assert written(console) == ""


def test_training_shows_its_rows_and_that_the_next_is_waited_for() -> None:
    console = terminal()
    with Progress(console) as progress:
        progress._live.refresh()
        assert "next iteration" in written(console)
        progress.show(RESULT)
    assert "0.250" in written(console)
    # What stays is the table alone.
    assert "next iteration" not in written(console).rpartition("0.250")[2]


def test_a_log_has_a_line_for_each_iteration_and_no_control_characters() -> None:
    console = Console(file=io.StringIO())
    with Progress(console) as progress:
        progress.show(RESULT)
    assert written(console).startswith("iteration 7  success 0.250")
    assert "\x1b" not in written(console) and written(console).count("\n") == 1
