"""Every tuned example, tried out: `rllib example run ID --smoke --json`."""

from __future__ import annotations

import json
import math
import tempfile
import time
from typing import Any

import ray
from typer.testing import CliRunner

from rllib_gigpo import registry
from rllib_gigpo.cli.config_file import load_config_file
from rllib_gigpo.cli.example_header import example_file
from rllib_gigpo.cli.main import app
from rllib_gigpo.env_checks.check_result import CheckResult, Status, failed, not_applicable, passed


def examples() -> list[CheckResult]:
    """How many examples ran an iteration, and a line for each that did not."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        tried = {name: _try(name) for name in registry.example_names()}
    finally:
        ray.shutdown()
    ran = [name for name, found in tried.items() if found.status == Status.PASS]
    seconds = [float(tried[name].seen) for name in ran]
    if seconds:
        seen = f"{len(ran)} of {len(tried)} ran an iteration, in {min(seconds):.0f} to {max(seconds):.0f} s each"
        tried = {"examples": passed("examples", seen)} | {n: f for n, f in tried.items() if n not in ran}
    return list(tried.values())


def _try(name: str) -> CheckResult:
    """Passes with the seconds that it took."""
    env: Any = load_config_file(example_file(name))[0].config.env
    if env not in registry.environment_names():
        return not_applicable(name, f"environment {env!r} is not registered")
    environment = registry.environment(env)
    try:
        environment.make(**environment.small_env_config).close()
    except ImportError as error:
        return not_applicable(name, f"{environment.name} is not installed: {error}")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        done = CliRunner().invoke(app, ["example", "run", name, "--smoke", "--json", "--storage-path", folder])
    if done.exit_code != 0:
        return failed(name, (done.stderr.strip().splitlines() or [repr(done.exception)])[0], "")
    (line,) = done.stdout.splitlines()
    summary = json.loads(line)
    if summary["iterations"] != 1 or not math.isfinite(summary["success_after"]):
        return failed(name, line, "")
    return passed(name, f"{time.perf_counter() - began:.1f}")
