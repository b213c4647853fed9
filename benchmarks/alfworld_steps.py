"""ALFWorld with parsing that remembers beside TextWorld as it comes: the same games, commands and texts.

    python benchmarks/alfworld_steps.py

Prints, per task type, the CPU milliseconds of a step and of a start for both, and the ratio. A start is one of a game
that was played before, but is not loaded now, as by the other members of a rollout group. Both sides play the same
random commands; it is an error if any text or list of commands differs. They take turns game by game, so that other
load on the machine falls on both.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rllib_gigpo.env_adapters.alfworld.engine import borrow_engine
from rllib_gigpo.env_adapters.alfworld.games import Game
from rllib_gigpo.env_adapters.alfworld.generated_games import GeneratedGames
from rllib_gigpo.env_adapters.alfworld.packages import packages
from rllib_gigpo.env_adapters.alfworld.task_types import TASK_TYPES


class StockEngine:
    """TextWorld and ALFWorld without anything of ours."""

    def __init__(self) -> None:
        infos = packages().textworld.EnvInfos(won=True, admissible_commands=True)
        self._env = packages().alfred_tw_env.AlfredDemangler(packages().pddl.PddlEnv(infos))

    def start(self, game: Game) -> Any:
        """Loads a game and resets."""
        self._env.load(dict(game.read()))
        return self._env.reset()

    def step(self, command: str) -> Any:
        """The state after a command."""
        return self._env.step(command)[0]


def play(engine: Any, game: Game, steps: int, seed: int) -> tuple[list[Any], float, float]:
    """What the game said, and CPU seconds of the start and of one step."""
    rng = np.random.default_rng(seed)
    state, start_seconds = _timed(lambda: engine.start(game))
    said, step_seconds = [(state.feedback, state["admissible_commands"], state["won"])], 0.0
    for _ in range(steps):
        commands = state["admissible_commands"]
        command = commands[rng.integers(len(commands))]
        state, seconds = _timed(lambda command=command: engine.step(command))
        said.append((state.feedback, state["admissible_commands"], state["won"]))
        step_seconds += seconds / steps
    return said, start_seconds, step_seconds


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


class Comparison:
    """CPU milliseconds of steps and starts, by task type and engine ("ours" or "stock")."""

    def __init__(self) -> None:
        self._milliseconds: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def add(self, task_type: str, engine: str, *, start: float, step: float) -> None:
        """Adds the seconds of a game's start and of one of its steps."""
        self._milliseconds[task_type, engine, "start"].append(1000 * start)
        self._milliseconds[task_type, engine, "step"].append(1000 * step)

    def mean_ms(self, engine: str, what: str, task_types: Iterable[str] = TASK_TYPES) -> float:
        """The mean over games of "step" or "start"."""
        return statistics.mean(ms for task_type in task_types for ms in self._milliseconds[task_type, engine, what])

    def ratio(self, what: str) -> float:
        """How many times as fast ours is."""
        return self.mean_ms("stock", what) / self.mean_ms("ours", what)


def compared_with_stock(*, games: int, steps: int, receptacles: int = 10, objects: int = 5) -> Comparison:
    """Plays `games` games of each task type with both.

    Raises:
        ValueError: A text or a list of commands differs.
    """
    source = GeneratedGames("train", TASK_TYPES, receptacles, objects)
    engines = {"ours": borrow_engine(), "stock": StockEngine()}
    comparison = Comparison()
    for number in range(-len(TASK_TYPES), games * len(TASK_TYPES)):  # the first round warms up
        game = source.by_number(number % (games * len(TASK_TYPES)))
        said = {}
        for name, engine in engines.items():
            said[name], start, step = play(engine, game, steps, seed=number % 1000)
            if number >= 0:
                comparison.add(game.task_type, name, start=start, step=step)
        if said["ours"] != said["stock"]:
            raise ValueError(f"{game.task_id}: the texts differ")
    return comparison


def main() -> None:
    """Plays and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=2, help="of each task type")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--receptacles", type=int, default=10)
    parser.add_argument("--objects", type=int, default=5)
    found = compared_with_stock(**vars(parser.parse_args()))

    print(f"{'':34}{'step: ours':>12}{'stock':>8}{'ratio':>7}{'start: ours':>14}{'stock':>8}{'ratio':>7}   (CPU ms)")
    for task_type in TASK_TYPES:
        print(f"{task_type:34}", end="")
        for what, width in (("step", 12), ("start", 14)):
            ours, stock = (found.mean_ms(engine, what, [task_type]) for engine in ("ours", "stock"))
            print(f"{ours:{width}.1f}{stock:8.1f}{stock / ours:7.2f}", end="")
        print()
    print(f"all steps: {found.ratio('step'):.2f} times as fast, identical texts and commands")


if __name__ == "__main__":
    main()
