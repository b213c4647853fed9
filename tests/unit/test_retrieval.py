"""Corpora, indices, the two dialects and the batching of queries; without a network."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from rllib_gigpo.retrieval.batcher import Batcher, TooBusyError
from rllib_gigpo.retrieval.bm25_index import BM25Index
from rllib_gigpo.retrieval.client import ServerAddress
from rllib_gigpo.retrieval.corpus import CorpusFile, ListedCorpus
from rllib_gigpo.retrieval.dense_index import DenseIndex
from rllib_gigpo.retrieval.dialects import answer, passages_in, question
from rllib_gigpo.retrieval.encoder import SentenceEncoder
from rllib_gigpo.retrieval.passages import Passage
from tests.retrieval_cases import PASSAGES
from tests.tiny_models import tiny_tokenizer

pytestmark = pytest.mark.unit


def corpus_file(folder: Path, *lines: str) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_a_corpus_file_is_read_where_it_is_needed(tmp_path: Path) -> None:
    lines = [json.dumps({"id": p.id, "contents": p.contents}, ensure_ascii=False) for p in PASSAGES]
    for text in ("\n".join(lines), "\n\n".join(lines) + "\n"):
        path = tmp_path / "corpus.jsonl"
        path.write_text(text, encoding="utf-8")
        corpus = CorpusFile(path)
        assert [corpus.passage(number) for number in range(len(corpus))] == list(PASSAGES)
        assert list(corpus.texts()) == [passage.contents for passage in PASSAGES]


def test_a_passage_without_an_id_has_its_number(tmp_path: Path) -> None:
    corpus = CorpusFile(corpus_file(tmp_path, '{"contents": "x"}', '{"id": 7, "contents": "half a pair: \\ud83c"}'))
    assert corpus.passage(0) == Passage("0", "x")
    assert corpus.passage(1) == Passage("7", "half a pair: ?")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is no JSON"),
        ("\udcff", "line 2 is no JSON"),
        ("[1]", "line 2 is a JSON list; it must be an object"),
        ("{}", 'line 2 has "contents": None'),
        ('{"contents": 3}', 'line 2 has "contents": 3'),
        ('{"contents": " "}', "line 2 has"),
        ("[" * 100_000, "line 2 is no JSON"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'{"contents": "x"}\n' + line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(ValueError, match=f"corpus.jsonl, {message}"):
        CorpusFile(path)


def test_an_empty_corpus_and_one_that_is_not_there_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no passage"):
        CorpusFile(corpus_file(tmp_path, "", ""))
    with pytest.raises(FileNotFoundError, match="nowhere is no file"):
        CorpusFile(tmp_path / "nowhere")


def test_words_find_passages_and_of_equals_the_first_comes_first() -> None:
    twins = [Passage(str(i), f"Twin {i % 3}") for i in range(30)]
    index = BM25Index.of(ListedCorpus(twins))
    found = index.search(["twin 1", "the", "nowhere", ""], topk=4)
    assert [number for number, _ in found[0]] == [1, 4, 7, 10]
    assert found[1:] == [[], [], []]
    assert len(index.search(["twin"], topk=100)[0]) == 30
    scores = [score for _, score in index.search(["twin"], topk=100)[0]]
    assert scores == sorted(scores, reverse=True)


def test_an_index_is_saved_loaded_and_refused_for_another_corpus(tmp_path: Path) -> None:
    corpus = CorpusFile(corpus_file(tmp_path, *(json.dumps({"contents": p.contents}) for p in PASSAGES)))
    built = BM25Index.of(corpus, tmp_path / "index")
    loaded = BM25Index.of(corpus, tmp_path / "index")
    for query in ("Velford", "capital of Norvia", "漢字"):
        assert loaded.search([query], 3) == built.search([query], 3) != [[]]
    with pytest.raises(ValueError, match="is of another corpus"):
        BM25Index.of(ListedCorpus(PASSAGES[:2]), tmp_path / "index")
    (tmp_path / "else").mkdir()
    with pytest.raises(ValueError, match="holds no whole index"):
        BM25Index.of(corpus, tmp_path / "else")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    """A random BERT over bytes: texts with common bytes have near vectors, which is all that is needed."""
    directory = tmp_path_factory.mktemp("encoder")
    tokenizer = tiny_tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertModel(
            BertConfig(
                vocab_size=len(tokenizer),
                hidden_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=64,
            )
        )
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return SentenceEncoder(directory, passage_prefix="p: ", max_tokens=64)


def test_vectors_have_length_one_and_do_not_depend_on_their_batch(encoder: SentenceEncoder) -> None:
    alone = encoder.encode_passages(["abc"])
    both = encoder.encode_passages(["a much longer text than the other one", "abc"])
    assert both.shape == (2, encoder.num_dimensions) == (2, 32)
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(both[1], alone[0], atol=1e-5)  # padding changes the order of the sums
    assert np.abs(alone - encoder.encode_queries(["abc"])).max() > 1e-3, "only passages have the prefix"


def test_vectors_find_the_nearest_passages(encoder: SentenceEncoder, tmp_path: Path) -> None:
    corpus = ListedCorpus(PASSAGES)
    built = DenseIndex.of(corpus, encoder, tmp_path / "vectors.index")
    vectors = encoder.encode_passages([passage.contents for passage in PASSAGES])
    scores = vectors @ encoder.encode_queries(["Which land?"])[0]
    (found,) = built.search(["Which land?"], topk=10)
    assert [number for number, _ in found] == np.argsort(-scores).tolist()
    np.testing.assert_allclose([score for _, score in found], np.sort(scores)[::-1], atol=1e-5)
    assert DenseIndex.of(corpus, encoder, tmp_path / "vectors.index").search(["Which land?"], 10) == [found]
    with pytest.raises(ValueError, match="has 3 vectors of 32 numbers; the corpus has 2"):
        DenseIndex.of(ListedCorpus(PASSAGES[:2]), encoder, tmp_path / "vectors.index")
    (tmp_path / "broken").write_text("x")
    with pytest.raises(ValueError, match="is no index of faiss"):
        DenseIndex.of(corpus, encoder, tmp_path / "broken")


def test_an_encoder_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no config.json"):
        SentenceEncoder(tmp_path)


def test_the_dialects_are_the_public_ones() -> None:
    assert question("search-r1", "q", 3) == {"queries": ["q"], "topk": 3, "return_scores": True}
    assert question("verl-agent", "q", 3) == {"query": "q", "topk": 3, "return_scores": True}
    scored = PASSAGES[0]._replace(score=1.5)
    document = {"id": "a", "contents": scored.contents}
    assert answer([[scored]], with_scores=True) == {"result": [[{"document": document, "score": 1.5}]]}
    assert answer([[scored]], with_scores=False) == {"result": [[document]]}
    assert passages_in(json.dumps(answer([[scored]], with_scores=True)).encode()) == [scored]
    assert passages_in(json.dumps(answer([[scored]], with_scores=False)).encode()) == [PASSAGES[0]]
    assert passages_in(b'{"result": [[]]}') == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b'{"result": []}',
        b'{"result": [[], []]}',
        b'{"result": [{"contents": "x"}]}',
        b'{"result": [["x"]]}',
        b'{"result": [[{"document": {"text": "x"}}]]}',
        b'{"result": [[{"document": null, "score": 1}]]}',
        b"[" * 100_000,
    ],
)
def test_a_wrong_answer_is_told_from_a_right_one(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is no JSON|it must be|has no text"):
        passages_in(body)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": ""}, "retriever_url is ''"),
        ({"url": None}, "retriever_url is None"),
        ({"url": "127.0.0.1:8000"}, "retriever_url is '127.0.0.1:8000'"),
        ({"url": "ftp://x/retrieve"}, "retriever_url is"),
        ({"url": "http://x:port/"}, "retriever_url is"),
        ({"url": "http://[::1/"}, "retriever_url is"),
        ({"dialect": "google"}, "retriever_dialect is 'google'; allowed are"),
        ({"timeout_s": 0}, "retriever_timeout_s is 0"),
        ({"retries": -1}, "retriever_retries is -1"),
        ({"retries": 1.5}, "retriever_retries is 1.5"),
    ],
)
def test_a_wrong_address_is_an_error(options: dict, message: str) -> None:
    with pytest.raises(ValueError) as error:
        ServerAddress(**{"url": "http://127.0.0.1:8000", **options})
    assert str(error.value).startswith(message)


def test_without_a_path_the_endpoint_is_meant() -> None:
    assert ServerAddress("http://x:8000").url == ServerAddress("http://x:8000/").url == "http://x:8000/retrieve"
    assert ServerAddress("https://x/other?a=b").url == "https://x/other?a=b"


def test_queries_that_wait_together_are_one_search() -> None:
    asked: list[tuple[list[str], int]] = []
    may_go_on = threading.Event()

    def search_all(queries, topk):
        asked.append((list(queries), topk))
        may_go_on.wait(10)
        if "bad" in queries:
            raise OSError("no disk")
        return [[Passage(query, str(number)) for number in range(topk)] for query in queries]

    async def ask() -> list:
        batcher = Batcher(search_all, max_batch=3, max_waiting=8)
        first = asyncio.create_task(batcher.search(["a"], 1))
        while not asked:
            await asyncio.sleep(0.01)
        others = [asyncio.create_task(batcher.search(*one)) for one in ((["b"], 2), (["c", "d"], 1), (["e"] * 5, 1))]
        await asyncio.sleep(0.01)
        with pytest.raises(TooBusyError):
            await batcher.search(["f"], 1)
        others[0].cancel()  # a client that hangs up
        may_go_on.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        bad, good = await asyncio.gather(batcher.search(["bad"], 1), batcher.search(["g"], 1), return_exceptions=True)
        return [*results, bad, good, await batcher.search(["h"], 1)]

    first, cancelled, two, five, bad, good, later = asyncio.run(ask())
    assert asked[0] == (["a"], 1) and asked[1] == (["b", "c", "d"], 2) and asked[2] == (["e"] * 5, 1)
    assert first == [[Passage("a", "0")]] and isinstance(cancelled, asyncio.CancelledError)
    assert two == [[Passage("c", "0")], [Passage("d", "0")]], "each request gets its own number of passages"
    assert len(five) == 5
    assert isinstance(bad, OSError) and isinstance(good, OSError), "they were one search"
    assert later == [[Passage("h", "0")]]
