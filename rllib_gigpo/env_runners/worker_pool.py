"""The environments of one runner, spread over processes of their own."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from gymnasium.vector.utils import CloudpickleWrapper

from rllib_gigpo.env_runners.environment_pool import EnvironmentPool, LentEnvironment
from rllib_gigpo.env_runners.environment_worker import GRACE_S, CreatorContext
from rllib_gigpo.env_runners.worker_process import MAX_EPISODES, MEMORY_LIMIT, WorkerProcess

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Counters: how often workers were replaced, by reason.
WORKER_RESTARTS = "env_worker_restarts"


@dataclass(frozen=True)
class WorkerLimits:
    """When a worker is ended.

    Attributes:
        step_timeout_s: Longest reset or step, seconds; then the worker is ended at once. None for no limit.
        memory_mb: Resident memory above which it is replaced between trajectories, MB; None for no limit.
        max_episodes: Trajectories after which it is replaced; None for no limit.
    """

    step_timeout_s: float | None = None
    memory_mb: float | None = None
    max_episodes: int | None = None


def check_sendable(create: Any, env_config: Any) -> None:
    """Raises ValueError where an environment creator, or what it is given, cannot be sent to a worker."""
    for name, value in (("env", create), ("env_config", env_config)):
        try:
            CloudpickleWrapper(value).__getstate__()
        except Exception as error:  # pickling runs the code of what is pickled
            raise ValueError(
                f"{name}={value!r} cannot be sent to environment workers: {type(error).__name__}: {error}. Create what "
                "cannot be pickled inside the environment's constructor, or set env_runners(env_workers=0)."
            ) from error


class WorkerPool(EnvironmentPool):
    """Spreads environments over `num_workers` processes, which run while the caller waits for others.

    The calls to the environments of one worker are answered one after the other. A worker that dies or hangs loses its
    environments, whose trajectories fail (`WorkerDied`, `StepTimeout`), and is replaced.

    Args:
        create: Makes an environment from RLlib's `EnvContext`.
        context: For `create`.
        num_envs: How many may be lent at once.
        num_workers: Number of processes.
        limits: When they are ended.

    Raises:
        ValueError: `create` or its context cannot be sent to a worker.
        EnvironmentFailure, WorkerDied, StepTimeout: An environment cannot be made.
    """

    def __init__(
        self,
        create: Callable[[Any], Any],
        context: CreatorContext,
        num_envs: int,
        *,
        num_workers: int,
        limits: WorkerLimits,
    ):
        check_sendable(create, context.env_config)
        self._limits = limits
        self._keys = itertools.count()
        self._reported: Counter[str] = Counter()
        processes = (WorkerProcess(create, context, timeout_s=limits.step_timeout_s) for _ in range(num_workers))
        self._workers = [_Worker(process) for process in processes]
        # Also where nobody calls `close`, and where the interpreter ends.
        self._finalizer = weakref.finalize(self, _end, self._workers)
        try:
            first = self._workers[0]
            key, description = first.submit(first.process.lend, None, next(self._keys)).result()
        except BaseException:
            self.close()
            raise
        assert description is not None
        first.idle.append(key)
        super().__init__(num_envs, description)

    async def acquire(self) -> LentEnvironment:
        worker = min(self._workers, key=lambda one: (one.due is not None, one.lent, not one.idle))
        idle = worker.idle.pop() if worker.idle else None
        worker.lent += 1
        worker.episodes += 1
        try:
            key, _ = await worker.run(worker.process.lend, idle, next(self._keys))
        except BaseException:
            self._take_back(worker)
            raise
        return _WorkerEnvironment(worker, key)

    def release(self, env: LentEnvironment) -> None:
        assert isinstance(env, _WorkerEnvironment)
        env.worker.idle.append(env.key)
        self._take_back(env.worker)

    def discard(self, env: LentEnvironment) -> None:
        assert isinstance(env, _WorkerEnvironment)
        env.worker.submit(env.worker.process.forget, env.key)
        self._take_back(env.worker)

    def close(self) -> None:
        """Closes the environments and ends the workers; a worker that does not answer is killed."""
        self._finalizer()

    def take_counts(self) -> Counter[str]:
        total = sum((worker.process.restarts for worker in self._workers), Counter())
        new = total - self._reported
        self._reported = total
        return Counter({f"{WORKER_RESTARTS}/{reason}": count for reason, count in new.items()})

    def _take_back(self, worker: _Worker) -> None:
        worker.lent -= 1
        limits = self._limits
        if limits.max_episodes is not None and worker.episodes >= limits.max_episodes:
            worker.due = MAX_EPISODES
        elif limits.memory_mb is not None and worker.process.rss_mb() > limits.memory_mb:
            worker.due = MEMORY_LIMIT
        # Never in the middle of a trajectory. Until its last one ends, a worker that is due gets no others if it can be
        # helped; nobody waits for it, since that trajectory may itself be waiting for the one that would wait.
        if worker.due is not None and worker.lent == 0:
            worker.submit(worker.process.recycle, worker.due)
            worker.idle.clear()
            worker.episodes, worker.due = 0, None


class _Worker:
    """A worker process, the thread that calls it, and what the pool knows of it."""

    def __init__(self, process: WorkerProcess):
        self.process = process
        self.idle: list[int] = []  # keys of environments; where the process has been replaced, of none any more
        self.lent = 0
        self.episodes = 0
        self.due: str | None = None
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        # Not an executor's thread: the interpreter would wait, when it ends, for a call that hangs.
        threading.Thread(target=_work, args=(self._jobs,), name="environment worker", daemon=True).start()

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Has the thread call `function`, after all that was submitted before."""
        future: Future[T] = Future()
        self._jobs.put((future, function, arguments))
        return future

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """`submit`, awaited."""
        return await asyncio.wrap_future(self.submit(function, *arguments))

    def stop(self) -> None:
        """Lets the thread end after all that was submitted."""
        self._jobs.put(None)


class _WorkerEnvironment:
    """A `LentEnvironment` in a worker."""

    def __init__(self, worker: _Worker, key: int):
        self.worker = worker
        self.key = key

    async def reset(self, *, seed: int, options: dict[str, Any]) -> Any:
        return await self.worker.run(self.worker.process.call, self.key, "reset", seed, options)

    async def step(self, action: Any) -> Any:
        return await self.worker.run(self.worker.process.call, self.key, "step", action)


def _work(jobs: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None]) -> None:
    while (job := jobs.get()) is not None:
        future, function, arguments = job
        if not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)
        del job, future, function, arguments  # or the last answer would live until the next call


def _end(workers: Sequence[_Worker]) -> None:
    ending = [worker.submit(worker.process.end) for worker in workers]
    late = wait(ending, timeout=GRACE_S + 1).not_done
    for worker, future in zip(workers, ending, strict=True):
        if future in late:  # a call hangs, and `end` waits behind it
            worker.process.kill()
        worker.stop()
    wait(late, timeout=GRACE_S)
