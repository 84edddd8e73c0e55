"""A bridge without sockets: clients whose messages are kept, and a run that does what an agent says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

from harness.bridge.hub import BridgeHub
from harness.bridge.protocol import ClientConnection
from harness.bridge.session import BridgeLimits
from harness.bridge.turns import Desk, RemoteRules
from harness.model.plan import Plan
from harness.model.ports import Observation, Resume
from harness.model.record import Attempt, Passed, StepRecord, TaskEnding
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Wait
from tests.unit.resilience.virtual import LoopClock

MOMENT = "2026-11-25T10:00:00+00:00"
GOOD = "agent.good"


def make_hub(**more: Any) -> BridgeHub:
    rules = RemoteRules(**{name: more.pop(name) for name in ("timeout", "wait", "reveal") if name in more})
    return BridgeHub(LoopClock(), Desk(("click", "open")), BridgeLimits(**more), rules)


def admit(token: str) -> tuple[str, str] | None:
    return {GOOD: None, "agent.old": ("AUTH_EXPIRED", "it has expired"), "view": ("AUTH_FORBIDDEN", "only looks")}.get(
        token, ("AUTH_INVALID", "unknown")
    )


def message(type: str, id: str = "", **payload: Any) -> dict[str, Any]:  # noqa: A002
    return {"type": type, "id": id or str(uuid4()), "timestamp": MOMENT, "payload": payload}


class FakeClient:
    """One connection of a client; `heard` has what the server sent on it."""

    def __init__(self, hub: BridgeHub) -> None:
        self.heard: list[dict[str, Any]] = []
        self.ended = ""
        self.hub = hub
        self.connection = ClientConnection(hub, self, admit)

    # What the server does with it.

    def send(self, sent: Mapping[str, Any]) -> None:
        if not self.ended:
            self.heard.append(json.loads(json.dumps(sent)))

    def cut(self, code: str) -> None:
        self.ended = self.ended or code

    # What a test does with it.

    def say(self, type: str, id: str = "", **payload: Any) -> str:  # noqa: A002
        sent = message(type, id, **payload)
        self.connection.take(json.dumps(sent))
        return str(sent["id"])

    async def ask(self, type: str, id: str = "", **payload: Any) -> dict[str, Any]:  # noqa: A002
        """The final answer."""
        number = self.say(type, id, **payload)
        return await self.answer(number)

    async def answer(self, number: str) -> dict[str, Any]:
        for _ in range(20_000):
            for each in self.heard:
                if each["id"] == number and each["type"] != "pending":
                    return each
            await asyncio.sleep(0.01)
        raise AssertionError(f"no answer: {self.heard}")

    def answers(self, number: str) -> list[dict[str, Any]]:
        return [each for each in self.heard if each["id"] == number]

    def joins(self, session: str = "", **more: Any) -> str:
        """Authenticate, and open or join a session; returns its id."""
        self.say("auth", token=GOOD, client="fake 1")
        number = self.say("session_join", session=session, **more) if session else self.say("session_create")
        return str(self.answers(number)[0]["payload"].get("session", ""))

    def drop(self, *, broken: bool = False) -> None:
        self.ended = "dropped"
        self.connection.lost(broken=broken)


class FakeRun:
    """A run with one task, which does what the agent says: `done` has the steps, `ended` how it ended."""

    def __init__(self, hub: BridgeHub, task_id: str = "BUY", takes: float = 0.0, timeout: float = 300.0) -> None:
        self.done: list[Any] = []
        self.ended = ""
        self.why = ""
        self.looks = self.closes = 0.0
        """Seconds that a look at the page takes, and that closing it takes."""
        self.sees: Observation | None = None
        self.shown = True
        """Whether the pages are open."""
        self.differs: tuple[str, ...] = ()
        self.fails: Failure | None = None
        self._hub = hub
        self._takes = takes
        spec = SimpleNamespace(goal="buy a mouse", inputs={"sku": "WM"})
        self.plan = cast(
            "Plan",
            SimpleNamespace(key=task_id, task_id=task_id, spec=spec, timeout=timeout, secrets=(), agent="bridge"),
        )

    async def suspend(self) -> Resume:
        """Close the page; what it is shown with again differs by `differs`, or fails while `fails` is set."""
        await asyncio.sleep(self.closes)
        self.shown = False

        async def resume() -> tuple[str, ...]:
            await asyncio.sleep(0)
            if self.fails is not None:
                raise Failed(self.fails)
            self.shown = True
            return self.differs

        return resume

    async def __call__(self, *, screenshot: bool = False) -> Observation:
        await asyncio.sleep(self.looks)
        if self.sees is not None:
            return self.sees
        return Observation("http://shop.local/", "Shop", "- button", screenshot=b"png" if screenshot else None)

    async def play(self) -> None:
        agent = self._hub.agent()
        history: tuple[Any, ...] = ()
        verdict = None
        try:
            while (step := await agent.propose(self.plan, history, self)) is not None:
                self.done.append(step)
                await asyncio.sleep(self._takes)
                failure = Failure("ELEMENT_NOT_FOUND", "no such button") if step.get("fails") else None
                history = (*history, record_of(len(history), failure))
            self.ended = "finished"
            verdict = TaskEnding("BUY", True, "completed", None)
        except Failed as failed:
            self.ended, self.why = failed.failure.code, failed.failure.message
            verdict = TaskEnding("BUY", False, "failed", failed.failure)
        finally:
            agent.end(verdict)


def record_of(index: int, failure: Failure | None) -> StepRecord:
    """The record of a step that passed, or failed."""
    step = Wait(act="wait", selector="#x")
    return StepRecord(index, step, (Attempt(step, 0.0, 0.1, datetime.now(UTC), failure or Passed()),))


async def taken(hub: BridgeHub, **more: Any) -> tuple[FakeClient, FakeRun, asyncio.Task[None], str]:
    """A client that has taken the task of a run: client, run, the run's task, the session."""
    client, run = FakeClient(hub), FakeRun(hub, **more)
    playing = asyncio.create_task(run.play())
    session = client.joins()
    assert (await client.ask("task_take"))["type"] == "turn"
    return client, run, playing, session


Check = Callable[[], None]
