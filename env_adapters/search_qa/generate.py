"""Writes a made-up world as a corpus and questions, in the public formats.

    python -m rllib_gigpo.env_adapters.search_qa.generate OUT --people N --seed S --hops H

writes corpus.jsonl, which `rllib retriever serve` takes, and train and test questions in Search-R1's columns, as .jsonl
and as .parquet. The test questions are about other people, towns and lands than those to train on. The same options
write the same files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rllib_gigpo.env_adapters.search_qa.generated_questions import HOPS, generated_questions
from rllib_gigpo.env_adapters.search_qa.generated_world import MOST_PEOPLE, NUM_PEOPLE, world
from rllib_gigpo.env_adapters.search_qa.questions import Question


def write_files(out: Path, *, num_people: int, seed: int, hops: int) -> list[Path]:
    """Writes the files into a new folder.

    Raises:
        FileExistsError: The folder is there already.
        ValueError: A number is not allowed.
    """
    made_up = world(seed=seed, num_people=num_people)
    questions = generated_questions(hops=hops, seed=seed, num_people=num_people)
    if out.exists():
        raise FileExistsError(f"{out} exists already; name another folder, or remove it")
    out.mkdir(parents=True)
    passages = ({"id": passage.id, "contents": passage.contents} for passage in made_up.passages())
    written = [_write_json_lines(out / "corpus.jsonl", passages)]
    for split, part in (("train", questions.train), ("test", questions.evaluation)):
        rows = [_row(question, split, index) for index, question in enumerate(part)]
        written.append(_write_json_lines(out / f"{split}.jsonl", rows))
        written.append(_write_parquet(out / f"{split}.parquet", rows))
    return written


def _row(question: Question, split: str, index: int) -> dict[str, Any]:
    """A question in the columns of Search-R1's files."""
    answers = list(question.golden_answers)
    return {
        "id": question.id.removeprefix(f"{question.data_source}/"),
        "question": question.text,
        "golden_answers": answers,
        "data_source": question.data_source,
        "prompt": [{"role": "user", "content": question.text}],
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": {"target": answers}},
        "extra_info": {"split": split, "index": index},
    }


def _write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    return path


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__name__ if __spec__ is None else __spec__.name}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path, help="folder to make")
    parser.add_argument("--people", type=int, default=NUM_PEOPLE, help=f"at most {MOST_PEOPLE} (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, another world (default 0)")
    parser.add_argument(
        "--hops", type=int, choices=HOPS, default=1, help="passages that it takes to find an answer (default 1)"
    )
    given = parser.parse_args(arguments)
    try:
        written = write_files(given.out, num_people=given.people, seed=given.seed, hops=given.hops)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    for path in written:
        print(path)


if __name__ == "__main__":
    main()
