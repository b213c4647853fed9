"""How far each learner has got in a call of all of them, told to the driver while they are at work.

A learner that hangs gives no answer, and the others wait for it in an exchange of gradients. So a thread of each
learner tells the driver, through Ray's key-value store, whether its passes go on, and where they stand.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put

_NAMESPACE = b"rllib_gigpo learners"
_MOST_SECONDS_BETWEEN_REPORTS = 5.0
_SHOWN_FRAMES = 8

# Of this process: a learner is alone in its own.
_passes = 0


class LearnerStalled(RuntimeError):
    """No learner gets any further; the message says which is to blame, and where it stands."""


def count_pass() -> None:
    """To be called with each forward, or forward and backward, pass, and whatever else goes on step by step: what tells
    slow from stalled."""
    global _passes
    _passes += 1


@contextmanager
def reported(key: str, interval_s: float) -> Iterator[None]:
    """Within it a thread reports under `key` what the thread that has entered is doing, every `interval_s` seconds."""
    is_over = threading.Event()
    arguments = (key.encode(), interval_s, threading.get_ident(), is_over)
    thread = threading.Thread(target=_report, args=arguments, name="learner progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _report(key: bytes, interval_s: float, thread_id: int, is_over: threading.Event) -> None:
    first, number = _passes, 0
    while not is_over.wait(interval_s):
        number += 1
        frame = sys._current_frames().get(thread_id)
        stack = traceback.extract_stack(frame) if frame else []
        report = {
            "number": number,
            "passes": _passes - first,
            "stands_at": "".join(traceback.format_list(stack[-_SHOWN_FRAMES:])),
            "waits": _is_in_exchange([line.filename.replace("\\", "/") for line in stack]),
        }
        # One that cannot be stored is lost; without those behind it a learner that works would be taken for dead.
        with suppress(Exception):
            _internal_kv_put(key, json.dumps(report).encode(), namespace=_NAMESPACE)


def _is_in_exchange(files: Sequence[str]) -> bool:
    """Whether a thread, by the files of its stack, may be waiting for other learners."""
    in_backward = bool(files) and files[-1].endswith("/torch/autograd/graph.py")
    # DDP exchanges gradients within the backward pass, which Python sees from outside.
    return in_backward or any("/torch/distributed/" in file for file in files)


@dataclass
class _Seen:
    """The last report of a learner.

    Attributes:
        at: When it came, or, before the first, when the call began.
    """

    at: float
    number: int = 0
    passes: int = 0
    stands_at: str = "unknown\n"
    waits: bool = False


class ProgressWatch:
    """The driver's side of a call of all learners.

    Args:
        num_learners: That are called.
        timeout_s: After how long without progress of any of them they are stalled.
        action: For the message, "no further in its <action>".
    """

    def __init__(self, num_learners: int, timeout_s: float, action: str):
        self.interval_s = min(_MOST_SECONDS_BETWEEN_REPORTS, timeout_s / 4)
        call = uuid.uuid4().hex
        self.keys = [f"{call}/{index}" for index in range(num_learners)]
        self._timeout_s = timeout_s
        self._action = action
        self._since = time.monotonic()
        self._seen = [_Seen(self._since) for _ in self.keys]

    def note_progress(self) -> None:
        """A learner has finished."""
        self._since = time.monotonic()

    def check(self, pending: Sequence[int]) -> None:
        """Reads the reports of the learners that have not finished.

        Raises:
            LearnerStalled: None of them has made a pass for too long.
        """
        now = time.monotonic()
        for index in pending:
            report = _internal_kv_get(self.keys[index], namespace=_NAMESPACE)
            seen = self._seen[index]
            if report is None or (found := json.loads(report))["number"] == seen.number:
                continue
            if found["passes"] != seen.passes:
                self._since = now
            self._seen[index] = _Seen(now, **found)
        if now - self._since >= self._timeout_s:
            raise LearnerStalled(self._story(pending, now))

    def close(self) -> None:
        """Drops the reports."""
        for key in self.keys:
            _internal_kv_del(key, namespace=_NAMESPACE)

    def _story(self, pending: Sequence[int], now: float) -> str:
        seen = {index: self._seen[index] for index in pending}
        silent = [index for index in pending if now - seen[index].at > self._timeout_s / 2]
        to_blame = [index for index in pending if index in silent or not seen[index].waits] or list(pending)
        lines = []
        for index in to_blame:
            where = "gives no sign of life any more; it stood at" if index in silent else "stands at"
            lines.append(
                f"learner {index} has got no further in its {self._action} for {self._timeout_s:g} s "
                f"(learner_stall_timeout_s), after {seen[index].passes} passes; it {where}:\n{seen[index].stands_at}"
            )
        waiting = [str(index) for index in pending if index not in to_blame]
        if waiting:
            lines.append(f"Learners {', '.join(waiting)} wait for it in an exchange.")
        elif len(pending) > 1 and not silent and all(one.waits for one in seen.values()):
            lines.append("All are in an exchange, or in a backward pass: the network between them may be gone.")
        return "".join(lines)
