"""One connection of a client: what it may say when, and what it is told when it says something else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from harness.bridge.hub import BridgeHub
from harness.bridge.messages import (
    LONGEST_MESSAGE,
    SEQUENCE,
    Auth,
    ClientMessage,
    Phase,
    SessionCreate,
    SessionJoin,
    Subscribe,
    Violation,
    read_message,
)
from harness.bridge.refusals import RefusedMessageError
from harness.bridge.session import BridgeSession, Outlet

REFUSALS: Final = 20
"""Refusals in a row that close the connection."""
AUTH_WITHIN: Final = 5.0
"""Seconds for the first message."""
Admit = Callable[[str], tuple[str, str] | None]
"""Checks a token: None if its user may take tasks, else the code and the message of the refusal."""


class ClientConnection:
    """Follows one connection through its phases. `outlet` sends; the faces read and call `take`."""

    def __init__(self, hub: BridgeHub, outlet: Outlet, admit: Admit) -> None:
        self._hub = hub
        self._outlet = outlet
        self._admit = admit
        self.phase = Phase.CONNECTED
        self.session: BridgeSession | None = None
        self.client = ""
        self.subscribed: Callable[[Subscribe, str], None] | None = None
        """Begins to send the records of a run; None: this face has none."""
        self._refused = 0

    def take(self, text: str | bytes) -> None:
        """Take in one message as it came. Whatever it is, the answer is a message, or the end of the connection."""
        try:
            self._take(_document(text))
            self._refused = 0
        except _InvalidError as invalid:
            self._refuse(invalid.refusal, invalid.id)
        except RefusedMessageError as refused:
            self._refuse(refused, "")

    def lost(self, *, broken: bool = False) -> None:
        """The connection is gone. `broken`: no side has closed it."""
        if self.session is not None:
            self.session.detach(self._outlet, broken=broken)

    def _refuse(self, refused: RefusedMessageError, id: str) -> None:  # noqa: A002
        self._refused += 1
        final = refused.code.startswith("AUTH_")
        kind = "connection_error" if final else "error"
        payload = {**refused.payload, "recoverable": False} if final else refused.payload
        self._say(kind, payload, id)
        if final:
            self._outlet.cut(refused.code)
        elif self._refused >= REFUSALS:
            self._outlet.cut("PROTO_TOO_MANY_REFUSALS")

    def _say(self, type: str, payload: Mapping[str, Any], id: str) -> None:  # noqa: A002
        envelope = self.session.envelope if self.session else BridgeSession(self._hub.clock, self._hub.limits).envelope
        more = {"epoch": self.session.buffer.epoch} if self.session else {}
        self._outlet.send({**envelope(type, payload, id), **more})

    def _take(self, document: Any) -> None:
        id = _id_of(document)  # noqa: A001
        found = read_message(document)
        if not isinstance(found, ClientMessage):
            raise _InvalidError(self._hub.hooks.invalid(document, found) or invalid(found), id)
        try:
            expected = SEQUENCE[self.phase]
            if found.type not in expected:
                raise RefusedMessageError(
                    "PROTO_SEQUENCE_ERROR",
                    f"`{found.type}` may not come in the phase `{self.phase}`",
                    expected=sorted(expected),
                    received=found.type,
                    currentPhase=str(self.phase),
                )
            self._do(found)
        except RefusedMessageError as refused:
            raise _InvalidError(refused, id) from None

    def _do(self, message: ClientMessage) -> None:
        match message.payload:
            case Auth() as hello:
                self._authenticate(hello, message.id)
            case SessionCreate() as wanted:
                self._joined(self._hub.create(wanted, self.client), message.id)
            case SessionJoin() as wanted:
                self._rejoin(wanted, message.id)
            case Subscribe() as wanted:
                if self.subscribed is None:
                    raise RefusedMessageError("PROTO_NOT_OFFERED", "this server shows no records of runs")
                self.subscribed(wanted, message.id)
            case _ if self.session is not None:
                self._hub.receive(self.session, message)
            case _:
                self._say("health", {"status": "ready"}, message.id)

    def _authenticate(self, hello: Auth, id: str) -> None:  # noqa: A002
        if (refusal := self._admit(hello.token)) is not None:
            raise RefusedMessageError(*refusal)
        self.client, self.phase = hello.client, Phase.ACKNOWLEDGED
        limits = self._hub.limits
        told = {"grace_ms": int(limits.grace * 1000), "replay_bytes": limits.replay_bytes, "ping_ms": 20_000}
        self._say("connection_ack", {"protocol": 1, "longest_message": LONGEST_MESSAGE, **told}, id)

    def _joined(self, session: BridgeSession, id: str) -> None:  # noqa: A002
        self.session, self.phase = session, Phase.JOINED
        session.client = self.client or session.client
        session.attach(self._outlet)
        session.tell("session_state", session.snapshot(), id)
        self._hub.desk.wake()

    def _rejoin(self, wanted: SessionJoin, id: str) -> None:  # noqa: A002
        session = self._hub.join(wanted)
        replay = self._hub.replay(session, wanted)
        self._joined(session, id)
        if wanted.after or wanted.epoch:
            session.tell("replay_buffer", replay.payload, id)


class _InvalidError(Exception):
    """A refused message, with its id."""

    def __init__(self, refusal: RefusedMessageError, id: str) -> None:  # noqa: A002
        super().__init__(str(refusal))
        self.refusal = refusal
        self.id = id


def invalid(violations: tuple[Violation, ...]) -> RefusedMessageError:
    """The refusal of a message that breaks rules, with all of them."""
    return RefusedMessageError("PROTO_INVALID_MESSAGE", violations=[msgspec.to_builtins(each) for each in violations])


def _document(text: str | bytes) -> Any:
    if len(text) > LONGEST_MESSAGE:
        why = Violation("", f"{LONGEST_MESSAGE} bytes at most", f"{len(text)} bytes")
        raise _InvalidError(invalid((why,)), "")
    try:
        return msgspec.json.decode(text)  # it refuses half characters and NaN, with which no answer could be sent
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        shown = text[:200] if isinstance(text, str) else f"{len(text)} bytes"
        shown = shown.encode("utf-8", "replace").decode()
        raise _InvalidError(invalid((Violation("", f"json: {str(error)[:100]}", shown),)), _id_in(text)) from None


def _id_in(text: str | bytes) -> str:
    """The id of a message that is refused whole, if a more generous reader finds one: its sender waits for it."""
    try:
        return _id_of(json.loads(text))
    except (ValueError, RecursionError):
        return ""


def _id_of(document: Any) -> str:
    found = document.get("id") if isinstance(document, dict) else None
    return found if isinstance(found, str) and len(found) <= 100 and found.isprintable() else ""
