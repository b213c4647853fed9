"""`scripts/gpu_check.py`: it says where there is no GPU and runs nothing then, and reads what pytest reports."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.unit

TESTS = """
import pytest

def test_measures(record_property):
    record_property("gap_max", 1.5e-7)

def test_fails():
    assert 1 == 2, "the gap is [too] large"

def test_is_left_out():
    pytest.skip("vLLM is not installed")
"""


@pytest.fixture
def gpu_check(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    return importlib.import_module("gpu_check")


def test_without_a_gpu_it_ends_with_one_message_and_code_2(
    gpu_check: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpu_check, "run_tests", lambda *_: pytest.fail("tests were started"))
    monkeypatch.setattr("sys.argv", ["gpu_check.py", str(tmp_path / "out.json")])
    with pytest.raises(SystemExit) as end:
        gpu_check.main()
    assert end.value.code == 2
    said = capsys.readouterr()
    (message,) = said.err.splitlines()
    assert message.startswith("nothing was checked: no CUDA device that torch can use. GPU: ")
    assert said.out == ""
    assert not (tmp_path / "out.json").exists()


def test_outcomes_and_figures_are_read_and_printed(
    gpu_check: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_three.py").write_text(TESTS)
    code = gpu_check.run_tests(tmp_path / "report.xml", str(tmp_path / "test_three.py"))
    assert code == 1
    measured, failed, left_out = gpu_check.read_report(tmp_path / "report.xml")
    assert (measured.name, measured.outcome, measured.message) == ("test_three::test_measures", "passed", "")
    assert measured.figures == {"gap_max": 1.5e-7}
    assert failed.outcome == "failed" and "the gap is [too] large" in failed.message
    assert (left_out.outcome, left_out.message) == ("skipped", "vLLM is not installed")
    capsys.readouterr()
    gpu_check.print_checks({"gpu": "none [really]"}, [measured, failed, left_out])
    printed = capsys.readouterr().out
    for words in ("gpu: none [really]", "gap_max 1.5e-07", "[too] large", "vLLM is not installed", "1 of 3 passed"):
        assert words in printed


def test_a_run_that_reports_nothing_has_no_checks(gpu_check: Any, tmp_path: Path) -> None:
    assert gpu_check.read_report(tmp_path / "none.xml") == []
