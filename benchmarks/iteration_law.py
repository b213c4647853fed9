"""The time of an iteration from what a forward pass, a token and a step cost, against iterations as they are.

    python benchmarks/iteration_law.py [--smollm2 models/smollm2-135m-instruct] [--json FILE]

The law: an iteration takes, in one process,

    Σ over the passes of the sampler   a + b·tokens + c·rows + d·attended
  + Σ over the passes of the learner   e + f·tokens
  + environment steps · (g + h + i)

`attended` is rows · tokens · width, with what is in the cache; tokens are those of the rectangle. Those of a pass with
a gradient count three times, for the backward pass takes two forward ones. A step is a response of the sampler, which
takes g beside its passes, and a row of the learner, which takes h. These and a to f are fitted to responses and updates
of made-up rows; i is what iterations take beside batches of the sampler and updates of the learner. Then other
iterations are trained, in which only the shapes of the passes are noted, and the law is asked what they should have
taken. Processor seconds of one thread.

A shared machine is half as fast a minute later, so that all of it is measured in a gauge: a batch of the sampler and an
update of the learner, the same every time, before and after whatever is measured. Seconds are those of its median.

The very first iteration counts for nothing: what a process does once is in it. From then on every second one is for i,
and those between are tested.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import ray
import torch
import typer
from iteration import configs
from machine import this_machine
from ray.rllib.core import DEFAULT_MODULE_ID
from scipy.optimize import nnls

from rllib_gigpo.inference.protocol import GenerationRequest, SamplingParams
from rllib_gigpo.rows import TokenRowBatch, TokenRows

# Batches of the sampler: (rows, prompt tokens, response tokens); updates of the learner: (rows, tokens a row, rows that
# share a prompt).
SAMPLED = ((1, 24, 8), (8, 48, 8), (32, 80, 16), (128, 60, 16), (128, 140, 8), (64, 120, 24), (16, 200, 16))
LEARNED = ((8, 40, 1), (32, 80, 8), (128, 80, 1), (256, 120, 8), (64, 160, 1), (512, 60, 16))
SAMPLED_BY_A_LARGE_MODEL = ((1, 24, 4), (4, 60, 8), (16, 90, 12), (16, 60, 20), (8, 120, 8))
LEARNED_BY_A_LARGE_MODEL = ((2, 60, 1), (4, 100, 4), (16, 80, 1), (24, 100, 8))
REPETITIONS = 3
COLUMNS = "| iteration | steps | sampled tokens | predicted, s | measured, s | predicted for measured | passes alone |"
T = TypeVar("T")
RESPONSE_TOKENS = 12  # of a made-up row of the learner


class Pass(NamedTuple):
    """A forward pass: rows of a rectangle, tokens of each, tokens that the last one attends to, and what follows."""

    rows: int
    tokens: int
    width: int
    has_gradient: bool


class Trained(NamedTuple):
    """An iteration.

    Attributes:
        steps: Of environments.
        tokens: Of responses.
        passes: What its batches of the sampler and updates of the learner should take by the law, in gauges.
        in_passes: What they took.
        measured: What all of it took.
    """

    steps: int
    tokens: int
    passes: float
    in_passes: float
    measured: float


class Law(NamedTuple):
    """In gauges: float64[5], (a, b, c, d, g), of a sampler's work, and float64[3], (e, f, h), of a learner's."""

    sampler: np.ndarray
    learner: np.ndarray


def sampler_features(passes: list[Pass], rows: int) -> np.ndarray:
    """float64[5]: passes, tokens, rows of the passes, attended tokens, rows."""
    shape = np.array([(1, p.rows * p.tokens, p.rows, p.rows * p.tokens * p.width) for p in passes], np.float64)
    return np.append(shape.sum(axis=0), rows)


def learner_features(passes: list[Pass], rows: int) -> np.ndarray:
    """float64[3]: passes, tokens, rows."""
    tokens = sum(p.rows * p.tokens * (3 if p.has_gradient else 1) for p in passes)
    return np.array([len(passes), tokens, rows], np.float64)


@contextmanager
def noted_passes(lm: torch.nn.Module) -> Iterator[list[Pass]]:
    """The passes of a transformers model within the block."""
    passes: list[Pass] = []

    def note(_: Any, __: Any, kwargs: dict[str, Any]) -> None:
        rows, tokens = kwargs["input_ids"].shape
        mask = kwargs.get("attention_mask")
        width = mask.shape[-1] if isinstance(mask, torch.Tensor) and mask.dim() == 2 else tokens
        passes.append(Pass(rows, tokens, width, torch.is_grad_enabled()))

    hook = lm.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield passes
    finally:
        hook.remove()


@contextmanager
def noted_seconds(owner: Any, method: str) -> Iterator[list[float]]:
    """What each call of a method of an object takes within the block."""
    call, seconds = getattr(owner, method), []

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        result = call(*args, **kwargs)
        seconds.append(time.process_time() - start)
        return result

    setattr(owner, method, timed)
    try:
        yield seconds
    finally:
        delattr(owner, method)  # that of the class is there again


class Gauge:
    """The speed of the machine from moment to moment.

    Args:
        work: Always the same; in it is what is to be measured, in about equal parts.
    """

    def __init__(self, work: Callable[[], Any]):
        self._work = work
        self._work()  # what a process does once
        self._seconds = [self._once()]

    def _once(self) -> float:
        start = time.process_time()
        self._work()
        return time.process_time() - start

    def measure(self, call: Callable[[], T]) -> tuple[T, float, float]:
        """What `call` returns, its seconds, and those of a gauge meanwhile: the mean of the one before, with which the
        last measurement ended, and the one after it."""
        start = time.process_time()
        result = call()
        seconds = time.process_time() - start
        self.read()
        return result, seconds, mean(self._seconds[-2:])

    def read(self) -> None:
        """For a `measure` that follows something else."""
        self._seconds.append(self._once())

    @property
    def seconds(self) -> float:
        """Of a gauge, the median."""
        return median(self._seconds)


class MadeUpWork:
    """Batches of the sampler and updates of the learner, of an algorithm whose weights are of no use afterwards."""

    def __init__(self, algo: Any):
        runner = algo.env_runner_group.local_env_runner
        self._engine, self._sampling_lm = runner.engines[DEFAULT_MODULE_ID], runner.module.lm
        self._learner = algo.learner_group._learner
        self._rng = np.random.default_rng(0)
        self._vocabulary = int(self._sampling_lm.config.vocab_size)

    def sample(self, rows: int, prompt: int, response: int) -> Callable[[], Any]:
        parameters = SamplingParams(max_response_tokens=response)
        requests = [
            GenerationRequest(self._ids(prompt).astype(np.int32), seed=seed, sampling=parameters)
            for seed in range(rows)
        ]
        return lambda: self._engine.sample(requests)

    def learn(self, rows: int, tokens: int, sharing: int) -> Callable[[], Any]:
        prompts = [prompt for _ in range(rows // sharing) for prompt in [self._ids(tokens - RESPONSE_TOKENS)] * sharing]
        responses = [self._ids(RESPONSE_TOKENS) for _ in range(rows)]
        logp = [np.full(RESPONSE_TOKENS, -1.0, np.float32)] * rows
        advantages = self._rng.normal(size=rows).astype(np.float32)
        made_up = TokenRows.from_lists(prompts, responses, logp, advantages=advantages)
        batch = TokenRowBatch({DEFAULT_MODULE_ID: made_up}, env_steps=rows)
        return lambda: self._learner.update(batch=batch)

    def _ids(self, tokens: int) -> np.ndarray:
        """int64[tokens], drawn."""
        return self._rng.integers(0, self._vocabulary, tokens)

    def law(self, gauge: Gauge, *, is_large: bool) -> Law:
        """Fits the costs of passes."""
        sampled, learned = (SAMPLED_BY_A_LARGE_MODEL, LEARNED_BY_A_LARGE_MODEL) if is_large else (SAMPLED, LEARNED)
        learning_lm = self._learner.module[DEFAULT_MODULE_ID].unwrapped().lm
        return Law(
            _fitted(self.sample, sampled, self._sampling_lm, sampler_features, gauge),
            _fitted(self.learn, learned, learning_lm, learner_features, gauge),
        )

    def gauge(self, *, is_large: bool) -> Gauge:
        sampled, learned = ((4, 60, 8), (4, 60, 1)) if is_large else ((64, 120, 24), (64, 80, 1))
        parts = self.sample(*sampled), self.learn(*learned)
        return Gauge(lambda: [part() for part in parts])


def _fitted(
    work: Callable[..., Callable[[], Any]],
    shapes: Sequence[tuple[int, ...]],
    lm: torch.nn.Module,
    features: Callable[[list[Pass], int], np.ndarray],
    gauge: Gauge,
) -> np.ndarray:
    """Non-negative costs of the features, in gauges, float64[F], with the least sum of squared relative errors."""
    of_calls, taken = [], []
    for shape in shapes:
        call = work(*shape)
        with noted_passes(lm) as passes:
            call()
        of_calls.append(features(passes, shape[0]))
        gauge.read()
        measured = [gauge.measure(call) for _ in range(REPETITIONS)]
        taken.append(median(seconds / of_gauge for _, seconds, of_gauge in measured))
    relative = np.stack(of_calls) / np.array(taken)[:, None]
    return nnls(relative, np.ones(len(taken)))[0]


def main(
    smollm2: Annotated[Path | None, typer.Option(help="Model directory, see `make smollm2`.", exists=True)] = None,
    iterations: Annotated[int, typer.Option(min=1, help="That are tested.")] = 4,
    json_file: Annotated[Path | None, typer.Option("--json", dir_okay=False)] = None,
) -> None:
    """Prints the costs and a Markdown table; with --json, writes the ratios too."""
    torch.set_num_threads(1)
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    ratios = {}
    for name, config in configs(smollm2).items():
        config = config.env_runners(num_env_runners=0).learners(num_learners=0)
        throwaway, is_large = config.copy(copy_frozen=False).build_algo(), "SmolLM2" in name
        work = MadeUpWork(throwaway)
        gauge = work.gauge(is_large=is_large)
        ratios[name] = _tested(name, work.law(gauge, is_large=is_large), gauge, config.build_algo(), iterations)
        throwaway.stop()
    ray.shutdown()
    typer.echo(f"\n{this_machine()}")
    if json_file is not None:
        json_file.write_text(json.dumps({"benchmark": "iteration_law", "ratios": ratios}, indent=1))


def _tested(name: str, law: Law, gauge: Gauge, algo: Any, iterations: int) -> float:
    """Trains, prints what iterations took and should have taken; returns predicted for measured, of all."""
    trained = [_trained(law, gauge, algo) for _ in range(1 + 2 * iterations)][1:]
    algo.stop()
    to_calibrate, to_test = trained[::2], trained[1::2]
    per_step = sum(one.measured - one.in_passes for one in to_calibrate) / sum(one.steps for one in to_calibrate)
    a, b, c, d, g = law.sampler * gauge.seconds
    e, f, h = law.learner * gauge.seconds
    typer.echo(
        f"\n{name}: sampler {1e3 * a:.3g} ms a pass, {1e6 * b:.3g} µs a token, {1e6 * c:.3g} µs a row, "
        f"{1e9 * d:.3g} ns an attended token; learner {1e3 * e:.3g} ms a pass, {1e6 * f:.3g} µs a token; a step "
        f"{1e3 * g:.3g} ms, {1e3 * h:.3g} ms and {1e3 * per_step * gauge.seconds:.3g} ms\n\n"
        f"{COLUMNS}\n{'|---' * 7}|"
    )
    for iteration, one in enumerate(to_test):
        _print_row(str(2 * iteration + 3), one, per_step, gauge.seconds)
    together = Trained(*map(sum, zip(*to_test, strict=True)))
    _print_row("all", together, per_step, gauge.seconds)
    return (together.passes + per_step * together.steps) / together.measured


def _print_row(name: str, one: Trained, per_step: float, gauge_seconds: float) -> None:
    predicted = one.passes + per_step * one.steps
    typer.echo(
        f"| {name} | {one.steps} | {one.tokens} | {predicted * gauge_seconds:.2f} | "
        f"{one.measured * gauge_seconds:.2f} | {predicted / one.measured:.2f} | {one.passes / one.in_passes:.2f} |"
    )


def _trained(law: Law, gauge: Gauge, algo: Any) -> Trained:
    """Trains an iteration."""
    runner, learner = algo.env_runner_group.local_env_runner, algo.learner_group._learner
    with (
        noted_passes(runner.module.lm) as sampled,
        noted_passes(learner.module[DEFAULT_MODULE_ID].lm) as learned,
        noted_seconds(runner.engines[DEFAULT_MODULE_ID], "_sample_batch") as sampling,
        noted_seconds(learner, "update") as updating,
    ):
        result, seconds, of_gauge = gauge.measure(algo.train)
    metrics = result["env_runners"]
    steps = round(metrics["num_episodes"] * metrics["episode_len_mean"])
    return Trained(
        steps,
        round(steps * metrics["response_tokens_mean"]),
        passes=sampler_features(sampled, steps) @ law.sampler + learner_features(learned, steps) @ law.learner,
        in_passes=sum(sampling + updating) / of_gauge,
        measured=seconds / of_gauge,
    )


if __name__ == "__main__":
    typer.run(main)
