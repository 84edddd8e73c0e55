"""The gateway under virtual time: what passes, what is refused, and what the ledger says of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.model.inference import ForwardedRequest, Usage
from harness.model.model_settings import CassetteMode
from harness.models.cassettes import Cassette, CassetteError
from harness.models.gateway import ModelGateway
from harness.models.task import Sender, TaskModels
from harness.models.transport import TaskTransport, Way
from tests.unit.models.scripted import ScriptedRun, model
from tests.unit.resilience.virtual import play

pytestmark = pytest.mark.fake_clock

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
Answer = Callable[[httpx2.Request], Any]


class Bench:
    """A gateway to one model, whose provider answers by a function."""

    def __init__(self, answer: Answer, settings: dict[str, Any] | None = None, **spec: Any) -> None:
        self.run = ScriptedRun({"mine": [], "other": []}, mine=model(**(settings or {})))
        self.sent: list[httpx2.Request] = []

        async def handle(request: httpx2.Request) -> httpx2.Response:
            self.sent.append(request)
            found = answer(request)
            return await found if asyncio.iscoroutine(found) else found

        self.task: TaskModels = self.run.task(**spec)
        transport = TaskTransport(httpx2.MockTransport(handle), dict)
        self.task.sender = lambda _: Sender(transport, "real-key")
        self.gateway = ModelGateway(self.task, "mine", ("mine",), lambda: 3)

    async def ask(self, path: str = CHAT, named: str = "mine", **headers: str) -> tuple[int, dict[str, str], str]:
        body = json.dumps({"model": named, "x": 1}).encode()
        given = {"authorization": "Bearer task-token", **headers}
        answer = await self.gateway.forward(ForwardedRequest("POST", path, given, body))
        return answer.status, dict(answer.headers), b"".join([part async for part in answer.chunks]).decode()


def events(*documents: dict[str, Any]) -> httpx2.Response:
    text = "".join(f"data: {json.dumps(each)}\n\n" for each in documents)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text)


STREAMS: dict[str, tuple[tuple[dict[str, Any], ...], Usage]] = {
    CHAT: (
        (
            {"choices": [{"delta": {"content": "hello"}}], "usage": None},
            {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {}}},
        ),
        Usage(input=9, output=4),
    ),
    RESPONSES: (
        (
            {"type": "response.created", "response": {"usage": None}},
            {
                "type": "response.completed",
                "response": {
                    "usage": {
                        "input_tokens": 9,
                        "output_tokens": 4,
                        "input_tokens_details": {"cached_tokens": 2},
                        "output_tokens_details": {"reasoning_tokens": 3},
                    }
                },
            },
        ),
        Usage(input=9, output=4, cache_read=2, reasoning=3),
    ),
    MESSAGES: (
        (
            {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 4}}},
            {"type": "message_delta", "usage": {"output_tokens": 7}},
        ),
        Usage(input=9, output=7, cache_read=4),
    ),
}


@pytest.mark.parametrize("path", list(STREAMS))
def test_a_request_passes_as_it_is_with_the_key_of_the_run(path: str) -> None:
    documents, used = STREAMS[path]
    settings = {"provider": "anthropic", "base_url": "http://models.test"} if path == MESSAGES else {}
    bench = Bench(lambda _: events(*documents), settings)
    status, headers, text = play(bench.ask(path, **{"anthropic-version": "1", "cookie": "c"}))
    (sent,), (call,) = bench.sent, bench.task.ledger.calls
    assert (status, headers["content-type"], text) == (200, "text/event-stream", events(*documents).text)
    assert json.loads(sent.content) == {"model": "m", "x": 1}
    key = {"x-api-key": "real-key"} if path == MESSAGES else {"authorization": "Bearer real-key"}
    assert key.items() <= dict(sent.headers).items()
    assert "cookie" not in sent.headers
    assert "task-token" not in str(sent.headers)
    assert (call.usage, call.outcome, call.step, call.agent) == (used, "answered", 3, "mine")


def test_what_a_provider_does_not_say_is_estimated() -> None:
    bench = Bench(lambda _: events({"choices": [{"delta": {"content": "x" * 40}}]}))
    play(bench.ask())
    (call,) = bench.task.ledger.calls
    assert (call.usage.output, call.usage.estimated) == (10, True)


@pytest.mark.parametrize(
    "usage", [7, "some", [1], {"prompt_tokens": "9", "prompt_tokens_details": {"cached_tokens": "x"}}]
)
def test_an_odd_usage_does_not_cut_the_answer_off(usage: Any) -> None:
    bench = Bench(lambda _: events({"choices": [{"delta": {"content": "hello"}}], "usage": usage}))
    assert play(bench.ask())[0] == 200
    (call,) = bench.task.ledger.calls
    assert call.outcome == "answered"


def test_what_was_recorded_is_replayed(tmp_path: Path) -> None:
    def bench(answer: Answer, mode: CassetteMode) -> tuple[Bench, Cassette]:
        made, cassette = Bench(answer), Cassette.open(tmp_path / "c.yaml", 0, mode, shown="c.yaml")

        async def handle(request: httpx2.Request) -> httpx2.Response:
            return answer(request)

        transport = TaskTransport(httpx2.MockTransport(handle), dict, lambda _: Way(cassette))
        made.task.sender = lambda _: Sender(transport, "real-key")
        return made, cassette

    first, cassette = bench(lambda _: events(*STREAMS[CHAT][0]), "record")
    said = play(first.ask())[2]
    cassette.save()
    assert "real-key" not in (tmp_path / "c.yaml").read_text("utf-8")
    again, _ = bench(refused, "replay")
    assert play(again.ask())[2] == said
    (call,) = again.task.ledger.calls
    assert (call.replayed, call.cost) == (True, 0)
    other = play(again.gateway.forward(ForwardedRequest("POST", CHAT, {}, b'{"model": "mine", "x": 2}')))
    assert other.status == 409


def test_refusals_pass_until_the_circuit_opens() -> None:
    bench = Bench(lambda _: httpx2.Response(503, json={"error": {"message": "ill"}}), {"pace": {"concurrent": 1}})

    async def main() -> list[tuple[int, str]]:
        return [(status, text) for status, _, text in [await bench.ask() for _ in range(6)]]

    answers = play(main())
    assert [status for status, _ in answers] == [503] * 6
    assert [json.loads(text)["error"]["message"] for _, text in answers[:5]] == ["ill"] * 5
    assert "circuit provider:mine is open" in answers[5][1]
    assert len(bench.sent) == 5
    assert [call.code for call in bench.task.ledger.calls] == ["MODEL_UNAVAILABLE"] * 5


def test_the_rest_that_a_provider_wants_holds_for_the_next_request() -> None:
    bench = Bench(lambda _: httpx2.Response(429, headers={"retry-after": "90"}, json={"error": "slow"}))

    async def main() -> list[tuple[int, str]]:
        return [(status, headers["retry-after"]) for status, headers, _ in [await bench.ask() for _ in range(2)]]

    assert play(main()) == [(429, "90"), (429, "90")]
    assert len(bench.sent) == 1


async def silent(_request: httpx2.Request) -> httpx2.Response:
    await asyncio.sleep(1000)
    raise AssertionError


def broken(_request: httpx2.Request) -> httpx2.Response:
    raise CassetteError("the file is broken")


def refused(_request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("Connection refused")


@pytest.mark.parametrize(
    ("answer", "spec", "status", "code"),
    [
        (silent, {}, 504, "MODEL_TIMEOUT"),
        (refused, {}, 502, "MODEL_UNAVAILABLE"),
        (broken, {}, 409, "MODEL_CASSETTE_MISS"),
        (refused, {"budget": {"max_tokens": 1}}, 402, "BUDGET_EXCEEDED"),
        (refused, {"budget": {"max_cost": 1}}, 402, "MODEL_UNPRICED"),
    ],
    ids=["silent", "refused", "broken", "spent", "unpriced"],
)
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_what_fails_is_an_answer_of_the_protocol(
    answer: Answer, spec: dict[str, Any], status: int, code: str, path: str
) -> None:
    settings = {"provider": "anthropic"} if path == MESSAGES else {}
    bench = Bench(answer, settings, **spec)
    found, _, text = play(bench.ask(path))
    document = json.loads(text)
    assert (found, document["error"]["code"]) == (status, code)
    assert ("type" in document) == (path == MESSAGES)


def test_an_answer_that_breaks_off_is_not_taken_for_whole() -> None:
    class Torn(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"data: {}\n\n"
            await asyncio.sleep(1)
            raise httpx2.ReadError("reset")

    bench = Bench(lambda _: httpx2.Response(200, stream=Torn()))
    with pytest.raises(ConnectionError):
        play(bench.ask())
    assert [call.outcome for call in bench.task.ledger.calls] == ["failed"]


async def test_a_client_that_leaves_ends_its_request() -> None:
    class Endless(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b"data: {}\n\n"
                await asyncio.sleep(1)

    bench = Bench(lambda _: httpx2.Response(200, stream=Endless()))
    answer = await bench.gateway.forward(ForwardedRequest("POST", CHAT, {}, b'{"model": "m"}'))
    await anext(answer.chunks)
    await answer.chunks.aclose()  # type: ignore[attr-defined]
    await bench.gateway.close()
    assert [call.outcome for call in bench.task.ledger.calls] == ["cancelled"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/models", b"", 200),
        ("POST", "/v1/embeddings", b"{}", 404),
        ("POST", CHAT, b"[]", 400),
        ("POST", CHAT, b"[" * 100_000, 400),
        ("POST", CHAT, b"\xff", 400),
        ("POST", CHAT, b'{"model": "other"}', 404),
        ("POST", MESSAGES, b'{"model": "mine"}', 404),
    ],
)
def test_other_requests_are_answered_here(method: str, path: str, body: bytes, status: int) -> None:
    bench = Bench(refused)
    answer = play(bench.gateway.forward(ForwardedRequest(method, path, {}, body)))
    assert answer.status == status
    assert not bench.sent


def test_an_error_of_our_own_leaves_no_client_waiting() -> None:
    def wrong(_request: httpx2.Request) -> httpx2.Response:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(Bench(wrong).ask())


async def test_the_end_of_the_task_leaves_no_client_waiting() -> None:
    bench = Bench(silent)
    asked = asyncio.create_task(bench.ask())
    await asyncio.sleep(1)
    await bench.gateway.close()
    with pytest.raises(asyncio.CancelledError):
        await asked


UNREADABLE: dict[str, tuple[httpx2.Response, int, str]] = {
    "a page": (httpx2.Response(200, headers={"content-type": "text/html"}, text="<html>log in"), 200, "<html>log in"),
    "a redirection": (httpx2.Response(302, headers={"location": "/login"}), 302, ""),
    "nothing": (httpx2.Response(200, headers={"content-type": "application/json"}), 200, ""),
}


@pytest.mark.parametrize("case", UNREADABLE)
async def test_what_no_client_can_read_passes_and_counts_for_the_provider(case: str) -> None:
    answer, status, text = UNREADABLE[case]
    bench = Bench(lambda _: answer)
    found = await bench.ask()
    assert (found[0], found[2]) == (status, text), "the process sees what came"
    await bench.gateway.close()
    (call,) = bench.task.ledger.calls
    assert (call.outcome, call.code) == ("failed", "MODEL_GARBLED")
    assert bench.run.breaker("mine").failures == 1


@pytest.mark.parametrize("value", [10**30, -1, "many", True])
async def test_figures_that_cannot_be_true_are_estimated(value: Any) -> None:
    bench = Bench(lambda _: events({"choices": [], "usage": {"prompt_tokens": value, "completion_tokens": 4}}))
    await bench.ask()
    await bench.gateway.close()
    (call,) = bench.task.ledger.calls
    assert call.usage.estimated
    assert 0 <= call.usage.total < 10**6
