"""From the command to the first sampled response, beside importing and building the same parts by hand.

    python benchmarks/start_up.py [--repetitions 2] [--json FILE]

`rllib train file` on EZPoints with the embedded model, in one process and with an env runner and a learner of their
own. An environment notes the time of its first step, which comes with the first response. By hand: a script that
imports the same libraries, starts Ray, loads the model in as many processes as hold one, and generates. Both take
turns; medians count. `rllib --help` is measured beside `python -c "import typer"`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import Annotated

import typer
from machine import this_machine

STAMP = "START_UP_STAMP"

CONFIG = """
    import os, time
    from pathlib import Path
    import gymnasium as gym
    from rllib_gigpo.algorithms.gigpo import GiGPOConfig
    from rllib_gigpo.env_adapters import embedded_model_path, make_env

    class StampedEZPoints(gym.Wrapper):
        def __init__(self, config):
            super().__init__(make_env("EZPoints"))

        def step(self, action):
            stamp = Path(os.environ["START_UP_STAMP"])
            if not stamp.exists():
                stamp.write_text(str(time.time()))
            return super().step(action)

    config = (
        GiGPOConfig()
        .environment(StampedEZPoints)
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .training(group_size=8, groups_per_iteration=1)
        .env_runners(num_env_runners=PROCESSES)
        .learners(num_learners=PROCESSES)
    )
    stop = {"training_iteration": 1}
"""

BY_HAND = """
    import os, sys, time
    from pathlib import Path
    import ray
    import ray.rllib.algorithms.algorithm
    from rllib_gigpo.env_adapters import embedded_model_path

    MODEL = str(embedded_model_path("EZPoints"))

    class Holder:
        def __init__(self):
            import torch, transformers
            import ray.rllib.core.learner.torch.torch_learner
            import ray.rllib.env.single_agent_env_runner

            torch.set_num_threads(1)
            self.lm = transformers.AutoModelForCausalLM.from_pretrained(MODEL)
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)

        def generate(self):
            ids = self.tokenizer(["You are playing cards."] * 8, return_tensors="pt")
            self.lm.generate(**ids, do_sample=True, max_new_tokens=16)
            Path(os.environ["START_UP_STAMP"]).write_text(str(time.time()))

    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    if PROCESSES:
        holders = [ray.remote(Holder).remote() for _ in range(2 * PROCESSES)]
        ray.get([holder.generate.remote() for holder in holders[:1]])
        ray.get([holder.__ray_ready__.remote() for holder in holders])
    else:
        Holder().generate()
"""


def main(
    repetitions: Annotated[int, typer.Option(min=1)] = 2,
    json_file: Annotated[Path | None, typer.Option("--json", dir_okay=False)] = None,
) -> None:
    """Prints a Markdown table; with --json, writes the ratios too."""
    rllib = str(Path(sys.executable).with_name("rllib"))
    ratios, lines = {}, []
    with TemporaryDirectory(prefix="start_up_") as folder:
        for processes, name in ((0, "one process"), (1, "an env runner and a learner")):
            config = _file(folder, f"config_{processes}.py", CONFIG, processes)
            script = _file(folder, f"by_hand_{processes}.py", BY_HAND, processes)
            ours, by_hand = [], []
            for _ in range(repetitions):
                ours.append(_until_stamp([rllib, "train", "file", config], folder))
                by_hand.append(_until_stamp([sys.executable, script], folder))
            ratios[name] = median(ours) / median(by_hand)
            lines.append((f"first response, {name}", median(ours), median(by_hand)))
    help_s = [_seconds([rllib, "--help"]) for _ in range(repetitions)]
    typer_s = [_seconds([sys.executable, "-c", "import typer"]) for _ in range(repetitions)]
    ratios["rllib --help"] = median(help_s) / median(typer_s)
    lines.append(("`rllib --help`", median(help_s), median(typer_s)))
    typer.echo("| until | ours, s | by hand, s | ratio |\n|---|---|---|---|")
    for name, of_ours, of_hand in lines:
        typer.echo(f"| {name} | {of_ours:.2f} | {of_hand:.2f} | {of_ours / of_hand:.2f} |")
    typer.echo(f"\n{this_machine()}")
    if json_file is not None:
        json_file.write_text(json.dumps({"benchmark": "start_up", "ratios": ratios}, indent=1))


def _file(folder: str, name: str, text: str, processes: int) -> str:
    path = Path(folder, name)
    path.write_text(dedent(text).replace("PROCESSES", str(processes)))
    return str(path)


def _until_stamp(command: list[str], folder: str) -> float:
    """Seconds from the start of the command until it wrote its stamp."""
    stamp = Path(folder, "stamp")
    stamp.unlink(missing_ok=True)
    start = time.time()
    _run(command, {**os.environ, STAMP: str(stamp), "OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local"}, folder)
    return float(stamp.read_text()) - start


def _seconds(command: list[str]) -> float:
    start = time.time()
    _run(command, dict(os.environ), None)
    return time.time() - start


def _run(command: list[str], env: dict[str, str], folder: str | None) -> None:
    done = subprocess.run(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    typer.run(main)
