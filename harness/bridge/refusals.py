"""The codes of the bridge, those of its clients included, with what each means and what to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from harness.recovery.never_twice import WROTE

_WireSeverity = Literal["info", "warning", "error", "critical", "fatal"]


class WireCode(Struct, frozen=True):
    """One code that a message `error` or `connection_error` has, or that a client raises."""

    code: str
    severity: _WireSeverity
    """`fatal` ends the connection, and what it names is over; the others leave it as it is."""
    summary: str
    hint: str


WIRE_CODES: Final[Mapping[str, WireCode]] = {
    each.code: each
    for each in (
        WireCode("PROTO_INVALID_MESSAGE", "error", "Message validation failed",
                 "Mend every field of `violations` and send it again with a new id."),
        WireCode("PROTO_SEQUENCE_ERROR", "error", "The message may not come now",
                 "Send one of the types in `expected` first."),
        WireCode("PROTO_ID_REUSED", "error", "Another message had this id",
                 "Give every message a new id; only what is sent again unchanged keeps its own."),
        WireCode("PROTO_TOO_MANY_REFUSALS", "fatal", "Twenty messages in a row were refused",
                 "Look at the refusals before: the client does not follow docs/bridge.md."),
        WireCode("PROTO_NOT_OFFERED", "error", "This server does not offer it",
                 "Ask for another run: `.harness/events` has a file for each."),
        WireCode("AUTH_REQUIRED", "fatal", "There was no `auth` within the time for it",
                 "Send `auth` as the first message, with a token of the scope `agent`."),
        WireCode("AUTH_INVALID", "fatal", "The token is none of this project",
                 "Ask for a new one: `harness serve token --scope agent`."),
        WireCode("AUTH_EXPIRED", "fatal", "The token has expired",
                 "Ask for a new one: `harness serve token --scope agent`."),
        WireCode("AUTH_FORBIDDEN", "fatal", "The token does not allow this",
                 "A token of the scope `agent` takes tasks; one of the scope `view` only looks."),
        WireCode("SESS_NOT_FOUND", "error", "There is no such session",
                 "Check the session's id, or open a new session with `session_create`."),
        WireCode("SESS_CLOSED", "error", "The session is closed", "Open a new session with `session_create`."),
        WireCode("SESS_NOT_RESUMABLE", "error", "The session cannot go on",
                 f"It had a task, and {WROTE}: open a new session."),
        WireCode("SESS_TURN_OVER", "error", "The turn is over",
                 "The page may have changed: look at the newest `turn` or `outcome`, and act in its turn."),
        WireCode("SESS_NO_TASK", "error", "There is no task",
                 "Take one with `task_take`; a longer `wait_ms` waits for the next one."),
        WireCode("SESS_TASK_REFUSED", "error", "The task cannot be run as it is",
                 "Mend what the message names, and take the task again: its file is read anew each time."),
        WireCode("SESS_PAUSED", "error", "The session is paused", "Send `session_resume` first."),
        WireCode("SESS_NOT_PAUSABLE", "error", "The session cannot be paused now",
                 "Pause it between two turns: after an `outcome`, before the next `act`."),
        WireCode("SESS_BUSY", "error", "The session has a task already",
                 "End it with `finish`, or open a second session for a second task."),
        WireCode("SESS_LIMIT", "error", "There are as many sessions as may be", "Close one that is not needed."),
        WireCode("CONN_SUPERSEDED", "fatal", "A newer connection has joined the session",
                 "Nothing is lost: the newer connection has it all."),
        WireCode("CONN_SLOW_CONSUMER", "fatal", "The client does not read what it is sent",
                 "Join the session again: what was not read is replayed."),
        WireCode("CONN_NO_SERVER", "critical", "No server of the project offers tasks",
                 "Start a run that does: `pytest tasks/ --agent bridge`; then call again."),
        WireCode("CONN_TLS_HANDSHAKE_FAILED", "fatal", "The certificate of the server is not trusted",
                 "`details.reason` says why. Accept exactly one self-signed certificate with `pin=` of `Bridge` "
                 "(JavaScript: `{ pin }`)."),
        WireCode("CONN_NO_BRIDGE", "fatal", "The server has no bridge",
                 "Start a run that has one: `pytest tasks/ --agent bridge`, or `harness serve`."),
        WireCode("CONN_NO_WEBSOCKET", "fatal", "This JavaScript has no WebSocket",
                 "Use Node 22 or newer, or a browser."),
        WireCode("CONN_CONNECT_FAILED", "error", "There was no connection to the server",
                 "Check the address, and that the server runs; the client tries again after 1, 2, 5, 10 and 30 s."),
        WireCode("CONN_WEBSOCKET_CLOSED", "error", "The connection was closed",
                 "The client connects again and goes on by itself; nothing is lost within the grace of the session."),
        WireCode("CONN_RECONNECTION_EXHAUSTED", "fatal", "No attempt to connect again worked",
                 "The session may live on at the server: join it with its id, `session=` of `Bridge`."),
        WireCode("CONN_CIRCUIT_OPEN", "error", "Too many attempts in a row failed, so none is made for a while",
                 "The message says when one is made again; check that the server runs."),
        WireCode("CONN_QUEUE_FULL", "error", "Too many messages wait for an answer of the server",
                 "Wait for answers before you send more; 1,000 messages or 1 MiB may wait."),
        WireCode("CONN_CLOSED", "error", "The bridge was closed while a call waited",
                 "Open a new bridge; join the session with its id if its task is to go on."),
        WireCode("CONN_FAILED", "critical", "The client has made a mistake",
                 "Open a new bridge with the session's id, and report the message."),
        WireCode("SESS_NO_BLOB", "error", "The server does not give what the answer refers to",
                 "Observe again: pictures and long texts are kept only for a while."),
        WireCode("HOOK_VALIDATION_FAILED", "warning", "The hook event is not as it should be",
                 "Mend every field of `errors`."),
        WireCode("SYS_INTERNAL_ERROR", "critical", "The server has made a mistake",
                 "Send the message again with the same id; report it with the run's events."),
        WireCode("SYS_STOPPING", "fatal", "The server ends", "The run is over, or was ended."),
    )
}  # fmt: skip


class RefusedMessageError(Exception):
    """A message that is refused."""

    def __init__(self, code: str, message: str = "", **details: Any) -> None:
        super().__init__(message or WIRE_CODES[code].summary)
        self.code = code
        self.details = details

    @property
    def payload(self) -> dict[str, Any]:
        """What the message `error` carries."""
        row = WIRE_CODES[self.code]
        return {"code": self.code, "message": str(self), "severity": row.severity, "hint": row.hint, **self.details}


def no_session(session: str) -> RefusedMessageError:
    """The refusal of a message to a session that there is not."""
    ways = ["Check session ID spelling", "Session may have expired", "Use GET /sessions to list active sessions"]
    return RefusedMessageError("SESS_NOT_FOUND", f"Session '{session[:100]}' not found", suggestions=ways)
