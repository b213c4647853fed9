"""Runs the retrieval server in this process."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from types import ModuleType
from typing import Any

from rllib_gigpo.retrieval.corpus import LocalRetriever


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket with that address; port 0 is any free one. It does not listen yet: clients are refused until it does.

    Raises:
        ValueError: The address cannot be had, as when another process listens there.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        # A server that was stopped a moment ago leaves connections behind.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} of {host} is in use; name another one with --port") from error
        raise ValueError(f"cannot listen on port {port} of {host}: {error}") from error
    return bound


def check_server_packages() -> None:
    """Raises ImportError where the packages of the server are missing."""
    _packages()


def serve(retriever: LocalRetriever, bound: socket.socket, *, topk: int, announce: Callable[[], None]) -> None:
    """Answers until the process is told to end by SIGINT or SIGTERM; requests that are being answered come first.

    Args:
        retriever: Finds the passages.
        bound: Where to answer; it is closed at the end.
        topk: Passages for a question that does not say how many.
        announce: Called as soon as clients can connect.
    """
    uvicorn, app_module = _packages()
    config = uvicorn.Config(
        app_module.retrieval_app(retriever, topk=topk),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=10,
    )
    bound.listen(config.backlog)
    announce()
    with bound:
        uvicorn.Server(config).run(sockets=[bound])


def url_of(bound: socket.socket) -> str:
    """The URL of the endpoint."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/retrieve"


def _packages() -> tuple[ModuleType, Any]:
    try:
        import uvicorn

        from rllib_gigpo.retrieval import app
    except ImportError as error:
        raise ImportError(
            f"the retrieval server needs the packages fastapi and uvicorn, and {error.name or error} is missing: "
            'pip install "rllib-gigpo[search]"'
        ) from error
    return uvicorn, app
