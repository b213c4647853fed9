"""A runner's side of one environment worker: starts the process, calls it with a time limit, replaces it."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import psutil
from gymnasium.vector.utils import CloudpickleWrapper

from rllib_gigpo.env_runners.environment_worker import (
    GRACE_S,
    CreatorContext,
    EnvironmentDescription,
    create_environment,
)
from rllib_gigpo.failures import Failure

logger = logging.getLogger(__name__)

# Why a worker was replaced: counters.
DIED, TIMED_OUT, MEMORY_LIMIT, MAX_EPISODES = "died", "timed_out", "memory_limit", "max_episodes"

# Not multiprocessing's spawn: that runs the user's script again in each worker, with all that it imports.
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from rllib_gigpo.env_runners.environment_worker import main; main(int(sys.argv[2]))"
)
# Processes must start, packages be imported and data be read before an environment is there.
_LEAST_CREATION_S = 300.0
_MB = 2**20


class EnvironmentFailure(Exception):
    """An environment raised in its worker, where `failure` was classified."""

    def __init__(self, failure: Failure):
        super().__init__(f"in an environment worker: {failure.details}")
        self.failure = failure


class WorkerDied(Exception):
    """The process that hosts the environment is gone."""


class StepTimeout(Exception):
    """An environment did not answer in time; its process was ended."""


class WorkerProcess:
    """One worker, replaced by a new process whenever it dies, hangs or is recycled.

    All methods but `kill` and `rss_mb` block, and belong to one thread.

    Args:
        create: Makes an environment from RLlib's `EnvContext`.
        context: For `create`.
        timeout_s: Limit of a reset or a step, seconds; None for none.

    Attributes:
        restarts: How often the process was replaced, by reason.
    """

    def __init__(self, create: Callable[[Any], Any], context: CreatorContext, *, timeout_s: float | None):
        self._create = CloudpickleWrapper(partial(create_environment, create, context))
        self._timeout_s = timeout_s
        self._creation_timeout_s = None if timeout_s is None else max(timeout_s, _LEAST_CREATION_S)
        self.restarts: Counter[str] = Counter()
        self._lock = threading.Lock()  # of _process: a process that has been waited for may not be signalled
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = False
        self._start()

    def lend(self, key: int | None, new_key: int) -> tuple[int, EnvironmentDescription | None]:
        """The environment `key` where the process still has it, or else a new one, and what that is like.

        Raises:
            EnvironmentFailure: It cannot be made.
            WorkerDied, StepTimeout: The process died or hung meanwhile.
        """
        if self._process is None and not self._closing:  # no new one could be started when it was replaced
            self._start()
        if self._connection.poll(0):  # nothing was asked: it died while nobody looked, and nobody has lost anything
            self._replace(DIED)
        if key in self._keys:
            return key, None
        description = self._call("make", (new_key, self._create), self._creation_timeout_s)
        self._keys.add(new_key)
        return new_key, description

    def call(self, key: int, method: str, *arguments: Any) -> Any:
        """What the environment's `reset` or `step` returns.

        Raises:
            EnvironmentFailure: It raised.
            WorkerDied, StepTimeout: The process died or hung, now or in the call of another environment.
        """
        if key not in self._keys:
            raise WorkerDied("the environment's worker ended because of another environment that it hosted")
        return self._call(method, (key, *arguments), self._timeout_s)

    def forget(self, key: int) -> None:
        """Closes an environment, where it is still there."""
        if key not in self._keys:
            return
        self._keys.discard(key)
        try:
            self._call("close", (key,), self._timeout_s)
        except (EnvironmentFailure, WorkerDied, StepTimeout):
            logger.warning("closing a failed environment failed as well", exc_info=True)

    def recycle(self, reason: str) -> None:
        """Replaces the process by a new one."""
        self._hang_up()
        self._replace(reason)

    def end(self) -> None:
        """Lets the worker close its environments, and ends it."""
        self._closing = True
        self._hang_up()
        self._reap()

    def kill(self) -> None:
        """Ends the process and all that it has started, at once and for good; from any thread."""
        self._closing = True
        self._kill()

    def rss_mb(self) -> float:
        """Resident memory of the process, MB."""
        process = self._process
        try:
            return 0.0 if process is None else psutil.Process(process.pid).memory_info().rss / _MB
        except psutil.Error:
            return 0.0

    def _start(self) -> None:
        self._keys: set[int] = set()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # Ctrl-C is the runner's alone; and what an environment starts can be ended together with its worker.
                start_new_session=True,
            )
        self._socket = ours
        self._connection = Connection(os.dup(ours.fileno()))

    def _call(self, method: str, arguments: tuple[Any, ...], timeout_s: float | None) -> Any:
        try:
            self._connection.send((method, arguments))
            in_time = self._connection.poll(timeout_s)
            answer = self._connection.recv() if in_time else None
        except (EOFError, OSError) as error:
            how = self._replace(DIED)
            raise WorkerDied(f"the environment's worker died in {method}(): {how}") from error
        if not in_time:
            self._replace(TIMED_OUT)
            raise StepTimeout(f"{method}() took longer than {timeout_s:g} s (env_step_timeout_s); its worker was ended")
        if isinstance(answer, Failure):
            raise EnvironmentFailure(answer)
        return answer

    def _replace(self, reason: str) -> str:
        """Starts a new process in place of the old one; returns how that ended."""
        self.restarts[reason] += 1
        how = self._reap()
        if not self._closing:
            self._start()
        return how

    def _hang_up(self) -> None:
        """Waits until the worker has closed its environments and ended, at most so long as a worker may take."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + GRACE_S
            while self._connection.poll(max(0.0, deadline - time.monotonic())):
                self._connection.recv_bytes()  # an answer that comes late; EOFError in the end
        except (EOFError, OSError):
            return

    def _kill(self) -> None:
        with self._lock:
            if self._process is not None:
                try:
                    os.killpg(self._process.pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):  # gone, or (macOS) nothing but a dead process is left
                    return

    def _reap(self) -> str:
        # What a dead worker's environments have started is ended too.
        self._kill()
        with self._lock:
            process, self._process = self._process, None
        self._connection.close()
        self._socket.close()
        if process is None:
            return "it has ended"
        code = process.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
