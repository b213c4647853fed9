"""Tokens per second of an env runner against those of its engine alone, and where an env runner's time goes.

    python benchmarks/rollout_engine.py [--smollm2 models/smollm2-135m-instruct] [--json rollout_engine.json]

An env runner rolls out groups; what each trajectory asks is written down, and the engine is asked the same again
without environments, prompts and parsers, as many trajectories at a time. Both take turns; tokens per CPU second of one
are compared with those of the other of the same turn. Then the shares of the env runner's CPU time, and how many of the
prompts' tokens a tokenizer has written, the others being remembered.

With the engine `hf` seeds are the same, and so are the tokens: that is checked. With `vllm`, where it is installed,
SmolLM2 is measured too. The CPU time is then that of this process and of vLLM's. All prompts are in its prefix cache by
the first turn, as those of a training are not: the shares of the env runner are the largest that they can be.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import torch
from machine import this_machine

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.columns import RESPONSE_IDS
from rllib_gigpo.connectors import prompts
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_runners.environment_pool import InlineEnvironment
from rllib_gigpo.env_runners.group_env_runner import GroupEnvRunner
from rllib_gigpo.env_runners.group_rollout import GroupRollout
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.protocol import GenerationRequest, SamplingParams
from rllib_gigpo.inference.vllm_engine import VLLMEngine

PARTS = ("engine", "prompts", "tokens", "parsing", "environment")
EXAMPLES = [
    ("Target: 7. Current: 3", "<think>7 > 3</think><action>+</action>"),
    ("Target: 4. Current: 8", "<think>4 < 8</think><action>-</action>"),
]


class Clock:
    """CPU seconds of an env runner's thread by part, while it is on; what one part calls counts for both."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.is_on = False
        for holder, name, part in (
            (HFEngine, "sample", "engine"),
            (GroupRollout, "_prompt", "prompts"),
            (prompts, "encode_prompt", "tokens"),
            (GroupRollout, "_parsed", "parsing"),
        ):
            setattr(holder, name, self._timed(getattr(holder, name), part))
        for name in ("reset", "step"):
            setattr(InlineEnvironment, name, self._timed_coroutine(getattr(InlineEnvironment, name), "environment"))

    def _timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self._counted(part):
                return function(*args, **kwargs)

        return timed

    def _timed_coroutine(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        async def timed(*args: Any, **kwargs: Any) -> Any:
            with self._counted(part):  # environments in this process never wait
                return await function(*args, **kwargs)

        return timed

    @contextlib.contextmanager
    def _counted(self, part: str) -> Iterator[None]:
        began = time.thread_time()
        yield
        if self.is_on:
            self.seconds[part] += time.thread_time() - began


class RecordedEngine:
    """An engine that writes down what each trajectory asks."""

    def __init__(self, engine: Any):
        self._engine = engine
        self.requests: dict[tuple[int, ...], list[GenerationRequest]] = defaultdict(list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def client(self) -> Any:
        client = self._engine.client()
        generate = client.generate

        async def recorded(request: GenerationRequest) -> Any:
            self.requests[request.order].append(request)
            return await generate(request)

        client.generate = recorded
        return client


async def ask_again(engine: Any, requests: dict[tuple[int, ...], list[GenerationRequest]]) -> int:
    """The same requests by as many clients; returns how many tokens were sampled."""

    async def ask(client: Any, of_trajectory: list[GenerationRequest]) -> int:
        async with client:
            return sum([len((await client.generate(request)).response_ids) for request in of_trajectory])

    clients = [engine.client() for _ in requests]
    return sum(await asyncio.gather(*map(ask, clients, requests.values())))


def cpu_seconds() -> float:
    """Of this process, with all its threads, and of those that it has started."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(taken.user + taken.system for taken in times)


def embedded(env: str) -> Any:
    config = GiGPOConfig().environment(env).language_model(model_path=str(embedded_model_path(env)))
    return config.generation(max_prompt_tokens=512, max_response_tokens=24)


def smollm2(path: Path, engine: str) -> Any:
    return (
        GiGPOConfig()
        .environment("NumberLine", env_config={"max_position": 6, "max_steps": 3})
        .agent_format(prompt_template="{{ observation }}", examples=EXAMPLES)
        .language_model(model_path=str(path))
        .generation(engine=engine, max_prompt_tokens=256, max_response_tokens=24)
    )


def measured(name: str, config: Any, clock: Clock, *, groups: int, group_size: int, turns: int) -> dict[str, Any]:
    """Ratios and shares of one env runner."""
    config = config.env_runners(num_env_runners=0, num_envs_per_env_runner=groups * group_size)
    runner = GroupEnvRunner(config=config.training(group_size=group_size).learners(num_learners=0))
    plan = RolloutPlan(
        groups=tuple(GroupPlan(index, index, env_seed=index, sampling_seed=index) for index in range(groups)),
        group_size=group_size,
        min_group_size=2,
        sampling=SamplingParams(config.max_response_tokens),
    )
    engine = runner.engine
    runner._rollout._engine = recorded = RecordedEngine(engine)  # type: ignore[assignment]
    with written_tokens(runner.module.tokenizer) as written:
        runner.sample(plan=plan)
    runner._rollout._engine = engine  # type: ignore[assignment]
    requests = dict(recorded.requests)
    prompt_tokens = sum(len(request.prompt_ids) for asked in requests.values() for request in asked)

    clock.seconds.clear()
    rollouts, alone = [], []
    for _ in range(turns):
        clock.is_on = True
        with spent() as of_rollout:
            episodes, _ = runner.sample(plan=plan)
        clock.is_on = False
        with spent() as of_engine:
            asked_tokens = asyncio.run(ask_again(engine, requests))
        tokens = sum(len(ids) for episode in episodes for ids in episode.get_extra_model_outputs(RESPONSE_IDS))
        assert isinstance(engine, VLLMEngine) or asked_tokens == tokens, f"alone {asked_tokens} tokens, else {tokens}"
        rollouts.append((tokens, *of_rollout))
        alone.append(asked_tokens / of_engine[0])
    if isinstance(engine, VLLMEngine):  # has a process and a thread of its own
        clock.seconds["engine"] = sum(seconds - of_thread for _, seconds, of_thread in rollouts)
    speeds = [tokens / seconds for tokens, seconds, _ in rollouts]
    whole = sum(seconds for _, seconds, _ in rollouts)
    runner.stop()
    return {
        "case": name,
        "trajectories": len(requests),
        "requests": sum(map(len, requests.values())),
        "prompt_tokens": prompt_tokens,
        "response_tokens": tokens,
        "tokens_per_cpu_second": statistics.median(speeds),
        "of_engine_alone": statistics.median(one / other for one, other in zip(speeds, alone, strict=True)),
        "shares": {part: clock.seconds[part] / whole for part in PARTS},
        "written_share": sum(written) / prompt_tokens,
    }


@contextlib.contextmanager
def spent() -> Iterator[list[float]]:
    """CPU seconds of what runs meanwhile: of all processes, and of this thread."""
    seconds: list[float] = []
    began, began_thread = cpu_seconds(), time.thread_time()
    yield seconds
    seconds += [cpu_seconds() - began, time.thread_time() - began_thread]


@contextlib.contextmanager
def written_tokens(tokenizer: Any) -> Iterator[list[int]]:
    """How many tokens each call of the tokenizer writes meanwhile."""
    written: list[int] = []
    holder, encode = type(tokenizer), type(tokenizer)._encode_plus

    def counting(*args: Any, **kwargs: Any) -> Any:
        encoding = encode(*args, **kwargs)
        written.append(len(encoding["input_ids"]))
        return encoding

    holder._encode_plus = counting
    yield written
    holder._encode_plus = encode


def print_table(results: list[dict[str, Any]]) -> None:
    print(
        "\n| rollout | requests | prompt tokens | response tokens | of the engine alone | "
        + " | ".join(PARTS)
        + " | encoded anew |"
    )
    print("|---" * (6 + len(PARTS)) + "|")
    for result in results:
        shares = " | ".join(f"{result['shares'][part]:.1%}" for part in PARTS)
        print(
            f"| {result['case']} | {result['requests']} | {result['prompt_tokens']:,} | {result['response_tokens']:,} "
            f"| {result['of_engine_alone']:.2f} | {shares} | {result['written_share']:.0%} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", type=Path, help="directory of SmolLM2-135M-Instruct")
    parser.add_argument("--turns", type=int, default=3, help="rollouts of each embedded model")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    clock = Clock()
    of_embedded = {"groups": 2, "group_size": 8, "turns": arguments.turns}
    results = [
        measured("EZPoints", embedded("EZPoints"), clock, **of_embedded),
        measured("Household", embedded("Household"), clock, **of_embedded),
    ]
    if arguments.smollm2:
        one_group = {"groups": 1, "group_size": 4, "turns": 2}
        results.append(measured("SmolLM2", smollm2(arguments.smollm2, "hf"), clock, **one_group))
        if importlib.util.find_spec("vllm") is not None:
            results.append(measured("SmolLM2, vllm", smollm2(arguments.smollm2, "vllm"), clock, **one_group))
    print_table(results)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": this_machine(), "cases": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
