"""Names the errors of the client of MCP as the harness does: the table of docs/design/tools.md."""

from __future__ import annotations

import re
from typing import Final

import anyio
import mcp_types as protocol
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from harness.tools.exchange import Link, SentCall, ToolProblem, ToolServerError

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
