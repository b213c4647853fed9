"""The `rllib` command as it is typed: what it prints and how it exits, without any training."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from rllib_gigpo.cli.main import app

pytestmark = pytest.mark.unit

STOP = ["--stop", '{"training_iteration": 1}']
TRAIN = ["train", "--algo", "GiGPO", "--env", "EZPoints", *STOP]
MODEL = '"model_path": "embedded", "max_prompt_tokens": 160, "max_response_tokens": 32'
EXAMPLE = "gigpo/ezpoints_text_tiny"
AGENT = ["evaluate", "--agent", "prompt", "--model", "tiny"]


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong must be found before Ray starts."""
    import ray

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr(ray, "init", refuse)


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def error_of(*arguments: str) -> str:
    """The one line that the command prints about wrong input."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert result.stdout == ""
    return line


def test_version() -> None:
    assert run("--version").stdout.startswith("rllib-gigpo ")


def commands(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of a command and of all below it, as they are typed."""
    below = getattr(command, "commands", {})  # of a group
    return [path, *(found for name, sub in below.items() for found in commands(sub, (*path, name)))]


ALL_COMMANDS = commands(typer.main.get_command(app))
assert len(ALL_COMMANDS) > 12


@pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
def test_every_command_has_help_and_refuses_an_option_that_it_does_not_have(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    # More than the name: what it does.
    assert len(result.stdout.split("Options:")[0].split()) > 5
    if not any(other[: len(path)] == path and other != path for other in ALL_COMMANDS):
        assert f"Example: rllib {' '.join(path)} " in " ".join(result.stdout.split())
    wrong = run(*path, "--no-such-option", "x")
    assert wrong.exit_code == 2, wrong.output
    assert wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_the_commands_are_those_that_the_documentation_names() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    for path in ALL_COMMANDS:
        if path and path[0] != "train" and len(path) == 1:
            assert f"rllib {path[0]}" in page, f"docs/cli.md lacks rllib {path[0]}"


def test_evaluate_has_a_help_for_checkpoints_and_one_for_agents() -> None:
    of_checkpoints, of_agents = run("evaluate", "--help").stdout, run("evaluate", "--agent", "react", "--help").stdout
    assert "CHECKPOINT" in of_checkpoints and "--agent prompt|react|reflexion" in " ".join(of_checkpoints.split())
    assert "--base-url" in of_agents and "CHECKPOINT" not in of_agents


def test_help_says_that_loading_a_checkpoint_runs_code() -> None:
    assert "only evaluate what you trust" in run("evaluate", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--env", "EZPoints"], "--algo is missing"),
        (["train", "run"], "--algo is missing"),
        (["train", "--algo", "GiGPO"], "--stop is missing"),
        (["train", "-a", "GiPO", *STOP], "unknown algorithm 'GiPO'. Did you mean 'GiGPO'"),
        (["train", "-r", "GiGPO", "-e", "EZPonts", *STOP], "unknown environment 'EZPonts'. Did you mean 'EZPoints'"),
        ([*TRAIN], "model_path is not set"),
        ([*TRAIN, "-c", '{"lr": 3'], "--config '{\"lr\": 3' is not JSON"),
        ([*TRAIN, "-c", '{"grup_size": 3}'], "did you mean 'group_size'"),
        ([*TRAIN, "-c", f'{{{MODEL}, "group_size": {{"grid_search": [4, 1]}}}}'], "with group_size=1: "),
        (["train", "-a", "GiGPO", "-s", '{"x": "y"}'], "--stop has 'x': 'y'"),
        ([*TRAIN, "--framework", "tf2"], "but there is only torch here"),
        ([*TRAIN, "--local-mode"], "--local-mode is no more"),
        ([*TRAIN, "--trace"], "there is only torch"),
        ([*TRAIN, "--upload-dir=x"], "use --storage-path"),
        ([*TRAIN, "--wandb-key", "k"], "log in with `wandb login`, and use --wandb-project"),
        (["train", "tiny.yaml"], "write rllib train file tiny.yaml"),
        (
            [*TRAIN, "-c", f'{{{MODEL}, "env_config": {{"max_step": 3}}}}'],
            "env_config has 'max_step'.*mean 'max_steps'",
        ),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--wandb-run-name", "a"], "does nothing without --wandb-project"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--mlflow-uri", "a"], "does nothing without --mlflow-experiment"),
        ([*TRAIN, "--resources-per-trial", "{}"], "set num_env_runners"),
        (["train", "run", "--local-dir", "x"], "use --storage-path"),
        (["train", "--algo", "GiGPO", "file", "x.py"], "write --algo after `file`"),
        (["train", "file", "x.py", "--env", "E"], "the file says which environment"),
        (["train", "file", "nope.yaml"], "nope.yaml does not exist"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--restore", "nope"], "checkpoint nope does not exist"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--scheduler", "best"], "--scheduler best: "),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--scheduler", "pbt"], "--scheduler pbt: .*hyperparam_mutations"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--scheduler", "hyperband", "--scheduler-config", '{"a": 1}'], "argument 'a'"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--scheduler", "pbt", "--scheduler-config", '{"metric": "a"}'], "--metric and"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--resume", "-n", "nope"], "nothing to resume"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--ray-address", "auto", "--ray-num-cpus", "2"], "cannot be used with"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "-n", "a/b"], "--experiment-name: 'a/b' cannot be the name"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "-n", ""], "--experiment-name: '' cannot be the name"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "-n", ".."], "--experiment-name: '..' cannot be the name"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--storage-path", "/proc/x"], "storage path /proc/x cannot be written to"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--storage-path", "/dev/null"], "storage path /dev/null cannot be written to"),
        ([*TRAIN, "-c", f"{{{MODEL}}}", "--resume"], "start it with --checkpoint-freq"),
        ([*TRAIN, "-c", '{"model_path": 3}'], "model_path is 3; it must be"),
        ([*TRAIN, "-c", f'{{{MODEL}, "lr": {{"grid_search": []}}}}'], "--config has lr=.*write a list of values"),
        ([*TRAIN, "-c", '{"model_path": {"grid_search": 3}}'], "--config has model_path=.*write a list of values"),
        (["evaluate", "nope"], "checkpoint nope does not exist"),
        (["evaluate", "nope", "--config", "{"], "--config '{' is not JSON"),
        (["evaluate", "nope", "--out", "no/folder/x.json"], "folder .* does not exist"),
        ([*AGENT, "--env", "EZPonts"], "Did you mean 'EZPoints'"),
        ([*AGENT, "--env", "EZPoints"], "--base-url is missing"),
        ([*AGENT, "--env", "EZPoints", "--base-url", "localhost:8000"], "must be like http://localhost:8000/v1"),
        ([*AGENT, "--env", "EZPoints", "--base-url", "http://a", "--engine-options", '{"retry": 1}'], "no options"),
        ([*AGENT, "--env", "EZPoints", "--base-url", "http://a", "--trials", "2"], "use the agent reflexion"),
        ([*AGENT, "--env", "EZPoints", "--base-url", "http://a", "--top-p", "2"], "top_p is 2.0"),
        ([*AGENT, "--env", "EZPoints", "--base-url", "http://a", "--history-length", "all"], "--history-length all"),
        ([*AGENT, "--env", "EZPoints", "--prompt-template", "{{ step }}", "--history-length", "2"], "never shows"),
        ([*AGENT, "--env", "EZPoints", "--base-url", "http://a", "--env-config", '{"size": 2}'], "'size'"),
        ([*AGENT, "--env", "EZPoints", "--engine", "hf"], "model_path 'tiny' is not a directory"),
        ([*AGENT, "--env", "EZPoints", "--base-url", "http://a", "--transcripts", "no/x"], "folder .* does not exist"),
        (["export", "nope", "out"], "checkpoint nope does not exist"),
        (["evaluate", "nope", "--steps", "3"], "use --episodes"),
        (["retriever", "serve", "nope.jsonl", "--port", "0"], "nope.jsonl is no file"),
        (["retriever", "serve", "nope.jsonl", "--query-prefix", "q"], "do nothing without --encoder"),
        (["retriever", "serve", "nope.jsonl", "--host", "nowhere.invalid"], "cannot listen on port 8000"),
        (["retriever", "serve", __file__, "--port", "0"], "test_cli_commands.py, line 1 is no JSON"),
        (["example", "get", "gigpo/ezpoint_text_tiny"], f"Did you mean '{EXAMPLE}'"),
        (["example", "run", "gigpo/ezpoint_text_tiny"], f"Did you mean '{EXAMPLE}'"),
        (["example", "run", EXAMPLE, "--stop", "3"], "--stop '3' is not a JSON object"),
        (["plan", "nope.py"], "nope.py does not exist"),
        (["report", "nope"], "nope is not a folder"),
        (["report", "nope", "neither"], "nope is not a folder"),
        (["doctor", "env", "EZPonts"], "Did you mean 'EZPoints'|EZPonts"),
        (["example", "list", "--filter", "chess"], "no example fits --filter chess"),
    ],
)
def test_wrong_input_is_one_line_before_ray_starts(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.search(message, error_of(*arguments))
    assert list(tmp_path.iterdir()) == []


def test_environments_in_the_folder_where_the_command_runs_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_lamps.py").write_text("def make_lamps(config):\n    raise AssertionError\n")
    result = run("train", "-a", "GiGPO", "-e", "my_lamps.make_lamps", "--smoke")
    # All that is checked before is right.
    assert "Ray was started" in result.stderr
    wrong = error_of("train", "-a", "GiGPO", "-e", "my_lamps.make_lampz", "--smoke")
    assert "env='my_lamps.make_lampz' is no registered name, and as a class path it cannot be imported" in wrong
    missing = error_of("train", "-a", "GiGPO", "-e", "my_lamp.make_lamps", "--smoke")
    assert f"Modules are looked for among the installed packages and in {tmp_path}." in missing
    (tmp_path / "lamps").mkdir()
    (tmp_path / "lamps" / "one.py").touch()
    module = error_of("train", "-a", "GiGPO", "-e", "lamps.one", "--smoke")
    assert "lamps.one is a module: name a class or a function in it" in module
    assert "such as my_package.my_module.Lamps" in error_of("train", "-a", "GiGPO", "-e", "Lamps", "--smoke")


def test_options_that_never_were_name_the_nearest() -> None:
    result = run(*TRAIN, "--nm-samples", "3")
    assert result.exit_code == 2
    assert "--num-samples" in result.stderr


def test_examples_are_listed_with_their_first_line() -> None:
    result = run("example", "list", "--filter", "EZPOINTS")
    assert EXAMPLE in result.stdout
    assert "GiGPO teaches" in result.stdout


def test_an_example_s_file_is_printed_as_it_is() -> None:
    from rllib_gigpo.tuned_examples.gigpo import ezpoints_text_tiny

    assert run("example", "get", EXAMPLE).stdout == Path(ezpoints_text_tiny.__file__).read_text()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("rllib ev", "evaluate"),
        ("rllib train --algo Gi", "GiGPO"),
        ("rllib train --env EZ", "EZPoints"),
        ("rllib example run gagpo/ez", "gagpo/ezpoints_sweep_tiny"),
        ("rllib doctor env Sok", "Sokoban"),
        ("rllib train --wandb-p", "--wandb-project"),
    ],
)
def test_a_shell_completes_commands_options_and_names(typed: str, offered: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_RLLIB_COMPLETE": "complete_bash"}
    answer = CliRunner().invoke(app, prog_name="rllib", env=words)
    assert answer.stdout.split() == [offered]


def test_what_keeps_checkpoints_and_where_is_asked_for_in_one_way(tmp_path: Path) -> None:
    train = [*TRAIN, "--config", f"{{{MODEL}}}"]
    by_tune = [*train, "--storage-path", str(tmp_path / "runs"), "--keep-best", "min-a", "--num-samples", "2"]
    assert re.search(r"--keep-best a is of one training .*--checkpoint-score-attr", error_of(*by_tune))
    assert not (tmp_path / "runs").exists()
    assert "storage path s3:/bucket/runs is a URI" in error_of(*train, "--storage-path", "s3://bucket/runs")


@pytest.mark.parametrize("option", ["--keep-best", "--metric"])
def test_a_result_key_of_evaluations_takes_a_training_with_some(tmp_path: Path, option: str) -> None:
    key = "evaluation/env_runners/success_rate"
    train = [*TRAIN, "--config", f"{{{MODEL}}}", "--storage-path", str(tmp_path / "runs"), option, key]
    assert re.search(rf"{key}' is of evaluations .*evaluation_interval=None .*set it in the config", error_of(*train))
    assert not (tmp_path / "runs").exists()
