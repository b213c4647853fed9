"""Questions with their answers, from files in Search-R1's columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from rllib_gigpo.retrieval.json_lines import read_json_lines, readable

_COLUMNS = ("id", "question", "golden_answers", "data_source", "reward_model", "env_kwargs")


class Question(NamedTuple):
    """A question.

    Attributes:
        id: Its name, with that of its data source before it.
        text: What is asked.
        golden_answers: At least one; any of them is right.
        data_source: The name of the data set.
    """

    id: str
    text: str
    golden_answers: tuple[str, ...]
    data_source: str


def read_questions(path: Path) -> tuple[Question, ...]:
    """The questions in a file, .jsonl or .parquet, in its order; a file is read once in a process.

    A row has `question` and `golden_answers`, and maybe `id` and `data_source`. As in the files that Search-R1 and
    verl-agent make, the answers may also stand in `reward_model.ground_truth.target`, and both in `env_kwargs`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is of another kind, holds no question, or one of its rows is none; the message names the line, or
            row.
    """
    path = path.expanduser().resolve()
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file")
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, changed_ns: int) -> tuple[Question, ...]:
    rows: Iterable[tuple[str, Mapping[str, Any]]]
    if path.suffix == ".jsonl":
        rows = ((f"line {line.number}", line.content) for line in read_json_lines(path))
    elif path.suffix == ".parquet":
        rows = _parquet_rows(path)
    else:
        raise ValueError(f"{path} is neither .jsonl nor .parquet")
    questions = tuple(_question(row, path, where, index) for index, (where, row) in enumerate(rows))
    if not questions:
        raise ValueError(f"{path} holds no question")
    return questions


def _parquet_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
            rows = file.read(columns).to_pylist()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} cannot be read as parquet: {error}") from error
    yield from ((f"row {number}", row) for number, row in enumerate(rows, start=1))


def _question(row: Mapping[str, Any], path: Path, where: str, index: int) -> Question:
    own = row.get("env_kwargs") or {}
    text = row.get("question") or own.get("question", row.get("question"))
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f'{path}, {where} has "question": {text!r}; it must be a text')
    answers = row.get("golden_answers") or _target(row.get("reward_model")) or _target(own)
    answers = [answers] if isinstance(answers, str) else answers
    if not isinstance(answers, list) or not answers or not all(isinstance(answer, str) for answer in answers):
        raise ValueError(
            f'{path}, {where} has the answers {answers!r}; "golden_answers", or reward_model.ground_truth.target, must '
            "be a list of texts"
        )
    source = str(row.get("data_source") or own.get("data_source") or path.stem)
    name = row.get("id")
    return Question(
        f"{source}/{index if name is None else name}", readable(text.strip()), tuple(map(readable, answers)), source
    )


def _target(holder: Any) -> Any:
    """`ground_truth.target` of `holder`, None where there is none."""
    truth = holder.get("ground_truth") if isinstance(holder, Mapping) else None
    return truth.get("target") if isinstance(truth, Mapping) else None
