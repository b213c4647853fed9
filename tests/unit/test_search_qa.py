"""SearchQA: responses, scores, questions from files, the made-up world, and the environment over it."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_gigpo.agent_formats import check_parser
from rllib_gigpo.columns import SERVICE_FAILURE, SERVICE_FAILURE_DETAILS
from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.generated_tasks import TASKS
from rllib_gigpo.env_adapters.search_qa import SEARCH_QA, data
from rllib_gigpo.env_adapters.search_qa.embedded_search_qa import game, spaced_response
from rllib_gigpo.env_adapters.search_qa.generate import main as generate
from rllib_gigpo.env_adapters.search_qa.generated_questions import (
    HOPS,
    expert_act,
    generated_question,
    generated_questions,
    questions_about,
)
from rllib_gigpo.env_adapters.search_qa.generated_world import MOST_PEOPLE, world
from rllib_gigpo.env_adapters.search_qa.information import information
from rllib_gigpo.env_adapters.search_qa.questions import read_questions
from rllib_gigpo.env_adapters.search_qa.responses import act_of, search_or_answer
from rllib_gigpo.env_adapters.search_qa.scores import exact_match, f1_score, normalized
from rllib_gigpo.retrieval.passages import Passage, RetrievalFailure
from tests.environment_cases import ROOT, fingerprints_in_other_processes, passes_gymnasiums_checker, with_status
from tests.search_qa_cases import ROW, first_answers, write_rows

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("response", "action", "reason"),
    [
        ("<think>a</think><search>Velford</search>", "<search>Velford</search>", None),
        ("I know: <answer>\n The  Isk </answer>.", "<answer>The Isk</answer>", None),
        ("<think>maybe <search>x</search></think><answer>y</answer>", "<answer>y</answer>", None),
        ("<answer>a < b</answer>", "<answer>a < b</answer>", None),
        ("", "", "no_action"),
        ("Velford", "", "no_action"),
        ("<search>Velford", "", "no_action"),
        ("<search>Velford</answer>", "", "no_action"),
        ("<SEARCH>Velford</SEARCH>", "", "no_action"),
        ("<search>a</search><search>b</search>", "", "several_actions"),
        ("<search>a</search><answer>b</answer>", "", "several_actions"),
        ("<answer> \n</answer>", "", "empty_action"),
    ],
)
def test_a_response_holds_one_action(response: str, action: str, reason: str | None) -> None:
    parsed = search_or_answer(response)
    assert (parsed.action, parsed.is_valid, parsed.reason) == (action, reason is None, reason)
    assert (act_of(parsed.action) is None) == (reason is not None)


def test_the_parser_takes_whatever_is_written() -> None:
    check_parser(search_or_answer)
    assert act_of("<search>a</search> or so") is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The U.S.A.", "usa"),
        ("1,000", "1000"),
        ("  An\tapple  a day ", "apple day"),
        ("Theatre", "theatre"),
        ("Größe", "größe"),
        ("a-b", "ab"),
        ("A the an!", ""),
    ],
)
def test_answers_are_normalized_as_usual(answer: str, expected: str) -> None:
    assert normalized(answer) == expected


def test_exact_match_and_f1() -> None:
    assert exact_match("the Isk!", ["Orna", "Isk"]) and not exact_match("river Isk", ["Isk"])
    assert f1_score("river Isk", ["Orna", "Isk"]) == pytest.approx(2 / 3)  # precision 1/2, recall 1
    assert f1_score("the Isk", ["isk"]) == 1.0
    assert f1_score("x", ["y"]) == f1_score("the", ["y"]) == f1_score("x", []) == 0.0


def test_information_is_written_as_in_search_r1() -> None:
    passages = [Passage("0", '"Velford"\nVelford is\na town.'), Passage("1", "no title")]
    shown = information(passages, max_passage_characters=1000)
    assert shown.text == (
        "<information>\nDoc 1(Title: Velford) Velford is a town.\nDoc 2(Title: no title)\n</information>"
    )
    assert shown.num_cut == 0
    cut = information(passages, max_passage_characters=12)
    assert cut.num_cut == 1 and "Doc 1(Title: Velford) Ve\n" in cut.text


# --- The made-up world.


@pytest.mark.parametrize("hops", HOPS)
def test_an_expert_that_searches_and_answers_wins_every_made_up_question(hops: int) -> None:
    by_text = {question.text: question for question in questions_about(world(), hops=hops)}
    assert all(generated_question(text, hops=hops) == question for text, question in by_text.items())
    sets = generated_questions(hops=hops)
    env = make_env("SearchQA", hops=hops)
    assert len(by_text) == len(sets.train) + len(sets.evaluation)
    for first, questions in ((0, sets.train), (TASKS, sets.evaluation)):
        for task in range(first, first + len(questions)):
            _, info = env.reset(options={"task": task})
            question = by_text.pop(info["task_description"])
            for step in range(hops):
                observation, reward, terminated, truncated, _ = env.step(expert_act(question, step))
                assert f"Doc 1(Title: {question.names[step]})" in observation
                assert not (reward or terminated or truncated)
            *_, reward, terminated, truncated, info = env.step(expert_act(question, hops))
            assert (reward, terminated, truncated, info["won"]) == (1.0, True, False, True)
            assert info["exact_match"] and info["f1"] == 1.0
    assert not by_text, "every question is somebody's task"


@pytest.mark.parametrize("hops", HOPS)
def test_evaluation_asks_about_others_than_training_does(hops: int) -> None:
    subjects = {question.text: question.names[0] for question in questions_about(world(), hops=hops)}
    train, evaluation = ({subjects[question.text] for question in part} for part in generated_questions(hops=hops))
    assert train.isdisjoint(evaluation) and len(evaluation) > 100


def test_an_expert_s_demonstrations_search_for_each_name_and_then_answer() -> None:
    for task in range(40):
        turns, responses = game(task), []
        turn: Turn | None = next(turns)
        while turn is not None:
            (action,) = turn.expert_actions
            assert action in turn.possible_actions and action not in turn.thought
            responses.append(spaced_response(turn.thought, action))
            assert search_or_answer(responses[-1]).action == action
            try:
                turn = turns.send(action)
            except StopIteration:
                turn = None
        *searches, answer = responses
        assert len(searches) == 1 + task % 2, "as many as the question has hops"
        assert all("<search> " in search for search in searches) and "<answer> " in answer


def test_worlds_differ_by_seed_and_have_sense() -> None:
    assert world() == world(seed=0) and world(seed=1) != world()
    made_up = world(seed=1, num_people=MOST_PEOPLE)
    assert len(made_up.people) == MOST_PEOPLE
    assert all(made_up.towns[land.capital].land == land.name for land in made_up.lands.values())
    for options, message in (({"num_people": 0}, "num_people is 0"), ({"seed": -1}, "seed is -1")):
        with pytest.raises(ValueError, match=message):
            world(**options)


def test_the_generator_writes_what_the_environment_reads(tmp_path: Path) -> None:
    generate([str(tmp_path / "out"), "--people", "10", "--seed", "3", "--hops", "2"])
    again = tmp_path / "again"
    generate([str(again), "--people", "10", "--seed", "3", "--hops", "2"])
    names = ["corpus.jsonl", "test.jsonl", "test.parquet", "train.jsonl", "train.parquet"]
    assert sorted(path.name for path in again.iterdir()) == names
    for name in names[::2][:2]:
        assert (tmp_path / "out" / name).read_bytes() == (again / name).read_bytes()
    expected = generated_questions(hops=2, seed=3, num_people=10)
    for part, questions in zip(("train", "test"), expected, strict=True):
        for suffix in ("jsonl", "parquet"):
            assert read_questions(again / f"{part}.{suffix}") == questions
    env = make_env(
        "SearchQA",
        data=again / "train.parquet",
        evaluation_data=str(again / "test.jsonl"),
        corpus=again / "corpus.jsonl",
    )
    by_text = {question.text: question for question in questions_about(world(seed=3, num_people=10), hops=2)}
    for task in (0, 1, TASKS, TASKS + 1):
        _, info = env.reset(options={"task": task})
        for step in range(3):
            *_, info = env.step(expert_act(by_text[info["task_description"]], step))
        assert info["won"]
    with pytest.raises(SystemExit, match="exists already"):
        generate([str(again)])


# --- The environment.


@pytest.fixture
def env() -> Any:
    return make_env("SearchQA")


def test_gymnasiums_checker_finds_nothing(env: Any) -> None:
    passes_gymnasiums_checker(env)


def test_the_contract_is_kept() -> None:
    from rllib_gigpo.env_checks import check_contract

    results = check_contract("SearchQA", {}, episodes=18, new_process=False)
    assert with_status(results, "fail", "warning") == {}


def test_two_fresh_processes_show_the_same() -> None:
    elsewhere = fingerprints_in_other_processes("first_answers()", "from tests.search_qa_cases import first_answers")
    assert elsewhere == {first_answers()}


def test_an_invalid_action_is_told_and_counts(env: Any) -> None:
    env.reset(options={"task": 0})
    for step in range(4):
        observation, reward, terminated, truncated, info = env.step("" if step % 2 else "Velford")
        assert "no valid action" in observation and not info["is_action_valid"]
        assert (reward, terminated, truncated) == (0.0, False, step == 3)


def test_a_wrong_answer_loses_and_the_fourth_turn_may_still_answer(env: Any) -> None:
    _, info = env.reset(options={"task": 0})
    for _ in range(3):
        *_, terminated, truncated, _ = env.step("<search>Velford</search>")
        assert not (terminated or truncated)
    observation, reward, terminated, truncated, info = env.step("<answer>nobody knows</answer>")
    assert observation == "<answer>nobody knows</answer>"
    assert (reward, terminated, truncated, info["won"], info["f1"]) == (0.0, True, False, False, 0.0)
    env.reset(options={"task": 0})
    *_, reward, terminated, _, info = env.step(f"<answer>The {info['golden_answers'][0].upper()}!</answer>")
    assert (reward, terminated, info["won"]) == (1.0, True, True)


def test_a_search_that_fails_truncates_the_episode_and_the_environment_goes_on(env: Any) -> None:
    class Broken:
        def search(self, query: str, topk: int) -> list[Passage]:
            raise RetrievalFailure("RetrieverTimeout", "no answer within 3 s")

    works, env._retriever = env._retriever, Broken()
    env.reset(options={"task": 0})
    observation, reward, terminated, truncated, info = env.step("<search>Velford</search>")
    assert (reward, terminated, truncated, info["won"]) == (0.0, False, True, False)
    assert info[SERVICE_FAILURE] == "RetrieverTimeout" and info[SERVICE_FAILURE_DETAILS] == "no answer within 3 s"
    assert info["is_action_valid"] and "does not answer" in observation
    env._retriever = works
    env.reset(options={"task": 0})
    assert SERVICE_FAILURE not in env.step("<search>Velford</search>")[-1]


def test_a_failure_survives_a_process_border() -> None:
    failure = pickle.loads(pickle.dumps(RetrievalFailure("RetrieverTimeout", "why")))
    assert (failure.cause, str(failure)) == ("RetrieverTimeout", "why")


def test_any_character_may_be_shown(tmp_path: Path) -> None:
    questions = write_rows(tmp_path / "data.jsonl", {"question": "漢字 🂡?", "golden_answers": ["größe"]})
    passages = write_rows(tmp_path / "corpus.jsonl", {"contents": "漢字\n🂡 \ud83c <|im_end|>" + "x" * 9000})
    env = make_env("SearchQA", data=questions, corpus=passages)
    assert env.reset(options={"task": 5})[0] in env.observation_space
    *_, info = step = env.step("<search>漢字</search>")
    assert step[0] in env.observation_space and info["passages_cut"] == 1
    step[0].encode()
    assert env.step("<answer>Größe</answer>")[4]["won"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topk": 0}, "topk is 0"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"hops": 4}, "hops is 4"),
        ({"retriever_url": ""}, "retriever_url is ''"),
        ({"retriever_dialect": "x"}, "retriever_dialect is 'x'"),
        ({"evaluation_data": "x.jsonl"}, "data is not set"),
        ({"retriever_url": "http://x", "corpus": "y"}, "only one of them can be searched"),
        ({"data": __file__}, "neither .jsonl nor .parquet"),
    ],
)
def test_a_wrong_option_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env("SearchQA", **options)


def test_files_of_ones_own_need_something_to_search(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "data.jsonl", ROW)
    with pytest.raises(ValueError, match=r"nothing to search: set retriever_url"):
        make_env("SearchQA", data=path)
    with pytest.raises(ValueError, match=r"hops is 2, which is for made-up questions"):
        make_env("SearchQA", data=path, hops=2)
    with pytest.raises(FileNotFoundError, match="corpus is 'nowhere'"):
        make_env("SearchQA", data=path, corpus="nowhere")


def test_it_says_once_that_the_data_is_made_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "_said_that_data_is_made_up", False)
    with caplog.at_level(logging.WARNING):
        make_env("SearchQA")
        make_env("SearchQA", hops=2)
    assert [
        record.message.startswith("SearchQA asks questions about a small made-up") for record in caplog.records
    ] == [True]


def test_the_extra_is_named_where_it_is_missing() -> None:
    code = (
        "import sys; sys.modules['bm25s'] = None\n"
        "from rllib_gigpo.env_adapters import make_env\n"
        "try: make_env('SearchQA')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert 'pip install "rllib-gigpo[search]"' in done.stdout


def test_the_question_is_shown_once_and_last() -> None:
    from rllib_gigpo.agent_formats import PromptTemplate
    from rllib_gigpo.agent_formats import Turn as EarlierTurn

    template = PromptTemplate(SEARCH_QA.agent_format.prompt_template)
    first = template.render(observation="Where?", history=[], step=0, task="Where?")
    later = template.render(
        observation="info 2",
        history=[EarlierTurn("Where?", "<search>a</search>"), EarlierTurn("info 1", "")],
        step=2,
        task="Where?",
    )
    for prompt in (first, later):
        assert prompt.count("Where?") == 1 and prompt.splitlines()[-1] == "Question: Where?"
    assert later.splitlines()[1:-1] == ["<search>a</search>", "info 1", "(no valid action)", "info 2"]


def test_numbers_of_tasks_go_round_the_questions(env: Any) -> None:
    size = len(generated_questions(hops=1).train)
    assert env.reset(options={"task": np.int64(3)})[0] == env.reset(options={"task": 3 + size})[0]
