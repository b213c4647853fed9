"""What a check found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check ended; only FAIL breaks the environment contract."""

    PASS = "pass"
    FAIL = "fail"
    WARNING = "warning"
    NOT_APPLICABLE = "not applicable"
    INFO = "info"


@dataclass(frozen=True)
class CheckResult:
    """One line of the report.

    Attributes:
        name: Of the check, such as "determinism".
        status: How it ended.
        seen: What was seen.
        fix: What to change in the environment; "" where there is nothing to change.
    """

    name: str
    status: Status
    seen: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """For JSON: name, status, seen, fix."""
        return {key: str(value) for key, value in asdict(self).items()}


def passed(name: str, seen: str) -> CheckResult:
    return CheckResult(name, Status.PASS, seen)


def failed(name: str, seen: str, fix: str) -> CheckResult:
    return CheckResult(name, Status.FAIL, seen, fix)


def warned(name: str, seen: str, fix: str) -> CheckResult:
    return CheckResult(name, Status.WARNING, seen, fix)


def not_applicable(name: str, why: str) -> CheckResult:
    return CheckResult(name, Status.NOT_APPLICABLE, why)


def informed(name: str, seen: str) -> CheckResult:
    return CheckResult(name, Status.INFO, seen)


def one_line(text: object, limit: int = 200) -> str:
    """`text` without line breaks, cut at `limit` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def described_error(error: BaseException) -> str:
    """The type and the message of an exception, on one line."""
    return one_line(f"{type(error).__name__}: {error}")
