"""Serves agents that run elsewhere, in the process and on the loop of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from harness.bridge.http_face import http_routes
from harness.bridge.hub import BridgeHub, HubAgent
from harness.bridge.mcp_face import mcp_routes
from harness.bridge.session import BridgeLimits
from harness.bridge.store import SessionStore
from harness.bridge.turns import Desk, RemoteRules
from harness.bridge.websocket_face import websocket_routes
from harness.model.agent_settings import AgentSettings
from harness.model.plan import Plan
from harness.model.ports import Ports
from harness.model.settings import Settings
from harness.reporting.live.following import EventLines, Followers, runs_with_events
from harness.reporting.redaction import Redactor
from harness.resilience import Clock
from harness.resilience.events import Emit
from harness.serve.address import BRIDGE as ADDRESS_FILE
from harness.serve.edges import SCOPE
from harness.serve.server import LOOPBACK, CannotListenError, ProjectServer, bind
from harness.serve.tokens import RefusedTokenError, Tokens, TokenScope
from harness.spec.agents import BRIDGE
from harness.spec.validation import ACTS

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

_VALID: Final = timedelta(hours=24)
"""How long the token that a run prints is valid."""
_ENDED_WITHIN: Final = 3.0
"""Seconds that the server may take to end."""


class BridgeAddress(Struct, frozen=True):
    """Where agents connect."""

    url: str
    token: str
    note: str = ""
    """What else a person should know."""


class ServesAgents(Protocol):
    """What a run has of a bridge: its own (`BridgeHost`), or a place in that of a server."""

    def agent(self) -> HubAgent:
        """The agent `bridge` of one run of a task."""

    def joined(self, ports: Ports) -> Ports:
        """The ports of a task, together with what passes between it and its session."""

    async def close(self) -> None:
        """End what belongs to the run. Bounded."""


class BridgeHost:
    """The bridge of one run or server, and the run's server (`ServesAgents`)."""

    def __init__(
        self, settings: Settings, clock: Clock, emit: Emit, wait: float, redactor: Redactor | None = None
    ) -> None:
        """`wait`: seconds that a task waits for an agent; `redactor`: of the run.

        Raises OSError if the key of tokens cannot be used.
        """
        self._settings = settings
        self._clock = clock
        self._tokens = Tokens.of(settings.root)
        own = settings.agents.get(BRIDGE, AgentSettings())
        rules = RemoteRules(own.timeout, wait, bool(own.options.get("reveal", True)))
        self.redactors = [redactor or Redactor.of(settings)]
        """The redactor of the host, and those of the runs that it serves, which learn secrets while they run."""
        desk = Desk(tuple(ACTS), self._redacted)
        store = SessionStore(settings.root)
        serve = settings.serve
        limits = BridgeLimits(serve.grace, serve.replay_bytes, serve.replay_seconds, serve.answer_ttl, serve.sessions)
        self.hub = BridgeHub(clock, desk, limits, rules, emit, store)
        self.note = store.note
        """What happened to a damaged file of sessions; empty if nothing did."""
        self._followers = Followers(settings.root)
        self._served: asyncio.Task[None] | None = None
        self._ending = False

    def _redacted(self, value: Any, plan: Plan) -> Any:
        for each in self.redactors:
            value = each.plus(plan.secrets).json(value)
        return value

    def agent(self) -> HubAgent:
        return self.hub.agent()

    def joined(self, ports: Ports) -> Ports:
        return self.hub.joined(ports)

    @property
    def routes(self) -> list[BaseRoute]:
        """All faces of the bridge, for a server with the edges of `harness.serve`."""
        return [
            *websocket_routes(self.hub, self.admit, self._follow),
            *http_routes(self.hub, _may_act),
            *mcp_routes(self.hub, _may_act),
        ]

    async def start(self, port: int) -> BridgeAddress:
        """Serve; 0 takes a free port. Raises ValueError if it is taken, and OSError if the address cannot be kept."""
        try:
            listener = bind(LOOPBACK, port)
        except CannotListenError as error:
            raise ValueError(f"--task-bridge-port: {error}") from error
        server = ProjectServer(self._settings.root, self.routes, self._clock, self._tokens)
        ready = asyncio.Event()
        running = server.run(listener, ready.set, lambda: not self._ending, inside=True, file=ADDRESS_FILE)
        self._served = asyncio.create_task(running)
        waits = asyncio.create_task(ready.wait())
        await asyncio.wait({waits, self._served}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        if self._served.done():
            self._served.result()
        token = self._tokens.issue(TokenScope.AGENT, self._clock.wall(), _VALID)
        return BridgeAddress(f"ws://{LOOPBACK}:{listener.getsockname()[1]}/bridge", token, self.note)

    def _follow(self, run: str, offset: int) -> tuple[str, AsyncIterator[EventLines | None]]:
        """The events of a run (websocket_face.FollowRun). Raises LookupError."""
        found = run or next(iter(runs_with_events(self._settings.root)), "")
        return found, self._followers.of(found).lines(offset)

    def admit(self, token: str) -> tuple[str, str] | None:
        """Why a token does not allow to take tasks (protocol.Admit)."""
        try:
            scope = self._tokens.check(token, self._clock.wall())
        except RefusedTokenError as error:
            return ("AUTH_EXPIRED" if error.expired else "AUTH_INVALID"), str(error)
        if scope < TokenScope.AGENT:
            return "AUTH_FORBIDDEN", "a token of the scope `view` only looks: `harness serve token --scope agent`"
        return None

    async def close(self, *, resumable: bool = False) -> None:
        """End the sessions and the server. Bounded. `resumable`: the next server may go on with the sessions."""
        await self.hub.stop(resumable=resumable)
        self._ending = True
        if self._served is not None:
            await asyncio.wait({self._served}, timeout=_ENDED_WITHIN)
            self._served.cancel()
            await asyncio.gather(self._served, return_exceptions=True)


def _may_act(scope: Any) -> bool:
    found = scope.get(SCOPE)
    return isinstance(found, TokenScope) and found >= TokenScope.AGENT
