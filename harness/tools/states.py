"""The states of a tool server, as a table: what is noticed of it moves it from one to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from harness.model.tools import ToolState
from harness.resilience import Clock
from harness.resilience.events import Emit, InvariantBroken, ToolServerChanged


class Sign(StrEnum):
    """What is noticed of a server."""

    SOUGHT = "sought"
    """A call connects to it; a look does so silently."""
    CONNECTED = "connected"
    ANSWERED = "answered"
    """A call or a look was answered as the protocol demands, also by a refusal of the call."""
    DROPPED = "dropped"
    """Its connection is lost, and a call that is under way connects anew."""
    LOST = "lost"
    """It cannot be reached, or its connection is lost, and nobody tries again now."""
    CRASHED = "crashed"
    """Its process died, or could not be started."""
    CRASHED_TOO_OFTEN = "crashed_too_often"
    REFUSED = "refused"
    """It does not accept the credentials."""
    GARBLED = "garbled"
    """It answers, but not as the protocol demands."""
    ORDERED = "ordered"
    """A person has ordered its restart."""
    CLOSED = "closed"
    """The run, or the task that it belongs to, ends."""


_S = ToolState
_FOUND_BAD: Final = {
    Sign.DROPPED: _S.CONNECTING,
    Sign.LOST: _S.OFFLINE,
    Sign.CRASHED: _S.RESTARTING,
    Sign.CRASHED_TOO_OFTEN: _S.PERMANENTLY_FAILED,
    Sign.REFUSED: _S.REQUIRES_REAUTH,
    Sign.GARBLED: _S.ERROR,
}
"""Where each bad sign leads while the server is in use."""
_BY_PEOPLE: Final = {Sign.ORDERED: _S.CONNECTING, Sign.CLOSED: _S.STOPPED}
_LATE: Final = (*_FOUND_BAD, Sign.ANSWERED)
"""What calls that were under way may still bring when nothing is tried any more."""
_IN_USE: Final = {**_FOUND_BAD, **_BY_PEOPLE, Sign.ANSWERED: _S.ONLINE}
TRANSITIONS: Final[Mapping[ToolState, Mapping[Sign, ToolState]]] = {
    _S.UNKNOWN: {Sign.SOUGHT: _S.CONNECTING, Sign.ORDERED: _S.UNKNOWN, Sign.CLOSED: _S.STOPPED},
    _S.CONNECTING: {**_FOUND_BAD, **_BY_PEOPLE, Sign.SOUGHT: _S.CONNECTING, Sign.CONNECTED: _S.ONLINE},
    _S.ONLINE: _IN_USE,
    _S.OFFLINE: {**_IN_USE, Sign.SOUGHT: _S.CONNECTING, Sign.CONNECTED: _S.ONLINE},
    _S.ERROR: {**_IN_USE, Sign.SOUGHT: _S.CONNECTING, Sign.CONNECTED: _S.ONLINE},
    _S.RESTARTING: {**_FOUND_BAD, **_BY_PEOPLE, Sign.SOUGHT: _S.RESTARTING, Sign.CONNECTED: _S.ONLINE},
    _S.REQUIRES_REAUTH: {**dict.fromkeys(_LATE, _S.REQUIRES_REAUTH), **_BY_PEOPLE},
    _S.PERMANENTLY_FAILED: {**dict.fromkeys(_LATE, _S.PERMANENTLY_FAILED), **_BY_PEOPLE},
    _S.STOPPED: dict.fromkeys((*_LATE, Sign.ORDERED, Sign.CLOSED), _S.STOPPED),
}
"""State -> sign -> the state that follows. A sign that the table lacks is a defect: reported as an InvariantBroken."""
PERMANENT: Final = frozenset({_S.REQUIRES_REAUTH, _S.PERMANENTLY_FAILED, _S.STOPPED})
"""The states that only a person, or nobody, ends: a call is answered at once."""


class ToolPhase:
    """The state of a server; each change is emitted, with a short reason (`crash_1`, `connected`)."""

    def __init__(self, server: str, clock: Clock, emit: Emit, changed: Callable[[], None]) -> None:
        """`changed` is called after each change."""
        self._server = server
        self._clock = clock
        self._emit = emit
        self._changed = changed
        self.state = ToolState.UNKNOWN
        self.reason = ""
        self.since: datetime = clock.wall()

    @property
    def permanent(self) -> bool:
        return self.state in PERMANENT

    def note(self, sign: Sign, reason: str = "") -> None:
        """Go where the sign leads. `reason`: in words or short; default: the sign itself."""
        before, after = self.state, TRANSITIONS[self.state].get(sign)
        if after is None:
            states = {"server": self._server, "state": before.value, "sign": sign.value, "reason": reason}
            self._emit(InvariantBroken("tool server: a sign that its state does not know", states))
            return
        if after is before:
            if sign is Sign.CRASHED:
                self.reason = reason
                self._changed()
            return
        self.state, self.reason, self.since = after, reason or sign.value, self._clock.wall()
        self._emit(ToolServerChanged(self._server, before.value, after.value, self.reason))
        self._changed()
