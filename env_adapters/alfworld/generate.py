"""Writes small games in the layout of ALFWorld's public data.

    python -m rllib_gigpo.env_adapters.alfworld.generate OUT --games N --seed S

makes N games of each of the six task types for each of the three splits. The planner solves every game that is written.
The same options write the same files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rllib_gigpo.env_adapters.alfworld.engine import borrow_engine, give_back
from rllib_gigpo.env_adapters.alfworld.game_files import GAME_FILE, GAMES_FOLDER, TRAJECTORY_FILE
from rllib_gigpo.env_adapters.alfworld.generated_games import (
    NUM_OBJECTS,
    NUM_RECEPTACLES,
    GeneratedGames,
    check_sizes,
)
from rllib_gigpo.env_adapters.alfworld.task_types import SPLITS, TASK_TYPES


def write_games(
    out: Path,
    *,
    games: int,
    seed: int,
    num_receptacles: int = NUM_RECEPTACLES,
    num_objects: int = NUM_OBJECTS,
) -> Iterator[Path]:
    """Writes `games` games of each type and split, and yields the folder of each as soon as it is written.

    Raises:
        FileExistsError: `out` already holds games.
        ValueError: A number is not allowed.
        RuntimeError: The planner finds no solution for a game.
    """
    for name, value, lowest in (("games", games, 1), ("seed", seed, 0)):
        if value < lowest:
            raise ValueError(f"{name} is {value}; it must be at least {lowest}")
    check_sizes(num_receptacles, num_objects)
    if (out / GAMES_FOLDER).exists():
        raise FileExistsError(f"{out / GAMES_FOLDER} exists already; name a folder without games, or remove it")
    engine = borrow_engine()
    try:
        for split in SPLITS:
            source = GeneratedGames(split, TASK_TYPES, num_receptacles, num_objects, seed)
            for task_type in TASK_TYPES:
                for index in range(games):
                    game = source.game(split, task_type, index)
                    engine.start(game)
                    walkthrough = engine.plan()
                    if not walkthrough:
                        raise RuntimeError(f"the planner finds no solution for {game.task_id} of seed {seed}")
                    trajectory = source.trajectory(split, task_type, index)
                    folder = out / GAMES_FOLDER / split / _folder_name(trajectory, index) / f"trial_{index}"
                    folder.mkdir(parents=True)
                    _write_json(folder / TRAJECTORY_FILE, trajectory)
                    _write_json(folder / GAME_FILE, {**game.read(), "walkthrough": walkthrough})
                    yield folder
    finally:
        give_back(engine)


def _folder_name(trajectory: dict[str, Any], index: int) -> str:
    """In the manner of the public data, type-object-movable receptacle-receptacle-scene."""
    asked = trajectory["pddl_params"]
    place = asked["parent_target"] or asked["toggle_target"]
    return f"{trajectory['task_type']}-{asked['object_target']}-None-{place}-{index}"


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__spec__.name}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder to write to; set ALFWORLD_DATA to it afterwards")
    parser.add_argument("--games", type=int, default=1, help="games of each task type and split (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other games (default 0)")
    parser.add_argument("--receptacles", type=int, default=NUM_RECEPTACLES, help="of a room (default %(default)s)")
    parser.add_argument("--objects", type=int, default=NUM_OBJECTS, help="beside the task's own (default %(default)s)")
    given = parser.parse_args(arguments)
    total = given.games * len(SPLITS) * len(TASK_TYPES)
    written = write_games(
        given.out,
        games=given.games,
        seed=given.seed,
        num_receptacles=given.receptacles,
        num_objects=given.objects,
    )
    try:
        for count, folder in enumerate(written, start=1):
            print(f"{count}/{total} {folder.relative_to(given.out)}", flush=True)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"export ALFWORLD_DATA={given.out.resolve()}")


if __name__ == "__main__":
    main()
