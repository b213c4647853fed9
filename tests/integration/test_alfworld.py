"""ALFWorld as an environment, on games that are made up on the spot."""

from __future__ import annotations

import copy
import os
import pickle
import random
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rllib_gigpo.agent_formats import PromptTemplate, Turn
from rllib_gigpo.connectors.anchor_states import anchor_state_ids, step_group_diagnostics
from rllib_gigpo.env_adapters.alfworld import ALFWORLD, ALFWORLD_PROMPT_WITHOUT_ACTIONS, fast_textworld
from rllib_gigpo.env_adapters.alfworld.alfworld_env import ALFWorld
from rllib_gigpo.env_adapters.alfworld.engine import borrow_engine, give_back
from rllib_gigpo.env_adapters.alfworld.generated_games import GeneratedGames
from rllib_gigpo.env_adapters.alfworld.packages import packages
from rllib_gigpo.env_adapters.alfworld.task_types import TASK_TYPES
from tests.alfworld_cases import needs_alfworld, play_at_random
from tests.algorithm_cases import record_samples, small_config

pytestmark = [pytest.mark.integration, needs_alfworld]

SMALL = {"num_receptacles": 4, "num_objects": 2}


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)


@pytest.fixture
def env() -> Iterator[ALFWorld]:
    env = ALFWorld(task_types=["pick_and_place_simple"], walkthrough=True, **SMALL)
    yield env
    env.close()


def test_it_passes_gymnasiums_checker_without_a_warning(env: ALFWorld) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)


def test_texts_infos_and_a_win(env: ALFWorld) -> None:
    observation, info = env.reset(options={"task": 0})
    first, _, task = observation.partition("\n\n")
    assert first.startswith("You are in the middle of a room. Looking quickly around you, you see a ")
    assert task == f"Your task is to: {info['task_description']}."
    assert info["task_id"] == "generated/train/pick_and_place_simple/0"
    assert info["task_type"] == "pick_and_place_simple"
    assert info["won"] is False and "anchor_state" not in info
    assert {"look", "inventory"} < set(info["admissible_actions"])

    *before, last = info["walkthrough"]
    for command in before:
        observation, reward, terminated, truncated, info = env.step(command)
        assert (reward, terminated, truncated, info["won"]) == (0.0, False, False, False)
        assert info["is_action_admissible"] and "is_action_valid" not in info and "walkthrough" not in info
    observation, reward, terminated, truncated, info = env.step(last)
    assert (reward, terminated, truncated, info["won"]) == (10.0, True, False, True)
    assert observation.startswith("You move the ")


def test_case_and_spaces_of_a_command_do_not_matter(env: ALFWorld) -> None:
    _, info = env.reset(options={"task": 0})
    command = info["walkthrough"][0]
    plain = env.step(command)
    env.reset(options={"task": 0})
    assert env.step(f"  {command.upper().replace(' ', '   ')} \n") == plain
    assert plain[0].startswith("You arrive at ")


@pytest.mark.parametrize("action", ["", "fly", "open fridge 99", "go to", "\0", "ω" * 1000])
def test_what_cannot_be_done_is_a_no_op_that_costs_a_step(action: str) -> None:
    env = ALFWorld(max_steps=2, inadmissible_is_invalid=True, **SMALL)
    _, before = env.reset(options={"task": 0})
    observation, reward, terminated, truncated, info = env.step(action)
    assert observation == "Nothing happens."
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert (info["is_action_admissible"], info["is_action_valid"]) == (False, False)
    assert info["admissible_actions"] == before["admissible_actions"]
    assert env.step(action)[3], "the no-op did not count as a step"
    env.close()


def test_the_step_limit_truncates_but_not_a_win_on_the_last_step(env: ALFWorld) -> None:
    _, info = env.reset(options={"task": 0})
    walkthrough = info["walkthrough"]
    env = ALFWorld(task_types=[1], max_steps=len(walkthrough), **SMALL)
    for last, ending in (("look", (0.0, False, True)), (walkthrough[-1], (10.0, True, False))):
        env.reset(options={"task": 0})
        assert [env.step(command)[1:4] for command in [*walkthrough[:-1], last]][-1] == ending
    env.close()


def test_a_task_alone_decides_the_game(env: ALFWorld) -> None:
    other = ALFWorld(task_types=["pick_and_place_simple"], walkthrough=True, max_steps=3, **SMALL)
    for task in (0, np.int64(7), "generated/valid_seen/pick_heat_then_place_in_recep/2"):
        assert env.reset(seed=1, options={"task": task}) == other.reset(seed=2, options={"task": task})
    assert other.reset(options={"task": env.reset(seed=5)[1]["task_id"]}) == env.reset(seed=5)
    other.close()


def test_numbers_go_round_the_task_types_and_splits_differ() -> None:
    env = ALFWorld(task_types=[6, "look_at_obj_in_light"], **SMALL)
    types = [env.reset(options={"task": task})[1]["task_type"] for task in range(3)]
    assert types == ["look_at_obj_in_light", "pick_two_obj_and_place", "look_at_obj_in_light"]
    firsts = {ALFWorld(split=split).reset(options={"task": 0})[0] for split in ("train", "valid_seen", "valid_unseen")}
    assert len(firsts) == 3
    env.close()


def test_another_process_says_the_same_and_nothing_is_left_behind(tmp_path: os.PathLike[str]) -> None:
    code = """if True:
        import os, random, sys
        before = random.getstate(), list(sys.argv), dict(os.environ)
        from rllib_gigpo.env_adapters.alfworld.alfworld_env import ALFWorld
        from tests.alfworld_cases import play_at_random
        env = ALFWorld(anchor_state="game", walkthrough=True, num_receptacles=6, num_objects=3)
        for task in (1, 3, 5):
            observation, info = env.reset(options={"task": task})
            print(observation, info, play_at_random(env, info, 8, seed=task))
        print(env.reset(seed=4))
        assert (random.getstate(), list(sys.argv), dict(os.environ)) == before
        """
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={
                **{name: value for name, value in os.environ.items() if name != "ALFWORLD_DATA"},
                "PYTHONHASHSEED": seed,
                "HOME": str(tmp_path),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and "Your task is to" in outputs.pop()
    assert not list(os.scandir(tmp_path)), "importing alfworld makes a folder in the home folder"


def test_texts_are_those_of_textworld_without_our_parsing() -> None:
    """Stock TextWorld beside ours; benchmarks/alfworld_steps.py compares many more steps."""
    from rllib_gigpo.env_adapters.alfworld.packages import packages

    infos = packages().textworld.EnvInfos(won=True, admissible_commands=True)
    stock = packages().alfred_tw_env.AlfredDemangler(packages().pddl.PddlEnv(infos))
    parse = packages().textgen._parse_and_convert
    games, engine, rng = GeneratedGames("train", TASK_TYPES, 5, 2), borrow_engine(), np.random.default_rng(0)
    ours_s = stock_s = 0.0  # CPU time of steps
    for number in (1, 3, 5):
        game = games.by_number(number)
        stock.load(dict(game.read()))
        theirs, ours = stock.reset(), engine.start(game)
        for _ in range(8):
            assert ours.feedback == theirs.feedback
            assert ours["admissible_commands"] == theirs["admissible_commands"]
            command = str(rng.choice([*ours["admissible_commands"], "nonsense"]))
            began = time.process_time()
            ours = engine.step(command)
            between = time.process_time()
            theirs, _, _ = stock.step(command)
            ours_s, stock_s = ours_s + between - began, stock_s + time.process_time() - between
    # Twenty times where many steps have been parsed before; here many are new.
    assert stock_s > 3 * ours_s
    assert packages().textgen._parse_and_convert is parse, "outside of our engine the parsing is TextWorld's own"
    give_back(engine)


def test_anchors_of_the_game_tell_states_apart_that_look_alike() -> None:
    env = ALFWorld(task_types=[1], anchor_state="game", max_steps=40, **SMALL)
    shown, game = [], []
    for seed in range(4):
        observation, info = env.reset(options={"task": 0})
        for answer in play_at_random(env, info, 15, seed):
            shown.append(observation)
            game.append(info["anchor_state"])
            observation, info = answer[0], answer[4]
    one_group = [0] * len(shown)
    by_shown, by_game = anchor_state_ids(shown, one_group), anchor_state_ids(game, one_group)
    places = {anchor for text, anchor in zip(shown, game, strict=True) if text == "You are not carrying anything."}
    assert len(places) > 1, "one text, several states"
    assert step_group_diagnostics(by_game)["anchor_group_size_mean"] > 1.5
    # The same state under several texts: a first arrival, a look, an inventory.
    pairs = set(zip(by_shown, by_game, strict=True))
    assert len(pairs) > len(set(by_game))
    env.close()


def test_an_anchor_forgets_how_one_got_there_and_what_one_looked_at() -> None:
    env = ALFWorld(anchor_state="game", task_types=[1], **SMALL)
    anchors = set()
    _, info = env.reset(options={"task": 0})
    first, second = [action for action in info["admissible_actions"] if action.startswith("go to")][:2]
    for path in ([first], [second, first], ["look", "fly", first, "look", "inventory"]):
        env.reset(options={"task": 0})
        anchors.add([env.step(command) for command in path][-1][4]["anchor_state"])
    assert len(anchors) == 1 and anchors.pop().startswith(f"at {first.removeprefix('go to ')}; inreceptacle ")
    env.close()


def test_random_play_hardly_ever_wins() -> None:
    env, wins = ALFWorld(max_steps=15), 0
    for task in range(6):
        _, info = env.reset(options={"task": task})
        wins += play_at_random(env, info, 15, seed=task)[-1][4]["won"]
    assert wins <= 1
    env.close()


def test_copies_and_pickles_start_anew(env: ALFWorld) -> None:
    expected = env.reset(options={"task": 3})
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        with pytest.raises(RuntimeError, match="before reset"):
            other.step("look")
        assert other.reset(options={"task": 3}) == expected
        other.close()
    assert env.step("look")[0], "copying must not disturb the original"


def test_engines_are_lent_again_after_closing_and_after_forgetting() -> None:
    first = ALFWorld(**SMALL)
    first.reset(options={"task": 0})
    engine = first._engine
    first.close()
    second = ALFWorld(**SMALL)
    second.reset(options={"task": 1})
    assert second._engine is engine
    del second
    third = ALFWorld(**SMALL)
    assert third.reset(options={"task": 0})[0].startswith("You are") and third._engine is engine
    third.close()
    third.close()


def test_two_games_side_by_side_and_from_threads_do_not_disturb_each_other() -> None:
    def play(task: int) -> list[str]:
        env = ALFWorld(**SMALL)
        observation, info = env.reset(options={"task": task})
        said = [observation, *(answer[0] for answer in play_at_random(env, info, 10, seed=task))]
        env.close()
        return said

    alone = [play(task) for task in range(4)]
    together: dict[int, list[str]] = {}
    threads = [threading.Thread(target=lambda task=task: together.update({task: play(task)})) for task in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together.get(task) for task in range(4)] == alone


def test_memory_stays_flat_over_games(env: ALFWorld) -> None:
    def resident_megabytes() -> float:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def play(tasks: range) -> None:
        for task in tasks:
            env.reset(options={"task": task})
            env.step("look")

    play(range(40))  # fills what is remembered: 32 games
    before = resident_megabytes()
    play(range(40, 55))
    assert resident_megabytes() - before < 5, "an engine for each game would be 22 MB"


def test_facts_of_past_games_are_forgotten_and_games_in_progress_go_on(
    env: ALFWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_textworld, "_FACTS", 0)
    store = packages().mementos._memento_cache
    other = ALFWorld(task_types=["pick_and_place_simple"], **SMALL)
    commands = env.reset(options={"task": 0})[1]["walkthrough"]
    alone = [env.step(command) for command in commands]
    env.reset(options={"task": 0})
    together = []
    for task, command in enumerate(commands, start=1):
        store["a fact of the past"] = None
        other.reset(options={"task": task})
        assert "a fact of the past" not in store
        together.append(env.step(command))
    other.close()
    assert together == alone and together[-1][2]


def test_the_global_generator_is_left_alone(env: ALFWorld) -> None:
    random.seed(0)
    before = random.getstate()
    _, info = env.reset(options={"task": 0})
    play_at_random(env, info, 3, seed=0)
    assert random.getstate() == before


@pytest.mark.usefixtures("ray_cluster")
def test_gigpo_trains_on_it() -> None:
    """Games, prompts with history and credit through an iteration. The model is of another game and says nonsense."""
    config = small_config(group_size=2, groups_per_iteration=2, num_minibatches=1)
    config.environment("ALFWorld", env_config={"max_steps": 3, "anchor_state": "game", **SMALL})
    algo = config.generation(max_prompt_tokens=800, max_response_tokens=24).build_algo()
    try:
        episodes = record_samples(algo)
        results = algo.train()["env_runners"]
    finally:
        algo.stop()
    assert len(episodes) == 4 and {len(episode) for episode in episodes} == {3}
    assert results["endings"]["step_limit"] == 4 and results["success_rate"] == 0.0
    for episode in episodes:
        prompts = episode.get_extra_model_outputs("prompt_ids")
        assert len(prompts[0]) < len(prompts[1]) < len(prompts[2]), "the history grows"
        assert {info["task_type"] for info in episode.get_infos()} <= set(TASK_TYPES)


def test_prompts_hold_the_task_once_and_the_history() -> None:
    task, actions = "put a mug in cabinet", ["go to desk 1", "help", "look"]
    listed, unlisted = (
        PromptTemplate(ALFWORLD.agent_format.prompt_template),
        PromptTemplate(ALFWORLD_PROMPT_WITHOUT_ACTIONS),
    )
    first = listed.render(
        observation=f"You are here.\n\nYour task is to: {task}.",
        history=(),
        step=0,
        task=task,
        admissible_actions=actions,
    )
    assert first.count(task) == 1 and "one of these: go to desk 1, look\n" in first
    later = {"observation": "You see a mug.", "step": 3, "task": task, "admissible_actions": actions}
    text = unlisted.render(history=(Turn("a", "look"), Turn("b", "go to desk 1")), **later)
    assert text.count(task) == 1 and "taken 3 actions so far.\nThe last 2, each" in text
    assert "- Observation: b\n  Action: go to desk 1\nNow you see: You see a mug.\nCommands: go to R" in text
    assert "taken 3 actions so far.\nNow you see" in listed.render(history=(), **later)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "test"}, "split is 'test'; it must be one of train, valid_seen, valid_unseen"),
        ({"task_types": ["pick"]}, "task_types holds 'pick'; known are 1 pick_and_place_simple, 2 look"),
        ({"task_types": [7]}, "task_types holds 7"),
        ({"task_types": [True]}, "task_types holds True"),
        ({"task_types": []}, "task_types is \\[\\]"),
        ({"task_types": "pick_and_place_simple"}, "task_types is 'pick_and_place_simple'; it must be a list"),
        ({"goal_descriptions": "both"}, "goal_descriptions is 'both'; it must be one of template, human"),
        ({"anchor_state": "facts"}, "anchor_state is 'facts'; it must be one of shown, game"),
        ({"max_steps": 0}, "max_steps is 0; it must be an integer of at least 1"),
        ({"num_receptacles": 1}, "num_receptacles is 1; it must be an integer of at least 2"),
        ({"num_objects": 1.5}, "num_objects is 1.5"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ALFWorld(**options)


def test_wrong_calls_are_refused(env: ALFWorld) -> None:
    with pytest.raises(RuntimeError, match="before reset"):
        env.step("look")
    with pytest.raises(ValueError, match="task is -1"):
        env.reset(options={"task": -1})
    with pytest.raises(TypeError, match=r"task is 1\.5 of type float"):
        env.reset(options={"task": 1.5})
    with pytest.raises(ValueError, match="'generated/train/pick_and_place_simple/0'"):
        env.reset(options={"task": "generated/test/pick_and_place_simple/0"})
    with pytest.raises(ValueError, match=r"options \['game'\]"):
        env.reset(options={"game": 2})
    env.reset(seed=0)
    with pytest.raises(TypeError, match="action is 3 of type int"):
        env.step(3)
