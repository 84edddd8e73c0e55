"""A tool server by a script, under virtual time: what it does at each connection, list, look and call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.model.events import Event
from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.model.tool_settings import ToolServerSettings
from harness.model.tools import ToolAnswer, ToolDescription, ToolHints, ToolRequest
from harness.recovery.failure import Failed, Failure
from harness.runner.compile import compile_plan
from harness.spec.task import TaskSpec
from harness.tools.box import BoxTerms, TaskToolBox
from harness.tools.exchange import Connection, ConnectionEvents, ServerDied, ServerInfo, ToolProblem, ToolServerError
from harness.tools.server import ServerTerms, ToolServer
from tests.unit.resilience.virtual import LoopClock, Story, now

GET = ToolDescription("get_order", hints=ToolHints(read_only=True))
SET = ToolDescription("set_order", hints=ToolHints(idempotent=True))
PLACE = ToolDescription(
    "place_order",
    parameters={"type": "object", "properties": {"items": {"type": "array", "items": {"type": "integer"}}}},
)
TOOLS = (GET, SET, PLACE)
NAMES = {"read": "get_order", "idempotent": "set_order", "write": "place_order"}
CALL_SECONDS = 0.001


def problem(kind: ToolProblem, *, retry_after: float | None = None, died: ServerDied | None = None) -> ToolServerError:
    return ToolServerError(kind, f"it is {kind.value}", retry_after=retry_after, died=died)


@dataclass
class World:
    """What the server does. Each script is a list whose last entry stays; an exception is raised, else it is done."""

    opens: list[Any] = field(default_factory=lambda: [None])
    lists: list[Any] = field(default_factory=lambda: [TOOLS])
    """Tuples of tools, exceptions, or numbers of seconds after which TOOLS are listed."""
    looks: list[Any] = field(default_factory=lambda: [None])
    calls: list[Any] = field(default_factory=lambda: [None])
    """None: it answers; a number: it answers after so many seconds."""
    log: list[tuple[str, float]] = field(default_factory=list)
    """What reached the server, and when."""
    effects: int = 0
    """Calls that took effect, or may have."""
    connections: list[ScriptedConnection] = field(default_factory=list)
    closed: int = 0

    def next(self, script: str) -> Any:
        self.log.append((script, round(now(), 6)))
        steps: list[Any] = getattr(self, script)
        return steps.pop(0) if len(steps) > 1 else steps[0]

    def times(self, script: str) -> list[float]:
        return [at for what, at in self.log if what == script]

    def count(self, script: str) -> int:
        return len(self.times(script))


class ScriptedConnection:
    """exchange.Connection."""

    def __init__(self, world: World, events: ConnectionEvents) -> None:
        self.world = world
        self.events = events
        self.died: ServerDied | None = None
        self.ended = asyncio.Event()
        self.pid: int | None = 100 + len(world.connections)
        world.connections.append(self)

    async def open(self, within: float) -> ServerInfo:
        await self._do("opens", within)
        return ServerInfo("shop", "1.0", "2026-07-28")

    async def list_tools(self, within: float) -> tuple[ToolDescription, ...]:
        done = await self._do("lists", within)
        return done if isinstance(done, tuple) else TOOLS

    async def look(self, within: float) -> None:
        await self._do("looks", within)

    async def call(self, tool: str, arguments: Mapping[str, Any], within: float, meta: Mapping[str, str]) -> ToolAnswer:
        step = self.world.next("calls")
        acts = not isinstance(step, ToolServerError) or step.problem in (ToolProblem.LOST, ToolProblem.SLOW)
        self.world.effects += acts
        done = await self._wait(step if step is not None else CALL_SECONDS, within)
        return done if isinstance(done, ToolAnswer) else ToolAnswer("done", {"tool": tool, "meta": dict(meta)})

    async def _do(self, script: str, within: float) -> Any:
        return await self._wait(self.world.next(script), within)

    async def _wait(self, step: Any, within: float) -> Any:
        if isinstance(step, BaseException):
            raise step
        if not isinstance(step, int | float):
            return step
        try:
            async with asyncio.timeout(min(step, within)):
                await self.ended.wait()
            raise problem(ToolProblem.LOST, died=self.died)
        except TimeoutError:
            if step > within:
                raise problem(ToolProblem.SLOW) from None
        return step

    def die(self, *, intended: bool = False) -> None:
        """The process ends by itself."""
        self.died = ServerDied(3, "Traceback: boom", intended)
        self.ended.set()
        self.events.lost(problem(ToolProblem.LOST, died=self.died))

    async def close(self) -> None:
        await asyncio.sleep(4)
        self.ended.set()
        self.world.closed += 1


STDIO = ToolServerSettings(command=("shop",))
HTTP = ToolServerSettings(url="http://shop.local/mcp")


@dataclass
class Shop:
    """One server, its world, and what was told."""

    settings: ToolServerSettings = STDIO
    world: World = field(default_factory=World)
    recovered: int = 0
    ordered: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.story = Story()
        self.server = ToolServer(
            "shop",
            self.settings,
            ServerTerms(
                LoopClock(), self.story, self._connect, self._recover, lambda _: None,
                lambda: bool(self.ordered and self.ordered.pop()),
            ),
        )  # fmt: skip

    async def _connect(self, events: ConnectionEvents) -> Connection:
        return ScriptedConnection(self.world, events)

    async def _recover(self) -> None:
        self.recovered += 1

    @property
    def states(self) -> list[str]:
        """The states after `unknown`, in order."""
        return [getattr(event, "after", f"defect: {event}") for event in self.story.events]

    def box(self, plan: Plan | None = None, events: Callable[[Event], None] = lambda _: None) -> TaskToolBox:
        terms = BoxTerms(LoopClock(), events, {"world": "w1"})
        return TaskToolBox(plan or PLAN, {"shop": self.settings}, lambda _: self.server, terms)

    async def call(self, effect: str = "read", within: float = 60.0, **arguments: Any) -> ToolAnswer | Failure:
        """A call of the tool with this effect by a task of its own; a failure is returned."""
        return await called(self.box(), request(effect, **arguments), within)


def request(effect: Any = "read", tool: str = "", **arguments: Any) -> ToolRequest:
    return ToolRequest("shop", tool or NAMES[effect], arguments, effect, step=0)


async def called(box: TaskToolBox, asked: ToolRequest, within: float = 60.0) -> ToolAnswer | Failure:
    try:
        return await box.call(asked, within)
    except Failed as failed:
        return failed.failure


def plan_with(**keys: Any) -> Plan:
    spec = {"task_id": "t1", "description": "Buy", "steps": [{"act": "open", "url": "http://shop.local/"}], **keys}
    return compile_plan(TaskSpec.model_validate(spec), settings=Settings(), run_id="r1")


PLAN = plan_with()
