"""`rllib retriever`: a search engine over a corpus of passages, for the environments that ask one."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rllib_gigpo.cli.errors import reported_errors
from rllib_gigpo.cli.waiting import waiting

if TYPE_CHECKING:
    from rllib_gigpo.retrieval.corpus import CorpusFile
    from rllib_gigpo.retrieval.passages import PassageIndex

retriever_app = typer.Typer(help="A search engine over passages.", no_args_is_help=True, rich_markup_mode=None)


@retriever_app.callback()
def retriever() -> None:
    """A search engine over passages."""


@retriever_app.command("serve")
def serve_retriever(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help='JSONL file, one {"id": …, "contents": …} a line.')],
    host: Annotated[str, typer.Option(help="Address to listen on. Anyone who reaches it may ask.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one; it is printed.")] = 8000,
    topk: Annotated[int, typer.Option(min=1, max=1000, help="Passages for a question that does not say.")] = 3,
    index: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Index to load; where nothing is there, it is saved there.")
    ] = None,
    encoder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Sentence encoder: search by vectors, not by words.")
    ] = None,
    query_prefix: Annotated[str, typer.Option(help='What the encoder reads before a query, "query: " for e5.')] = "",
    passage_prefix: Annotated[str, typer.Option(help='Before a passage, "passage: " for e5.')] = "",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of errors.")] = False,
) -> None:
    """Answer searches over HTTP, in the dialects of Search-R1 and of verl-agent.

    Prints the URL for `retriever_url` as soon as it listens, and ends with Ctrl-C.

    Example: rllib retriever serve corpus.jsonl --port 8000
    """
    bad_input = (ValueError, TypeError, KeyError, FileNotFoundError, ImportError)
    with reported_errors(verbose, bad_input=bad_input):
        if encoder is None and (query_prefix or passage_prefix):
            raise ValueError("--query-prefix and --passage-prefix do nothing without --encoder")
        from rllib_gigpo.retrieval.corpus import CorpusFile, LocalRetriever
        from rllib_gigpo.retrieval.serve import bound_socket, check_server_packages, serve, url_of

        check_server_packages()
        # Before the corpus is read, which may take minutes.
        with bound_socket(host, port) as bound:
            with waiting(f"reading {corpus} and its index", hidden=verbose):
                passages = CorpusFile(corpus)
                found = _index(passages, index, encoder, query_prefix, passage_prefix)
            if not _is_loopback(host):
                typer.echo(
                    f"warning: {host} can be reached from other machines, and nobody is asked who they are", err=True
                )

            def announce() -> None:
                typer.echo(f"retriever: {url_of(bound)} ({found.name}, {len(passages):,} passages)")

            serve(LocalRetriever(passages, found), bound, topk=topk, announce=announce)


def _index(
    corpus: CorpusFile, saved: Path | None, encoder: Path | None, query_prefix: str, passage_prefix: str
) -> PassageIndex:
    if encoder is None:
        from rllib_gigpo.retrieval.bm25_index import BM25Index

        return BM25Index.of(corpus, saved)
    from rllib_gigpo.retrieval.dense_index import DenseIndex
    from rllib_gigpo.retrieval.encoder import SentenceEncoder

    model = SentenceEncoder(encoder, query_prefix=query_prefix, passage_prefix=passage_prefix)
    return DenseIndex.of(corpus, model, saved)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
