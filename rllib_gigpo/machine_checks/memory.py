"""Memory, shared memory and disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil

from rllib_gigpo.env_checks.check_result import CheckResult, failed, informed, passed, warned
from rllib_gigpo.machine_checks.processes import ray_folder

_GIB = 2**30
_SHARED_MEMORY = Path("/dev/shm")
# Ray's own: its object store takes this share of the memory, and starts nothing more above that use.
_OBJECT_STORE_SHARE = 0.3
_MOST_OBJECT_STORE = 200 * _GIB
_KILLS_ABOVE = 0.95
# Ray, one training process, one environment worker.
_LEAST_MEMORY = 2 * _GIB
_LEAST_DISK_SHARE = 0.05  # below, Ray writes no more objects to the disk
_LEAST_SHARED_MEMORY = 256 * 2**20


def check_memory() -> Iterator[CheckResult]:
    """Whether processes will find memory: those that a container is allowed, where there is a limit."""
    limit, used = container_memory()
    memory = psutil.virtual_memory()
    total = memory.total if limit is None else min(limit, memory.total)
    free = memory.available if limit is None else min(memory.available, limit - used)
    where = "of the container" if limit is not None and limit < memory.total else "of the machine"
    seen = f"{free / _GIB:.1f} GiB free {where}'s {total / _GIB:.1f} GiB"
    if free < _LEAST_MEMORY:
        yield failed("memory", seen, f"Ray ends processes above {_KILLS_ABOVE:.0%} use: end others, or get more memory")
    else:
        yield passed("memory", seen)


def check_shared_memory() -> Iterator[CheckResult]:
    """Whether Ray's object store, and weights on their way to vLLM, have room in /dev/shm."""
    if not _SHARED_MEMORY.is_dir():
        yield informed("shared memory", f"no {_SHARED_MEMORY} on this system: Ray's object store is on the disk")
        return
    usage = shutil.disk_usage(_SHARED_MEMORY)
    yield judged_shared_memory(usage.total, usage.free, psutil.virtual_memory().total)


def judged_shared_memory(total: int, free: int, memory: int) -> CheckResult:
    """Whether /dev/shm is large enough for a machine with `memory`; all in bytes."""
    wanted = int(min(_OBJECT_STORE_SHARE * memory, _MOST_OBJECT_STORE))
    seen = f"{free / _GIB:.1f} GiB free of {total / _GIB:.1f} GiB in {_SHARED_MEMORY}"
    resize = (
        f"docker run --shm-size={-(-wanted // _GIB)}g, or mount -o remount,size={-(-wanted // _GIB)}g {_SHARED_MEMORY}"
    )
    if free < min(_LEAST_SHARED_MEMORY, total // 10):
        return failed("shared memory", f"{seen}: full", f"remove what a killed run left in {_SHARED_MEMORY}; {resize}")
    if total < wanted:
        return warned("shared memory", f"{seen}; Ray's object store wants {wanted / _GIB:.1f} GiB, or is slow", resize)
    return passed("shared memory", seen)


def check_disk() -> Iterator[CheckResult]:
    """Whether Ray can write objects to the disk, and runs their checkpoints."""
    for name, folder in (("disk, Ray's folder", ray_folder()), ("disk, working folder", Path.cwd())):
        usage = shutil.disk_usage(folder if folder.exists() else Path("/tmp"))
        seen = f"{usage.free / _GIB:.1f} GiB free of {usage.total / _GIB:.0f} GiB for {folder}"
        if usage.free < _LEAST_DISK_SHARE * usage.total:
            yield warned(name, seen, "make room; Ray writes no objects to a disk that is more than 95 % full")
        else:
            yield passed(name, seen)


def container_memory(root: Path = Path("/sys/fs/cgroup")) -> tuple[int | None, int]:
    """The limit of this process's control group in bytes, None without one, and what is in use of it."""
    for limit_file, used_file in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        if (root / limit_file).is_file() and (root / used_file).is_file():
            text = (root / limit_file).read_text().strip()
            # Version 1 says "no limit" with a number near 2^63.
            limit = None if text == "max" or int(text) >= 2**60 else int(text)
            return limit, int((root / used_file).read_text())
    return None, 0
