"""Runs the benchmarks whose figures are ratios, and fails where one misses its limit.

    python benchmarks/bench.py [--smollm2 models/smollm2-135m-instruct] [--out DIRECTORY]

Never a limit in seconds: those are of the machine. The limits are the marks of docs/performance.md, less room for what
ratios differ by from run to run. Prints a Markdown table; the exit code is 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """A ratio that a script has measured, and the least, or the most, that it may be."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def holds(self) -> bool:
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)


def learner_step(measured: dict[str, Any]) -> Iterator[Figure]:
    for case in measured["cases"]:
        of = f"{case['model']}, {case['lengths']}"
        speeds, memory = case["speed_of_learner_over"], case["peak_megabytes"]
        bare = {name: speed for name, speed in speeds.items() if name.startswith("bare")}
        best = min(bare, key=lambda name: bare[name])
        yield Figure(f"learner's speed over {best}: {of}", bare[best], least=0.85)
        if case["lengths"] == "heavy tail":
            yield Figure(f"learner's speed over trl, padded: {of}", speeds["trl, padded"], least=1.3)
        yield Figure(f"learner's memory over {best}: {of}", memory["learner"] / memory[best], most=1.1)


def rollout_engine(measured: dict[str, Any]) -> Iterator[Figure]:
    for case in measured["cases"]:
        if case["case"] == "SmolLM2":
            shares = case["shares"]
            yield Figure("rollout over its engine alone, SmolLM2", case["of_engine_alone"], least=0.85)
            yield Figure("prompts and parsing, SmolLM2", shares["prompts"] + shares["parsing"], most=0.05)
        # A prompt without history is the template and the observation; with history, most of it was there before.
        yield Figure(f"prompt tokens encoded anew: {case['case']}", case["written_share"], most=0.9)


def advantages(measured: dict[str, Any]) -> Iterator[Figure]:
    ratios = measured["ratios"]
    for other, least in (("plain", 10), ("dictionaries", 5)):
        ratio = ratios[f"grouping and GiGPO, 102,400 rows: {other} for ours"]
        yield Figure(f"{other} over ours, 102,400 rows", ratio, least=least)
    yield Figure("loop over difflib over ours, 6,400 rows", _of(ratios, "similarity grouping, indel"), least=50)
    yield Figure("time of 102,400 rows over 6,400", _of(ratios, "growth from 6,400"), most=20)
    yield Figure("time of 1,000,000 rows over 40,000", _of(ratios, "growth from 40,000"), most=35)


def iteration(measured: dict[str, Any]) -> Iterator[Figure]:
    for name, share in measured["ratios"].items():
        if name.endswith(": credit"):
            yield Figure(f"share of credit assignment: {name.removesuffix(': credit')}", share, most=0.015)
        if name.endswith(": overhead"):
            yield Figure(f"share of RLlib and Ray: {name.removesuffix(': overhead')}", share, most=0.1)


def weight_delivery(measured: dict[str, Any]) -> Iterator[Figure]:
    for name, copies in measured["ratios"].items():
        if "SmolLM2" in name:  # of a small model, calls of actors are most of it
            yield Figure(f"weight delivery over two copies of its bytes: {name}", copies, most=2.5)


def start_up(measured: dict[str, Any]) -> Iterator[Figure]:
    for name, ratio in measured["ratios"].items():
        yield Figure(f"start over doing it by hand: {name}", ratio, most=5.0 if "help" in name else 2.0)


def iteration_law(measured: dict[str, Any]) -> Iterator[Figure]:
    for name, ratio in measured["ratios"].items():
        yield Figure(f"predicted over measured time of iterations: {name}", ratio, least=0.8, most=1.25)


def _of(ratios: dict[str, float], beginning: str) -> float:
    """The only ratio whose name begins like this."""
    (value,) = (value for name, value in ratios.items() if name.startswith(beginning))
    return value


# What each script's JSON file gives, by its name.
FIGURES: dict[str, Callable[[dict[str, Any]], Iterator[Figure]]] = {
    "advantages": advantages,
    "learner_step": learner_step,
    "rollout_engine": rollout_engine,
    "iteration": iteration,
    "iteration_law": iteration_law,
    "weight_delivery": weight_delivery,
    "start_up": start_up,
}
WITHOUT_MODEL = ("advantages", "iteration_law", "start_up")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", type=Path, help="directory of SmolLM2-135M-Instruct")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="a directory for the scripts' JSON files")
    parser.add_argument("--scripts", nargs="+", choices=FIGURES, default=list(FIGURES), help="which to run")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    for name in arguments.scripts:
        file = arguments.out / f"{name}.json"
        command = [sys.executable, str(Path(__file__).with_name(f"{name}.py")), "--json", str(file)]
        if arguments.smollm2 and name not in WITHOUT_MODEL:
            command += ["--smollm2", str(arguments.smollm2)]
        subprocess.run(command, check=True)
        figures += FIGURES[name](json.loads(file.read_text(encoding="utf-8")))
    print("\n| figure | measured | limit | |")
    print("|---|---|---|---|")
    for figure in figures:
        least = [] if figure.least is None else [f"at least {figure.least:g}"]
        limit = ", ".join(least + ([] if figure.most is None else [f"at most {figure.most:g}"]))
        print(f"| {figure.name} | {figure.value:.2f} | {limit} | {'' if figure.holds else 'MISSED'} |")
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
