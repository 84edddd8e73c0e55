"""The gateway: the way of an agent's own process to the models. Requests pass as they are, but not around the rules.

Circuit, pace, time limits, budget, ledger, recordings and faults hold as for other agents. The keys stay here, nothing
is repeated, and no other model is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import httpx2
from msgspec import Struct

from harness.model.events import emit_of_call
from harness.model.inference import ForwardedAnswer, ForwardedRequest, Prompt, Usage
from harness.model.model_settings import ModelSettings
from harness.models.cassettes import CassetteMissError
from harness.models.exchange import tokens_of, tokens_of_letters
from harness.models.provider import ADDRESSES, in_time
from harness.models.task import Booking, TaskModels
from harness.models.verdicts import LONGEST_TEXT, ModelError, WireFacts, facts_of_transport, judged
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from harness.resilience.breaker import Call, CircuitOpen, Policy
from harness.resilience.events import ResilienceEvent
from harness.resilience.outside import count_of
from harness.resilience.pace import FloorTooHigh
from harness.resilience.verdict import retry_after
from harness.spec.problems import join_or


class Dialect(Struct, frozen=True):
    """One of the providers' protocols."""

    providers: tuple[str, ...]
    ending: str
    """What follows the address of a provider's API in the settings."""
    usage_at: tuple[str, ...]
    """Where an answer, or an event of its stream, says what was used."""


_DIALECTS: Final[Mapping[str, Dialect]] = {
    "/v1/chat/completions": Dialect(("openai", "openai-compatible"), "/chat/completions", ("usage",)),
    "/v1/responses": Dialect(("openai", "openai-compatible"), "/responses", ("usage", "response.usage")),
    "/v1/messages": Dialect(("anthropic",), "/v1/messages", ("usage", "message.usage")),
}
"""Path below the gateway -> protocol."""
_PASSED: Final = ("content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta")
"""The headers of a client that a provider gets."""
_RETURNED: Final = ("content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id", "x-should-retry")
_WAITING: Final = 64
"""Parts of an answer that may wait for a client that does not read."""
_STATUS: Final[Mapping[str, int]] = {
    "BUDGET_EXCEEDED": 402, "MODEL_UNPRICED": 402, "MODEL_AUTH": 401, "MODEL_CASSETTE_MISS": 409, "MODEL_TIMEOUT": 504,
}  # fmt: skip
"""The status of an answer that the gateway itself gives."""


class ModelGateway:
    """The models for the process of one task. Use it on the harness's loop."""

    def __init__(self, models: TaskModels, agent: str, allowed: Sequence[str], step: Callable[[], int]) -> None:
        """`allowed`: the models that it may ask. `step` returns the index of the step that is being chosen."""
        self._models = models
        self._agent = agent
        self._allowed = allowed
        self._step = step
        self._works: set[asyncio.Task[None]] = set()

    async def forward(self, request: ForwardedRequest) -> ForwardedAnswer:
        """Answer a request (`forwarding.ForwardsRequests`)."""
        if request.path == "/v1/models" and request.method == "GET":
            return _json(200, {"object": "list", "data": [{"id": each, "object": "model"} for each in self._allowed]})
        dialect = _DIALECTS.get(request.path)
        if dialect is None or request.method != "POST":
            message = f"{request.method} {request.path} is not served here: there is {join_or(list(_DIALECTS))}"
            return _refused(404, "not_found", message, request.path)
        try:
            body = json.loads(request.body)
            asked = str(body["model"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return _refused(400, "invalid_request", "the body must be a JSON object with `model`", request.path)
        known = self._models.models
        fitting = [name for name in self._allowed if known[name].provider in dialect.providers]
        # A client names a model as the settings do, or as the provider does.
        model = asked if asked in fitting else next((name for name in fitting if known[name].model == asked), None)
        if model is None:
            message = (
                f"model `{asked}` is not one that this agent may ask here: there is {join_or(fitting or ['none'])}"
            )
            return _refused(404, "model_not_found", message, request.path)
        return await self._passed(request, dialect, model, body)

    async def _passed(
        self, request: ForwardedRequest, dialect: Dialect, model: str, body: dict[str, Any]
    ) -> ForwardedAnswer:
        """The provider's answer as it comes, or the refusal of what stands before it."""
        models = self._models
        question = Prompt("", (request.body.decode("utf-8", "replace"),))
        try:
            models.ledger.permit(model, question)
            passage = Passage(self._sent(request, dialect, model, body), dialect)
        except (Failed, ModelError) as error:
            return _of_error(error, request.path)
        booked = partial(Booking, models, self._agent, model, self._step(), 1, tokens_of(question))
        call = models.policies(model, self._tell, repeats=False)(partial(passage.once, booked))
        work = asyncio.create_task(passage.run(call))
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        try:
            status, headers = await passage.head
        except (ModelError, CircuitOpen, FloorTooHigh) as error:
            return _of_error(error, request.path)
        except asyncio.CancelledError:
            work.cancel()
            raise
        return ForwardedAnswer(status, headers, passage.chunks(work))

    def _tell(self, event: ResilienceEvent) -> None:
        emit_of_call(self._models.emit, self._models.plan, self._step(), event)

    def _sent(self, request: ForwardedRequest, dialect: Dialect, model: str, body: Mapping[str, Any]) -> SentRequest:
        """What is sent, and over what. Raises ModelError without the key."""
        assert self._models.sender is not None
        settings, sender = self._models.models[model], self._models.sender(model)
        headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
        if sender.key:
            of_anthropic = settings.provider == "anthropic"
            headers |= {"x-api-key": sender.key} if of_anthropic else {"authorization": f"Bearer {sender.key}"}
        url = (settings.base_url or ADDRESSES[settings.provider]) + dialect.ending
        limits = dict.fromkeys(("connect", "read", "write", "pool"), settings.limits.total)
        content = json.dumps({**body, "model": settings.model}).encode()
        sent = httpx2.Request("POST", url, headers=headers, content=content, extensions={"timeout": limits})
        return SentRequest(model, settings, sender.transport, sent)

    async def close(self) -> None:
        """Cancel what is under way; it never raises."""
        for work in tuple(self._works):
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)


class SentRequest(Struct, frozen=True):
    """A request as a provider gets it."""

    model: str
    """The name in the settings."""
    settings: ModelSettings
    transport: httpx2.AsyncBaseTransport
    request: httpx2.Request


class Passage:
    """One request on its way through the gateway, and its answer on the way back."""

    def __init__(self, sent: SentRequest, dialect: Dialect) -> None:
        self.head: asyncio.Future[tuple[int, dict[str, str]]] = asyncio.get_running_loop().create_future()
        """Status and headers, once the answer begins."""
        self._sent = sent
        self._dialect = dialect
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self._whole = False

    async def run(self, call: Call[None]) -> None:
        """Make the request. An error before its answer is that of `head`; one within it cuts the answer off."""
        try:
            await call()
        except Exception as error:
            if not self.head.done():
                self.head.set_exception(error)
            elif not isinstance(error, ModelError):
                raise
        finally:
            self.head.cancel()
            with contextlib.suppress(asyncio.QueueFull):  # `chunks` sees the end of the work, too
                self._parts.put_nowait(None)

    async def once(self, booked: Callable[[], Booking]) -> None:
        """One request, with its entry in the ledger. Raises ModelError."""
        booking = booked()
        with booking.under_way():
            bounded: Policy[None] = in_time(self._sent.model, self._sent.settings)
            await bounded(partial(self._exchanged, booking))()

    async def _exchanged(self, booking: Booking) -> None:
        exchange, model = booking.exchange, self._sent.model
        try:
            answer = await self._sent.transport.handle_async_request(self._sent.request)
            if not answer.is_success:
                await self._pass_refusal(answer)
            else:
                exchange.usage = await self._pass(answer, booking)
        except CassetteMissError as error:
            raise ModelError("MODEL_CASSETTE_MISS", f"Model `{model}` was not asked: {error}") from error
        except httpx2.HTTPError as error:
            raise judged(facts_of_transport(error, exchange), model) from error

    async def _pass(self, answer: httpx2.Response, booking: Booking) -> Usage:
        body = bytearray()
        async for chunk in answer.aiter_raw():
            booking.exchange.note_event()
            if not self.head.done():
                self.head.set_result((answer.status_code, _returned(answer)))
            body += chunk
            await self._parts.put(chunk)
        if not self.head.done():
            self.head.set_result((answer.status_code, _returned(answer)))
        self._whole = True
        if not any(_documents(bytes(body))):
            shown = bytes(body[:LONGEST_TEXT]).decode("utf-8", "replace")
            raise judged(WireFacts(f"it answered {booking.exchange.head}: {shown}", begun=True), self._sent.model)
        return _usage_of(self._dialect, bytes(body), booking.exchange.input)

    async def _pass_refusal(self, answer: httpx2.Response) -> None:
        """Pass the provider's refusal on as it is, and raise what it means for circuit and pace."""
        body = await answer.aread()
        self._whole = True
        self.head.set_result((answer.status_code, _returned(answer)))
        await self._parts.put(body)
        raise judged(_facts(answer, body), self._sent.model)

    async def chunks(self, work: asyncio.Task[None]) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises ConnectionError when it breaks off: the client must not take it for whole."""
        try:
            while not (work.done() and self._parts.empty()):
                part = await self._parts.get()
                if part is None:
                    break
                yield part
            if not self._whole:
                raise ConnectionError("the answer of the model broke off")
        finally:
            work.cancel()


def _returned(answer: httpx2.Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in _RETURNED if name in answer.headers}


def _facts(answer: httpx2.Response, body: bytes) -> WireFacts:
    try:
        error = json.loads(body)["error"]
        said = error if isinstance(error, dict) else {"message": str(error)}
    except (ValueError, TypeError, KeyError):
        said = {"message": body[:1000].decode("utf-8", "replace")}
    text, code, kind = (str(said.get(name) or "") for name in ("message", "code", "type"))
    wait = retry_after(answer.headers, SystemClock().wall())
    return WireFacts(text, status=answer.status_code, code=code, kind=kind, retry_after=wait)


def _usage_of(dialect: Dialect, body: bytes, asked: int) -> Usage:
    """What an answer says that it used; else an estimate. `asked`: the estimated tokens of the question."""
    told: dict[str, Any] = {}
    letters = 0
    for document in _documents(body):
        letters += _letters(document.get("choices"))
        for place in dialect.usage_at:
            found: Any = document
            for name in place.split("."):
                found = found.get(name) if isinstance(found, dict) else None
            if isinstance(found, dict):
                told |= {key: value for key, value in found.items() if value is not None}
    said = {key: value for key, value in told.items() if key.endswith("_tokens")}
    if not said or any(count_of(value) is None for value in said.values()):
        return Usage(input=asked, output=tokens_of_letters(letters), estimated=True)
    return _usage(told)


def _usage(told: Mapping[str, Any]) -> Usage:
    def first(*names: str) -> int:
        return next((found for name in names if (found := count_of(told.get(name))) is not None), 0)

    def detail(name: str, *groups: str) -> int:
        found = (count_of(told[each].get(name)) for each in groups if isinstance(told.get(each), dict))
        return next((each for each in found if each is not None), 0)

    read, write = first("cache_read_input_tokens"), first("cache_creation_input_tokens")
    return Usage(
        input=first("input_tokens", "prompt_tokens") + read + write,  # only Anthropic counts the cache apart
        output=first("output_tokens", "completion_tokens"),
        cache_read=read or detail("cached_tokens", "prompt_tokens_details", "input_tokens_details"),
        cache_write=write,
        reasoning=detail("reasoning_tokens", "completion_tokens_details", "output_tokens_details"),
    )


def _documents(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of an answer: itself, or the data of its events."""
    text = body.decode("utf-8", "replace")
    lines = [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            if isinstance(document := json.loads(line), dict):
                yield document


def _letters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_letters, parts))


def _of_error(error: Exception, path: str) -> ForwardedAnswer:
    """The answer for a request that was not made, or whose answer did not begin."""
    if isinstance(error, FloorTooHigh):
        return _refused(429, "MODEL_RATE_LIMITED", str(error), path, error.seconds)
    if isinstance(error, CircuitOpen):
        return _refused(503, "MODEL_UNAVAILABLE", str(error), path, error.reopens_in)
    code = error.failure.code if isinstance(error, Failed) else getattr(error, "code", "")
    message = error.failure.message if isinstance(error, Failed) else str(error)
    return _refused(_STATUS.get(code, 502), code, message, path, getattr(error, "retry_after", None))


def _refused(status: int, code: str, message: str, path: str, wait: float | None = None) -> ForwardedAnswer:
    """A refusal in the shape of the protocol, whose clients show its message."""
    error = {"type": code.lower(), "code": code, "message": message}
    body = {"type": "error", "error": error} if path == "/v1/messages" else {"error": error}
    return _json(status, body, {} if wait is None else {"retry-after": f"{max(1, round(wait))}"})


def _json(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> ForwardedAnswer:
    async def chunks() -> AsyncIterator[bytes]:
        yield json.dumps(body).encode()

    return ForwardedAnswer(status, {"content-type": "application/json", **(headers or {})}, chunks())
