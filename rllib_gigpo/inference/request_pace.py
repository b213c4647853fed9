"""When the next attempt at a request may start: rate limits, back-off, and what a server's Retry-After asks for."""

from __future__ import annotations

import asyncio

from rllib_gigpo.seeds import derive_seed


class RequestPace:
    """Lets attempts start in turn, at a rate, and holds all of them back where the server has asked for that.

    Args:
        requests_per_minute: None for no limit.
    """

    def __init__(self, requests_per_minute: float | None):
        self._interval_s = 0.0 if requests_per_minute is None else 60.0 / requests_per_minute
        self._next_start = 0.0

    async def wait(self) -> None:
        """Returns when it is this attempt's turn."""
        loop = asyncio.get_running_loop()
        start = max(loop.time(), self._next_start)
        self._next_start = start + self._interval_s
        await asyncio.sleep(start - loop.time())

    def hold(self, seconds: float) -> None:
        """No attempt starts for so long, beside those whose turn has come already."""
        self._next_start = max(self._next_start, asyncio.get_running_loop().time() + seconds)


def back_off_s(attempt: int, seed: int, *, first_wait_s: float, longest_wait_s: float) -> float:
    """Seconds to wait after a failed attempt: `first_wait_s`, doubled with each attempt, less up to half of that.

    Args:
        attempt: Number of the attempt that failed, from 0.
        seed: Of the request; what is taken off depends on it, so that requests which failed together come apart.
        first_wait_s: After the first attempt, seconds.
        longest_wait_s: The result is never longer, seconds.
    """
    share = derive_seed(seed, "back-off", attempt) / 2**63
    return min(first_wait_s * 2.0**attempt, longest_wait_s) * (1.0 - share / 2)


def retry_after_s(header: str | None) -> float:
    """Seconds that a Retry-After header asks for; 0 where there is none, or a date, which clocks may not agree on."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        return 0.0
