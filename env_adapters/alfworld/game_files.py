"""Games in files, in the layout of ALFWorld's public data."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from rllib_gigpo.env_adapters.alfworld.games import BrokenGameError, Game
from rllib_gigpo.env_adapters.alfworld.packages import DATA_VARIABLE
from rllib_gigpo.env_adapters.alfworld.task_types import SPLITS, TASK_TYPES

logger = logging.getLogger(__name__)

GAMES_FOLDER = "json_2.1.1"
GAME_FILE = "game.tw-pddl"
TRAJECTORY_FILE = "traj_data.json"
LAYOUT = f"{GAMES_FOLDER}/{{{','.join(SPLITS)}}}/<task>/<trial>/{{{TRAJECTORY_FILE},{GAME_FILE}}}"
_GAME_KEYS = ("pddl_domain", "grammar", "pddl_problem", "solvable")


class GameFiles:
    """The playable games of one split, sorted by name.

    As in ALFWorld itself a game is left out if it is not known to be solvable, or has movable receptacles or sliced
    objects in its name. Broken files are left out with a warning.

    Attributes:
        games: At least one.
        skipped: How many games of the split were left out, by reason: "broken", "unsolvable", "unsupported".

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: No game is left.
    """

    def __init__(self, data: Path, *, split: str, task_types: Sequence[str], need_human_goals: bool):
        self._data = data
        scan = _scan(data, split)
        self.skipped: Mapping[str, int] = dict(scan.skipped)
        self.games = [
            game for game in scan.games if game.task_type in task_types and (game.human_goals or not need_human_goals)
        ]
        if not self.games:
            wanted = f"of the types {', '.join(task_types)}" + (" with a human description" if need_human_goals else "")
            raise ValueError(
                f"no game is left in {data / GAMES_FOLDER / split}: {len(scan.games)} are playable, none {wanted}; "
                f"left out were {_described(scan.skipped)}"
            )

    def by_number(self, number: int) -> Game:
        return self.games[number % len(self.games)]

    def by_task_id(self, task_id: str) -> Game:
        split = task_id.split("/")[0]
        found = [game for game in _scan(self._data, split).games if game.task_id == task_id] if split in SPLITS else []
        if not found:
            raise ValueError(
                f"task is {task_id!r}, but {self._data / GAMES_FOLDER} has no playable game of that name; a name is "
                "the path of its folder there, such as 'train/<task>/<trial>'"
            )
        return found[0]


class _Scan(NamedTuple):
    games: tuple[Game, ...]
    skipped: Counter[str]


@cache
def _scan(data: Path, split: str) -> _Scan:
    """All games of a split; read once in a process, since the public data has thousands."""
    games_folder = data / GAMES_FOLDER
    if not (games_folder / split).is_dir():
        raise FileNotFoundError(
            f"{games_folder / split} is no folder; set {DATA_VARIABLE}, or env_config['data'], to a folder with "
            f"{LAYOUT}, which alfworld-download fetches and python -m rllib_gigpo.env_adapters.alfworld.generate makes"
        )
    games, skipped, broken = [], Counter[str](), []
    for trajectory_file in sorted((games_folder / split).rglob(TRAJECTORY_FILE), key=lambda path: path.as_posix()):
        folder = trajectory_file.parent
        task_id = folder.relative_to(games_folder).as_posix()
        if "movable" in task_id or "Sliced" in task_id:
            skipped["unsupported"] += 1
            continue
        try:
            game = _game(data, folder, task_id)
        except BrokenGameError as error:
            broken.append(str(error))
            continue
        if game is None:
            skipped["unsolvable"] += 1
        elif game.task_type not in TASK_TYPES:
            skipped["unsupported"] += 1
        else:
            games.append(game)
    if broken:
        skipped["broken"] = len(broken)
        logger.warning(
            "%d broken games of %s are left out, the first: %s", len(broken), games_folder / split, broken[0]
        )
    if not games:
        raise ValueError(
            f"{games_folder / split} holds no playable game; left out were {_described(skipped)}. Expected is {LAYOUT} "
            f"in the folder that {DATA_VARIABLE}, or env_config['data'], names"
        )
    return _Scan(tuple(games), skipped)


def _game(data: Path, folder: Path, task_id: str) -> Game | None:
    """The game of a folder, None where it is not known to be solvable."""
    trajectory = _read_json(folder / TRAJECTORY_FILE, needed=("task_type",))
    if not (folder / GAME_FILE).exists():
        return None
    content = _read_json(folder / GAME_FILE, needed=_GAME_KEYS[:-1])
    if not content.get("solvable"):
        return None
    annotations = trajectory.get("turk_annotations", {}).get("anns", [])
    goals = tuple(str(annotation["task_desc"]).strip() for annotation in annotations if "task_desc" in annotation)
    read = partial(_read_json, folder / GAME_FILE, needed=_GAME_KEYS)
    return Game(str(data), task_id, str(trajectory["task_type"]), goals, read)


def _read_json(path: Path, *, needed: Sequence[str]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BrokenGameError(f"{path}: {error}") from error
    missing = [key for key in needed if not isinstance(content, dict) or key not in content]
    if missing:
        raise BrokenGameError(f"{path}: it has no {', '.join(missing)}")
    return content


def _described(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items())) or "none"
