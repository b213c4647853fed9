"""`rllib evaluate --agent`: plays the evaluation panel with a model that is prompted and not trained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from rllib_gigpo.cli.errors import reported_errors
from rllib_gigpo.cli.json_option import json_object
from rllib_gigpo.cli.progress import MISSING
from rllib_gigpo.cli.quiet_ray import quiet_ray
from rllib_gigpo.cli.waiting import waiting

if TYPE_CHECKING:
    from rllib_gigpo.inference.chat import ChatEngine
    from rllib_gigpo.inference.dry_run import DryRun

_SHOWN = (
    *("success_rate", "success_rate_stderr", "success_rate_within_trials", "episode_return_mean", "episode_len_mean"),
    *("invalid_action_share", "requests", "retries", "failed_requests", "prompt_tokens", "response_tokens"),
    *("panel_size", "panel_hash"),
)
_EXAMPLE_OPTIONS = '{"timeout_s": 60, "max_retries": 3}'


class Agent(StrEnum):
    """How to prompt; see `AGENT_PRESETS`."""

    PROMPT = "prompt"
    REACT = "react"
    REFLEXION = "reflexion"


class Engine(StrEnum):
    """Who answers."""

    OPENAI = "openai"
    HF = "hf"


def evaluate_agent(
    agent: Annotated[Agent, typer.Option(help="prompt: the environment's prompt as it is.")],
    env: Annotated[str, typer.Option(help="A registered name, a Gymnasium id, or package.module.Class.")],
    model: Annotated[
        str, typer.Option(help="The server's name of it; for hf its directory, or embedded: the environment's own.")
    ],
    engine: Annotated[Engine, typer.Option(help="An OpenAI-compatible server, or a local model.")] = Engine.OPENAI,
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Like http://localhost:8000/v1. Default: $OPENAI_BASE_URL.",
            envvar="OPENAI_BASE_URL",
            show_envvar=False,
        ),
    ] = None,
    engine_options: Annotated[
        str, typer.Option(metavar="JSON", help=f"See docs/inference.md; like {_EXAMPLE_OPTIONS}.")
    ] = "{}",
    env_config: Annotated[str, typer.Option(metavar="JSON", help='Like {"max_steps": 8}.')] = "{}",
    episodes: Annotated[int, typer.Option(min=1, help="Tasks on the panel, that of trainings.")] = 128,
    trials: Annotated[int | None, typer.Option(min=1, help="At most, of each task. Default: 3 for reflexion.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Tasks that are played at once.")] = 16,
    env_workers: Annotated[int, typer.Option(min=0, help="Processes for the environments.")] = 0,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Nucleus sampling; 1 is off.")] = 1.0,
    max_response_tokens: Annotated[int, typer.Option(min=1, help="A longer answer is cut there.")] = 512,
    seed: Annotated[int, typer.Option(min=0, help="Of the answers.")] = 0,
    prompt_template: Annotated[
        str | None, typer.Option(help="In place of the environment's: a file, or package.module:NAME.")
    ] = None,
    history_length: Annotated[str | None, typer.Option(metavar="N|full", help="Of the environment's prompt.")] = None,
    response_parser: Annotated[str | None, typer.Option(help="A name, or package.module:function.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask nobody; print about how much would be asked.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the results to it.")] = None,
    transcripts: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Write all that was said to it, a line a task.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of errors.")] = False,
) -> None:
    """Play the evaluation panel with a model that is prompted: as it is, by ReAct, or by Reflexion.

    The key of an OpenAI-compatible server is read from $OPENAI_API_KEY.
    """
    with reported_errors(verbose):
        quiet_ray(verbose)
        options = json_object("--engine-options", engine_options, _EXAMPLE_OPTIONS)
        env_options = json_object("--env-config", env_config, '{"max_steps": 8}')
        for name, path in (("--out", out), ("--transcripts", transcripts)):
            if path is not None and not path.absolute().parent.is_dir():
                raise ValueError(f"{name} {path}: the folder {path.absolute().parent} does not exist")
        from rllib_gigpo.agent_formats.agent_presets import agent_preset
        from rllib_gigpo.cli.agent_parts import changed_agent_format, chat_engine
        from rllib_gigpo.inference.dry_run import DryRun
        from rllib_gigpo.inference.protocol import SamplingParams
        from rllib_gigpo.prompt_agents.evaluation import PanelSettings

        settings = PanelSettings(
            env=env,
            env_config=env_options,
            episodes=episodes,
            trials=trials,
            sampling=SamplingParams(max_response_tokens, temperature=temperature, top_p=top_p),
            seed=seed,
            concurrency=concurrency,
            env_workers=env_workers,
        )
        preset = agent_preset(agent.value)
        agent_format = changed_agent_format(env, prompt_template, history_length, response_parser)
        with waiting("loading the model", hidden=quiet or verbose or engine is not Engine.HF):
            chat: ChatEngine = chat_engine(engine.value, model, base_url, options, env)
        if dry_run:
            chat = DryRun()
    with reported_errors(verbose, bad_input=(ValueError,)):
        from rllib_gigpo.prompt_agents.evaluation import evaluate_prompting
        from rllib_gigpo.prompt_agents.results import transcript

        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=quiet or verbose or not console.is_terminal) as progress:
            bar = progress.add_task("tasks", total=episodes)
            numbers, records = evaluate_prompting(
                settings, preset, agent_format, chat, when_done=lambda record: progress.advance(bar)
            )
        if isinstance(chat, DryRun):
            _print_estimate(chat, as_json)
            return
        played = {"agent": agent.value, "engine": engine.value, "model": model, "base_url": base_url, "env": env}
        results = {**played, "env_config": env_options, "temperature": temperature, "seed": seed, **numbers}
        if out is not None:
            out.write_text(json.dumps(results, indent=2, default=repr) + "\n")
        if transcripts is not None:
            lines = [json.dumps(transcript(record), ensure_ascii=False, default=repr) for record in records]
            transcripts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(results, indent=2, default=repr))
    else:
        Console().print(_table(results))


def _table(results: Mapping[str, Any]) -> Table:
    table = Table("result", "value", title=f"{results['agent']} with {results['model']} on {results['env']}")
    for name in _SHOWN:
        table.add_row(name, _text(results[name]))
    for task_type, own in results["success_rate_by_task_type"].items():
        table.add_row(f"success_rate of {task_type} ({own['tasks']} tasks)", _text(own["success_rate"]))
    causes = ("env_failure_causes", "service_failure_causes", "request_failure_causes")
    for group in ("endings", "invalid_reasons", *causes):
        for name, count in results[group].items():
            if count:
                table.add_row(f"{group}/{name}", str(count))
    return table


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return MISSING if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_estimate(engine: DryRun, as_json: bool) -> None:
    estimate = engine.estimate()
    if as_json:
        typer.echo(json.dumps(estimate, indent=2))
        return
    typer.echo(
        f"about {estimate['requests']} requests at most, {estimate['prompt_tokens']} prompt tokens, and up to "
        f"{estimate['response_tokens']} response tokens; nobody was asked. The first message:\n\n"
        f"{estimate['first_message']}"
    )
