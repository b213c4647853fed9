"""Tokens per second and peak memory of a learner's update against loops that have nothing but transformers.

    python benchmarks/learner_step.py [--smollm2 models/smollm2-135m-instruct] [--json learner_step.json]

Every way makes the same update: the same model, rows and loss, passes of at most the same number of tokens, gradients
clipped, one step of AdamW. Ways take turns; the CPU time of one is compared with that of another of the same turn, and
the median of these ratios is given, so that neither the machine nor what else it does counts. Memory is the most that
torch holds at a time during an update beyond what it held before, by its profiler, in a turn that is not timed. Rows
are random ones, which share nothing, and those of rollout groups, of which the learner computes shared prefixes once.

Where `trl` is installed (in an environment of its own, `pip install trl` pulls other versions), its trainer's loss is
measured as it is; the loop in its rectangles, `trl, padded`, is measured always.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from bare_loops import PackedLoop, PaddedLoop, RowByRowLoop
from machine import this_machine
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup
from rollout_rows import Play, rollout_rows
from trl_loops import TRLLoop, TRLPaddedLoop, has_trl

from rllib_gigpo.algorithms.grpo import GRPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from rllib_gigpo.rl_modules.model_directory import load_tokenizer
from rllib_gigpo.rows import TokenRowBatch, TokenRows

OURS = "learner"
OURS_PADDED = "learner, padded"
BARE = ("bare, padded", "bare, packed", "bare, row by row")
TRL_PADDED, TRL = "trl, padded", "trl"
LENGTHS = ("equal", "uniform", "heavy tail", "rollout groups")


class Learner:
    """Our learner, in this process; its defaults, or every row by itself in padded passes."""

    def __init__(self, path: Path, token_budget: int, share_prefixes: bool = True):
        config = GRPOConfig().learners(num_learners=0).training(lr=1e-9, micro_batch_tokens=token_budget, grad_clip=1.0)
        spec = causal_lm_spec(str(path), share_prefixes=share_prefixes)
        self.group = LearnerGroup(config=config.debugging(seed=0), module_spec=spec.as_multi_rl_module_spec())

    def update(self, rows: TokenRows) -> None:
        self.group.update(batch=TokenRowBatch({DEFAULT_MODULE_ID: rows}, len(rows)), timesteps={})


WAYS: dict[str, Callable[[Path, int], Any]] = {
    OURS: Learner,
    OURS_PADDED: partial(Learner, share_prefixes=False),
    BARE[0]: PaddedLoop,
    BARE[1]: PackedLoop,
    BARE[2]: RowByRowLoop,
    TRL_PADDED: TRLPaddedLoop,
    TRL: TRLLoop,
}


class Case(NamedTuple):
    """What is measured: a model, rows, how many tokens a pass may have, and in how many turns, of TRL's ways in fewer
    where one takes half a minute."""

    name: str
    model: str
    lengths: str
    num_tokens: int
    token_budget: int
    turns: int
    trl_turns: int


def cases(smollm2: Path | None, smollm2_tokens: int) -> list[Case]:
    embedded = str(embedded_model_path("Household"))
    return [
        *(Case("embedded", embedded, lengths, 8192, 2048, 3, 3) for lengths in LENGTHS),
        *(Case("SmolLM2", str(smollm2), lengths, smollm2_tokens, 1024, 3, 1) for lengths in LENGTHS[:3] if smollm2),
    ]


def random_rows(lengths: str, num_tokens: int, vocabulary: int) -> TokenRows:
    """Rows of about `num_tokens` tokens, of which a tenth to a half are the response's.

    "equal": 256 each. "uniform": 32 to 512. "heavy tail": 32 at least, a Pareto tail of exponent 1.2, 1024 at most.
    """
    rng = np.random.default_rng(0)
    count = num_tokens // 16
    drawn = {
        "equal": np.full(count, 256),
        "uniform": rng.integers(32, 513, count),
        "heavy tail": np.minimum(32 * (1 + rng.pareto(1.2, count)), 1024).astype(np.int64),
    }[lengths]
    drawn = drawn[: max(2, int((np.cumsum(drawn) <= num_tokens).sum()))]
    responses = np.maximum(1, (drawn * rng.uniform(0.1, 0.5, len(drawn))).astype(np.int64))
    ids = [rng.integers(0, vocabulary, length) for length in drawn]
    return TokenRows.from_lists(
        [row[:-n] for row, n in zip(ids, responses, strict=True)],
        [row[-n:] for row, n in zip(ids, responses, strict=True)],
        [np.full(n, -1.0) for n in responses],
        advantages=rng.standard_normal(len(drawn)),
    )


def rows_of(case: Case) -> TokenRows:
    tokenizer = load_tokenizer(case.model)
    if case.lengths == "rollout groups":
        rows = rollout_rows(Play("Household", {}, (4, 6)), tokenizer, groups=2, max_tokens=512)
        return rows.take(np.flatnonzero(np.cumsum(rows.lengths) <= case.num_tokens))
    return random_rows(case.lengths, case.num_tokens, len(tokenizer))


def measured(case: Case, ways: list[str]) -> dict[str, Any]:
    """Tokens per second, ratios to the learner's, and memory, of each way."""
    rows = rows_of(case)
    loops = {name: WAYS[name](Path(case.model), case.token_budget) for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    warm_up = rows.take(np.argsort(rows.lengths)[:2])
    memory = {}
    for name, loop in loops.items():
        loop.update(warm_up)  # the optimizer's state is there from now on
        memory[name] = peak_megabytes(partial(loop.update, rows))
    for turn in range(case.turns):
        for name, loop in loops.items():
            if turn >= case.trl_turns and name in (TRL_PADDED, TRL):
                continue
            began = time.process_time()
            loop.update(rows)
            seconds[name].append(time.process_time() - began)
    speeds = {
        name: statistics.median(other / own for own, other in zip(seconds[OURS], taken, strict=False))
        for name, taken in seconds.items()
        if name != OURS
    }
    return {
        "model": case.name,
        "lengths": case.lengths,
        "rows": len(rows),
        "tokens": rows.num_tokens,
        "tokens_per_cpu_second": {name: rows.num_tokens / statistics.median(taken) for name, taken in seconds.items()},
        "speed_of_learner_over": speeds,
        "peak_megabytes": memory,
    }


def peak_megabytes(update: Callable[[], None]) -> float:
    """The most that tensors take at a time while it runs, beyond what they took before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        update()
    events = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    return float(np.cumsum([change for _, change in changes]).max()) / 2**20


def print_tables(results: list[dict[str, Any]]) -> None:
    names = [name for name in WAYS if name in results[0]["tokens_per_cpu_second"]]
    for title, key, form in (
        ("Tokens per CPU second", "tokens_per_cpu_second", "{:,.0f}"),
        ("Speed of the learner over", "speed_of_learner_over", "{:.2f}"),
        ("Peak memory, MB", "peak_megabytes", "{:,.0f}"),
    ):
        columns = [name for name in names if name in results[0][key]]
        print(f"\n| {title} | rows | " + " | ".join(columns) + " |")
        print("|---" * (2 + len(columns)) + "|")
        for result in results:
            cells = [form.format(result[key][name]) if name in result[key] else "" for name in columns]
            print(f"| {result['model']}, {result['lengths']} | {result['rows']} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", type=Path, help="directory of SmolLM2-135M-Instruct")
    parser.add_argument("--smollm2-tokens", type=int, default=1024, help="tokens of its rows, about")
    parser.add_argument("--only", help="cases whose model has this name")
    parser.add_argument("--ways", nargs="+", choices=WAYS, help="what to measure; all by default")
    parser.add_argument("--lengths", nargs="+", choices=LENGTHS, default=LENGTHS, help="cases of these lengths")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ways = arguments.ways or [name for name in WAYS if name != TRL or has_trl()]
    results = []
    for case in cases(arguments.smollm2, arguments.smollm2_tokens):
        if arguments.only in (None, case.name) and case.lengths in arguments.lengths:
            # Minutes with a large model, and never the fastest.
            of_case = [name for name in ways if case.name == "embedded" or name not in (OURS_PADDED, BARE[1])]
            results.append(measured(case, of_case))
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    print_tables(results)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": this_machine(), "cases": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
