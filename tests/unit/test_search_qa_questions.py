"""Questions in the columns of the public files, .jsonl and .parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rllib_gigpo.env_adapters.search_qa.questions import Question, read_questions
from tests.search_qa_cases import ROW, write_rows

pytestmark = pytest.mark.unit

EXPECTED = Question("nq/test_0", "Where?", ("x", "y"), "nq")
AS_SEARCH_R1_WRITES = {
    "id": "test_0",
    "question": "Where?",
    "data_source": "nq",
    "prompt": [{"role": "user", "content": "Answer … Where?"}],
    "ability": "fact-reasoning",
    "reward_model": {"style": "rule", "ground_truth": {"target": ["x", "y"]}},
    "extra_info": {"split": "test", "index": 0},
}
AS_VERL_AGENT_WRITES = {
    "data_source": "nq",
    "prompt": [{"role": "user", "content": ""}],
    "env_kwargs": {"ground_truth": {"target": ["x", "y"]}, "question": "Where?", "data_source": "nq"},
    "metadata": None,
}


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (ROW, EXPECTED),
        ({**AS_SEARCH_R1_WRITES, "golden_answers": ["x", "y"]}, EXPECTED),
        (AS_SEARCH_R1_WRITES, EXPECTED),
        (AS_VERL_AGENT_WRITES, EXPECTED._replace(id="nq/0")),
    ],
)
def test_questions_are_read_from_the_public_columns(tmp_path: Path, suffix: str, row: Any, expected: Question) -> None:
    assert read_questions(write_rows(tmp_path / f"data{suffix}", row)) == (expected,)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**ROW, "question": None}, '"question": None'),
        ({**ROW, "question": ""}, "\"question\": ''"),
        ({**ROW, "golden_answers": []}, "the answers None"),
        ({**ROW, "golden_answers": [3]}, r"the answers \[3\]"),
        ({"id": "x"}, '"question": None'),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"data.jsonl, line 2 has {message}"):
        read_questions(write_rows(tmp_path / "data.jsonl", ROW, row))
    with pytest.raises(ValueError, match=f"data.parquet, row 1 has {message}"):
        read_questions(write_rows(tmp_path / "data.parquet", row))


def test_a_file_that_holds_no_questions_is_an_error(tmp_path: Path) -> None:
    for name, content, message in (
        ("a.jsonl", "{", "line 1 is no JSON"),
        ("b.jsonl", "", "holds no question"),
        ("c.parquet", "x", "cannot be read as parquet"),
        ("d.csv", "x", "neither .jsonl nor .parquet"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=message):
            read_questions(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_questions(tmp_path / "nowhere.jsonl")
