"""What kind of failure an exception is: decided here alone, where it is caught, before it leaves its process.

| kind           | what failed                                      | then                                    |
|----------------|--------------------------------------------------|-----------------------------------------|
| infrastructure | a process, a node, a network, memory, a disk     | what it hit is lost, counted, and tried |
|                |                                                  | again in a new process                  |
| data           | everything else: the same input would fail again | what it hit is lost and counted; where  |
|                |                                                  | all fail alike, the run ends            |

Infrastructure that goes on failing ends the run too: see `algorithms/group_policy/loss_watch.py`. This module imports
neither Ray nor torch, whose exceptions it knows by name: environment workers have neither.
"""

from __future__ import annotations

import errno
import traceback
from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    """Whether a new process may do better."""

    INFRASTRUCTURE = "infrastructure"
    DATA = "data"


# Names of exception classes; subclasses count too.
_INFRASTRUCTURE = frozenset(
    {
        # Python's own, and torch's and Ray's of the same names.
        "MemoryError",
        "OutOfMemoryError",
        "TimeoutError",
        "ConnectionError",
        "EOFError",
        "gaierror",  # of a name that cannot be looked up
        # Ours.
        "WorkerDied",
        "StepTimeout",
        "EngineDied",
        "RolloutStalled",
        "LearnerStalled",
        # Ray's.
        "RayActorError",
        "WorkerCrashedError",
        "NodeDiedError",
        "LocalRayletDiedError",
        "RaySystemError",
        "ObjectLostError",
        "ObjectFreedError",
        "ObjectStoreFullError",
        "ObjectFetchTimedOutError",
        "OutOfDiskError",
        "GetTimeoutError",
        # PyTorch's, of collective operations whose partner is gone.
        "DistBackendError",
        "DistNetworkError",
        "DistStoreError",
    }
)
_INFRASTRUCTURE_ERRNO = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.EROFS,
        errno.ESTALE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
    }
)


@dataclass(frozen=True)
class Failure:
    """An exception as it travels between processes: in words, since its class may not be known there.

    Attributes:
        kind: What it is.
        cause: Name of the type of the exception that started it.
        message: Of that exception.
        details: The traceback, or what Ray says of a process that is gone.
    """

    kind: FailureKind
    cause: str
    message: str
    details: str

    @property
    def is_infrastructure(self) -> bool:
        return self.kind is FailureKind.INFRASTRUCTURE


def failure_of(error: BaseException) -> Failure:
    """Classifies an exception; one with an attribute `failure` was classified in another process, and stays that."""
    decided = getattr(error, "failure", None)
    if isinstance(decided, Failure):
        return decided
    first = _first(error)
    details = "".join(traceback.format_exception(error))
    return Failure(_kind(first), type(first).__name__, str(first), details)


def _first(error: BaseException) -> BaseException:
    """The exception that started it: an engine, or Ray, wraps what another one raised."""
    while True:
        remote = getattr(error, "cause", None)  # of Ray's errors, which carry one of another process
        wraps = error.__cause__ if type(error) is RuntimeError else None
        reason = getattr(error, "reason", None) if isinstance(error, OSError) else None  # of urllib's
        before = next((one for one in (remote, wraps, reason) if isinstance(one, BaseException)), None)
        if before is None:
            return error
        error = before


def _kind(error: BaseException) -> FailureKind:
    names = {cls.__name__ for cls in type(error).__mro__}
    broken = bool(names & _INFRASTRUCTURE) or (isinstance(error, OSError) and error.errno in _INFRASTRUCTURE_ERRNO)
    return FailureKind.INFRASTRUCTURE if broken else FailureKind.DATA
