"""A rollout that gets nothing more is interrupted, wherever it stands."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import socket
import threading
import time
from collections.abc import Callable

import pytest

from rllib_gigpo.env_runners.stall_watch import RolloutStalled, StallWatch

pytestmark = pytest.mark.unit

STALL_S = 0.3


def sleeps() -> None:
    time.sleep(600)


def computes() -> None:
    while True:
        sum(range(1000))


def reads_what_nobody_sends() -> None:
    ours, _theirs = socket.socketpair()
    ours.recv(1)


def waits_for_an_engine() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    asyncio.run(wait())


def environment_hangs_in_an_event_loop() -> None:
    async def step() -> None:
        try:
            time.sleep(600)
        except Exception:  # as a rollout that counts failures of environments
            pytest.fail("it is no failure of the environment alone")

    async def play() -> None:
        await asyncio.gather(step(), asyncio.sleep(600))

    asyncio.run(play())


@pytest.mark.parametrize(
    "hang",
    [sleeps, computes, reads_what_nobody_sends, waits_for_an_engine, environment_hangs_in_an_event_loop],
)
def test_what_hangs_is_interrupted_and_named(hang: Callable[[], None]) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    message = rf"(?s)no answer .* for 0.3 s .*in {hang.__name__}\n"
    with pytest.raises(RolloutStalled, match=message):
        StallWatch(lambda: 7, STALL_S).run(hang)
    # Event loops log what became of tasks that nobody waits for; here, and not in the middle of something else.
    gc.collect()
    assert signal.getsignal(signal.SIGUSR2) is before


def test_slow_is_not_stalled() -> None:
    count = itertools.count()
    watch = StallWatch(lambda: next(count), STALL_S)
    assert watch.run(lambda: time.sleep(4 * STALL_S) or "done") == "done"


def test_without_a_limit_there_is_no_watch() -> None:
    threads = threading.active_count()
    assert StallWatch(lambda: 7, None).run(threading.active_count) == threads


def test_an_error_and_a_ctrl_c_stay_what_they_are() -> None:
    # A shell starts what runs in its background without.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def divides() -> None:
        1 / 0  # noqa: B018

    def gets_ctrl_c() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    with pytest.raises(ZeroDivisionError):
        StallWatch(lambda: 7, STALL_S).run(divides)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        StallWatch(lambda: 7, 60).run(gets_ctrl_c)
    assert type(interrupted.value) is KeyboardInterrupt
    signal.signal(signal.SIGINT, handler)


def test_in_another_thread_a_stall_is_logged_where_it_stands(caplog: pytest.LogCaptureFixture) -> None:
    def stalls_for_a_while() -> None:
        time.sleep(3 * STALL_S)

    thread = threading.Thread(target=StallWatch(lambda: 7, STALL_S).run, args=[stalls_for_a_while])
    thread.start()
    thread.join()
    assert "in stalls_for_a_while" in caplog.text
