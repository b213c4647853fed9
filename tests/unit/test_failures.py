"""What is a failure of the infrastructure and what one of the data, and what ends a run."""

from __future__ import annotations

import errno
import pickle
import socket
import subprocess
import sys
from collections import Counter
from urllib.error import URLError

import pytest
import ray.exceptions
import torch

from rllib_gigpo.algorithms.group_policy.loss_watch import LOST_ITERATIONS_ALLOWED, LossWatch
from rllib_gigpo.env_runners.environment_answers import EnvironmentAnswerError
from rllib_gigpo.env_runners.runner_answers import RUNNER_DIED, Rollout, failed_call
from rllib_gigpo.env_runners.stall_watch import RolloutStalled
from rllib_gigpo.env_runners.worker_process import EnvironmentFailure, StepTimeout, WorkerDied
from rllib_gigpo.failures import Failure, FailureKind, failure_of
from rllib_gigpo.inference.protocol import EngineDied

pytestmark = pytest.mark.unit

INFRASTRUCTURE, DATA = FailureKind.INFRASTRUCTURE, FailureKind.DATA


def caused_by(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "cause"),
    [
        (ValueError("no such action"), DATA, "ValueError"),
        (RuntimeError("?"), DATA, "RuntimeError"),
        (FloatingPointError("NaN"), DATA, "FloatingPointError"),
        (AssertionError(), DATA, "AssertionError"),
        (FileNotFoundError(errno.ENOENT, "no data folder"), DATA, "FileNotFoundError"),
        (PermissionError(errno.EACCES, "not yours"), DATA, "PermissionError"),
        (EnvironmentAnswerError("no tuple"), DATA, "EnvironmentAnswerError"),
        (OSError(errno.ENOSPC, "disk full"), INFRASTRUCTURE, "OSError"),
        (OSError(errno.EMFILE, "too many files"), INFRASTRUCTURE, "OSError"),
        (MemoryError(), INFRASTRUCTURE, "MemoryError"),
        (torch.OutOfMemoryError(), INFRASTRUCTURE, "OutOfMemoryError"),
        (torch.distributed.DistBackendError("gloo"), INFRASTRUCTURE, "DistBackendError"),
        (TimeoutError(), INFRASTRUCTURE, "TimeoutError"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "no server"), INFRASTRUCTURE, "ConnectionRefusedError"),
        (URLError(ConnectionRefusedError(errno.ECONNREFUSED, "no server")), INFRASTRUCTURE, "ConnectionRefusedError"),
        (URLError(socket.gaierror(socket.EAI_AGAIN, "no name server")), INFRASTRUCTURE, "gaierror"),
        (URLError("unknown url type: ftpx"), DATA, "URLError"),
        (EngineDied("gone"), INFRASTRUCTURE, "EngineDied"),
        (RolloutStalled("?"), INFRASTRUCTURE, "RolloutStalled"),
        (StepTimeout("?"), INFRASTRUCTURE, "StepTimeout"),
        (caused_by(WorkerDied("?"), EOFError()), INFRASTRUCTURE, "WorkerDied"),
        (ray.exceptions.ObjectStoreFullError("full"), INFRASTRUCTURE, "ObjectStoreFullError"),
        (ray.exceptions.OwnerDiedError("0" * 56, None, ""), INFRASTRUCTURE, "OwnerDiedError"),
        # An engine wraps what its batch raised; an environment that raises one error from another means the first.
        (caused_by(RuntimeError("the hf engine failed"), MemoryError()), INFRASTRUCTURE, "MemoryError"),
        (caused_by(RuntimeError("the hf engine failed"), ValueError("NaN")), DATA, "ValueError"),
        (caused_by(EnvironmentAnswerError("?"), TimeoutError()), DATA, "EnvironmentAnswerError"),
    ],
)
def test_the_decision_table(error: Exception, kind: FailureKind, cause: str) -> None:
    failure = failure_of(error)
    assert (failure.kind, failure.cause) == (kind, cause)
    assert failure.is_infrastructure == (kind is INFRASTRUCTURE)


def test_the_cause_survives_the_way_to_another_process() -> None:
    try:
        raise ZeroDivisionError("one by nothing")
    except ZeroDivisionError as error:
        failure = pickle.loads(pickle.dumps(failure_of(error)))
    assert failure.message == "one by nothing"
    assert "in test_the_cause_survives" in failure.details and "ZeroDivisionError: one by nothing" in failure.details
    # It is not judged again, by the exception that carries it here.
    assert failure_of(EnvironmentFailure(failure)) is failure


def test_an_exception_of_another_process_is_judged_by_itself_and_not_by_rays_wrapper() -> None:
    for cause, kind in ((ValueError("bad"), DATA), (OSError(errno.ENOSPC, "full"), INFRASTRUCTURE)):
        wrapped = ray.exceptions.RayTaskError("update", "Traceback: bad", cause).as_instanceof_cause()
        failure = failure_of(wrapped)
        assert (failure.kind, failure.cause) == (kind, type(cause).__name__)
        assert "Traceback: bad" in failure.details


def test_a_runner_is_dead_only_where_its_process_is() -> None:
    died = failed_call(ray.exceptions.RayActorError(error_msg="the node is gone"))
    assert (died.kind, died.cause) == (INFRASTRUCTURE, RUNNER_DIED)
    assert "the node is gone" in died.details
    assert failed_call(ray.exceptions.ObjectStoreFullError("full")).cause == "ObjectStoreFullError"


def test_environment_workers_stay_light() -> None:
    code = "import sys, rllib_gigpo.failures; print(*{'ray', 'torch', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def rollout(episodes: list, *failures: Failure) -> Rollout:
    counts = Counter({"endings/env_failure": len(failures)})
    counts.update(f"failure_kinds/{failure.kind}" for failure in failures)
    return Rollout(episodes, counts, [], failures[-1].details if failures else None)


def test_where_all_trajectories_fail_infrastructure_that_worked_before_may_come_back() -> None:
    timeout, error = failure_of(StepTimeout("too long")), failure_of(ValueError("no such task"))
    rollout([], timeout, timeout).check_any_finished(2, services_worked=True)
    for failures, services_worked in (((timeout, timeout), False), ((error, error), True)):
        with pytest.raises(RuntimeError, match=f"all 2 trajectories .*{failures[0].message}"):
            rollout([], *failures).check_any_finished(2, services_worked=services_worked)


def test_infrastructure_that_stays_away_ends_the_run_with_its_cause() -> None:
    watch, lost = LossWatch(), rollout([], failure_of(WorkerDied("killed by SIGSEGV")))
    for _ in range(2):
        for _ in range(LOST_ITERATIONS_ALLOWED):
            watch.look_at(lost)
        watch.look_at(rollout(["an episode"], failure_of(WorkerDied("another one"))))
    for _ in range(LOST_ITERATIONS_ALLOWED):
        watch.look_at(lost)
        watch.look_at(rollout([], failure_of(ValueError("of the data"))))
    with pytest.raises(RuntimeError, match=r"4 iterations on end lost all .*killed by SIGSEGV"):
        watch.look_at(lost)
