"""Clients that only send requests: whether they count as being there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from harness.bridge.hub import BridgeHub
from harness.bridge.session import BridgeSession

THERE: Final = 60.0
"""Seconds after its last request for which such a client counts as being there."""


def be_there(hub: BridgeHub, session: BridgeSession) -> None:
    """Take a request for a sign that the client is there, unless a connection says so already."""
    if isinstance(session.outlet, RequestOutlet):
        session.outlet.linger()
    elif not session.attached and not session.over:
        outlet = RequestOutlet(session)
        session.attach(outlet)
        outlet.linger()
        hub.desk.wake()


class RequestOutlet:
    """What a session has in place of a connection: the client finds its messages in the answers to its requests."""

    def __init__(self, session: BridgeSession) -> None:
        self._session = session
        self._timer: asyncio.TimerHandle | None = None

    def send(self, message: Mapping[str, Any]) -> None:
        """Send nothing; the session keeps the message."""

    def cut(self, code: str) -> None:  # noqa: ARG002 - there is no connection that could be told
        """Count the client as gone no more by time: another connection has the session."""
        if self._timer is not None:
            self._timer.cancel()

    def linger(self) -> None:
        """Count the client as being there for a while from now on."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(THERE, self._session.detach, self)
