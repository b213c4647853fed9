"""Prompted agents: the same model and prompts play alike behind a server and in this process; failures are counted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rllib_gigpo.cli.main import app
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.retrieval.serve import bound_socket, url_of
from tests.openai_server import Reply, ServedModel, chat_server, completion, error
from tests.search_qa_cases import ROW, write_rows

pytestmark = pytest.mark.integration

# What differs between a run through a server and one without, or from run to run.
OF_THE_RUN = ("engine", "model", "base_url")
QUICK = json.dumps({"max_retries": 1, "first_wait_s": 0.01, "timeout_s": 1.0, "give_up_after": 100})


def evaluate(*arguments: object, exit_code: int = 0) -> Any:
    """`rllib evaluate --agent …`: its results, or what it printed where it is to fail."""
    result = CliRunner().invoke(app, ["evaluate", *map(str, arguments)])
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout) if exit_code == 0 else result.stderr


def from_server(base_url: str, agent: str, env: str, *more: object, exit_code: int = 0) -> Any:
    asked = ["--agent", agent, "--engine", "openai", "--base-url", base_url, "--model", "tiny", "--env", env, "--json"]
    return evaluate(*asked, *more, exit_code=exit_code)


def said(transcripts: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in transcripts.read_text().splitlines()]


def action(text: str) -> Reply:
    return Reply(200, completion(f"<think>so</think><action>{text}</action>"))


@pytest.mark.parametrize(
    ("agent", "env", "more", "some_are_won"),
    [
        ("prompt", "RelayHousehold", ["--episodes", 4], True),
        ("react", "EZPoints", ["--episodes", 2, "--env-config", '{"max_steps": 4}'], False),
        ("reflexion", "EZPoints", ["--episodes", 2, "--trials", 2, "--env-config", '{"max_steps": 3}'], False),
    ],
)
def test_a_model_plays_behind_a_server_as_it_does_here(
    agent: str, env: str, more: list[Any], some_are_won: bool, tmp_path: Path
) -> None:
    # Greedy, in float32, in batches of another shape: only near ties could end differently, and none does.
    more = [*more, "--max-response-tokens", 32]
    model = embedded_model_path(env)
    with chat_server(ServedModel(model)) as server:
        served = from_server(server.base_url, agent, env, *more, "--transcripts", tmp_path / "served")
    here = ["--agent", agent, "--engine", "hf", "--model", model, "--env", env, "--json", *more]
    local = evaluate(*here, "--transcripts", tmp_path / "local")
    assert said(tmp_path / "served") == said(tmp_path / "local")
    for name in OF_THE_RUN:
        served.pop(name), local.pop(name)
    assert served == local
    assert served["requests"] == len(server.requests) > 0
    assert 0 < served["success_rate"] < 1 if some_are_won else served["success_rate"] == 0


def test_reflexion_tries_again_with_its_notes_until_a_task_is_won(tmp_path: Path) -> None:
    """The server plays to the target only once it reads its own note."""

    def answer(body: dict[str, Any], number: int) -> Reply:
        message = body["messages"][0]["content"]
        if "note to yourself" in message:
            return Reply(200, completion("Walk towards\nthe target."))
        target, current = map(int, re.search(r"Target: (\d+). Current: (\d+)(?!.*Target)", message, re.DOTALL).groups())
        towards = "+" if target > current else "-"
        away = "-" if target > current else "+"
        return action(towards if "- Walk towards the target." in message else away)

    with chat_server(answer) as server:
        numbers = from_server(
            server.base_url, "reflexion", "NumberLine", "--episodes", 3, "--transcripts", tmp_path / "t"
        )
        once = from_server(server.base_url, "react", "NumberLine", "--episodes", 3)
    assert numbers["success_rate_within_trials"] == [0.0, 1.0]
    assert numbers["success_rate"] == 1.0
    assert numbers["num_trials"] == 6
    assert [outcome["trials"] for outcome in numbers["outcomes"]] == [2, 2, 2]
    first, second = said(tmp_path / "t")[0]["trials"]
    assert first["agents"]["agent"]["reflections"] == []
    assert second["agents"]["agent"]["reflections"] == ["Walk towards the target."]
    assert once["success_rate"] == 0.0
    assert once["num_trials"] == 3


def test_react_sees_what_it_saw_thought_and_did_before() -> None:
    with chat_server(lambda body, number: action("1") if number else Reply(200, completion("what?"))) as server:
        numbers = from_server(server.base_url, "react", "EZPoints", "--episodes", 1, "--env-config", '{"max_steps": 3}')
    first, _, third = (request["messages"][0]["content"] for request in server.requests)
    assert "Your turns so far" not in first
    assert "Thought: what?\nAction: none that could be read\n" in third
    assert "Thought: so\nAction: 1\n" in third
    assert third.count("Observation: Numbers:") == 2
    # The environment's own prompt of now comes last, once.
    assert third.count("<think>") == first.count("<think>") >= 1
    assert first.endswith(third[third.index("Now:") :]) or third.index("Now:") < third.rindex("<think>")
    assert numbers["invalid_reasons"]["no_think"] == 1


def test_failures_are_counted_and_the_other_tasks_go_on() -> None:
    def answer(body: dict[str, Any], number: int) -> Reply | None:
        bad = [Reply(500, "oh"), Reply(200, "<html>"), Reply(400, error("too long")), None]
        # A trial's first request goes wrong, with its retry; seeds tell the tasks apart.
        place = seeds.setdefault(body["seed"], len(seeds))
        return bad[place] if place < 4 else action("+")

    seeds: dict[int, int] = {}
    with chat_server(answer) as server:
        more = ["--episodes", 6, "--concurrency", 1, "--engine-options", QUICK]
        numbers = from_server(server.base_url, "prompt", "NumberLine", *more)
    assert numbers["endings"]["request_failure"] == 4
    assert numbers["request_failure_causes"] == {"http_500": 1, "garbage": 1, "http_400": 1, "timeout": 1}
    assert numbers["retry_causes"] == {"http_500": 1, "garbage": 1, "timeout": 1}
    assert numbers["failed_requests"] == 4
    assert sum(numbers["endings"].values()) == 6 == numbers["panel_size"]
    assert numbers["success_rate"] == numbers["endings"]["won"] / 6


@pytest.mark.parametrize(
    ("reply", "exit_code", "message"),
    [
        (Reply(500, "oh"), 1, r"all 2 tasks failed \(2 request_failure: http_500\); .*status 500: 'oh' \(2 attempts\)"),
        (Reply(200, "<html>"), 1, "all 2 tasks failed .*no JSON: '<html>'"),
        (None, 1, r"all 2 tasks failed .*no answer within 1 s"),
        (
            Reply(401, error("Incorrect key sk-secret")),
            2,
            r"does not take the key in \$OPENAI_API_KEY; .*Incorrect key …",
        ),
        (Reply(404, error("no model tiny")), 2, "knows no model 'tiny'"),
    ],
)
def test_a_server_that_never_answers_is_one_clear_error(
    reply: Reply | None, exit_code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with chat_server(lambda body, number: reply) as server:
        more = ["--episodes", 2, "--engine-options", QUICK]
        stderr = from_server(server.base_url, "prompt", "NumberLine", *more, exit_code=exit_code)
    (line,) = (line for line in stderr.splitlines() if line.startswith("Error: "))
    assert re.search(message, line), line
    assert "sk-secret" not in stderr


def test_a_search_engine_that_does_not_answer_is_counted_and_where_none_does_an_error(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "data.jsonl", ROW)
    with bound_socket("127.0.0.1", 0) as nobody_listens:
        retriever = {"data": str(data), "retriever_url": url_of(nobody_listens), "retriever_retries": 0}
        more = ["--episodes", 3, "--concurrency", 1, "--env-config", json.dumps(retriever)]
        answers = ["<answer>x</answer>", "<search>x</search>", "<search>x</search>"]
        with chat_server(lambda body, number: Reply(200, completion(answers[number]))) as server:
            numbers = from_server(server.base_url, "prompt", "SearchQA", *more)
        with chat_server(lambda body, number: Reply(200, completion(answers[1]))) as server:
            stderr = from_server(server.base_url, "prompt", "SearchQA", *more, exit_code=1)
    assert numbers["endings"]["won"] == 1 and numbers["endings"]["service_failure"] == 2
    assert numbers["service_failure_causes"] == {"RetrieverConnectionError": 2}
    assert numbers["success_rate"] == 1 / 3
    assert "all 3 tasks failed (3 service_failure: RetrieverConnectionError)" in stderr


def test_a_dry_run_asks_nobody() -> None:
    estimate = from_server("http://127.0.0.1:9/v1", "prompt", "EZPoints", "--episodes", 3, "--dry-run")
    assert estimate["requests"] == 3 * 8  # the environment's step limit
    assert estimate["response_tokens"] == 3 * 8 * 512
    assert "Numbers: " in estimate["first_message"]
    assert estimate["prompt_tokens"] * 4 >= estimate["prompt_characters"] > 0


def test_a_context_that_is_too_small_loses_the_oldest_turns_and_says_so() -> None:
    long_thought = completion(f"<think>{'so ' * 60}</think><action>+</action>")
    with chat_server(lambda body, number: Reply(200, long_thought)) as server:
        # NumberLine ends at the target; at 5 steps of "+" from wherever it is not yet at the end.
        options = ["--episodes", 4, "--engine-options", '{"max_prompt_characters": 900}']
        numbers = from_server(server.base_url, "react", "NumberLine", *options)
        overflowing = ["--episodes", 4, "--engine-options", '{"max_prompt_characters": 90}']
        failed = from_server(server.base_url, "react", "NumberLine", *overflowing, exit_code=1)
    assert numbers["truncated_prompts"] > 0
    assert max(len(request["messages"][0]["content"]) for request in server.requests) <= 900
    assert "4 prompt_overflow" in failed
