"""The machine that measures, with its software: what every committed measurement names."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

# For `git status`: the files that measurements themselves write.
NOT_CODE = (":/", ":(top,exclude)benchmarks/curves", ":(top,exclude)docs/results", ":(top,exclude)docs/soak.md")


def this_machine(packages: tuple[str, ...] = ("torch", "ray", "transformers", "numpy")) -> dict[str, Any]:
    """Processor, Python, versions of `packages`, and the commit."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no", "--", *NOT_CODE)),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _git(*arguments: str) -> str | None:
    """What git prints about this repository; None without git or outside a repository."""
    if shutil.which("git") is None:
        return None
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None
