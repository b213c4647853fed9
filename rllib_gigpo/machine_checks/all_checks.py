"""All checks of `rllib doctor`, in the order in which a user would repair what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rllib_gigpo.env_checks.check_result import CheckResult, described_error, failed
from rllib_gigpo.machine_checks.environments import check_environments
from rllib_gigpo.machine_checks.memory import check_disk, check_memory, check_shared_memory
from rllib_gigpo.machine_checks.packages import check_extras, check_packages, check_python, check_vllm
from rllib_gigpo.machine_checks.processes import check_open_files, check_temporary_folder
from rllib_gigpo.machine_checks.torch_build import check_companions, check_gpus, check_torch

_CHECKS: tuple[tuple[str, Callable[[], Iterator[CheckResult]]], ...] = (
    ("python", check_python),
    ("packages", check_packages),
    ("torch", check_torch),
    ("torchvision", check_companions),
    ("gpu", check_gpus),
    ("vllm", check_vllm),
    ("extras", check_extras),
    ("environments", check_environments),
    ("memory", check_memory),
    ("shared memory", check_shared_memory),
    ("disk", check_disk),
    ("open files", check_open_files),
    ("temporary folder", check_temporary_folder),
)


def check_machine() -> list[CheckResult]:
    """What every check found; a check that raises has failed, and the others go on. Starts no Ray."""
    return [result for name, check in _CHECKS for result in _results(name, check)]


def _results(name: str, check: Callable[[], Iterator[CheckResult]]) -> Iterator[CheckResult]:
    try:
        yield from check()
    except Exception as error:  # importing a broken package raises whatever it likes
        yield failed(name, described_error(error), "repair what the message names")
