"""What comes in place of an answer, over a real wire: unreadable, without end, or with figures that cannot be true."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from harness.model.inference import Prompt
from harness.models.transport import LONGEST
from harness.resilience.outside import MOST_COUNT
from tests.unit.models.raw_server import Answer, raw_server, whole
from tests.unit.models.test_wire import Asked, Line, settings

PLAIN = Prompt("Rules.", ("Say hello.",))
EVENTS = "text/event-stream"
HTML = b"<html><body>Please log in</body></html>"


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


def chat(**more: Any) -> bytes:
    """A whole answer of OpenAI."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
    return json.dumps(
        {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], **more}
    ).encode()


def message(**more: Any) -> bytes:
    """A whole answer of Anthropic."""
    content = [{"type": "text", "text": "hello"}]
    head = {"id": "x", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    return json.dumps({**head, "content": content, "usage": {"input_tokens": 7, "output_tokens": 3}, **more}).encode()


def event(document: Any) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


ERROR = {"error": {"message": "upstream is away", "type": "server_error", "code": "x"}}
UNREADABLE: dict[str, bytes] = {
    "a page with 200": whole(HTML, "text/html"),
    "a page that says it is JSON": whole(HTML),
    "a page that says it is events": whole(HTML, EVENTS),
    "a redirection": whole(b"", "text/html", "302 Found", "location: /login\r\n"),
    "a redirection to nowhere": whole(b"", "text/html", "301 Moved"),
    "not modified": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "nothing": whole(b""),
    "no events": whole(b"", EVENTS),
    "cut off": b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"id": "x"',
    "half a document": whole(b'{"id": "x", "choices": ['),
    "an error with 200": whole(json.dumps(ERROR).encode()),
    "an error of Anthropic with 200": whole(json.dumps({"type": "error", **ERROR}).encode()),
    "an empty object": whole(b"{}"),
    "events of empty objects": whole(b"data: {}\n\ndata: [DONE]\n\n", EVENTS),
    "a list": whole(b"[]"),
    "events of lists": whole(b"data: []\n\ndata: [DONE]\n\n", EVENTS),
    "null": whole(b"null"),
    "an event of null": whole(b"data: null\n\n", EVENTS),
    "a number": whole(b"42"),
    "an event of a number": whole(b"data: 42\n\n", EVENTS),
    "no choices": whole(chat(choices=[])),
    "choices that are none": whole(chat(choices=5)),
    "a choice that is none": whole(chat(choices=[None])),
    "an event with choices that are none": whole(event(json.loads(chat(choices=5))), EVENTS),
    "content that is none": whole(message(content=5)),
    "a block that is none": whole(message(content=["hello"])),
    "an event of a message that is none": whole(
        b"event: message_start\n" + event({"type": "message_start", "message": 7}), EVENTS
    ),
    "no gzip": whole(b"\x00garbage", more="content-encoding: gzip\r\n"),
    "bytes": whole(bytes(range(256)), "application/octet-stream"),
    "a text": whole(b"upstream connect error", "text/plain"),
    "deep": whole(b"[" * 100_000),
    "chunks that are none": b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "headers without end": b"HTTP/1.1 200 OK\r\n" + b"x-a: b\r\n" * 20_000,
}


def ask(line: Line, provider: str, answer: Answer, prompt: Prompt = PLAIN, **more: Any) -> tuple[Asked, int]:
    with raw_server(answer) as server:
        url = f"{server.url}/v1" if provider == "openai" else server.url
        return line.ask(settings(provider, url, **more), prompt), server.requests


def both_ways() -> list[dict[str, Any]]:
    return [{"stream": True}, {"stream": False, "limits": {"total": 40}}]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("case", UNREADABLE)
def test_an_unreadable_answer_is_the_providers_failure(line: Line, provider: str, case: str) -> None:
    for way in both_ways():
        asked, requests = ask(line, provider, lambda _: [UNREADABLE[case]], **way)
        assert asked.error is not None, asked.answer
        assert (asked.error.code, requests) == ("MODEL_GARBLED", 1)
        assert asked.error.rule.counts, "the provider's circuit counts it"
        assert asked.error.rule.leads_on, "another model may be reached"
        assert (asked.error.verdict.retryable, asked.error.verdict.max_retries) == (True, None)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_the_message_says_what_came_instead(line: Line, provider: str) -> None:
    for way in both_ways():
        page, _ = ask(line, provider, lambda _: [UNREADABLE["a page with 200"]], **way)
        assert "it answered 200 text/html: <html><body>Please log in</body></html>" in str(page.error)
        moved, _ = ask(line, provider, lambda _: [UNREADABLE["a redirection"]], **way)
        assert "it answered 302 text/html /login: nothing" in str(moved.error)
        failed, _ = ask(line, provider, lambda _: [UNREADABLE["an error with 200"]], **way)
        assert "upstream is away" in str(failed.error)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_no_answer_is_none_that_cannot_be_read(line: Line, provider: str) -> None:
    asked, _ = ask(line, provider, lambda _: [])
    assert asked.error is not None
    assert asked.error.code == "MODEL_UNAVAILABLE"


ODD: list[Any] = [
    *(10**30, -1, 1e300, MOST_COUNT + 1, 1.5),
    *("many", "7", True, None, [], {}),
]
"""What providers may say of tokens; JSON has no other kinds of values."""


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_figures_that_cannot_be_true_are_not_known(line: Line, provider: str, value: Any) -> None:
    """An estimate stands for them, and the answer counts; a client that cannot read it at all has no answer."""
    usages = [{"prompt_tokens": value, "completion_tokens": value, "total_tokens": value}]
    body = chat(usage=usages[0])
    if provider == "anthropic":
        body = message(usage={"input_tokens": value, "output_tokens": value, "cache_read_input_tokens": value})
    asked, _ = ask(line, provider, lambda _: [whole(body)], stream=False, limits={"total": 40})
    if asked.error is not None:
        assert asked.error.code == "MODEL_GARBLED"
        return
    assert asked.exchange.usage is not None
    found = (asked.exchange.usage.input, asked.exchange.usage.output, asked.exchange.usage.cache_read)
    assert all(isinstance(number, int) and 0 <= number <= 2 * MOST_COUNT for number in found)
    if value not in (1, 7, "7"):
        assert asked.exchange.usage.estimated


def test_figures_that_can_be_true_are_known(line: Line) -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}
    asked, _ = ask(line, "openai", lambda _: [whole(chat(usage=usage))], stream=False, limits={"total": 40})
    assert asked.exchange.usage is not None
    assert (asked.exchange.usage.input, asked.exchange.usage.output, asked.exchange.usage.estimated) == (40, 9, False)


TOKEN = {"index": 0, "delta": {"content": "a"}, "finish_reason": None}
CHUNK = event({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [TOKEN]})
HEAD = f"HTTP/1.1 200 OK\r\ncontent-type: {EVENTS}\r\n\r\n".encode()


def drips(part: bytes, head: bytes = HEAD, pause: float = 0.1) -> Answer:
    """The part again and again, until the client goes."""

    def answer(_: str) -> Iterable[bytes]:
        yield head
        while True:
            yield part
            time.sleep(pause)

    return answer


ENDLESS: dict[str, Callable[[], Answer]] = {
    "tokens": lambda: drips(CHUNK),
    "comments": lambda: drips(b": ping\n\n"),
    "bytes": lambda: drips(b"x"),
    "white space": lambda: drips(b" ", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"),
    "headers": lambda: drips(b"x-a: b\r\n", b"HTTP/1.1 200 OK\r\n"),
    "continue": lambda: drips(b"HTTP/1.1 100 Continue\r\n\r\n", b""),
    "fast tokens": lambda: drips(CHUNK * 50, pause=0),
    "a fast line": lambda: drips(b"x" * 65_536, pause=0),
    "fast comments": lambda: drips(b": ping\n\n" * 8000, pause=0),
}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("case", ENDLESS)
def test_an_answer_without_end_ends_for_each_of_five_that_wait(line: Line, provider: str, case: str) -> None:
    limits = {"first_token": 1, "idle": 1, "total": 1}
    began = time.monotonic()
    with raw_server(ENDLESS[case]()) as server:
        given = settings(provider, f"{server.url}/v1" if provider == "openai" else server.url, limits=limits)

        async def five() -> list[Asked]:
            return await asyncio.gather(*(line.ask_once(given, PLAIN) for _ in range(5)))

        codes = {asked.error.code for asked in line.run(five()) if asked.error is not None}
    assert codes <= {"MODEL_TIMEOUT", "MODEL_GARBLED"}
    assert codes
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_the_size_of_an_answer_is_bounded(line: Line, provider: str) -> None:
    sent: list[int] = []

    def answer(_: str) -> Iterable[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10000000000\r\n\r\n"
        while True:
            sent.append(65_536)
            yield b" " * 65_536

    asked, _ = ask(line, provider, answer, stream=False, limits={"total": 120})
    assert asked.error is not None
    assert asked.error.code == "MODEL_GARBLED"
    assert f"the answer has more than {LONGEST} bytes" in str(asked.error)
    assert sum(sent) < 3 * LONGEST
