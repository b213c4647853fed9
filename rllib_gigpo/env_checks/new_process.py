"""Starts tasks in a new Python process. `python -m rllib_gigpo.env_checks.new_process OUT` is that process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rllib_gigpo.env_checks.check_result import one_line
from rllib_gigpo.env_checks.making import creator
from rllib_gigpo.env_checks.replay import replay

_TIMEOUT = 300  # seconds; importing Ray and torch on a busy machine takes a minute


def starts_in_new_process(
    name: str,
    env_config: Mapping[str, Any],
    tasks: Sequence[int],
    seed: int,
    *,
    steps: int = 0,
    salt: str | None = None,
) -> list[str]:
    """How each task starts (`Moment.start`) there, and what `steps` random steps show, see `replay`.

    Args:
        name, env_config: As for `creator`.
        tasks: To start.
        seed: Of resets and actions.
        steps: After each start.
        salt: Of the hashes there; None is another one than here.

    Raises:
        RuntimeError: The process failed; the message holds its last line.
        TypeError: `env_config` is not JSON.
    """
    request = json.dumps(
        {"name": name, "env_config": dict(env_config), "tasks": list(tasks), "seed": seed, "steps": steps}
    )
    salt = salt or ("2" if os.environ.get("PYTHONHASHSEED") == "1" else "1")
    # What is importable here must be so there, as in a worker of Ray.
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "starts.json"
        try:
            # Not over stdout: an environment may print.
            answer = subprocess.run(
                [sys.executable, "-m", __name__, str(out)],
                input=request,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                env=os.environ | {"PYTHONHASHSEED": salt, "PYTHONPATH": path},
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"no answer from a new process within {_TIMEOUT} seconds") from error
        if answer.returncode != 0:
            last = (answer.stderr.strip().splitlines() or ["nothing was said"])[-1]
            raise RuntimeError(f"a new process ended with code {answer.returncode}: {one_line(last)}")
        starts: list[str] = json.loads(out.read_text(encoding="utf-8"))
    return starts


def main(out: Path) -> None:
    """Reads the request from stdin and writes the starts to `out`."""
    request = json.load(sys.stdin)
    make = creator(request["name"], request["env_config"])
    starts = replay(make, request["tasks"], request["seed"], request["steps"])
    out.write_text(json.dumps(starts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
