"""How long Chromium takes until the report of a large run can be used: 50 iterations of 64 recorded trajectories.

    python benchmarks/report_in_browser.py

Prints the size of the page, the milliseconds from the start of its loading until the credit inspector shows steps and
until a click opens a step group, and how long the page's thread has computed until the first. The run is made up;
texts are as long as ALFWorld's.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from rllib_gigpo.report.html_report import write_report
from rllib_gigpo.report.run_data import read_run

ITERATIONS, GROUPS, MEMBERS, STEPS = 50, 8, 8, 12
WORDS = (
    "you",
    "see",
    "a",
    "cabinet",
    "drawer",
    "fridge",
    "with",
    "an",
    "apple",
    "on",
    "the",
    "shelf",
    "nothing",
    "happens",
)


def make_run(folder: Path) -> None:
    """Writes a run's results and trajectories."""
    rng = np.random.default_rng(0)
    (folder / "trajectories").mkdir()
    results = []
    for iteration in range(1, ITERATIONS + 1):
        numbers = {f"metric_{index}": float(rng.random()) for index in range(100)}
        results.append({"training_iteration": iteration, "env_runners": {"success_rate": iteration / 50, **numbers}})
        with gzip.open(folder / "trajectories" / f"iteration_{iteration:06d}.jsonl.gz", "wt") as file:
            for group in range(GROUPS):
                for member in range(MEMBERS):
                    file.write(json.dumps(trajectory(rng, group, member)) + "\n")
    (folder / "result.json").write_text("\n".join(map(json.dumps, results)))


def trajectory(rng: np.random.Generator, group: int, member: int) -> dict[str, Any]:
    """One of `STEPS` steps."""
    about = {"group_id": group, "member": member, "task": group, "task_id": None, "agent": None, "module": None}
    steps = [
        {
            "observation": text(rng, 80),
            "response": text(rng, 60),
            "action": text(rng, 4),
            "invalid_reason": None,
            "reward": 0.0,
            "anchor": step,
            "anchor_size": MEMBERS,
            "in_loss": True,
            "advantage": float(rng.normal()),
        }
        for step in range(STEPS)
    ]
    return {**about, "ending": "won", "won": True, "return": 1.0, "steps": steps}


def text(rng: np.random.Generator, num_words: int) -> str:
    return " ".join(rng.choice(WORDS, num_words))


async def measure(page: Path, profile: Path) -> tuple[float, float, float]:
    """Milliseconds until steps are shown, until a click has opened a step group, and of computing until the first."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    # Root may only use Chromium without its sandbox; the page is ours.
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    process = subprocess.Popen([chromium, *options, "about:blank"], stderr=subprocess.DEVNULL)
    try:
        while not (profile / "DevToolsActivePort").exists():
            await asyncio.sleep(0.1)
        port = (profile / "DevToolsActivePort").read_text().split()[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                (target,) = [found for found in await answer.json() if found["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                await ask(socket, "Performance.enable", timeDomain="threadTicks")
                await ask(socket, "Page.navigate", url=f"file://{page}")
                shown = await until(socket, "document.querySelector('.step') !== null && performance.now()")
                metrics = (await ask(socket, "Performance.getMetrics"))["metrics"]
                (busy,) = [1000 * metric["value"] for metric in metrics if metric["name"] == "TaskDuration"]
                await ask(socket, "Runtime.evaluate", expression="document.querySelector('button.badge').click()")
                opened = await until(socket, "document.querySelector('.siblings table') !== null && performance.now()")
        return shown, opened, busy
    finally:
        process.terminate()
        process.wait()


async def ask(socket: Any, method: str, **params: Any) -> Any:
    await socket.send_json({"id": 1, "method": method, "params": params})
    while True:
        answer = await socket.receive_json()
        if answer.get("id") == 1:
            return answer["result"]


async def until(socket: Any, expression: str) -> float:
    """The number that the expression has as soon as it is not false."""
    while True:
        answer = await ask(socket, "Runtime.evaluate", expression=expression)
        if answer["result"].get("value") not in (False, None):
            return float(answer["result"]["value"])
        await asyncio.sleep(0.02)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run").mkdir()
        make_run(folder / "run")
        write_report([read_run(folder / "run")], folder / "report.html")
        shown, opened, busy = asyncio.run(measure(folder / "report.html", folder / "profile"))
        size = (folder / "report.html").stat().st_size / 2**20
        print(f"{ITERATIONS} iterations of {GROUPS * MEMBERS} trajectories, {size:.1f} MiB")
        print(f"steps are shown after {shown:.0f} ms, a step group after {opened:.0f} ms; {busy:.0f} ms were computed")


if __name__ == "__main__":
    main()
