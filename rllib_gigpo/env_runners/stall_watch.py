"""Ends a rollout that gets nothing more from its environments and its engine, instead of waiting for ever."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

import ray

logger = logging.getLogger(__name__)
T = TypeVar("T")

# What a thread that was interrupted may take to end its rollout.
_GRACE_S = 5.0


class RolloutStalled(RuntimeError):
    """A rollout got no answer for too long; its message shows where it stood."""


class _Interruption(KeyboardInterrupt):
    """Leaves event loops at once, and is no Exception that somebody handles, as a Ctrl-C."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise _Interruption


class StallWatch:
    """Has a thread watch one rollout.

    A rollout that stalls is interrupted: RolloutStalled, with the place where it stood. That takes the main thread of
    the process, and code that can be interrupted. Where it cannot be, a process of Ray's ends itself, and whoever waits
    for it gets an error; any other process stays, and says in its log where it stands.

    Args:
        progress: A count that grows with every answer.
        timeout_s: How long it may stay the same, seconds; None for ever.
    """

    def __init__(self, progress: Callable[[], int], timeout_s: float | None):
        self._progress = progress
        self._timeout_s = timeout_s
        self._over = threading.Event()
        self._lock = threading.Lock()  # held to interrupt, and to end: nobody is interrupted afterwards
        self._stood_at: str | None = None

    def run(self, rollout: Callable[[], T]) -> T:
        """What `rollout` returns, called in this thread.

        Raises:
            RolloutStalled: It has stalled.
        """
        if self._timeout_s is None:
            return rollout()
        watched = threading.current_thread()
        can_interrupt = watched is threading.main_thread()  # in others Python lets nobody set handlers
        # Not SIGINT, which Ray's processes block.
        handler_before = signal.signal(signal.SIGUSR2, _interrupt) if can_interrupt else None
        try:
            arguments = (watched, self._timeout_s, can_interrupt)
            threading.Thread(target=self._watch, args=arguments, name="stall watch", daemon=True).start()
            try:
                return rollout()
            finally:
                with self._lock:
                    self._over.set()
                time.sleep(0)  # an interruption that is on its way arrives here
        except _Interruption:
            self._over.set()
        finally:
            if can_interrupt:
                signal.signal(signal.SIGUSR2, handler_before or signal.SIG_DFL)
        # Out here: the interruption is no part of the story.
        raise RolloutStalled(
            f"the rollout got no answer from any environment or engine for {self._timeout_s:g} s "
            f"(rollout_stall_timeout_s); it stood at:\n{self._stood_at}"
        )

    def _watch(self, watched: threading.Thread, timeout_s: float, can_interrupt: bool) -> None:
        seen, since = self._progress(), time.monotonic()
        while not self._over.wait(min(1.0, timeout_s / 4)):
            if self._progress() != seen:
                seen, since = self._progress(), time.monotonic()
            elif time.monotonic() - since >= timeout_s:
                since = time.monotonic()
                self._end(watched, can_interrupt)

    def _end(self, watched: threading.Thread, can_interrupt: bool) -> None:
        frame = sys._current_frames().get(watched.ident or 0)
        stood_at = "".join(traceback.format_stack(frame)) if frame else "unknown"
        logger.error("a rollout gets no answer from any environment or engine; it stands at:\n%s", stood_at)
        if can_interrupt:
            with self._lock:
                if self._over.is_set():
                    return
                self._stood_at = stood_at
                signal.pthread_kill(watched.ident or 0, signal.SIGUSR2)
            if self._over.wait(_GRACE_S):
                return
        if ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None:
            logger.error("it cannot be interrupted: this process ends itself")
            logging.shutdown()
            os._exit(1)
