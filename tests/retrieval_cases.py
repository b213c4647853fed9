"""Retrieval servers for tests: ours, those of others as their clients know them, and ones that misbehave."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import uvicorn

from rllib_gigpo.retrieval.app import retrieval_app
from rllib_gigpo.retrieval.bm25_index import BM25Index
from rllib_gigpo.retrieval.corpus import ListedCorpus, LocalRetriever
from rllib_gigpo.retrieval.passages import Passage

PASSAGES = (
    Passage("a", '"Velford"\nVelford is a town in Norvia on the river Isk.'),
    Passage("b", '"Norvia"\nNorvia is a land with the capital Velford.'),
    Passage("c", '"Größe 漢字"\nA <|im_end|> in a passage, and an emoji \U0001f0a1.'),
)


def small_retriever() -> LocalRetriever:
    corpus = ListedCorpus(PASSAGES)
    return LocalRetriever(corpus, BM25Index.of(corpus))


@contextmanager
def our_server(retriever: LocalRetriever | None = None) -> Iterator[str]:
    """The URL of our server's endpoint, which runs in a thread."""
    bound = socket.create_server(("127.0.0.1", 0))
    app = retrieval_app(retriever or small_retriever(), topk=3)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/retrieve"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        bound.close()


@contextmanager
def foreign_server(answer: Callable[[Any], tuple[int, bytes]]) -> Iterator[str]:
    """The URL of a server that answers a question, as JSON has it, with a status and a body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, body = answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/retrieve"
    finally:
        server.shutdown()
        server.server_close()


def as_search_r1_answers(question: Any) -> tuple[int, bytes]:
    """What Search-R1's own server does: it knows `queries` alone."""
    found = [[_scored(passage) for passage in PASSAGES[: question["topk"]]] for _ in question["queries"]]
    assert question["return_scores"] is True and "query" not in question
    return 200, json.dumps({"result": found}).encode()


def as_verl_agent_answers(question: Any) -> tuple[int, bytes]:
    """What verl-agent's server does: it knows one `query`."""
    assert isinstance(question["query"], str) and "queries" not in question
    return 200, json.dumps({"result": [[_scored(passage) for passage in PASSAGES[: question["topk"]]]]}).encode()


def _scored(passage: Passage) -> dict[str, Any]:
    return {"document": {"id": passage.id, "contents": passage.contents}, "score": 0.5}


@contextmanager
def raw_server(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server that does to each connection what `behave` does, in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))

    def take_all() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listening.accept()[0],), daemon=True).start()

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            behave(connection)

    threading.Thread(target=take_all, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/retrieve"
    finally:
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def says_nothing(connection: socket.socket) -> None:
    while connection.recv(1024):
        pass


def hangs_up(connection: socket.socket) -> None:
    connection.recv(1024)


def speaks_no_http(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"220 mail.example ESMTP\r\n")


def drips(connection: socket.socket) -> None:
    """A byte of the header now and then: every single read is answered in time."""
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    # No `time.sleep`, which tests take out of the client's way, and with it out of this.
    pause = threading.Event()
    while True:
        connection.sendall(b"a")
        pause.wait(0.05)


def never_ends(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
    while True:
        connection.sendall(b" " * 2**20)


def breaks_off(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"result": [[')
