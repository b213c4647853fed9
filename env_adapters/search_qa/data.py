"""Where an environment's questions and its search engine come from."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from rllib_gigpo.env_adapters.search_qa.generated_questions import generated_questions
from rllib_gigpo.env_adapters.search_qa.generated_world import world
from rllib_gigpo.env_adapters.search_qa.questions import Question, read_questions
from rllib_gigpo.retrieval.bm25_index import BM25Index
from rllib_gigpo.retrieval.client import ServerAddress, shared_http_retriever
from rllib_gigpo.retrieval.corpus import CorpusFile, ListedCorpus, LocalRetriever
from rllib_gigpo.retrieval.passages import Retriever

logger = logging.getLogger(__name__)

PathLike = str | os.PathLike[str]
_said_that_data_is_made_up = False


def questions_of(
    data: PathLike | None, evaluation_data: PathLike | None, *, hops: int
) -> tuple[Sequence[Question], Sequence[Question]]:
    """The questions for training tasks and those for evaluation tasks; without files, made-up ones.

    Raises:
        FileNotFoundError, ValueError: See `read_questions`; or there is a file to evaluate with and none to train on.
    """
    if data is None and evaluation_data is None:
        return generated_questions(hops=hops)
    if data is None:
        raise ValueError(f"evaluation_data is {str(evaluation_data)!r}, but data is not set; set both, or data alone")
    train = read_questions(Path(data))
    return train, train if evaluation_data is None else read_questions(Path(evaluation_data))


def retriever_of(corpus: PathLike | None, server: ServerAddress | None, *, made_up_questions: bool) -> Retriever:
    """What an environment searches with: a server, a corpus in a file, or the corpus of the made-up world.

    Raises:
        ImportError: The extra is not installed.
        FileNotFoundError, ValueError: See `CorpusFile`; or it is not clear what to search.
    """
    if corpus is not None and server is not None:
        raise ValueError(
            f"corpus is {str(corpus)!r} and retriever_url {server.url!r}; only one of them can be searched"
        )
    if server is not None:
        return shared_http_retriever(server)
    if corpus is not None:
        path = Path(corpus).expanduser().resolve()
        if not path.is_file():
            raise FileNotFoundError(f"corpus is {str(corpus)!r}, which is no file")
        return _over_file(path, path.stat().st_mtime_ns)
    if not made_up_questions:
        raise ValueError(
            "data is set, but nothing to search: set retriever_url to a server, such as `rllib retriever serve CORPUS` "
            "starts, or corpus to a JSONL file of passages"
        )
    return _over_made_up_world()


def say_that_data_is_made_up() -> None:
    """Says so once in a process."""
    global _said_that_data_is_made_up
    if not _said_that_data_is_made_up:
        logger.warning(
            "SearchQA asks questions about a small made-up world: no data is named. For others set env_config['data'] "
            "to a .jsonl or .parquet file in Search-R1's columns, and retriever_url or corpus"
        )
        _said_that_data_is_made_up = True


@lru_cache(maxsize=4)
def _over_file(path: Path, changed_ns: int) -> LocalRetriever:
    corpus = CorpusFile(path)
    return LocalRetriever(corpus, BM25Index.of(corpus))


@lru_cache(maxsize=1)
def _over_made_up_world() -> LocalRetriever:
    corpus = ListedCorpus(list(world().passages()))
    return LocalRetriever(corpus, BM25Index.of(corpus))
