"""The time of an iteration from what a forward pass, a token and a step cost, against iterations as they are.

    python benchmarks/iteration_law.py [--smollm2 models/smollm2-135m-instruct] [--json FILE]

The law: an iteration takes, in one process,

    Σ over the passes of the sampler   a + b·tokens + c·rows + d·attended
  + Σ over the passes of the learner   e + f·tokens
  + g·environment steps

`attended` is rows · tokens · width, with what is in the cache; tokens are those of the rectangle. Those of a pass with
a gradient count three times, for the backward pass takes two forward ones. a to f are fitted to responses and updates
of made-up rows, g to iterations. Then iterations are trained, in which only the shapes of the passes are
noted, and the law is asked what they should have taken. Processor seconds of one thread.

The very first iteration counts for nothing: what a process does once is in it. g is fitted to the next two.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import ray
import torch
import typer
from iteration import configs
from machine import this_machine
from ray.rllib.core import DEFAULT_MODULE_ID
from scipy.optimize import nnls

from rllib_gigpo.inference.hf_sampler import sample_responses
from rllib_gigpo.inference.protocol import GenerationRequest, SamplingParams
from rllib_gigpo.rows import TokenRowBatch, TokenRows

# Batches of the sampler: (rows, prompt tokens, response tokens); updates of the learner: (rows, tokens a row).
SAMPLED = ((1, 24, 8), (8, 48, 8), (32, 80, 16), (128, 60, 16), (128, 140, 8), (64, 120, 24), (16, 200, 16))
LEARNED = ((8, 40), (32, 80), (128, 80), (256, 120), (64, 160), (512, 100))
SAMPLED_BY_A_LARGE_MODEL = ((1, 24, 4), (4, 60, 8), (16, 90, 12), (16, 60, 20), (8, 120, 8))
LEARNED_BY_A_LARGE_MODEL = ((2, 60), (4, 100), (16, 80), (24, 100))
REPETITIONS, CALIBRATING = 3, 2
COLUMNS = "| iteration | steps | sampled tokens | predicted, s | measured, s | predicted for measured |"
RESPONSE_TOKENS = 12  # of a made-up row of the learner


class Pass(NamedTuple):
    """A forward pass: rows of a rectangle, tokens of each, tokens that the last one attends to, and what follows."""

    rows: int
    tokens: int
    width: int
    has_gradient: bool


class Law(NamedTuple):
    """Seconds: float64[4], (a, b, c, d), of a sampler's passes, and float64[2], (e, f), of a learner's."""

    sampler: np.ndarray
    learner: np.ndarray

    def sample_seconds(self, passes: list[Pass]) -> float:
        return float(sampler_features(passes) @ self.sampler)

    def update_seconds(self, passes: list[Pass]) -> float:
        return float(learner_features(passes) @ self.learner)


def sampler_features(passes: list[Pass]) -> np.ndarray:
    """float64[4]: passes, tokens, rows, attended tokens."""
    shape = np.array([(1, p.rows * p.tokens, p.rows, p.rows * p.tokens * p.width) for p in passes], np.float64)
    return shape.sum(axis=0)


def learner_features(passes: list[Pass]) -> np.ndarray:
    """float64[2]: passes, tokens."""
    tokens = sum(p.rows * p.tokens * (3 if p.has_gradient else 1) for p in passes)
    return np.array([len(passes), tokens], np.float64)


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


def measured_law(algo: Any, *, is_large: bool) -> Law:
    """Fits the costs of passes; the algorithm's weights are of no use afterwards."""
    runner, learner = algo.env_runner_group.local_env_runner, algo.learner_group._learner
    rng = np.random.default_rng(0)
    vocabulary = int(runner.module.lm.config.vocab_size)

    def sample(rows: int, prompt: int, response: int) -> Callable[[], Any]:
        parameters = SamplingParams(max_response_tokens=response)
        requests = [
            GenerationRequest(rng.integers(0, vocabulary, prompt).astype(np.int32), seed=i, sampling=parameters)
            for i in range(rows)
        ]
        return lambda: sample_responses(
            runner.module.lm,
            requests,
            eos_token_ids=(),
            pad_token_id=0,
            decode=lambda ids: "",
            device=torch.device("cpu"),
        )

    def learn(rows: int, tokens: int) -> Callable[[], Any]:
        prompts = [rng.integers(0, vocabulary, tokens - RESPONSE_TOKENS) for _ in range(rows)]
        responses = [rng.integers(0, vocabulary, RESPONSE_TOKENS) for _ in range(rows)]
        logp = [np.full(RESPONSE_TOKENS, -1.0, np.float32)] * rows
        advantages = rng.normal(size=rows).astype(np.float32)
        made_up = TokenRows.from_lists(prompts, responses, logp, advantages=advantages)
        batch = TokenRowBatch({DEFAULT_MODULE_ID: made_up}, env_steps=rows)
        return lambda: learner.update(batch=batch)

    return Law(
        _fitted(
            [sample(*shape) for shape in (SAMPLED_BY_A_LARGE_MODEL if is_large else SAMPLED)],
            runner.module.lm,
            sampler_features,
        ),
        _fitted(
            [learn(*shape) for shape in (LEARNED_BY_A_LARGE_MODEL if is_large else LEARNED)],
            learner.module[DEFAULT_MODULE_ID].unwrapped().lm,
            learner_features,
        ),
    )


def _fitted(
    calls: list[Callable[[], Any]], lm: torch.nn.Module, features: Callable[[list[Pass]], np.ndarray]
) -> np.ndarray:
    """Non-negative costs of the features, float64[F], with the least sum of squared relative errors."""
    of_calls, seconds = [], []
    for call in calls:
        taken = []
        for _ in range(REPETITIONS):
            with noted_passes(lm) as passes:
                start = time.process_time()
                call()
                taken.append(time.process_time() - start)
        of_calls.append(features(passes))
        seconds.append(min(taken))
    relative = np.stack(of_calls) / np.array(seconds)[:, None]
    return nnls(relative, np.ones(len(seconds)))[0]


def main(
    smollm2: Annotated[Path | None, typer.Option(help="Model directory, see `make smollm2`.", exists=True)] = None,
    iterations: Annotated[int, typer.Option(min=1)] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", dir_okay=False)] = None,
) -> None:
    """Prints the costs and a Markdown table; with --json, writes the ratios too."""
    torch.set_num_threads(1)
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    ratios = {}
    for name, config in configs(smollm2).items():
        config = config.env_runners(num_env_runners=0).learners(num_learners=0)
        throwaway = config.copy(copy_frozen=False).build_algo()
        law = measured_law(throwaway, is_large="SmolLM2" in name)
        throwaway.stop()
        ratios[name] = _tested(name, law, config.build_algo(), iterations)
    ray.shutdown()
    typer.echo(f"\n{this_machine()}")
    if json_file is not None:
        json_file.write_text(json.dumps({"benchmark": "iteration_law", "ratios": ratios}, indent=1))


def _tested(name: str, law: Law, algo: Any, iterations: int) -> float:
    """Trains, prints what iterations took and should have taken; returns predicted for measured, of all."""
    runner, learner = algo.env_runner_group.local_env_runner, algo.learner_group._learner
    a, b, c, d = law.sampler
    e, f = law.learner
    typer.echo(
        f"\n{name}: sampler {1e3 * a:.3g} ms a pass, {1e6 * b:.3g} µs a token, {1e6 * c:.3g} µs a row, "
        f"{1e9 * d:.3g} ns an attended token; learner {1e3 * e:.3g} ms a pass and {1e6 * f:.3g} µs a token\n\n"
        f"{COLUMNS}\n{'|---' * 6}|"
    )
    beside_passes, steps_to_calibrate, predicted_all, measured_all = 0.0, 0, 0.0, 0.0
    for iteration in range(1 + CALIBRATING + iterations):
        with noted_passes(runner.module.lm) as sampled, noted_passes(learner.module[DEFAULT_MODULE_ID].lm) as learned:
            start = time.process_time()
            result = algo.train()
            measured = time.process_time() - start
        metrics = result["env_runners"]
        steps = round(metrics["num_episodes"] * metrics["episode_len_mean"])
        passes = law.sample_seconds(sampled) + law.update_seconds(learned)
        if iteration == 0:
            continue
        if iteration <= CALIBRATING:
            beside_passes, steps_to_calibrate = beside_passes + measured - passes, steps_to_calibrate + steps
            per_step = beside_passes / steps_to_calibrate
            typer.echo(
                f"| {iteration + 1}, to calibrate: {1e3 * per_step:.2f} ms a step beside passes | {steps} | | | "
                f"{measured:.2f} | |"
            )
            continue
        predicted = passes + per_step * steps
        tokens = round(steps * metrics["response_tokens_mean"])
        typer.echo(
            f"| {iteration + 1} | {steps} | {tokens} | {predicted:.2f} | {measured:.2f} | {predicted / measured:.2f} |"
        )
        predicted_all, measured_all = predicted_all + predicted, measured_all + measured
    algo.stop()
    return predicted_all / measured_all


if __name__ == "__main__":
    typer.run(main)
