"""What rows of a rollout group share, and what an update gains by computing it once.

    python benchmarks/shared_prefixes.py [--smollm2 models/smollm2-135m-instruct] [--out shared_prefixes.json]

First counts, without a model: the rows' tokens for each token of the trie of all rows; and for each token that passes
of 16,384 tokens compute, with all rows in one optimizer step, and in ten. Then updates with and without
`share_prefixes`, in turns, on the embedded models, and, where there is one, on SmolLM2: the ratio of their CPU times,
each the least of the turns. The rows are those of `rollout_rows`: members follow an expert in three steps out of four,
or in nine out of ten.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import this_machine
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup
from rollout_rows import Play, rollout_rows

from rllib_gigpo.algorithms.grpo import GRPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.learners.shared_prefixes import pack_trie, split_into_passes, trie_order
from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from rllib_gigpo.rl_modules.model_directory import load_tokenizer
from rllib_gigpo.rows import TokenRowBatch, TokenRows

PARTS = ("counts", "embedded", "smollm2")
TOKEN_BUDGET = 16_384
SHORT, LONG = (8, 16), (40, 120)
ALFWORLD = Play("ALFWorld", {"data": "", "num_receptacles": 20}, LONG)
PLAYS = (
    Play("NumberLine", {}, SHORT),
    Play("EZPoints", {}, SHORT),
    Play("Household", {}, LONG),
    ALFWORLD,
    Play("WebShop", {"data": "", "num_products": 100, "max_steps": 15}, LONG),
)
# The embedded models answer in a few tokens; rows, and the model.
EMBEDDED = (
    (Play("NumberLine", {}, (4, 6)), "EZPoints"),
    (Play("EZPoints", {}, (4, 6)), "EZPoints"),
    (Play("Household", {}, (4, 6)), "Household"),
    (Play("ALFWorldTiny", {}, (4, 6)), "ALFWorldTiny"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", type=Path, help="directory of SmolLM2-135M-Instruct, whose tokenizer counts too")
    parser.add_argument("--smollm2-tokens", type=int, default=8192, help="tokens of the rows of its update")
    parser.add_argument("--groups", type=int, default=4, help="rollout groups of eight")
    parser.add_argument("--turns", type=int, default=5, help="updates of an embedded model with, and without")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tables: dict[str, list[dict[str, Any]]] = {part: [] for part in arguments.parts}
    if "counts" in tables:
        count_tokens(tables["counts"], arguments.smollm2 or embedded_model_path("Household"), arguments.groups)
    if "embedded" in tables:
        time_embedded(tables["embedded"], arguments.groups, arguments.turns)
    if "smollm2" in tables and arguments.smollm2:
        time_smollm2(tables["smollm2"], arguments.smollm2, arguments.smollm2_tokens)
    if arguments.out:
        figures = {"machine": this_machine(), **tables}
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def count_tokens(table: list[dict[str, Any]], tokenizer_path: Path, groups: int) -> None:
    tokenizer = load_tokenizer(tokenizer_path)
    for play in PLAYS:
        for follows_expert in (0.75, 0.9):
            rows = rollout_rows(play, tokenizer, groups=groups, follows_expert=follows_expert)
            table.append({"rows of": f"{play.env}, expert {follows_expert}", **counted(rows)})
            print_row(table)


def time_embedded(table: list[dict[str, Any]], groups: int, turns: int) -> None:
    for play, model in EMBEDDED:
        path = embedded_model_path(model)
        rows = rollout_rows(play, load_tokenizer(path), groups=groups, max_tokens=512)
        for steps in (1, 4):
            name = f"{play.env}, {steps} step{'s' * (steps > 1)}"
            table.append({"rows of": name, **timed(path, rows, turns, steps)})
            print_row(table)


def time_smollm2(table: list[dict[str, Any]], path: Path, num_tokens: int) -> None:
    for play in (PLAYS[0], ALFWORLD):
        rows = some(rollout_rows(play, load_tokenizer(path), groups=1, follows_expert=0.9), num_tokens)
        table.append({"rows of": f"{play.env}, SmolLM2", **timed(path, rows, turns=1, num_steps=1)})
        print_row(table)


def counted(rows: TokenRows) -> dict[str, float]:
    """Tokens of the rows for each token that is left of them."""
    trie = pack_trie(rows.take(trie_order(rows)))
    return {
        "rows": len(rows),
        "tokens a row": rows.num_tokens / len(rows),
        "whole trie": rows.num_tokens / trie.input_ids.size,
        "1 step": rows.num_tokens / computed_tokens(rows, 1),
        "10 steps": rows.num_tokens / computed_tokens(rows, 10),
    }


def computed_tokens(rows: TokenRows, num_steps: int) -> int:
    """Tokens in the passes of all optimizer steps, without padding."""
    tokens = 0
    for of_step in np.array_split(np.random.default_rng(0).permutation(len(rows)), num_steps):
        in_step = rows.take(of_step)
        for part, layout in split_into_passes(in_step, TOKEN_BUDGET, share_prefixes=True):
            in_pass = in_step.take(part)
            tokens += pack_trie(in_pass).input_ids.size if layout == "trie" else in_pass.num_tokens
    return tokens


def timed(model_path: Path, rows: TokenRows, turns: int, num_steps: int) -> dict[str, float]:
    """CPU seconds of an update with and without sharing, and the plain one's for each of the other's."""
    learners = {share: learner_group(model_path, share, num_steps) for share in (False, True)}
    seconds: dict[bool, list[float]] = {False: [], True: []}
    share = 0.0
    for group in learners.values():  # the first pass of a process is slower
        group.update(batch=TokenRowBatch({DEFAULT_MODULE_ID: rows.take(np.arange(1))}, 1), timesteps={})
    for _ in range(turns):
        for shares, group in learners.items():
            began = time.process_time()
            (result,) = group.update(batch=TokenRowBatch({DEFAULT_MODULE_ID: rows}, len(rows)), timesteps={})
            seconds[shares].append(time.process_time() - began)
            share = float(result[DEFAULT_MODULE_ID]["shared_prefix_share"].peek())
    plain, shared = min(seconds[False]), min(seconds[True])
    return {
        "rows": len(rows),
        "tokens a row": rows.num_tokens / len(rows),
        "tokens": 1 / (1 - share),
        "plain s": plain,
        "shared s": shared,
        "time": plain / shared,
    }


def learner_group(model_path: Path, share_prefixes: bool, num_steps: int) -> LearnerGroup:
    """A local learner, at a learning rate that leaves the model as it is."""
    config = GRPOConfig().learners(num_learners=0).training(lr=1e-9, num_minibatches=num_steps).debugging(seed=0)
    spec = causal_lm_spec(str(model_path), attn_implementation="sdpa", share_prefixes=share_prefixes)
    return LearnerGroup(config=config, module_spec=spec.as_multi_rl_module_spec())


def some(rows: TokenRows, num_tokens: int) -> TokenRows:
    """Rows drawn at random, of about so many tokens."""
    order = np.random.default_rng(0).permutation(len(rows))
    return rows.take(order[: max(1, int((np.cumsum(rows.lengths[order]) <= num_tokens).sum()))])


def print_row(table: list[dict[str, Any]]) -> None:
    """Prints the last row of a table, and its head before the first."""
    row = table[-1]
    if len(table) == 1:
        print(f"{'rows of':26}" + "".join(f"{name:>14}" for name in row if name != "rows of"))
    shown = (f"{value:>14}" if isinstance(value, int) else f"{value:>14.2f}" for value in list(row.values())[1:])
    print(f"{row['rows of']:26}" + "".join(shown), flush=True)


if __name__ == "__main__":
    main()
