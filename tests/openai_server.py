"""A small OpenAI-compatible HTTP server for tests, which answers by a function, or by a model through transformers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rllib_gigpo.rl_modules.model_directory import load_causal_lm, load_tokenizer

TRICKLE = "a byte now and then, for as long as the server runs"


class Reply(NamedTuple):
    """What a server sends: status, body (a str or bytes as it is, anything else as JSON; TRICKLE), more headers."""

    status: int
    body: Any
    headers: dict[str, str] = {}  # noqa: RUF012 (never written to)


def completion(text: Any, **changes: Any) -> dict[str, Any]:
    """A chat completion with that text."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage, **changes}


def error(message: str, **more: str) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


class ChatServer:
    """A running server.

    Attributes:
        base_url: Of its API.
        requests: The JSON bodies that it got, in order.
        headers: Of each of them.
        times: When each came, seconds of `time.monotonic`.
    """

    def __init__(self, base_url: str):
        self.base_url = base_url
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []


@contextmanager
def chat_server(answer: Callable[[dict[str, Any], int], Reply | None]) -> Iterator[ChatServer]:
    """Serves on a free port of this machine.

    Args:
        answer: Gets the JSON of a request, and the number of requests before it; None sends nothing, and hangs up only
            when the server is closed.
    """
    closing = threading.Event()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(server.requests)
                server.requests.append(body)
                server.headers.append(dict(self.headers))
                server.times.append(time.monotonic())
            known = self.path == "/v1/chat/completions"
            reply = answer(body, number) if known else Reply(404, error("no such page"))
            if reply is None:
                closing.wait()
                return
            if reply.body is TRICKLE:
                self._trickle(closing)
                return
            content = reply.body if isinstance(reply.body, str | bytes) else json.dumps(reply.body)
            self._send(reply, content.encode() if isinstance(content, str) else content)

        def _send(self, reply: Reply, content: bytes) -> None:
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(content)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def _trickle(self, closing: threading.Event) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not closing.wait(0.05):
                    self.wfile.write(b" ")
                    self.wfile.flush()

        def log_message(self, *args: Any) -> None:
            """Nothing on stderr."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server = ChatServer(f"http://127.0.0.1:{httpd.server_address[1]}/v1")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        closing.set()
        httpd.shutdown()
        thread.join()
        httpd.server_close()


class ServedModel:
    """Answers with a model, greedily, one request after the other, by transformers' own chat template and `generate`.

    It stands for `vllm serve` where vLLM is not installed; nothing of the package under test samples here.
    """

    def __init__(self, directory: Path):
        self._model = load_causal_lm(directory).eval()
        self._tokenizer = load_tokenizer(directory)
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any], number: int) -> Reply:
        assert body["temperature"] == 0
        ids = self._tokenizer.apply_chat_template(body["messages"], add_generation_prompt=True, return_dict=False)
        inputs = torch.tensor([ids])
        with self._lock, torch.inference_mode():
            output = self._model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                do_sample=False,
                max_new_tokens=body["max_tokens"],
                pad_token_id=self._tokenizer.pad_token_id,
            )[0, len(ids) :]
        text = self._tokenizer.decode(output, skip_special_tokens=True)
        ended = output[-1].item() == self._tokenizer.eos_token_id
        answer = completion(text, usage={"prompt_tokens": len(ids), "completion_tokens": len(output)})
        answer["choices"][0]["finish_reason"] = "stop" if ended else "length"
        return Reply(200, answer)
