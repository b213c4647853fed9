"""What `rllib report` reads and shows."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from rllib_gigpo.cli.main import app
from rllib_gigpo.images import ImageStore
from rllib_gigpo.report import html_report
from rllib_gigpo.report.curves import figures
from rllib_gigpo.report.html_report import write_report
from rllib_gigpo.report.recorded_images import MAX_NEW_OF_AN_ITERATION, RecordedImages
from rllib_gigpo.report.run_data import read_run

pytestmark = pytest.mark.unit


def result(iteration: int, success: float, **more: object) -> dict:
    return {"training_iteration": iteration, "env_runners": {"success_rate": success}, "done": False, **more}


def run_folder(path: Path, lines: list[str]) -> Path:
    path.mkdir(exist_ok=True)
    (path / "result.json").write_text("\n".join(lines))
    return path


def test_metrics_are_read_by_iteration_and_the_last_try_of_one_counts(tmp_path: Path) -> None:
    results = [result(1, 0.1), result(2, 0.2), result(2, 0.3, learners={"a": {"entropy": 1}}), result(3, float("nan"))]
    run = read_run(run_folder(tmp_path, [json.dumps(r) for r in results]))
    assert run.metrics["env_runners/success_rate"] == {1: 0.1, 2: 0.3}
    assert run.metrics["learners/a/entropy"] == {2: 1.0}
    assert "done" not in run.metrics
    assert run.iterations == [1, 2, 3]


def test_a_last_line_that_is_half_written_is_left_out_and_another_one_is_an_error(tmp_path: Path) -> None:
    whole = json.dumps(result(1, 0.5))
    assert read_run(run_folder(tmp_path, [whole, whole[:20]])).iterations == [1]
    with pytest.raises(ValueError, match=r"result\.json, line 1, is not JSON"):
        read_run(run_folder(tmp_path, [whole[:20], whole]))


def test_half_a_character_at_the_end_is_left_out_too(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [])
    (folder / "result.json").write_bytes(json.dumps(result(1, 0.5)).encode() + b'\n{"a": "\xe2\x88')
    assert read_run(folder).iterations == [1]


def test_what_is_no_result_or_configuration_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    whole = json.dumps(result(1, 0.5))
    with pytest.raises(ValueError, match=r"result\.json, line 1, is no result"):
        read_run(run_folder(tmp_path, ["[1, 2]", whole]))
    with pytest.raises(ValueError, match=r"result\.json, result 1: training_iteration=None is no integer"):
        read_run(run_folder(tmp_path, ['{"training_iteration": null}']))
    folder = run_folder(tmp_path, [whole])
    for damaged in ("[]", '{"lr": ', ""):
        (folder / "params.json").write_text(damaged)
        with pytest.raises(ValueError, match=r"params\.json is damaged"):
            read_run(folder)


def test_the_report_of_a_run_that_has_ended_names_its_algorithm_and_the_panel(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [json.dumps(result(1, 0.5))])
    (folder / "params.json").write_text('{"env": "EZPoints"}')
    (folder / "summary.json").write_text('{"algorithm": "GiGPO", "success_before": 0.25, "success_after": 0.75}')
    write_report([read_run(folder)], folder / "report.html")
    page = (folder / "report.html").read_text()
    assert "<h1>GiGPO: EZPoints</h1>" in page
    assert "<b>0.75</b><span>success on the panel</span><small>began at 0.25</small>" in page


def test_a_report_never_replaces_a_file_of_the_run(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [json.dumps(result(1, 0.5))])
    for target in (folder / "result.json", folder):
        answer = CliRunner().invoke(app, ["report", str(folder), "--out", str(target)])
        assert answer.exit_code == 2
        assert "cannot be the report: name a file that ends in .html" in answer.stderr
    assert read_run(folder).iterations == [1]


def test_a_folder_without_results_is_an_error_that_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a folder"):
        read_run(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"has no result\.json"):
        read_run(tmp_path)
    with pytest.raises(ValueError, match="holds no result"):
        read_run(run_folder(tmp_path / "empty", []))
    run_folder(tmp_path / "experiment", [json.dumps(result(1, 0.5))]).joinpath("result.json").unlink()
    run_folder(tmp_path / "experiment" / "trial_b", [json.dumps(result(1, 0.5))])
    with pytest.raises(ValueError, match=r"several runs; name one: .*trial_b"):
        read_run(tmp_path / "experiment")


def test_panels_hold_the_series_that_the_run_has_in_natural_order(tmp_path: Path) -> None:
    shares = {"anchor_rows_share_10_49": 0.5, "anchor_rows_share_2_4": 0.5, "anchor_rows_share_1": 0.0}
    run = read_run(run_folder(tmp_path, [json.dumps(result(1, 0.1, rollout_groups=shares))]))
    found = {panel.title: figure for panel, figure in figures({"a": run})}
    assert set(found) == {"Success", "Step groups by size"}
    assert found["Success"]["data"][0] | {"type": ""} == {
        "x": [1], "y": [0.1], "name": "success_rate", "type": "", "mode": "lines+markers",
    }  # fmt: skip
    # Stacked, the share that is 0 throughout is left out.
    assert [trace["name"] for trace in found["Step groups by size"]["data"]] == ["2_4", "10_49"]


def test_nothing_that_a_run_says_can_end_a_script_or_become_markup(tmp_path: Path) -> None:
    hostile = "</script><img src=x>"
    folder = run_folder(tmp_path, [json.dumps(result(1, 0.5, learners={hostile: {"entropy": 1.0}}))])
    (folder / "params.json").write_text(json.dumps({"env": hostile}))
    (folder / "trajectories").mkdir()
    with gzip.open(folder / "trajectories" / "iteration_000001.jsonl.gz", "wt") as file:
        file.write(json.dumps({"group_id": 0, "steps": [{"observation": hostile}]}))
    write_report([read_run(folder)], folder / "report.html")
    page = (folder / "report.html").read_text()
    assert "<img src=x>" not in page
    assert '<script type="application/octet-stream" id="trajectories-0-1">' in page
    # Plotly's own code speaks of addresses; nothing is loaded from any.
    assert not re.search(r'<(script|link|img)[^>]*(src|href)="', page)


def test_damaged_trajectories_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = run_folder(tmp_path, [json.dumps(result(1, 0.5))])
    records = folder / "trajectories"
    records.mkdir()
    whole = gzip.compress(b'{"group_id": 0, "steps": []}\n')
    for iteration, content in enumerate((whole, whole[:-4], b"", b"no gzip"), 1):
        (records / f"iteration_{iteration:06d}.jsonl.gz").write_bytes(content)
    (records / "iteration_000009.jsonl.gz").mkdir()
    assert list(read_run(folder).trajectories) == [1]
    assert caplog.text.count("is damaged and left out") == 4


def compared(tmp_path: Path) -> str:
    """The page of two runs that differ in the learning rate."""
    folders = []
    for name, success, lr in (("slow", 0.25, 1e-4), ("fast", 0.75, 1e-3)):
        endings = {"endings": {"won": 3, "lost": 1}}
        lines = [json.dumps({**result(1, success), "env_runners": {"success_rate": success, **endings}})]
        folders.append(run_folder(tmp_path / name, lines))
        (folders[-1] / "params.json").write_text(json.dumps({"lr": lr, "env": "EZPoints"}))
        (folders[-1] / "trajectories").mkdir()
        (folders[-1] / "trajectories" / "iteration_000001.jsonl.gz").write_bytes(gzip.compress(b'{"steps": []}'))
    answer = CliRunner().invoke(app, ["report", *map(str, folders), "--out", str(tmp_path / "both.html"), "--json"])
    assert answer.exit_code == 0, answer.output
    of_runs = [
        {"folder": str(folder), "iteration": 1, "metrics": {"env_runners/success_rate": success}}
        for folder, success in zip(folders, (0.25, 0.75), strict=True)
    ]
    assert json.loads(answer.stdout) == {"report": str(tmp_path / "both.html"), "runs": of_runs}
    return (tmp_path / "both.html").read_text()


def test_two_runs_stand_side_by_side(tmp_path: Path) -> None:
    page = compared(tmp_path)
    shown = json.loads(page.partition('id="figures">')[2].partition("</script>")[0])
    found = {panel["figure"]["layout"]["title"]["text"]: panel["figure"]["data"] for panel in shown}
    assert [trace["name"] for trace in found["Success"]] == ["slow: success_rate", "fast: success_rate"]
    assert found["Success"][1]["line"] == {"dash": "dash"}
    # What is stacked cannot share a picture.
    assert {"How trajectories ended: slow", "How trajectories ended: fast"} <= set(found)
    assert page.count('class="of-run"') == 2
    assert 'id="trajectories-0-1"' in page and 'id="trajectories-1-1"' in page
    differing = page.partition("<th>differs in</th>")[2].partition("</table>")[0]
    assert "<td>lr</td><td>0.0001</td><td>0.001</td>" in differing and "env" not in differing


def test_a_run_cannot_be_compared_with_itself(tmp_path: Path) -> None:
    folder = str(run_folder(tmp_path, [json.dumps(result(1, 0.5))]))
    answer = CliRunner().invoke(app, ["report", folder, folder])
    assert answer.exit_code == 2 and "named twice" in answer.stderr


def test_the_newest_pictures_are_in_the_page_up_to_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run_folder(tmp_path, [json.dumps(result(1, 0.5))])
    images = folder / "trajectories" / "images"
    images.mkdir(parents=True)
    for age, name in enumerate(("old", "new")):
        (images / f"{name}.png").write_bytes(b"x" * 60)
        os.utime(images / f"{name}.png", (age, age))
    monkeypatch.setattr(html_report, "_IMAGE_BYTES", 100)
    write_report([read_run(folder)], folder / "report.html")
    page = (folder / "report.html").read_text()
    assert 'id="image-new"' in page and 'id="image-old"' not in page


def test_pictures_of_an_iteration_are_small_few_and_kept_once(tmp_path: Path) -> None:
    store, images = ImageStore(), RecordedImages(tmp_path)
    drawn = [store.add(np.full((512, 300, 3), shade, np.uint8)) for shade in range(MAX_NEW_OF_AN_ITERATION + 1)]
    assert [images.keep(image) for image in drawn] == [True] * MAX_NEW_OF_AN_ITERATION + [False]
    assert images.keep(drawn[0])
    assert len(list(tmp_path.iterdir())) == MAX_NEW_OF_AN_ITERATION
    assert Image.open(tmp_path / f"{drawn[3].key}.png").size == (150, 256)
    # The next iteration may keep as many again.
    assert RecordedImages(tmp_path).keep(drawn[-1])
