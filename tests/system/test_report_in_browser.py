"""The report as a browser shows it; skipped where there is no Chromium."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from rllib_gigpo.report.html_report import write_report
from rllib_gigpo.report.run_data import RunData, read_run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [pytest.mark.system, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]

GROUPS = '<option value="20">20: 2 of 2 won</option><option value="21">21: 2 of 2 won</option>'
HOSTILE = "<b id='injected'>a kitchen</b>"


def step(advantage: float, anchor_size: int) -> dict:
    text = {
        "observation": HOSTILE,
        "image": "kitchen",
        "response": "<action>go</action>",
        "action": "go",
        "invalid_reason": None,
    }
    return {**text, "reward": 1.0, "anchor": 0, "anchor_size": anchor_size, "in_loss": True, "advantage": advantage}


def trajectory(group: int, member: int, steps: list[dict]) -> dict:
    about = {"group_id": group, "member": member, "task": 3, "task_id": None, "agent": None, "module": None}
    return {**about, "ending": "won", "won": True, "return": 1.0, "steps": steps}


def run(tmp_path: Path) -> RunData:
    """Two iterations, two groups and two members, with a picture."""
    (tmp_path / "trajectories" / "images").mkdir(parents=True)
    Image.new("RGB", (40, 30), "red").save(tmp_path / "trajectories" / "images" / "kitchen.png")
    results = []
    for iteration in (1, 2):
        results.append({"training_iteration": iteration, "env_runners": {"success_rate": iteration / 4}})
        with gzip.open(tmp_path / "trajectories" / f"iteration_{iteration:06d}.jsonl.gz", "wt") as file:
            for group in (10 * iteration, 10 * iteration + 1):
                for member in (0, 1):
                    file.write(json.dumps(trajectory(group, member, [step(0.5 - member, 2)])) + "\n")
    (tmp_path / "result.json").write_text("\n".join(map(json.dumps, results)))
    return read_run(tmp_path)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    write_report([run(tmp_path)], tmp_path / "report.html")
    return tmp_path / "report.html"


def shown(page: Path, tmp_path: Path) -> str:
    """The page's elements after its scripts have run; fails where the console has an error."""
    assert CHROMIUM is not None
    # Root may only use Chromium without its sandbox; the page is ours.
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}/c",
    ]
    command = [CHROMIUM, *options, "--virtual-time-budget=5000", "--dump-dom", f"file://{page}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def click_a_step_group(page: Path) -> None:
    """Has the page click the first one as soon as it shows any."""
    script = """<script>
    const waiting = setInterval(() => {
      const badge = document.querySelector("button.badge");
      if (badge !== null) { clearInterval(waiting); badge.click(); }
    }, 100);
    </script></body>"""
    page.write_text(page.read_text().replace("</body>", script))


def test_the_page_draws_its_curves_and_shows_the_newest_group_without_an_error(page: Path, tmp_path: Path) -> None:
    elements = shown(page, tmp_path)
    assert 'class="main-svg"' in elements  # what Plotly draws
    assert "Trajectory 1" in elements
    assert GROUPS in elements
    assert "&lt;b id='injected'&gt;a kitchen&lt;/b&gt;" in elements
    assert '<img src="data:image/png;base64,' in elements
    assert "<b id=" not in elements.partition('id="inspector"')[2].partition("<script")[0]


def test_a_step_group_opens_on_a_click(page: Path, tmp_path: Path) -> None:
    click_a_step_group(page)
    elements = shown(page, tmp_path)
    assert "2 steps from one anchor state" in elements
    opened = elements.partition('class="siblings"')[2]
    assert opened.index('<img src="data:') < opened.index("<table>")


def test_the_first_group_with_a_signal_is_shown_and_a_step_group_without_a_picture_opens(tmp_path: Path) -> None:
    run(tmp_path)
    steps = [{**step(0.0, 2), "in_loss": False, "image": "none"}], [{**step(0.5, 2), "image": "none"}]
    lines = [json.dumps(trajectory(20 + i, member, steps[i])) for i in (0, 1) for member in (0, 1)]
    with gzip.open(tmp_path / "trajectories" / "iteration_000002.jsonl.gz", "wt") as file:
        file.write("\n".join(lines))
    write_report([read_run(tmp_path)], tmp_path / "report.html")
    page = tmp_path / "report.html"
    click_a_step_group(page)
    elements = shown(page, tmp_path)
    assert "20: 2 of 2 won, no signal" in elements
    assert "not in the loss" not in elements.partition('class="steps"')[2].partition("<script")[0]
    opened = elements.partition('class="siblings"')[2].partition("</aside>")[0]
    assert "2 steps from one anchor state" in opened and "null" not in opened


def test_two_runs_have_an_inspector_each(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_report([run(first), run(second)], tmp_path / "both.html")
    elements = shown(tmp_path / "both.html", tmp_path)
    assert elements.count("Trajectory 1") == 2
    assert elements.count(GROUPS) == 2
    assert "first: success_rate" in elements and "second: success_rate" in elements
