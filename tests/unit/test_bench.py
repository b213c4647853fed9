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
