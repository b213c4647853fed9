"""Tokens per second of an env runner against those of its engine alone, and where an env runner's time goes.

    python benchmarks/rollout_engine.py [--smollm2 models/smollm2-135m-instruct] [--json rollout_engine.json]

An env runner rolls out groups with the engine `hf`; what each trajectory asks is written down, and the engine is asked
the same again without environments, prompts and parsers, as many trajectories at a time. Seeds are the same, so are the
tokens: that is checked. Both take turns; the CPU time of one is compared with that of the other of the same turn. Then
the shares of the env runner's CPU time, and how many of the prompts' tokens a tokenizer has written, the others being
remembered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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

PARTS = ("engine", "prompts", "tokens", "parsing", "environment")
EXAMPLES = [
    ("Target: 7. Current: 3", "<think>7 > 3</think><action>+</action>"),
    ("Target: 4. Current: 8", "<think>4 < 8</think><action>-</action>"),
]


class Clock:
    """CPU seconds of an env runner by part, while it is on; what one part calls counts for both."""

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
        began = time.process_time()
        yield
        if self.is_on:
            self.seconds[part] += time.process_time() - began


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


def embedded(env: str) -> Any:
    config = GiGPOConfig().environment(env).language_model(model_path=str(embedded_model_path(env)))
    return config.generation(max_prompt_tokens=512, max_response_tokens=24)


def smollm2(path: Path) -> Any:
    return (
        GiGPOConfig()
        .environment("NumberLine", env_config={"max_position": 6, "max_steps": 3})
        .agent_format(prompt_template="{{ observation }}", examples=EXAMPLES)
        .language_model(model_path=str(path))
        .generation(max_prompt_tokens=256, max_response_tokens=24)
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
    whole, alone = [], []
    for _ in range(turns):
        clock.is_on = True
        began = time.process_time()
        episodes, _ = runner.sample(plan=plan)
        whole.append(time.process_time() - began)
        clock.is_on = False
        began = time.process_time()
        tokens = asyncio.run(ask_again(engine, requests))
        alone.append(time.process_time() - began)
        sampled = sum(len(ids) for episode in episodes for ids in episode.get_extra_model_outputs(RESPONSE_IDS))
        assert tokens == sampled, f"the engine alone sampled {tokens} tokens, in the env runner {sampled}"
    runner.stop()
    return {
        "case": name,
        "trajectories": len(requests),
        "requests": sum(map(len, requests.values())),
        "prompt_tokens": prompt_tokens,
        "response_tokens": tokens,
        "tokens_per_cpu_second": tokens / statistics.median(whole),
        "of_engine_alone": statistics.median(one / other for one, other in zip(alone, whole, strict=True)),
        "shares": {part: clock.seconds[part] / sum(whole) for part in PARTS},
        "written_share": sum(written) / prompt_tokens,
    }


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
        results.append(measured("SmolLM2", smollm2(arguments.smollm2), clock, groups=1, group_size=4, turns=2))
    print_table(results)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": this_machine(), "cases": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
