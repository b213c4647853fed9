"""Lock-step batches against coroutines on the `vllm` engine, with environments of random latency.

    python benchmarks/rollout.py [REPETITIONS [TURNS]]

32 environments take 20 turns each: a response of 2 to 40 tokens, then a step that sleeps for 0 to 50 ms, as one that
asks a server does. Lengths, latencies, prompts and seeds are the same in both; the model is the embedded one of
EZPoints, whose end-of-sequence token is not heeded here. In lock-step all environments wait for the longest response
of a batch, and the engine for the slowest step; with coroutines nobody waits for another.

Prints, for each repetition and the medians: wall seconds, CPU seconds of the engine's process, engine steps, the share
of the time in which the engine had no request, and the share that an environment spent outside of the engine. Checks
that both sampled the same tokens.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil

from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.inference.vllm_options import VLLMSettings
from rllib_gigpo.inference.vllm_server import VLLMServer

ENVIRONMENTS, TURNS = 32, 20
LENGTHS, LATENCY_S = (2, 40), 0.05
PROMPT_TOKENS, VOCABULARY = 64, 200


@dataclass
class Plan:
    """What each environment does in each turn: int[E, T] and float[E, T]."""

    lengths: np.ndarray
    latencies: np.ndarray
    prompts: np.ndarray

    @property
    def turns(self) -> int:
        return self.lengths.shape[1]

    @classmethod
    def random(cls, turns: int) -> Plan:
        rng = np.random.default_rng(0)
        shape = (ENVIRONMENTS, turns)
        return cls(
            rng.integers(LENGTHS[0], LENGTHS[1] + 1, shape),
            rng.uniform(0, LATENCY_S, shape),
            rng.integers(10, VOCABULARY, (*shape, PROMPT_TOKENS)),
        )


@dataclass
class Meter:
    """When the engine had requests, and how long environments waited for it."""

    in_flight: int = 0
    busy_s: float = 0.0
    waited_s: float = 0.0
    since: float = 0.0
    tokens: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def enter(self) -> float:
        now = time.perf_counter()
        if self.in_flight == 0:
            self.since = now
        self.in_flight += 1
        return now

    def leave(self, entered: float) -> None:
        now = time.perf_counter()
        self.in_flight -= 1
        self.waited_s += now - entered
        if self.in_flight == 0:
            self.busy_s += now - self.since


class Rollouts:
    """Both ways of rolling out a plan on a server."""

    def __init__(self, server: VLLMServer, plan: Plan):
        self._server = server
        self._plan = plan
        self.meter = Meter()

    async def respond(self, env: int, turn: int) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(
            max_tokens=int(self._plan.lengths[env, turn]),
            ignore_eos=True,
            seed=1000 * env + turn,
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        entered = self.meter.enter()
        output = await self._server.generate({"prompt_token_ids": self._plan.prompts[env, turn].tolist()}, params)
        self.meter.leave(entered)
        self.meter.tokens[env, turn] = list(output.outputs[0].token_ids)

    async def step(self, env: int, turn: int) -> None:
        await asyncio.sleep(self._plan.latencies[env, turn])

    async def in_lock_step(self) -> None:
        for turn in range(self._plan.turns):
            await asyncio.gather(*(self.respond(env, turn) for env in range(ENVIRONMENTS)))
            await asyncio.gather(*(self.step(env, turn) for env in range(ENVIRONMENTS)))

    async def as_coroutines(self) -> None:
        async def play(env: int) -> None:
            for turn in range(self._plan.turns):
                await self.respond(env, turn)
                await self.step(env, turn)

        await asyncio.gather(*(play(env) for env in range(ENVIRONMENTS)))


def count_steps(server: VLLMServer) -> Callable[[], int]:
    """A function that returns how many steps of the engine have sampled tokens since it was last called."""
    processor: Any = server._engine().output_processor
    process, count = processor.process_outputs, 0

    def counting(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += any(output.new_token_ids for output in outputs)
        return process(outputs, *args, **kwargs)

    def take() -> int:
        nonlocal count
        taken, count = count, 0
        return taken

    processor.process_outputs = counting
    return take


def engine_cpu_s() -> float:
    """CPU seconds of the engine's process so far; on a busy machine they say more than the wall does."""
    return sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children(recursive=True))


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else TURNS
    plan = Plan.random(turns)
    settings = VLLMSettings(str(embedded_model_path("EZPoints")), "float32", max_tokens=256, max_requests=ENVIRONMENTS)
    server = VLLMServer(settings)
    take_steps = count_steps(server)
    ways: dict[str, Callable[[Rollouts], Awaitable[None]]] = {
        "lock-step": Rollouts.in_lock_step,
        "coroutines": Rollouts.as_coroutines,
    }
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
    tokens: list[dict[tuple[int, int], list[int]]] = []
    print(f"{'':12}{'wall s':>8}{'engine CPU s':>14}{'steps':>8}{'engine idle':>13}{'outside engine':>16}")
    for repetition in range(repetitions + 1):
        for name, way in ways.items():
            rollouts = Rollouts(server, plan)
            take_steps()
            start, cpu_start = time.perf_counter(), engine_cpu_s()
            asyncio.run(way(rollouts))  # type: ignore[arg-type]
            wall = time.perf_counter() - start
            meter = rollouts.meter
            tokens.append(meter.tokens)
            outside = 1 - meter.waited_s / (wall * ENVIRONMENTS)
            row = (wall, engine_cpu_s() - cpu_start, take_steps(), 1 - meter.busy_s / wall, outside)
            if repetition > 0:  # the first one warms up
                rows[name].append(row)
                print_row(name, row)
    assert all(one == tokens[0] for one in tokens), "equal seeds must give equal tokens"
    print("medians")
    for name in ways:
        print_row(name, tuple(statistics.median(column) for column in zip(*rows[name], strict=True)))
    ratio = [lock[0] / free[0] for lock, free in zip(rows["lock-step"], rows["coroutines"], strict=True)]
    print(
        f"wall time, lock-step / coroutines: median {statistics.median(ratio):.2f}, {min(ratio):.2f}-{max(ratio):.2f}"
    )
    server.close()


def print_row(name: str, row: tuple[float, ...]) -> None:
    wall, cpu, steps, idle, outside = row
    print(f"{name:12}{wall:8.2f}{cpu:14.2f}{steps:8.0f}{idle:13.0%}{outside:16.0%}", flush=True)


if __name__ == "__main__":
    main()
