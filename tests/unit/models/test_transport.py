"""The transport below the real clients: recordings, and faults in the answers of models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic_ai import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai import exceptions as errors
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from harness.models.cassettes import Cassette, CassetteMissError, read
from harness.models.exchange import Exchange
from harness.models.spoiled import UNKNOWN, invented
from harness.models.transport import TaskTransport, Way, Ways, ends, split
from harness.spec.faults import (
    Empty,
    Garbage,
    Hang,
    ModelBadArguments,
    ModelCut,
    ModelEmpty,
    ModelFault,
    ModelOverflow,
    ModelRefusal,
    ModelSlowFirstToken,
    ModelStall,
    ModelUnknownTool,
    Reset,
    Slow,
    SocketFault,
    Status,
    Truncate,
)
from tests.unit.fakes import FakeClock

FORMS = ("chat", "responses", "messages")
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
STREAMS = (True, False)
every_form = pytest.mark.parametrize("form", FORMS)
every_stream = pytest.mark.parametrize("stream", STREAMS)


class Server(httpx2.AsyncBaseTransport):
    """A provider that clicks `e3`, in the form that it is asked in."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        if self.answers:
            return self.answers.pop(0)
        # The form of a whole answer is that of an invented one, with other arguments.
        made = invented(ModelUnknownTool(), request.url.path, await request.aread())
        body = made.body.replace(UNKNOWN.encode(), b"click").replace(b'"{}"', json.dumps('{"target":"e3"}').encode())
        body = body.replace(b'"input": {}}]', b'"input": {"target": "e3"}}]')
        return httpx2.Response(
            200, headers={"content-type": made.content_type, "set-cookie": "s=1"}, stream=Pieces(body)
        )


class Pieces(httpx2.AsyncByteStream):
    """A body in pieces of 40 bytes."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.body), 40):
            yield self.body[start : start + 40]


class Struck:
    """The faults of a task, one for each request."""

    def __init__(self, *faults: ModelFault | SocketFault | None) -> None:
        self.faults = list(faults)
        self.asked: list[tuple[str, int]] = []
        self.spoiled = 0
        self.closed: list[str] = []

    def _next(self, kind: Any) -> Any:
        if self.faults and isinstance(self.faults[0], kind | None):
            return self.faults.pop(0)
        return None

    def strike_model(self, model: str, step: int) -> ModelFault | None:
        self.asked.append((model, step))
        return self._next(ModelFault)  # type: ignore[no-any-return]

    def strike_request(self, urls: tuple[str, ...]) -> SocketFault | None:
        return self._next(SocketFault)  # type: ignore[no-any-return]

    def broken(self, urls: tuple[str, ...]) -> int:
        return self.spoiled

    def refused(self, url: str) -> None:
        self.closed.append(url)


def model_of(form: str, transport: httpx2.AsyncBaseTransport) -> Model:
    """The clients are imported here: they are large, and each worker of the suite imports this module."""
    client = httpx2.AsyncClient(transport=transport)
    if form == "messages":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        anthropic = AsyncAnthropic(api_key="k", base_url="http://models.local", http_client=client, max_retries=0)
        return AnthropicModel("m", provider=AnthropicProvider(anthropic_client=anthropic))
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    openai = AsyncOpenAI(api_key="k", base_url="http://models.local/v1", http_client=client, max_retries=0)
    kind = OpenAIChatModel if form == "chat" else OpenAIResponsesModel
    return kind("m", provider=OpenAIProvider(openai_client=openai))


TOOL = ToolDefinition(name="click", description="Click.", parameters_json_schema={"type": "object", "properties": {}})


async def ask(form: str, transport: httpx2.AsyncBaseTransport, text: str, stream: bool) -> ModelResponse:
    request, parameters = [ModelRequest(parts=[UserPromptPart(text)])], ModelRequestParameters(function_tools=[TOOL])
    model = model_of(form, transport)
    if not stream:
        return await model_request(model, request, model_request_parameters=parameters)
    async with model_request_stream(model, request, model_request_parameters=parameters) as answer:
        async for _ in answer:
            pass
        return answer.get()


def call_of(answer: ModelResponse) -> tuple[str, Any] | None:
    call = next((part for part in answer.parts if isinstance(part, ToolCallPart)), None)
    return None if call is None else (call.tool_name, call.args_as_dict())


def way(file: Path | None, mode: str = "live", faults: Any = None, **more: Any) -> Way:
    cassette = Cassette.open(file, 0, mode) if file else None  # type: ignore[arg-type]
    return Way(cassette, faults or Struck(), clock=FakeClock(), **more)


def always(path: Way) -> Ways:
    return lambda _: path


def run(way: Way, server: httpx2.AsyncBaseTransport, *texts: str, form: str = "chat", stream: bool = True) -> list[Any]:
    """What the client makes of each text: a call, or an error."""

    async def everything() -> list[Any]:
        found: list[Any] = []
        for text in texts:
            try:
                found.append(call_of(await ask(form, TaskTransport(server, dict, always(way)), text, stream)))
            except (errors.ModelAPIError, errors.UnexpectedModelBehavior, httpx2.HTTPError, CassetteMissError) as error:
                found.append(error)
        return found

    found = asyncio.run(everything())
    if way.cassette:
        way.cassette.save()
    return found


def nobody() -> httpx2.AsyncBaseTransport:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise AssertionError("the network was asked")

    return httpx2.MockTransport(refuse)


@every_form
@every_stream
def test_a_recorded_answer_is_parsed_by_the_real_client(form: str, stream: bool, tmp_path: Path) -> None:
    file, server = tmp_path / "a.jsonl", Server()
    recorded = run(way(file, "record"), server, "buy [ref=e3]", form=form, stream=stream)
    replayed = run(way(file, "replay"), nobody(), "buy [ref=e3]", form=form, stream=stream)
    assert recorded == replayed == [("click", {"target": "e3"})]
    assert len(server.asked) == 1
    assert "set-cookie" not in read(file)[0].headers


@every_form
def test_the_refs_of_an_answer_are_those_of_the_present_page(form: str, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    run(way(file, "record"), Server(), "buy [ref=e1] or [ref=e3]", form=form)
    found = run(way(file, "replay"), nobody(), "buy [ref=e2] or [ref=f1e9]", form=form)
    assert found == [("click", {"target": "f1e9"})]


def test_a_miss_never_reaches_the_network(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    run(way(file, "record"), Server(), "buy a mouse")
    (error,) = run(way(file, "replay"), nobody(), "buy a house")
    link: BaseException | None = error
    while link is not None and not isinstance(link, CassetteMissError):
        link = link.__cause__
    assert """recorded '"content": "buy a mouse",', now '"content": "buy a house",'""" in str(link)


def test_what_the_provider_refused_is_replayed_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    body = {"error": {"message": "slow down", "type": "rate_limit"}}
    server = Server(httpx2.Response(429, headers={"retry-after": "2"}, json=body))
    for mode, provider in (("record", server), ("replay", nobody())):
        first, second = run(way(file, mode), provider, "buy", "buy")
        assert isinstance(first, errors.ModelHTTPError)
        assert (first.status_code, first.headers["retry-after"]) == (429, "2")  # type: ignore[index]
        assert second == ("click", {"target": "e3"})


def test_the_transport_says_what_became_of_a_request(tmp_path: Path) -> None:
    file, faults = tmp_path / "a.jsonl", Struck()

    async def one(mode: str, server: httpx2.AsyncBaseTransport) -> tuple[bool, str]:
        path = way(file, mode, faults)
        now = Exchange("builder", "claude", lambda: 0.0, 0.0, 0, step=7)
        with now.under_way():
            await ask("chat", TaskTransport(server, dict, always(path)), "buy", True)
        assert path.cassette is not None
        path.cassette.save()
        return now.replayed, now.recording

    recorded = asyncio.run(one("record", Server()))
    replayed = asyncio.run(one("replay", nobody()))
    assert faults.asked == [("claude", 7), ("claude", 7)]
    assert (recorded[0], replayed[0]) == (False, True)
    assert recorded[1] == replayed[1] == read(file)[0].key


def test_neither_keys_nor_secrets_are_written(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    recording = way(file, "record", redact=lambda text: text.replace("hunter2", "[redacted]"))
    run(recording, Server(), "log in with hunter2")
    written = file.read_text()
    assert "hunter2" not in written
    assert "authorization" not in written.lower()
    assert run(
        way(file, "replay", redact=lambda text: text.replace("hunter3", "[redacted]")), nobody(), "log in with hunter3"
    )


def test_a_request_to_a_service_goes_to_its_port() -> None:
    server = Server()
    asyncio.run(ask("chat", TaskTransport(server, lambda: {"models.local": 4321}), "buy", True))
    (request,) = server.asked
    assert (request.url.host, request.url.port, request.headers["host"]) == ("127.0.0.1", 4321, "models.local")


def test_a_refused_connection_is_counted_for_the_fault_that_refuses_it() -> None:
    async def refuse(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("Connection refused")

    faults = Struck()
    transport = TaskTransport(
        httpx2.MockTransport(refuse), lambda: {"models.local": 4321}, lambda _: Way(faults=faults)
    )
    with pytest.raises(errors.ModelAPIError):
        asyncio.run(ask("chat", transport, "buy", True))
    assert faults.closed == ["http://models.local/v1/chat/completions"]


# Faults in the answers of models.


@every_form
@every_stream
def test_invented_answers_are_those_of_the_provider(form: str, stream: bool) -> None:
    """Each kind, as the real client reads it; none of them asks the provider."""

    def struck(fault: ModelFault) -> Any:
        (found,) = run(way(None, faults=Struck(fault)), nobody(), "buy", form=form, stream=stream)
        return found

    def answered(fault: ModelFault) -> ModelResponse:
        return asyncio.run(
            ask(form, TaskTransport(nobody(), dict, always(way(None, faults=Struck(fault)))), "buy", stream)
        )

    assert struck(ModelUnknownTool())[0] == UNKNOWN
    assert struck(ModelOverflow()).status_code == 400
    call = next(part for part in answered(ModelBadArguments()).parts if isinstance(part, ToolCallPart))
    assert call.tool_name == "click"
    assert "target" not in str(call.args)
    assert not [
        part for part in answered(ModelEmpty()).parts if getattr(part, "content", "") or part.part_kind == "tool-call"
    ]
    refused = answered(ModelRefusal())
    assert refused.finish_reason == "content_filter" or "refus" in repr(refused)


@every_form
def test_a_cut_answer_ends_without_a_word(form: str, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    path = way(file, "record", Struck(ModelCut()))

    async def twice() -> list[ModelResponse]:
        return [await ask(form, TaskTransport(Server(), dict, always(path)), "buy", True) for _ in range(2)]

    cut, whole = asyncio.run(twice())
    assert (cut.provider_details or {}).get("finish_reason") is None
    assert call_of(whole) == ("click", {"target": "e3"})
    assert path.cassette is not None
    path.cassette.save()
    assert [each.occurrence for each in read(file)] == [0], "an answer that a fault has spoiled is not recorded"


def test_a_slow_answer_begins_late_and_a_stalled_one_stops() -> None:
    for fault in (ModelSlowFirstToken(seconds=50), ModelStall(seconds=50)):
        clock = FakeClock()
        path = Way(None, Struck(fault), clock=clock)
        assert asyncio.run(ask("chat", TaskTransport(Server(), dict, always(path)), "buy", True)).parts
        assert clock.now() >= 50


@pytest.mark.parametrize("fault", [ModelCut(), ModelBadArguments(), ModelEmpty(), ModelOverflow(), ModelRefusal()])
def test_a_recording_survives_a_fault(fault: ModelFault, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    run(way(file, "record"), Server(), "buy")
    found = run(way(file, "replay", Struck(fault)), nobody(), "buy", "buy")
    assert found[1] == ("click", {"target": "e3"})


# Faults of the network on requests that a recording answers.


@pytest.mark.parametrize(
    "fault",
    [Status(url="*", status=503, retry_after=3), Hang(url="*", seconds=9), Reset(url="*"), Empty(url="*"),
     Garbage(url="*"), Truncate(url="*", bytes=9)],
)  # fmt: skip
def test_a_fault_of_the_network_strikes_a_recorded_answer(fault: SocketFault, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    run(way(file, "record"), Server(), "buy")
    first, second = run(way(file, "replay", Struck(fault)), nobody(), "buy", "buy")
    assert isinstance(first, Exception)
    assert second == ("click", {"target": "e3"})


def test_a_slow_network_uses_the_recording(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    run(way(file, "record"), Server(), "buy")
    replaying = way(file, "replay", Struck(Slow(url="*", seconds=9)))
    assert run(replaying, nobody(), "buy") == [("click", {"target": "e3"})]
    assert replaying.cassette is not None
    assert replaying.cassette.unused == 0


def test_an_exchange_that_the_network_has_spoiled_is_not_recorded(tmp_path: Path) -> None:
    file, faults = tmp_path / "a.jsonl", Struck()

    class Gate(Server):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if not self.asked:
                self.asked.append(request)
                faults.spoiled += 1
                return httpx2.Response(503, json={})
            return await super().handle_async_request(request)

    found = run(way(file, "record", faults), Gate(), "buy", "buy")
    assert isinstance(found[0], errors.ModelHTTPError)
    assert [(each.status, each.occurrence) for each in read(file)] == [(200, 0)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b"a\n\nb\n\nc\n\n", b"a\n\n"), (b'{"whole": 1}', b'{"whol')],
)
def test_split(body: bytes, expected: bytes) -> None:
    assert split(body) == (expected, body[len(expected) :])


def test_a_stream_is_whole_with_its_last_event() -> None:
    assert ends(b"data: {}\n\ndata: [DONE]\n\n")
    assert not ends(b"data: {}\n\n")
    assert ends(b"event: message_stop\ndata: {}\n\n")
