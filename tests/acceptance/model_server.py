"""A small server with the API of OpenAI. Unless told otherwise, its model puts into the cart what it is shown."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BUTTON = re.compile(r'button \\?"Add to cart\\?".*?\[ref=(\w+)\]')


Chooses = Callable[[str, int], tuple[str, dict[str, Any]]]
"""The body of a request, and its number -> the tool that the model calls, and the arguments."""


def into_the_cart(body: str, number: int) -> tuple[str, dict[str, Any]]:
    """A click on the button of the cart; no two answers are the same."""
    found = BUTTON.search(body)
    return "click", {"target": found[1] if found else "none", "answer": number}


@dataclass
class ModelServer:
    """What it was asked, and what it does next."""

    port: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    refuses: int = 0
    """The number of requests that it answers with 429."""
    dies_after: int | None = None
    """The number of requests after which it answers only 503; None: it lives."""

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@contextmanager
def model_server(chooses: Chooses = into_the_cart) -> Iterator[ModelServer]:
    """The server, on a port of 127.0.0.1."""
    state = ModelServer()

    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """It is silent."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            state.asked.append(json.loads(body))
            if state.dies_after is not None and len(state.asked) > state.dies_after:
                return self._send(503, b'{"error": {"message": "dead"}}', {})
            if state.refuses:
                state.refuses -= 1
                return self._send(429, b'{"error": {"message": "slow down"}}', {"Retry-After": "0.2"})
            name, arguments = chooses(body.decode(), len(state.asked))
            self._send(
                200, b"".join(stream_of_call(name, json.dumps(arguments))), {"Content-Type": "text/event-stream"}
            )

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def stream_of_call(name: str, whole: str) -> Iterator[bytes]:
    """The events of an answer; the arguments are broken over two of them."""
    call: dict[str, Any] = {"index": 0, "id": "call_1", "type": "function"}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]},
        *({"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in (whole[:13], whole[13:])),
    ]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    chunks.append({**head, "choices": [], "usage": usage})
    yield from (f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks)
    yield b"data: [DONE]\n\n"
