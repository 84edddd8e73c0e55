"""How a connection, a message or an agent's work with the bridge can fail, as the client's caller sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class BridgeError(Exception):
    """Something at the bridge failed. `code` is one of the codes of docs/bridge.md."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(code, message, details)
        self.code = code
        self.message = message
        self.details = dict(details or {})

    def __str__(self) -> str:
        violations = self.details.get("violations")  # what is wrong with a message that breaks rules
        rows = [each for each in violations if isinstance(each, Mapping)] if isinstance(violations, list) else []
        told = ", ".join(f"{each.get('field')} ({each.get('constraint')})" for each in rows)
        return ": ".join((self.code, self.message, *([told] if told else [])))


class LinkLost(BridgeError):  # noqa: N818 - it names what happened
    """The connection is gone, or there was none; another attempt may succeed."""

    def __init__(self, code: str, message: str, *, at_once: bool = False) -> None:
        """`at_once`: another attempt at once is worth it, since the loss showed itself quickly."""
        super().__init__(code, message)
        self.at_once = at_once


class ConnectionRefusedForGood(BridgeError):  # noqa: N818 - the name says that no attempt follows
    """The server or its certificate is refused, or the server refuses this client: trying again would not help."""

    @property
    def document(self) -> dict[str, Any]:
        """The message `connection_error` of this refusal."""
        payload = {"code": self.code, "message": self.message, "details": self.details, "recoverable": False}
        return {"type": "connection_error", "payload": payload}


class ReconnectionExhausted(BridgeError):  # noqa: N818 - the name of the specification
    """Every attempt to connect failed. The session may live on at the server: `Bridge(..., session=ID)` joins it."""


class MessageRefusedError(BridgeError):
    """The server refuses a message, or the work that it asked for failed; the connection goes on."""


class QueueFullError(BridgeError):
    """More messages wait for the connection than the client keeps."""


def refusal(payload: Mapping[str, Any], joining: bool = False) -> BridgeError:
    """The error of an `error` or `connection_error` of the server.

    `joining`: it answers the messages by which a connection begins; the same messages would be refused again.
    """
    code = str(payload.get("code", "SYS_INTERNAL_ERROR"))
    message = str(payload.get("message", "the server gives no reason"))
    known, more = ("code", "message", "recoverable", "details"), payload.get("details")
    details = {name: value for name, value in payload.items() if name not in known}
    details |= more if isinstance(more, Mapping) else {}
    final = joining or payload.get("recoverable") is False or code.startswith("AUTH_") or code == "CONN_SUPERSEDED"
    return (ConnectionRefusedForGood if final else MessageRefusedError)(code, message, details)
