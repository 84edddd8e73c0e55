"""The client of MCP: how a connection is opened in the two eras of the protocol, what is asked, how answers are read.

It is imported at first use, because that takes more than half a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Self, cast

import anyio
import mcp_types as protocol
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from harness.model.tools import ToolAnswer, ToolDescription, ToolHints
from harness.tools.exchange import Link, SentCall, ServerInfo, Streams, ToolProblem, ToolServerError, current
from harness.tools.schemas import misfit
from harness.values import replace

logging.getLogger("mcp").addHandler(logging.NullHandler())  # what it logs without one is printed on the terminal
_MOST_PAGES: Final = 100
"""Pages of a list of tools that are read."""
_LISTEN_AGAIN: Final = 5.0
"""Seconds until a subscription that has ended is made again, at first; then twice as long each time."""
_LISTEN_SELDOM: Final = 60.0


class _Client(ClientSession):
    """The client of the library, which must not list the tools in the middle of a call: that could lose its answer."""

    outputs: Mapping[str, Mapping[str, Any] | None] = {}
    """Name of a listed tool -> the schema of its structured content."""

    async def validate_tool_result(self, name: str, result: protocol.CallToolResult) -> None:
        """Raises RuntimeError, as the library does, which has no limit for what a schema costs."""
        schema = self.outputs.get(name)
        if schema is None:
            return
        if "structured_content" not in result.model_fields_set:
            raise RuntimeError(f"tool {name} has an output schema, and has answered without structured content")
        if wrong := misfit(schema, result.structured_content):
            raise RuntimeError(f"the structured content of tool {name} does not fit its output schema: {wrong}")


@contextlib.asynccontextmanager
async def session_over(streams: Streams, changed: Callable[[], None]) -> AsyncIterator[McpSession]:
    """A session over the streams; `changed` is called when the server says that its tools have changed."""

    async def handle(message: IncomingMessage) -> None:
        if isinstance(message, protocol.ToolListChangedNotification):
            changed()

    received, sent = streams
    asked: dict[Any, SentCall] = {}
    watched = _IncomingMessages(received, asked), _OutgoingMessages(sent, asked)
    async with _Client(*watched, message_handler=handle, client_info=_OURSELVES) as client:
        session = McpSession(client, changed)
        try:
            yield session
        finally:
            await session.end()


class _McpStream:
    """One direction of the streams to a server, with the calls that its requests belong to."""

    def __init__(self, inner: Any, asked: dict[Any, SentCall]) -> None:
        self._inner, self._asked = inner, asked

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)


class _OutgoingMessages(_McpStream):
    """The stream of messages to the server; it notes which call each request belongs to."""

    async def send(self, item: SessionMessage) -> None:
        request, sending = item.message, current.get()
        if isinstance(request, protocol.JSONRPCRequest) and sending is not None:
            self._asked[request.id] = sending
        await self._inner.send(item)


class _IncomingMessages(_McpStream):
    """The stream of messages from the server; an error that answers a request is noted with its call."""

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._inner.receive()
        answer = None if isinstance(item, Exception) else item.message
        if isinstance(answer, protocol.JSONRPCResponse | protocol.JSONRPCError):
            sending = self._asked.pop(answer.id, None)
            if isinstance(answer, protocol.JSONRPCError) and sending is not None:
                sending.refusal = answer.error.code, answer.error.message
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


_OURSELVES = protocol.Implementation(name="pytest-taskspec", version="1")


class McpSession:
    """What the harness asks of a server. All methods but `end` raise the library's errors, or ToolServerError."""

    def __init__(self, client: _Client, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self._listening: asyncio.Task[None] | None = None
        self._demanding: set[str] = set()
        """Names of the listed tools that demand headers with a call."""

    async def introduce(self) -> ServerInfo:
        """Agree on a revision: the newest by `server/discover`, else by the handshake of the older ones."""
        try:
            await self._client.discover()
        except (MCPError, ValidationError, RuntimeError):  # it knows no `server/discover`, or no new revision
            await self._shake_hands()
        capabilities, said = self._client.server_capabilities, self._client.server_info
        tells = capabilities is not None and capabilities.tools is not None and capabilities.tools.list_changed
        if self._modern and tells:
            self._listening = asyncio.create_task(self._listen())
        version = self._client.protocol_version or ""
        return ServerInfo(said.name if said else "", said.version if said else "", version)

    async def _shake_hands(self) -> None:
        try:
            await self._client.initialize()
        except MCPError as error:
            if error.code != protocol.UNSUPPORTED_PROTOCOL_VERSION:
                raise
            await self._client.discover()  # a slow start: it has taken the first question after all

    @property
    def _modern(self) -> bool:
        return self._client.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def end(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait((self._listening,))

    async def _listen(self) -> None:
        """Hear of changed tools by a subscription, since the newer revisions send nothing unasked."""
        delay, again = _LISTEN_AGAIN, False
        while True:
            with contextlib.suppress(MCPError, SubscriptionLost, TimeoutError):
                async with listen(self._client, tools_list_changed=True) as events:
                    if again:
                        self._changed()  # what happened meanwhile is not told later
                    again = True
                    async for _ in events:
                        self._changed()
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LISTEN_SELDOM)

    async def list_tools(self) -> tuple[ToolDescription, ...]:
        """All tools, page by page."""
        tools: list[protocol.Tool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._client.list_tools(params=protocol.PaginatedRequestParams(cursor=cursor))
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                self._client.outputs = {tool.name: tool.output_schema for tool in tools}
                self._demanding = {tool.name for tool in tools if "x-mcp-header" in str(tool.input_schema)}
                return tuple(map(_described, tools))
        raise ToolServerError(ToolProblem.GARBLED, f"its list of tools has no end: {_MOST_PAGES} pages were read")

    async def look(self) -> None:
        """The cheapest question that servers of the revision answer."""
        if self._modern:
            await self._client.send_discover(self._client.protocol_version or LATEST_MODERN_VERSION)
        else:
            await self._client.list_tools()

    async def call(self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, str]) -> ToolAnswer:
        """Call a tool. One that demands headers which only its description tells is listed first, and called again."""
        began = asyncio.get_running_loop().time()
        try:
            answer = await self._call(tool, arguments, meta)
        except MCPError as error:
            if await self._lacked_headers(error, tool):
                answer = await self._call(tool, arguments, meta)
            elif (text := answered_error(error, current.get())) is not None:
                answer = ToolAnswer(text, is_error=True)
            else:
                raise
        if answer.is_error and (problem := refusal_in(answer.text, tool)) is not None:
            raise ToolServerError(problem, answer.text)
        return replace(answer, seconds=asyncio.get_running_loop().time() - began)

    async def _lacked_headers(self, error: MCPError, tool: str) -> bool:
        """Return whether a call was refused since it lacked headers that the client knows by now.

        Of a tool that demands none, this number too is the server's own: it is not called again.
        """
        if error.code != protocol.HEADER_MISMATCH or not self._modern:
            return False
        await self.list_tools()
        return tool in self._demanding

    async def _call(self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, str]) -> ToolAnswer:
        more = cast("protocol.RequestParamsMeta", dict(meta)) if meta else None
        result = await self._client.call_tool(tool, dict(arguments), meta=more, allow_input_required=True)
        if not isinstance(result, protocol.CallToolResult):
            return ToolAnswer(ASKS_FOR_INPUT, is_error=True)
        text = "\n".join(map(_text, result.content))
        return ToolAnswer(text, result.structured_content, bool(result.is_error))


def _described(tool: protocol.Tool) -> ToolDescription:
    hints = tool.annotations
    said = (
        ToolHints() if hints is None else ToolHints(hints.read_only_hint, hints.idempotent_hint, hints.destructive_hint)
    )
    return ToolDescription(tool.name, tool.description or tool.title or "", tool.input_schema, said)


def _text(part: protocol.ContentBlock) -> str:
    """The text of a part of an answer; one that is no text is named: `[image/png, 1234 bytes]`."""
    match part:
        case protocol.TextContent():
            return part.text
        case protocol.ImageContent() | protocol.AudioContent():
            return f"[{part.mime_type}, {_size(part.data)} bytes]"
        case protocol.EmbeddedResource(resource=protocol.TextResourceContents() as inner):
            return f"[{inner.uri}, {len(inner.text.encode())} bytes]"
        case protocol.EmbeddedResource(resource=protocol.BlobResourceContents() as inner):
            return f"[{inner.uri}, {_size(inner.blob)} bytes]"
        case protocol.ResourceLink():
            return f"[{part.uri}]"
        case _:
            return f"[{part.type}]"


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


# The errors of the client of MCP, by the harness's names (docs/design/tools.md).

ASKS_FOR_INPUT: Final = "it asks for input, which nobody can give here"
_NO_SUCH_TOOL: Final = re.compile(r"unknown tool|no such tool|tool\b.*\bnot found", re.IGNORECASE)
_STAND_INS: Final = ("Server returned an error response", "Not Found", "Session terminated")
"""The messages with which the library stands in for an HTTP status without an error of the protocol."""
_OF_THE_PROTOCOL: Final = {
    protocol.PARSE_ERROR,
    protocol.INVALID_REQUEST,
    protocol.METHOD_NOT_FOUND,
    protocol.INVALID_PARAMS,
}
"""Numbers of JSON-RPC itself: the request was wrong, or the answer. All others say what the tool has met."""
_WANTS_INPUT: Final = {protocol.MISSING_REQUIRED_CLIENT_CAPABILITY, protocol.URL_ELICITATION_REQUIRED}


def answered_error(error: MCPError, sending: SentCall | None) -> str | None:
    """The text of an error of the server's own: the tool failed, the connection is well; else None."""
    if sending is None or not sending.answered(error.code, error.message):
        return None
    if error.code in _OF_THE_PROTOCOL or error.message in _STAND_INS:
        return None
    return f"{ASKS_FOR_INPUT}: {error.message}" if error.code in _WANTS_INPUT else error.message


def refusal_in(text: str, tool: str) -> ToolProblem | None:
    """What an answer that says `is_error` refuses, since libraries put their refusals into answers; None: nothing."""
    name = re.escape(tool)
    said = rf"(MCP error -?\d+: )?(Unknown tool:? ?\W?{name}\W?|(No such tool|Tool):? \W?{name}\W?( not found)?)\.?"
    if re.fullmatch(said, text.strip(), re.IGNORECASE):
        return ToolProblem.UNKNOWN_TOOL
    return ToolProblem.INVALID_ARGUMENTS if text.startswith(f"MCP error {protocol.INVALID_PARAMS}: ") else None


def named(error: BaseException, sending: SentCall, link: Link) -> ToolServerError:
    """The error of a call, or of opening the connection, by its name."""
    if isinstance(error, BaseExceptionGroup):
        error = _leaf(error)
    if isinstance(error, ToolServerError):
        return error
    return sending.problem or _named(error, sending, link)


def _named(error: BaseException, sending: SentCall, link: Link) -> ToolServerError:
    match error:
        case MCPError():
            return _refused(error, sending, link)
        case ValidationError():
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            return _garbled(f"its answer is not what MCP demands: {where}: {first['msg']}")
        case RuntimeError():  # the library's word for an answer that does not fit the tool's own schema
            return _garbled(str(error))
        case anyio.ClosedResourceError() | anyio.BrokenResourceError():
            return link.lost(sent=sending.sent)
        case _:
            problem = ToolProblem.LOST if sending.sent else ToolProblem.UNREACHED
            return ToolServerError(problem, f"{type(error).__name__}: {error}", died=link.died)


def _garbled(message: str) -> ToolServerError:
    return ToolServerError(ToolProblem.GARBLED, message)


def _leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to tell: ours if there is one, else the first."""
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves.append(_leaf(error) if isinstance(error, BaseExceptionGroup) else error)
    return next((error for error in leaves if isinstance(error, ToolServerError)), leaves[0])


def _refused(error: MCPError, sending: SentCall, link: Link) -> ToolServerError:
    made_here = not sending.answered(error.code, error.message)
    if made_here and error.code == protocol.CONNECTION_CLOSED:
        return link.lost(sent=sending.sent)
    if made_here and error.code == protocol.REQUEST_TIMEOUT:
        return ToolServerError(ToolProblem.SLOW, error.message, died=link.died)
    if error.code == protocol.INVALID_PARAMS:
        unknown = _NO_SUCH_TOOL.search(error.message) is not None
        return ToolServerError(ToolProblem.UNKNOWN_TOOL if unknown else ToolProblem.INVALID_ARGUMENTS, error.message)
    return _garbled(f"it answers with error {error.code}: {error.message}")
