"""One request to a provider, over the providers' own clients: the only module that imports pydantic-ai."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Final, cast

import httpx2
from pydantic_ai import BinaryContent, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai import exceptions as pydantic_errors
from pydantic_ai import messages as pydantic_messages
from pydantic_ai import tools as pydantic_tools
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings as RequestSettings

from harness.model.inference import FunctionCall, Prompt, Usage
from harness.model.model_settings import ModelSettings
from harness.models.cassettes import CassetteMissError
from harness.models.exchange import Exchange, WireAnswer
from harness.models.provider import ADDRESSES
from harness.models.verdicts import (
    SAID_WRONG,
    ModelError,
    Phase,
    WireFacts,
    bounded,
    cause_of,
    facts_of_transport,
    first_line,
    is_unreadable,
    judged,
)
from harness.resilience import SystemClock
from harness.resilience.limit import LimitExceeded, paced
from harness.resilience.outside import count_of, seconds_of
from harness.resilience.verdict import retry_after

_Messages = list[pydantic_messages.ModelMessage]
_NO_KEY: Final = "none"
"""The key for a server that needs none: the clients would otherwise take one from the environment."""


class Wire:
    """A model behind its provider's API. It makes one request at a time it is asked, and never repeats one."""

    def __init__(self, name: str, settings: ModelSettings, transport: httpx2.AsyncBaseTransport, key: str) -> None:
        """`name`: the name in the settings, for messages. The transport stays open when this is closed."""
        self._name = name
        self._settings = settings
        self._http = httpx2.AsyncClient(transport=transport, timeout=settings.limits.total, follow_redirects=False)
        self._model = _model(settings, self._http, key or _NO_KEY)

    async def ask(self, prompt: Prompt, exchange: Exchange) -> WireAnswer:
        """Make one request, and return its answer. `exchange` is told how far it came.

        Raises ModelError, and LimitExceeded if the answer does not begin or go on in time.
        """
        images = [BinaryContent(data=image, media_type="image/png") for image in prompt.images]
        parts = [UserPromptPart([*prompt.parts, *images])]
        request: _Messages = [ModelRequest(parts=parts, instructions=prompt.instructions)]
        parameters = _parameters(prompt)
        with self._translated(exchange):
            answer = await (self._streamed if self._settings.stream else self._whole)(request, parameters, exchange)
        exchange.usage = _usage(answer, exchange)
        return _checked(self._name, prompt, answer)

    async def _whole(self, request: _Messages, parameters: ModelRequestParameters, exchange: Exchange) -> ModelResponse:
        answer = await model_request(
            self._model, request, model_settings=self._wishes(), model_request_parameters=parameters
        )
        exchange.note_event()
        return answer

    async def _streamed(
        self, request: _Messages, parameters: ModelRequestParameters, exchange: Exchange
    ) -> ModelResponse:
        limits, opened = self._settings.limits, list[StreamedResponse]()
        parts = self._parts(request, parameters, opened)
        async with aclosing(paced(parts, limits.first_token, limits.idle, f"model `{self._name}`")) as in_time:
            async for event in in_time:
                exchange.note_event(_letters(event))
        return opened[0].get()

    async def _parts(
        self, request: _Messages, parameters: ModelRequestParameters, opened: list[StreamedResponse]
    ) -> AsyncIterator[Any]:
        """The events of the answer. The stream is opened with the first, whose limit thus begins with the request."""
        async with model_request_stream(
            self._model, request, model_settings=self._wishes(), model_request_parameters=parameters
        ) as stream:
            opened.append(stream)
            async for event in stream:
                yield event

    def _wishes(self) -> RequestSettings:
        settings = self._settings
        wishes: dict[str, Any] = {
            "max_tokens": settings.max_output,
            "timeout": settings.limits.total,
            "framing_announcement": "never",
        }
        if settings.provider == "anthropic":
            wishes |= {"anthropic_cache_instructions": True, "anthropic_cache_tool_definitions": True}
        if settings.provider != "openai-compatible":
            wishes["parallel_tool_calls"] = False
        return cast("RequestSettings", wishes)

    @contextmanager
    def _translated(self, exchange: Exchange) -> Iterator[None]:
        """Raise the errors of the clients as ModelError.

        Their code breaks in many ways at what is no answer of a model: whatever it raises, the answer is unreadable.
        """
        try:
            yield
        except (LimitExceeded, ModelError):
            raise
        except CassetteMissError as error:
            raise _missed(error, self._name) from error
        except pydantic_errors.ModelAPIError as error:
            if isinstance(cause := cause_of(error), CassetteMissError):
                raise _missed(cause, self._name) from error
            raise judged(_facts(error, exchange), self._name) from error
        except httpx2.HTTPError as error:
            raise judged(facts_of_transport(error, exchange), self._name) from error
        except Exception as error:
            raise judged(WireFacts(_unreadable(error, exchange), begun=True), self._name) from error

    async def close(self) -> None:
        await self._http.aclose()


def _model(settings: ModelSettings, http: httpx2.AsyncClient, key: str) -> Model[Any]:
    """The provider's model. Nothing of it comes from the environment: no address, key, token or organization."""
    address = settings.base_url or ADDRESSES[settings.provider]
    make = _anthropic if settings.provider == "anthropic" else _openai
    return make(settings, http, key, address)


def _anthropic(settings: ModelSettings, http: httpx2.AsyncClient, key: str, address: str) -> Model[Any]:
    from anthropic import AsyncAnthropic  # takes two seconds, as the other: each only where it is used
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(api_key=key, base_url=address, http_client=http, max_retries=0)
    client.auth_token = None
    return AnthropicModel(settings.model, provider=AnthropicProvider(anthropic_client=client))


def _openai(settings: ModelSettings, http: httpx2.AsyncClient, key: str, address: str) -> Model[Any]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    # `max_retries` is set here and not with each request: that would make a copy of the client, which reads the
    # organization from the environment again.
    client = AsyncOpenAI(api_key=key, base_url=address, http_client=http, max_retries=0)
    client.organization = client.project = None
    make = OpenAIResponsesModel if settings.api == "responses" else OpenAIChatModel
    return make(settings.model, provider=OpenAIProvider(openai_client=client))


def _parameters(prompt: Prompt) -> ModelRequestParameters:
    tools = [
        pydantic_tools.ToolDefinition(
            name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
        )
        for tool in prompt.tools
    ]
    return ModelRequestParameters(function_tools=tools, allow_text_output=not tools)


def _letters(event: Any) -> int:
    part = getattr(event, "part", None) or getattr(event, "delta", None)
    texts = (getattr(part, name, None) for name in ("content", "content_delta", "args", "args_delta"))
    return sum(len(text) for text in texts if isinstance(text, str))


def _usage(answer: ModelResponse, exchange: Exchange) -> Usage:
    """What the provider says that it has used; an estimate where that is missing or cannot be true."""
    told = answer.usage
    used, sent = count_of(told.input_tokens), count_of(told.output_tokens)
    if used is None or sent is None or not used + sent:
        return exchange.estimate()
    return Usage(
        input=used,
        output=sent,
        cache_read=count_of(told.cache_read_tokens) or 0,
        cache_write=count_of(told.cache_write_tokens) or 0,
        reasoning=count_of(told.output_reasoning_tokens or told.details.get("reasoning_tokens", 0)) or 0,
    )


def _checked(name: str, prompt: Prompt, answer: ModelResponse) -> WireAnswer:
    """The answer in our words. Raises ModelError if it was cut off, refused, or is not what was asked for."""
    text = "".join(part.content for part in answer.parts if isinstance(part, TextPart)).strip()
    reason = (answer.provider_details or {}).get("finish_reason")
    if answer.finish_reason == "content_filter" or reason == "refusal":
        said = f": {bounded(text)}" if text else ""
        raise ModelError("MODEL_REFUSED", f"Model `{name}` refused to answer{said}", billed=True)
    if reason is None:
        message = f"The answer of model `{name}` was cut off: its stream ended before the answer was whole"
        raise ModelError("MODEL_GARBLED", message, billed=True)
    calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    if answer.finish_reason == "length" and (calls or prompt.tools or not text):
        raise _garbled(name, "is longer than `max_output` allows, and its end is missing")
    made = tuple(_call(name, prompt, part) for part in calls)
    if prompt.tools and not made:
        raise _garbled(name, f"calls no tool: {bounded(text)}" if text else "is empty")
    if not text and not made:
        raise _garbled(name, "is empty")
    return WireAnswer(text, made)


def _call(name: str, prompt: Prompt, part: ToolCallPart) -> FunctionCall:
    known = [tool.name for tool in prompt.tools]
    if part.tool_name not in known:
        raise _garbled(name, f"calls a tool that it was not given: `{bounded(part.tool_name, 80)}`")
    try:
        arguments = part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError) as error:
        shown = bounded(str(part.args), 120)
        raise _garbled(name, f"calls `{part.tool_name}` with arguments that are no JSON object: {shown}") from error
    return FunctionCall(part.tool_name, arguments)


def _garbled(name: str, problem: str) -> ModelError:
    return ModelError("MODEL_GARBLED", f"The answer of model `{name}` {problem}", rule=SAID_WRONG, billed=True)


def _missed(error: CassetteMissError, model: str) -> ModelError:
    return ModelError("MODEL_CASSETTE_MISS", f"Model `{model}` was not asked: {error}")


def _facts(error: pydantic_errors.ModelAPIError, exchange: Exchange) -> WireFacts:
    if isinstance(error, pydantic_errors.ModelConnectionError):
        return _facts_of_connection(error, exchange)
    status = error.status_code if isinstance(error, pydantic_errors.ModelHTTPError) else None
    headers = getattr(error, "headers", None) or {}
    return WireFacts(
        _said(error) if status is not None or error.body else _unreadable(error, exchange),
        status=status,
        code=error.provider_error_code or "",
        kind=error.provider_error_type or "",
        retry_after=retry_after(headers, SystemClock().wall()) if headers else seconds_of(error.retry_after),
        timeout=isinstance(error, pydantic_errors.ModelRequestTimeout),
        begun=exchange.first is not None or error.in_stream,
    )


def _facts_of_connection(error: pydantic_errors.ModelConnectionError, exchange: Exchange) -> WireFacts:
    cause = cause_of(error)
    if is_unreadable(error, exchange):
        return WireFacts(_unreadable(cause, exchange), begun=True)
    phases: dict[str | None, Phase] = {"pool": "connect", "connect": "connect", "write": "write"}
    return WireFacts(
        first_line(cause) or first_line(error),
        phase=phases.get(error.phase, "read"),
        timeout=isinstance(error, pydantic_errors.ModelTimeoutError),
        unresolved=isinstance(cause, socket.gaierror),
        begun=exchange.first is not None,
    )


def _unreadable(error: BaseException, exchange: Exchange) -> str:
    """What came in place of an answer, as far as it was seen, and else what is wrong with it."""
    why = first_line(error) or type(error).__name__
    if exchange.first is not None or not exchange.head:
        return why
    return f"it answered {exchange.head}: {exchange.beginning.decode('utf-8', 'replace') or 'nothing'} ({why})"


def _said(error: pydantic_errors.ModelAPIError) -> str:
    body = error.body
    for _ in range(2):
        if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | str):
            body = body["error"]
    if isinstance(body, Mapping) and isinstance(body.get("message"), str):
        return str(body["message"])
    return body if isinstance(body, str) else first_line(error)
