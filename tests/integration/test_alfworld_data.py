"""ALFWorld's games in files: the generator, the public layout, and what is wrong with data folders."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from pathlib import Path

import pytest

from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_adapters.alfworld.alfworld_env import ALFWorld
from rllib_gigpo.env_adapters.alfworld.game_files import GameFiles
from rllib_gigpo.env_adapters.alfworld.games import BrokenGameError
from rllib_gigpo.env_adapters.alfworld.generate import main, write_games
from rllib_gigpo.env_adapters.alfworld.packages import _packages
from rllib_gigpo.env_adapters.alfworld.task_types import SPLITS, TASK_TYPES
from rllib_gigpo.env_runners.group_env_runner import GroupEnvRunner
from rllib_gigpo.env_runners.worker_process import EnvironmentFailure
from tests.alfworld_cases import needs_alfworld
from tests.algorithm_cases import small_config

pytestmark = [pytest.mark.integration, needs_alfworld]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One game of each type and split."""
    out = tmp_path_factory.mktemp("alfworld")
    assert len(list(write_games(out, games=1, seed=0, num_receptacles=6, num_objects=3))) == 18
    return out


@pytest.fixture
def copied(data: Path, tmp_path: Path) -> Path:
    """The data, to be spoilt."""
    shutil.copytree(data, tmp_path / "data")
    return tmp_path / "data"


def game_files(data: Path, split: str = "train") -> list[Path]:
    return sorted((data / "json_2.1.1" / split).rglob("game.tw-pddl"))


def change(path: Path, **values: object) -> None:
    """Sets keys of a JSON file; None removes them."""
    content = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


@pytest.mark.parametrize("split", SPLITS)
def test_every_type_of_game_is_won_by_its_walkthrough(data: Path, split: str) -> None:
    env = ALFWorld(data=data, split=split, walkthrough=True)
    types = []
    for task in range(len(TASK_TYPES)):
        _, info = env.reset(options={"task": task})
        assert info["task_id"].startswith(f"{split}/{info['task_type']}-")
        assert 3 <= len(info["walkthrough"]) <= 20
        answers = [env.step(command) for command in info["walkthrough"]]
        assert answers[-1][1:4] == (10.0, True, False) and answers[-1][4]["won"]
        assert not any(answer[2] for answer in answers[:-1])
        types.append(info["task_type"])
    assert sorted(types) == sorted(TASK_TYPES)
    env.close()


def test_the_generator_repeats_itself_and_another_seed_gives_other_games(data: Path, tmp_path: Path) -> None:
    def texts(folder: Path) -> list[str]:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return [f"{path.relative_to(folder)} {path.read_text()}" for path in files]

    def first_games(seed: int) -> list[str]:
        written = write_games(tmp_path / str(seed), games=1, seed=seed, num_receptacles=6, num_objects=3)
        next(written), next(written)
        return texts(tmp_path / str(seed))

    assert len(first_games(0)) == 4 and set(first_games(0 + 10)).isdisjoint(texts(data))
    assert set(texts(tmp_path / "0")) <= set(texts(data))


def test_numbers_go_through_the_games_in_the_order_of_their_names(data: Path) -> None:
    env = ALFWorld(data=data, task_types=[2, 6, 1])
    names = [env.reset(options={"task": task})[1]["task_id"] for task in range(4)]
    assert names[:3] == sorted(names[:3]) and names[3] == names[0]
    assert [name.split("/")[1].split("-")[0] for name in names[:3]] == [
        "look_at_obj_in_light",
        "pick_and_place_simple",
        "pick_two_obj_and_place",
    ]
    other = GameFiles(data, split="valid_unseen", task_types=TASK_TYPES, need_human_goals=False).games[0]
    assert env.reset(options={"task": other.task_id})[1]["task_id"] == other.task_id, "games of all splits by name"
    env.close()


def test_human_descriptions_take_turns(copied: Path) -> None:
    written = [f"{start} the thing away, “please”." for start in ("Put", "Bring")]
    trajectory = game_files(copied)[0].with_name("traj_data.json")
    change(trajectory, turk_annotations={"anns": [{"task_desc": text} for text in written]})
    env = ALFWorld(data=copied, goal_descriptions="human", task_types=["look_at_obj_in_light"])
    for task, text in ((0, written[0]), (1, written[1]), (2, written[0])):
        observation, info = env.reset(options={"task": task})
        assert observation.endswith(f"\n\nYour task is to: {text}")
        assert info["task_description"] == text.removesuffix(".")
    change(trajectory, turk_annotations={"anns": []})
    _scan_again()
    with pytest.raises(ValueError, match="none of the types look_at_obj_in_light with a human description"):
        ALFWorld(data=copied, goal_descriptions="human", task_types=[2])
    env.close()


def _scan_again() -> None:
    from rllib_gigpo.env_adapters.alfworld.game_files import _scan

    _scan.cache_clear()


def test_the_variable_names_the_data(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(data))
    assert make_env("ALFWorld").reset(options={"task": 0})[1]["task_id"].startswith("train/look_at_obj_in_light-")
    with pytest.raises(ValueError, match="num_receptacles and num_objects are for games that are made up"):
        ALFWorld(num_objects=3)


def test_without_data_it_says_once_that_games_are_made_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.setattr("rllib_gigpo.env_adapters.alfworld.alfworld_env._said_that_games_are_made_up", False)
    for _ in range(2):
        make_env("ALFWorld")
    assert len(caplog.records) == 1 and "set ALFWORLD_DATA" in caplog.text


def test_a_missing_or_empty_folder_names_the_variable_and_the_layout(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"ALFWORLD_DATA.*json_2.1.1/\{train,valid_seen,valid_unseen\}"):
        ALFWorld(data=tmp_path)
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    with pytest.raises(
        ValueError, match=r"no playable game; left out were none. Expected is json_2.1.1/.*ALFWORLD_DATA"
    ):
        ALFWorld(data=tmp_path)


@pytest.mark.parametrize(("env_workers", "error"), [(0, FileNotFoundError), (1, EnvironmentFailure)])
def test_an_env_runner_says_so_too(tmp_path: Path, env_workers: int, error: type[Exception]) -> None:
    config = small_config().environment("ALFWorld", env_config={"data": str(tmp_path)})
    config.env_runners(env_workers=env_workers)
    with pytest.raises(error, match=r"ALFWORLD_DATA.*json_2.1.1/\{train,valid_seen,valid_unseen\}"):
        GroupEnvRunner(config=config)


def test_broken_files_are_left_out_and_counted(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    cut, keyless, unsolvable, sliced, playable, missing = game_files(copied)
    cut.write_text(cut.read_text()[:1000])
    change(keyless, grammar=None)
    change(unsolvable, solvable=False)
    sliced.parent.parent.rename(sliced.parent.parent.with_name("pick_and_place_simple-AppleSliced-None-Fridge-1"))
    missing.unlink()
    with caplog.at_level(logging.WARNING):
        env = ALFWorld(data=copied)
    assert env.skipped_games == {"broken": 2, "unsolvable": 2, "unsupported": 1}
    assert "2 broken games of" in caplog.text and str(cut) in caplog.text
    names = {env.reset(options={"task": task})[1]["task_id"] for task in range(4)}
    assert names == {playable.parent.relative_to(copied / "json_2.1.1").as_posix()}
    env.close()
    change(playable, pddl_problem=None)
    _scan_again()
    with pytest.raises(ValueError, match="no playable game; left out were 3 broken, 2 unsolvable, 1 unsupported"):
        ALFWorld(data=copied)


@pytest.mark.parametrize("broken", ["(define (problem", "(define (problem x) (:domain other) (:init) (:goal (and)))"])
def test_a_game_that_breaks_only_when_played_is_passed_over(copied: Path, broken: str) -> None:
    first = game_files(copied)[0]
    change(first, pddl_problem=broken)
    env = ALFWorld(data=copied)
    _, info = env.reset(options={"task": 0})
    assert info["task_id"].startswith("train/pick_and_place_simple-") and env.skipped_games == {"broken": 1}
    assert env.reset(options={"task": 1})[1]["task_id"] == info["task_id"], "the other numbers keep their games"
    with pytest.raises(BrokenGameError, match=r"train/look_at_obj_in_light.* cannot be loaded"):
        env.reset(options={"task": first.parent.relative_to(copied / "json_2.1.1").as_posix()})
    env.close()
    alone = ALFWorld(data=copied, task_types=[2])
    with pytest.raises(BrokenGameError, match="no game can be played, from task 5 on"):
        alone.reset(options={"task": 5})
    alone.close()


def test_a_wrong_name_is_refused(data: Path) -> None:
    env = ALFWorld(data=data)
    for name in ("train/none/trial_0", "nowhere", "test/x/y"):
        with pytest.raises(ValueError, match="has no playable game of that name"):
            env.reset(options={"task": name})
    env.close()


def test_the_command_shows_its_progress_and_its_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rllib_gigpo.env_adapters.alfworld.generate.TASK_TYPES", TASK_TYPES[:1])
    main([str(tmp_path / "out"), "--receptacles", "3", "--objects", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[0].startswith("1/3 json_2.1.1/train/pick_and_place_simple-")
    assert lines[-1] == f"export ALFWORLD_DATA={tmp_path / 'out'}"
    for arguments, message in (
        (["out"], "exists already"),
        (["new", "--games", "0"], "games is 0; it must be at least 1"),
        (["new", "--seed", "-1"], "seed is -1"),
        (["new", "--receptacles", "1"], "num_receptacles is 1"),
    ):
        with pytest.raises(SystemExit, match=message):
            main([str(tmp_path / arguments[0]), *arguments[1:]])


def test_a_missing_extra_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_downward", None)
    _packages.cache_clear()
    with pytest.raises(ImportError, match=r'pip install "rllib-gigpo\[alfworld\]"'):
        ALFWorld()
    monkeypatch.undo()
    _packages.cache_clear()
