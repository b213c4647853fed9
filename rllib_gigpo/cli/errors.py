"""Errors as a user of the command sees them: one red line, and an exit code."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

BAD_INPUT_EXIT_CODE = 2
FAILURE_EXIT_CODE = 1
INTERRUPTED_EXIT_CODE = 130  # 128 + SIGINT, as shells have it

# RLlib ends every error of a config with the advice to switch the checks off.
_RLLIB_ADVICE = "To suppress all validation errors"


@contextmanager
def reported_errors(
    verbose: bool, bad_input: tuple[type[Exception], ...] = (ValueError, TypeError, KeyError)
) -> Iterator[None]:
    """Prints an error of the block as one red line on stderr and exits, with 2 for `bad_input` and 1 for anything else.

    The traceback is printed with `verbose` only.
    """
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        is_bad_input = isinstance(error, bad_input)
        if verbose:
            traceback.print_exception(error)
        console = Console(stderr=True, soft_wrap=True)
        console.print(f"Error: {_one_line(error)}", style="red", markup=False, highlight=False)
        if not is_bad_input and not verbose:
            console.print("-v shows the traceback.", highlight=False)
        raise typer.Exit(BAD_INPUT_EXIT_CODE if is_bad_input else FAILURE_EXIT_CODE) from error


def _one_line(error: Exception) -> str:
    """The message alone where it explains itself, with the type in front where it may not."""
    # str(KeyError) is the repr of its argument.
    message = error.args[0] if isinstance(error, KeyError) and error.args else error
    text = " ".join(str(message).partition(_RLLIB_ADVICE)[0].split())
    explains_itself = isinstance(error, ValueError | TypeError) or type(error).__module__.startswith("rllib_gigpo.")
    if explains_itself:
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
