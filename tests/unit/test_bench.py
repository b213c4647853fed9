"""The regression guard of `make bench`: a ratio that has fallen below its limit ends it with exit code 1."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.unit

LEARNER_STEP: dict[str, Any] = {
    "model": "embedded",
    "lengths": "heavy tail",
    "speed_of_learner_over": {"bare, padded": 1.4, "bare, row by row": 0.97, "trl, padded": 3.0},
    "peak_megabytes": {"learner": 50.0, "bare, padded": 60.0, "bare, row by row": 50.0, "trl, padded": 55.0},
}
ROLLOUT: dict[str, Any] = {
    "case": "SmolLM2",
    "of_engine_alone": 0.97,
    "shares": {"prompts": 0.02, "parsing": 0.01},
    "written_share": 0.2,
}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("bench")


@pytest.mark.parametrize(
    ("script", "case", "missed"),
    [
        ("learner_step", LEARNER_STEP, None),
        ("rollout_engine", ROLLOUT, None),
        ("learner_step", LEARNER_STEP | {"speed_of_learner_over": {"bare, row by row": 0.5, "trl, padded": 3}}, "bare"),
        ("learner_step", LEARNER_STEP | {"speed_of_learner_over": {"bare, padded": 1, "trl, padded": 1.0}}, "trl"),
        (
            "learner_step",
            LEARNER_STEP | {"peak_megabytes": {"learner": 90.0, "bare, row by row": 50.0}},
            "memory",
        ),
        ("rollout_engine", ROLLOUT | {"of_engine_alone": 0.5}, "engine alone"),
        ("rollout_engine", ROLLOUT | {"shares": {"prompts": 0.2, "parsing": 0.01}}, "prompts and parsing"),
        ("rollout_engine", ROLLOUT | {"written_share": 1.0}, "encoded anew"),
    ],
)
def test_the_exit_code_tells_whether_a_ratio_has_fallen(
    bench: Any,
    script: str,
    case: dict[str, Any],
    missed: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The scripts themselves are not run: what they write is given."""

    def write(command: list[str], **kwargs: Any) -> None:
        Path(command[command.index("--json") + 1]).write_text(json.dumps({"cases": [case]}))

    monkeypatch.setattr(bench.subprocess, "run", write)
    monkeypatch.setattr("sys.argv", ["bench.py", "--out", str(tmp_path), "--scripts", script])
    assert bench.main() == (missed is not None)
    marked = [line for line in capsys.readouterr().out.splitlines() if "MISSED" in line]
    assert len(marked) == (missed is not None)
    assert all(missed in line for line in marked if missed)


ADVANTAGES = {
    "grouping and GiGPO, 102,400 rows: plain for ours": 30.0,
    "grouping and GiGPO, 102,400 rows: dictionaries for ours": 18.0,
    "similarity grouping, indel, 6,400 rows: plain for ours": 150.0,
    "growth from 6,400 to 102,400 rows": 16.5,
    "growth from 40,000 to 1,000,000 rows": 29.0,
}
SHARES = {"EZPoints, embedded: sample": 0.6, "EZPoints, embedded: credit": 0.007, "EZPoints, embedded: overhead": 0.05}


@pytest.mark.parametrize(
    ("script", "ratios", "missed"),
    [
        ("advantages", ADVANTAGES, 0),
        ("advantages", ADVANTAGES | {"growth from 6,400 to 102,400 rows": 21.0}, 1),
        ("advantages", ADVANTAGES | {"grouping and GiGPO, 102,400 rows: dictionaries for ours": 4.0}, 1),
        ("advantages", ADVANTAGES | {"similarity grouping, indel, 6,400 rows: plain for ours": 40.0}, 1),
        ("iteration", SHARES, 0),
        ("iteration", SHARES | {"EZPoints, embedded: overhead": 0.2, "EZPoints, embedded: credit": 0.1}, 2),
        ("iteration_law", {"EZPoints, embedded": 0.95}, 0),
        ("iteration_law", {"EZPoints, embedded": 0.7, "Household, embedded": 1.3}, 2),
        ("weight_delivery", {"EZPoints, embedded": 18.0, "SmolLM2-135M": 1.8}, 0),
        ("weight_delivery", {"SmolLM2-135M": 4.0}, 1),
        ("start_up", {"one process": 1.3, "rllib --help": 3.2}, 0),
        ("start_up", {"one process": 3.0, "rllib --help": 3.2}, 1),
    ],
)
def test_figures_of_a_table_of_ratios_have_limits(
    bench: Any, script: str, ratios: dict[str, float], missed: int
) -> None:
    figures = list(bench.FIGURES[script]({"ratios": ratios}))
    assert figures
    assert sum(not figure.holds for figure in figures) == missed
