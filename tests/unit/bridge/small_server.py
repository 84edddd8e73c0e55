"""A small server of the bridge, over messages.py: enough for a client to lose its connection at any message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.bridge.client.losses import BridgeError, LinkLost
from harness.bridge.messages import ClientMessage, read_message


@dataclass
class SmallServer:
    """One session, one task whose every step passes."""

    offers: int = 1
    epoch: str = "e1"
    seq: int = 0
    turn: int = 0
    done: list[dict[str, Any]] = field(default_factory=list)
    """The steps that were done."""
    came: list[tuple[str, str]] = field(default_factory=list)
    """Type and id of each message that came."""
    replies: dict[str, dict[str, Any]] = field(default_factory=dict)
    buffer: list[dict[str, Any]] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    complete: bool = True
    """Whether a replay has everything."""
    slow: int = 0
    """How many questions a slow act is pending for."""
    expires: bool = False
    refuses: dict[str, Any] | None = None
    """The refusal of `auth`."""

    def handle(self, text: str) -> list[dict[str, Any]]:
        """The answers to one message."""
        read = read_message(json.loads(text))
        assert isinstance(read, ClientMessage), read
        self.came.append((read.type, read.id))
        if read.id in self.replies:
            return [self.replies[read.id]]
        answer: Callable[[Any, str], tuple[str, dict[str, Any]] | None] = getattr(self, f"_{read.type}")
        found = answer(read.payload, read.id)
        if found is None:
            return []
        message = {"type": found[0], "id": read.id, "payload": found[1]}
        if read.type != "auth":
            message["epoch"] = self.epoch
        if read.type == "session_join" and found[0] != "error" and read.payload.epoch:  # type: ignore[attr-defined]
            replay = {"messages": [], "complete": self.complete, "lost": 0}
            if self.complete:
                replay["messages"] = [each for each in self.buffer if each["seq"] > read.payload.after]  # type: ignore[attr-defined]
            return [message, {**message, "type": "replay_buffer", "payload": replay}]
        if read.type in ("task_take", "observe", "act", "finish") and found[0] != "pending":
            return [self.tell(message)]
        return [message]

    def tell(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message of the session: numbered and kept for replays; an answer is kept by its id."""
        self.seq += 1
        message |= {"seq": self.seq, "epoch": self.epoch}
        self.buffer.append(message)
        self.replies[message["id"]] = message
        return message

    def _auth(self, _: Any, __: str) -> tuple[str, dict[str, Any]]:
        return ("error", self.refuses) if self.refuses else ("connection_ack", {})

    def _session_create(self, _: Any, __: str) -> tuple[str, dict[str, Any]]:
        self.sessions.add("s-1")
        return "session_state", {"session": "s-1", "state": "active"}

    def _session_join(self, payload: Any, _: str) -> tuple[str, dict[str, Any]]:
        if payload.session not in self.sessions:
            return "error", {"code": "SESS_NOT_FOUND", "message": f"Session '{payload.session}' not found"}
        turn = {"turn": self.turn, "task_id": "BUY-1", "goal": "Buy a mouse"} if self.turn else None
        return "session_state", {"session": payload.session, "state": "active", "seq": self.seq, "open_turn": turn}

    def _synchronize(self, _: Any, __: str) -> tuple[str, dict[str, Any]]:
        return "session_state", {"session": "s-1", "state": "active", "turn": self.turn, "synchronized": True}

    def _health_check(self, _: Any, __: str) -> tuple[str, dict[str, Any]]:
        return "health", {}

    def _task_take(self, _: Any, __: str) -> tuple[str, dict[str, Any]]:
        if not self.offers:
            return "error", {"code": "SESS_NO_TASK", "message": "no task is offered"}
        self.offers -= 1
        self.turn = 1
        return "turn", {"turn": 1, "task_id": "BUY-1", "goal": "Buy a mouse", "inputs": {"max": 30}}

    def _observe(self, _: Any, __: str) -> tuple[str, dict[str, Any]]:
        return "observation", {"url": "http://shop.local/", "title": "Shop", "aria": f"- heading {len(self.done)}"}

    def _act(self, payload: Any, number: str) -> tuple[str, dict[str, Any]]:
        if payload.turn != self.turn:
            return "error", {"code": "SESS_TURN_OVER", "message": "another turn"}
        self.done.append(payload.step)
        self.turn += 1
        outcome = "outcome", {"passed": True, "failure": None, "warnings": [], "turn": self.turn}
        if self.slow:
            self.late = {"type": outcome[0], "id": number, "payload": outcome[1]}
            return "pending", {"correlation_id": "act-1", "waited": 2, "poll_ms": 500}
        return outcome

    def _command_result(self, payload: Any, _: str) -> tuple[str, dict[str, Any]]:
        assert payload.correlation_id == "act-1"
        self.slow = max(0, self.slow - 1)
        pending = {"correlation_id": "act-1", "waited": 5, "poll_ms": 1000}
        if self.slow:
            return "pending", pending
        late = self.tell(self.late)
        return ("pending", pending | {"status": "expired"}) if self.expires else (late["type"], late["payload"])

    def _finish(self, payload: Any, _: str) -> tuple[str, dict[str, Any]]:
        return "task_ended", {"passed": not payload.gave_up, "code": "AGENT_GAVE_UP" if payload.gave_up else ""}

    def _session_close(self, _: Any, __: str) -> tuple[str, dict[str, Any]]:
        return "session_state", {"session": "s-1", "state": "closed"}

    def _hook_event(self, _: Any, __: str) -> tuple[str, dict[str, Any]]:
        return "hook_received", {"received": True}


@dataclass
class Network:
    """How connections to the server go: the first of `attempts` that is an error is raised, and used up."""

    server: SmallServer
    attempts: list[BridgeError] = field(default_factory=list)
    cuts: list[tuple[str, int]] = field(default_factory=list)
    """For each connection in turn: the direction and the number of the message with which it is cut."""
    opened: int = 0
    link: MemoryLink | None = None

    async def open(self) -> MemoryLink:
        """Open a connection, as `open_link` does."""
        await asyncio.sleep(0)
        if self.attempts:
            raise self.attempts.pop(0)
        self.opened += 1
        self.link = MemoryLink(self.server, self.cuts.pop(0) if self.cuts else None)
        return self.link


LOST = LinkLost("CONN_WEBSOCKET_CLOSED", "cut", at_once=True)


class MemoryLink:
    """A connection in memory. A cut loses the message with which it comes."""

    def __init__(self, server: SmallServer, cut: tuple[str, int] | None) -> None:
        self._server = server
        self._cut = cut
        self._count = {"client": 0, "server": 0}
        self._came: asyncio.Queue[str | None] = asyncio.Queue()
        self.lost = False

    def cut(self) -> None:
        """Lose the connection now."""
        self.lost = True
        self._came.put_nowait(None)

    def say(self, message: dict[str, Any]) -> None:
        """Send a message that nobody waits for."""
        self._came.put_nowait(json.dumps(message))

    def _cuts(self, direction: str) -> bool:
        self._count[direction] += 1
        if self._cut == (direction, self._count[direction]):
            self.cut()
        return self.lost

    async def send(self, text: str) -> None:
        await asyncio.sleep(0)
        if self.lost:
            raise LOST
        if self._cuts("client"):
            return
        for each in self._server.handle(text):
            if not self._cuts("server"):
                self._came.put_nowait(json.dumps(each))

    async def receive(self) -> str:
        text = await self._came.get()
        if text is None:
            self._came.put_nowait(None)
            raise LOST
        return text

    async def close(self) -> None:
        self.cut()
