"""What the system allows processes: open files, and the folder in which Ray has its sockets."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from rllib_gigpo.env_checks.check_result import CheckResult, failed, passed, warned

# A process of Ray has a few hundred, and more with every actor.
_LEAST_OPEN_FILES = 4096
# A socket's path must be shorter than this on Linux; the rest is what Ray adds to its folder.
_SOCKET_PATH = 107
_RAY_ADDS = len("/ray/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store")


def check_open_files() -> Iterator[CheckResult]:
    """Whether a process may open as many files as Ray's do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = soft if soft != resource.RLIM_INFINITY else sys.maxsize
    seen = "no limit" if allowed == sys.maxsize else f"{allowed} per process"
    if allowed < _LEAST_OPEN_FILES:
        yield warned("open files", seen, f"ulimit -n {65536 if hard == resource.RLIM_INFINITY else min(65536, hard)}")
    else:
        yield passed("open files", seen)


def check_temporary_folder() -> Iterator[CheckResult]:
    """Whether Ray can make its sockets in its folder."""
    yield judged_ray_folder(ray_folder())


def judged_ray_folder(folder: Path) -> CheckResult:
    """Whether a folder can hold Ray's sockets: it can be written to, and its path is short."""
    room = _SOCKET_PATH - _RAY_ADDS
    if len(str(folder)) > room:
        return failed(
            "temporary folder",
            f"{folder} has {len(str(folder))} characters; the paths of Ray's sockets in it would be too long",
            f"export RAY_TMPDIR=/tmp, or another folder whose path has at most {room} characters",
        )
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return failed("temporary folder", f"{folder} cannot be written to", "export RAY_TMPDIR=<a folder that can>")
    return passed("temporary folder", str(folder))


def ray_folder() -> Path:
    """Where Ray makes its own folder, `ray`."""
    return Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp")
