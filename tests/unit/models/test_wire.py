"""The wire against `llmock`, a server that fails as the providers do: code, delay and bill of each failure."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import pytest
from llmock.pytest_plugin import LLMock

from harness.model.inference import Prompt, ToolDefinition
from harness.model.model_settings import ModelSettings
from harness.models.exchange import Exchange, WireAnswer
from harness.models.provider import in_time
from harness.models.transport import TaskTransport, connections
from harness.models.verdicts import ModelError
from harness.resilience import SystemClock

T = TypeVar("T")
CLICK = ToolDefinition(
    "browser_click",
    "Click an element.",
    {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]},
)
PROMPT = Prompt("Rules.", ("Goal: buy a mouse", "Page: a button"), (CLICK,))
KEY = "sk-planted-0123456789"
LIMITS = {"first_token": 20, "idle": 20, "total": 40}


@dataclass
class Asked:
    answer: WireAnswer | None
    error: ModelError | None
    exchange: Exchange


def settings(provider: str, url: str, **more: Any) -> ModelSettings:
    base = {"provider": provider, "model": {"openai": "gpt-4o", "anthropic": "claude-haiku-4-5"}[provider]}
    return ModelSettings.model_validate({**base, "base_url": url, "limits": LIMITS, **more})


class Noting(httpx2.AsyncBaseTransport):
    """The connections, with the headers that went out."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.headers: list[dict[str, str]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.headers.append(dict(request.headers))
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Line:
    """The wires of this file on one loop, since to make one takes longer than a request."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.noted = self._inner = self._runner.run(self._connections())
        self._wires: dict[str, Any] = {}

    @staticmethod
    async def _connections() -> Noting:
        return Noting(connections())

    def ask(self, given: ModelSettings, prompt: Prompt = PROMPT, hosts: dict[str, int] | None = None) -> Asked:
        """One request, with its limits."""
        return self._runner.run(self.ask_once(given, prompt, hosts))

    def run(self, asking: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asking)

    async def ask_once(self, given: ModelSettings, prompt: Prompt, hosts: dict[str, int] | None = None) -> Asked:
        from harness.models.wire import Wire

        key = f"{given!r} {hosts}"
        wire = self._wires.setdefault(key, None) or Wire(
            "it", given, TaskTransport(self._inner, lambda: hosts or {}), KEY
        )
        self._wires[key] = wire
        exchange = Exchange("builder", "it", NOW, NOW(), 10)
        try:
            with exchange.under_way():
                answer = await in_time("it", given)(lambda: wire.ask(prompt, exchange))()
        except ModelError as error:
            return Asked(None, error, exchange)
        return Asked(answer, None, exchange)

    async def _close(self) -> None:
        for wire in self._wires.values():
            await wire.close()
        await self._inner.aclose()

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()


NOW = SystemClock().now


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def failing(status: int, **more: Any) -> Callable[[LLMock], Any]:
    return lambda mock: mock.fail(status, **more)


CASES: dict[str, tuple[Callable[[LLMock], Any], str, bool]] = {
    "429 with Retry-After": (lambda mock: mock.rate_limit(retry_after=2), "MODEL_RATE_LIMITED", True),
    "429 without credit": (
        failing(429, code="insufficient_quota", message="You exceeded your current quota"), "MODEL_QUOTA", False,
    ),
    "503": (failing(503), "MODEL_UNAVAILABLE", True),
    "529": (failing(529), "MODEL_OVERLOADED", True),
    "500": (failing(500), "MODEL_UNAVAILABLE", True),
    "502": (failing(502), "MODEL_UNAVAILABLE", True),
    "504": (failing(504), "MODEL_UNAVAILABLE", True),
    "401": (failing(401), "MODEL_AUTH", False),
    "403": (failing(403), "MODEL_AUTH", False),
    "400 invalid": (failing(400, message="messages: roles must alternate"), "MODEL_REJECTED", False),
    "400 too long, as OpenAI says it": (lambda mock: mock.context_overflow(), "MODEL_CONTEXT_OVERFLOW", False),
    "400 too long, as Anthropic says it": (
        failing(400, message="prompt is too long: 210000 tokens > 200000 maximum"), "MODEL_CONTEXT_OVERFLOW", False,
    ),
    "404 no such model": (failing(404, message="The model `gpt-9` does not exist"), "MODEL_NOT_FOUND", False),
    "409": (failing(409), "MODEL_UNAVAILABLE", True),
    "413": (failing(413), "MODEL_CONTEXT_OVERFLOW", False),
}  # fmt: skip
"""What the server does, the code of the failure, and whether a retry can help."""
STREAMED: dict[str, tuple[Callable[[LLMock], Any], str, bool]] = {
    "the connection is dropped": (lambda mock: mock.disconnect(), "MODEL_UNAVAILABLE", True),
    "the stream is cut off": (lambda mock: mock.truncate(after_chunks=2), "MODEL_GARBLED", True),
    "a chunk is no JSON": (lambda mock: mock.corrupt(), "MODEL_GARBLED", True),
}
SPOKEN: dict[str, tuple[Callable[[LLMock], Any], str]] = {
    "the arguments are no JSON": (lambda mock: mock.break_tool_call(), "are no JSON object"),
    "an unknown tool": (lambda mock: mock.break_tool_call("unknown_tool"), "a tool that it was not given"),
    "words in place of a call": (
        lambda mock: mock.tool_mode("off").reply("I cannot see it."), "calls no tool: I cannot see it.",
    ),
    "an empty answer": (lambda mock: mock.tool_mode("off").reply(""), "is empty"),
}  # fmt: skip


def verdict_of(asked: Asked) -> tuple[str, bool]:
    assert asked.error is not None, asked.answer
    return asked.error.code, asked.error.verdict.retryable


@pytest.mark.parametrize("stream", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["stream", "whole"])
@pytest.mark.parametrize("case", CASES)
def test_each_status_has_its_code(line: Line, llmock: LLMock, provider: str, case: str, stream: bool) -> None:
    fault, code, retryable = CASES[case]
    fault(llmock)

    limits = LIMITS if stream else {"total": 40}
    asked = line.ask(settings(provider, llmock.base_url(provider), stream=stream, limits=limits))

    if case == "503" and provider == "anthropic":
        code = "MODEL_OVERLOADED"  # so it says of itself
    assert verdict_of(asked) == (code, retryable)
    assert len(llmock.requests) == 1, "one request for one question: nobody below retries"
    assert asked.error is not None
    assert not asked.error.billed
    if case == "429 with Retry-After":
        assert asked.error.verdict.suggested_delay == 2.0
    assert KEY not in str(asked.error)


@pytest.mark.parametrize("case", STREAMED)
def test_a_broken_stream_is_no_answer(line: Line, llmock: LLMock, provider: str, case: str) -> None:
    fault, code, retryable = STREAMED[case]
    fault(llmock)

    asked = line.ask(settings(provider, llmock.base_url(provider)))

    assert verdict_of(asked) == (code, retryable)
    assert asked.error is not None
    assert asked.error.rule.leads_on, "another model may be reached"
    assert asked.error.billed, "the answer had begun"


@pytest.mark.parametrize("case", SPOKEN)
def test_an_answer_that_was_not_asked_for_is_told(line: Line, llmock: LLMock, provider: str, case: str) -> None:
    fault, words = SPOKEN[case]
    fault(llmock)

    asked = line.ask(settings(provider, llmock.base_url(provider)))

    assert verdict_of(asked) == ("MODEL_GARBLED", True)
    assert words in str(asked.error)
    assert asked.error is not None
    assert not asked.error.rule.leads_on, "the model is well: its agent is told"
    assert asked.exchange.usage is not None


def test_a_good_answer_has_its_call_and_its_usage(line: Line, llmock: LLMock, provider: str) -> None:
    llmock.call_tool("browser_click", {"target": "e12"})

    asked = line.ask(settings(provider, llmock.base_url(provider)))

    assert asked.answer is not None
    assert [(call.name, call.arguments) for call in asked.answer.calls] == [("browser_click", {"target": "e12"})]
    assert asked.exchange.usage is not None
    assert asked.exchange.usage.input > 0
    assert not asked.exchange.usage.estimated
    assert asked.exchange.first is not None
    llmock.assert_resilient(strict=True)


def test_an_answer_that_begins_too_late_is_given_up(line: Line, llmock: LLMock, provider: str) -> None:
    llmock.slow_first_token(3)

    asked = line.ask(settings(provider, llmock.base_url(provider), limits={**LIMITS, "first_token": 0.3}))

    assert verdict_of(asked) == ("MODEL_TIMEOUT", True)
    assert str(asked.error) == "The first part of the answer of model `it` took longer than 0.3 s"
    assert asked.error is not None
    assert asked.error.billed


def test_an_answer_that_stalls_is_given_up(line: Line, llmock: LLMock, provider: str) -> None:
    llmock.stall(after_chunks=4, seconds=3)

    asked = line.ask(settings(provider, llmock.base_url(provider), limits={**LIMITS, "idle": 0.3}))

    assert verdict_of(asked) == ("MODEL_TIMEOUT", True)
    assert "part of the answer" in str(asked.error)


def test_the_whole_answer_has_a_limit(line: Line, llmock: LLMock, provider: str) -> None:
    llmock.delay(3)

    asked = line.ask(settings(provider, llmock.base_url(provider), limits={**LIMITS, "total": 0.3}))

    assert verdict_of(asked) == ("MODEL_TIMEOUT", True)


def test_a_server_that_is_not_there(line: Line, provider: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        asked = line.ask(settings(provider, f"http://127.0.0.1:{port}/v1"))

    assert verdict_of(asked) == ("MODEL_UNAVAILABLE", True)
    assert "could not be reached" in str(asked.error)
    assert asked.error is not None
    assert not asked.error.billed, "nothing was sent"


def test_a_host_without_an_address(line: Line, provider: str) -> None:
    asked = line.ask(settings(provider, "http://nowhere.invalid/v1"))

    assert verdict_of(asked) == ("MODEL_UNAVAILABLE", True)
    assert asked.error is not None
    assert asked.error.verdict.max_retries == 2


def test_a_host_of_the_project_is_found_at_its_port(line: Line, llmock: LLMock, provider: str) -> None:
    port = int(llmock.url.rpartition(":")[2])
    path = llmock.base_url(provider).removeprefix(llmock.url)

    asked = line.ask(settings(provider, f"http://Models.local{path}"), hosts={"models.local": port})

    assert asked.answer is not None, asked.error
    assert len(llmock.requests) == 1


def test_nothing_of_the_environment_goes_out(
    line: Line, llmock: LLMock, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "planted-in-the-environment")

    asked = line.ask(settings(provider, llmock.base_url(provider) + "/"))

    assert asked.answer is not None, asked.error
    sent = repr((line.noted.headers[-1], llmock.last_request))
    assert "planted-in-the-environment" not in sent
    assert KEY in sent
