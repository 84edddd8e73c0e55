"""Stand-ins for the ports: a clock that jumps, a session that follows a script."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from harness.agents.registry import ScriptedAgent
from harness.criteria.syntax import PageQuery, Selected
from harness.engine import run_task
from harness.model.dialogs import MetDialog
from harness.model.events import Event
from harness.model.inference import ModelCall
from harness.model.policy import UNLIMITED, AgentPolicy
from harness.model.ports import Evidence, Observation, Ports, Snapshot, Stage, WorldCheckpoint
from harness.model.record import ConsoleLine, MetFault, MetRoute, PageRequest, Sent, TaskResult
from harness.model.report import ErrorReport
from harness.model.settings import Settings
from harness.model.tools import OfferedTool, ToolAnswer, ToolCall, ToolOutcome, ToolRequest
from harness.recovery import Capture
from harness.recovery.failure import Failed, Failure, Outcome, Passed
from harness.runner.compile import compile_plan
from harness.spec.step_base import EffectClass
from harness.spec.steps import Tool
from harness.spec.task import TaskSpec

START = datetime(2025, 11, 16, 9, tzinfo=UTC)


class FakeClock:
    """Sleeping takes no time and moves the clock."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.time)

    async def sleep(self, seconds: float) -> None:
        self.time += max(0.0, seconds)


Reply = Outcome | Callable[[Any], Outcome]


def sending(*sent: Sent, outcome: Outcome | None = None) -> Reply:
    """A scripted act by which requests leave the page."""

    def act(session: FakeSession) -> Outcome:
        session.sending += sent
        for each in sent:
            if each.unsafe:
                session.heard(each)
        return outcome or Passed()

    act.of_session = True  # type: ignore[attr-defined]
    return act


def post(url: str = "http://shop.local/order", *, page: bool = False) -> Sent:
    return Sent("POST", url, page=page)


def document(url: str, *, follows: bool = False) -> Sent:
    return Sent("GET", url, page=True, follows=follows)


@dataclass
class FakeSession:
    """`script` holds the outcomes of successive acts; an `element_not_found` takes the patience it was given."""

    clock: FakeClock
    script: list[Any] = field(default_factory=list)
    page: dict[str, Any] = field(default_factory=dict)
    """"function selector" -> value, or a callable of the clock's time."""
    acts: list[tuple[float, Any, float, float]] = field(default_factory=list)
    closed: bool = False
    recording: bool = False
    renewed: int = 0
    wanted: Capture | None = None
    looked_at: tuple[Selected, ...] = ()
    looked: Mapping[Selected, bool] = field(default_factory=dict)
    url: str | None = "http://shop.local/"
    files: tuple[Path, ...] = ()
    requests: int = 0
    exchanged: tuple[PageRequest, ...] = ()
    routes: tuple[MetRoute, ...] = ()
    dialogs: tuple[MetDialog, ...] = ()
    closed_pages: tuple[Mapping[str, str], ...] = ()
    missing: list[Failure] = field(default_factory=list)
    """The failures of declared dialogs that did not come, one after the other."""
    begun: list[int] = field(default_factory=list)
    """The steps that have begun."""
    permissions: list[Any] = field(default_factory=list)
    """What the steps may send, as they began."""
    saved: list[float] = field(default_factory=list)
    restored: list[tuple[Any, bool]] = field(default_factory=list)
    restoring: Any = ()
    """What `restore` answers: differences, or a Failure; of a list, one after the other."""
    saving: Failure | None = None
    leaving: Failure | None = None
    left: tuple[float, bool] | None = None
    """How long the reading of the storage at the end might take, and whether a page may hold it up."""
    sending: list[Any] = field(default_factory=list)
    """What leaves the pages: a list of Sent for each time that it is asked for."""
    late: list[Any] = field(default_factory=list)
    """What leaves only when the pages are stopped."""
    parting: list[Any] = field(default_factory=list)
    """What leaves although they are stopped, before others take their place or the session ends."""
    holds: int = 0
    """How many times the pages were stopped from sending."""
    tells: bool = True
    """Whether the pages tell what they have sent."""
    unfilled: list[str | None] = field(default_factory=list)
    """Why no field must be filled again, at each restoration."""
    renewed_at: tuple[str, ...] = ()
    barred: list[str | None] = field(default_factory=list)
    """Why an address must not be asked for again, at each renewal."""
    looks: list[bytes | Failure] = field(default_factory=list)
    """What the element looks like, at each screenshot; the last one stays."""
    pictures: Path = Path("scratch/comparisons")
    platform: str = "linux"

    async def picture(self, step: Any, patience: float, within: float) -> bytes | Failure:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    locale, user = None, ""

    def act_as(self, user: str | None) -> str | None:
        return user

    def of(self, user: str | None = None) -> Any:
        return self

    def take_sent(self) -> tuple[Any, ...]:
        taken, self.sending = tuple(self.sending), []
        return taken

    def begin_step(self, index: int, heard: Callable[[Any], None]) -> None:
        self.heard = heard
        self.begun.append(index)

    async def await_dialogs(self, within: float) -> Failure | None:
        return self.missing.pop(0) if self.missing else None

    def restrict(self, permission: Any) -> None:
        self.permissions.append(permission)

    async def perform(self, step: Any, within: float, patience: float) -> Outcome:
        self.acts.append((self.clock.time, step, within, patience))
        reply = self.script.pop(0) if self.script else Passed()
        if callable(reply):
            reply = reply(self if hasattr(reply, "of_session") else step)
        if isinstance(reply, Failure):
            self.clock.time += patience if reply.code == "ELEMENT_NOT_FOUND" else 0
            self.clock.time += within if reply.code == "STEP_TIMEOUT" else 0
        return reply

    async def passed(self, index: int) -> None:
        return

    async def leave_storage(self, within: float, *, held_up: bool) -> Failure | None:
        self.left = (within, held_up)
        return self.leaving

    async def text(self, selector: str, frame: str | None, patience: float, within: float = 0) -> str | Failure:
        value = self._page(f"text {selector}")
        if value is None:
            self.clock.time += patience
            return Failure("ELEMENT_NOT_FOUND", f"no {selector}", selector)
        return str(value)

    async def read(self, query: PageQuery, within: float) -> Any:
        return self._page(f"{query.function} {query.selector}" if query.selector else query.function)

    lacking: Failure | None = None
    """The failure of a page that lacks a part."""

    async def page_failure(self) -> Failure | None:
        return self.lacking

    async def by_page(self, failure: Failure) -> Failure:
        return failure

    async def frame_of(self, selector: str) -> str:
        return str(self.page.get(f"frame {selector}", ""))

    def _page(self, key: str) -> Any:
        value = self.page.get(key)
        return value(self.clock.time) if callable(value) else value

    async def screenshot(self, name: str, within: float) -> Path | None:
        path = Path(f"{name}.png")
        self.files = (*self.files, path)
        return path

    async def take_settled(self) -> tuple[Any, ...]:
        return self.take_sent()

    async def hold(self) -> bool:
        self.holds += 1
        self.sending += self.late
        self.late = []
        return self.tells

    async def release(self) -> None:
        return

    async def renew(self, failure: Failure, within: float, barred: str | None = None) -> Failure | None:
        self.renewed += 1
        self.barred.append(barred)
        return Failure("OUTCOME_UNKNOWN", barred) if barred else None

    async def save(self, within: float) -> Any:
        if self.saving:
            raise Failed(self.saving)
        self.saved.append(self.clock.time)
        return SimpleNamespace(url=self.url, addresses=(self.url,), posted=False)

    async def restore(
        self, saved: Any, within: float, *, restart: bool, barred: str | None = None
    ) -> tuple[str, ...] | Failure:
        self.unfilled.append(barred)
        self.restored.append((saved, restart))
        self.sending, self.parting = [*self.sending, *self.parting], []
        answer = self.restoring.pop(0) if isinstance(self.restoring, list) else self.restoring
        return cast("tuple[str, ...] | Failure", answer)

    async def observe(self, within: float, *, screenshot: bool) -> Observation:
        return Observation(url=self.url or "", title="", aria="")

    async def record(self, *, freeing: bool = True) -> None:
        self.recording = True

    async def evidence(self, capture: Capture, folder: Path, selectors: Collection[Selected] = ()) -> Evidence:
        self.wanted, self.looked_at = capture, tuple(selectors)
        return Evidence(folder, url=self.url, console=(ConsoleLine(self.clock.wall(), "ERROR", "boom"),))

    async def close(self) -> None:
        self.sending, self.parting = [*self.sending, *self.parting], []
        self.closed = True


@dataclass
class FakeWorld:
    environment: dict[str, Any] = field(default_factory=dict)
    entries_: dict[str, Any] = field(default_factory=dict)
    begun: bool = False
    whole: bool = False
    """Whether the environment can be saved and put back."""
    restoring: tuple[str, ...] = ()

    def memory(self) -> Mapping[str, Any]:
        return self.entries_

    def remember(self, key: str, value: Any, source: str) -> None:
        self.entries_[key] = value

    async def synchronize(self) -> None:
        return

    def entries(self) -> dict[str, Any]:
        return {key: {"key": key, "value": value} for key, value in self.entries_.items()}

    async def channel(self, name: str) -> Any:
        return self.environment

    async def merge(self, name: str, path: str, value: Any) -> None:
        self.environment[path] = value

    async def save(self) -> WorldCheckpoint:
        environment = {"env": deepcopy(self.environment)} if self.whole else {}
        return WorldCheckpoint(self.entries(), environment, self.whole)

    async def has_changed(self, kept: WorldCheckpoint) -> bool:
        return bool(kept.environment) and self.environment != kept.environment["env"]

    async def restore(self, kept: WorldCheckpoint) -> tuple[str, ...]:
        self.entries_ = {key: entry["value"] for key, entry in kept.entries.items()}
        if self.whole and kept.environment:
            self.environment = deepcopy(kept.environment["env"])
        return self.restoring

    async def snapshot(self) -> dict[str, Any]:
        return {"env": self.environment}

    async def begin(self) -> None:
        self.begun = True


@dataclass
class FakeInjector:
    armed: list[int] = field(default_factory=list)
    began: float | None = None
    injected: int = 0
    """Losses that a fault has made."""
    closed: bool = False

    def begin(self, at: float) -> None:
        self.began = at

    async def before_step(self, index: int, step: Any) -> None:
        self.armed.append(index)

    def claim_loss(self) -> bool:
        claimed = self.injected > 0
        self.injected -= claimed
        return claimed

    def results(self) -> tuple[MetFault, ...]:
        return ()

    async def close(self) -> None:
        self.closed = True


@dataclass
class FakeToolBox:
    """`script` holds the answers to successive calls: a document, a ToolAnswer, or a Failure."""

    clock: FakeClock
    script: list[Any] = field(default_factory=list)
    effects: dict[str, EffectClass] = field(default_factory=dict)
    """Name of a tool -> its effect by the settings or hints, or the Failure of the question."""
    requests: list[ToolRequest] = field(default_factory=list)
    withins: list[float] = field(default_factory=list)
    ledger: list[ToolCall] = field(default_factory=list)
    asking: float = 0.0
    """Seconds that the question for an effect takes."""

    def offered(self) -> tuple[OfferedTool, ...]:
        return ()

    async def effect_of(self, step: Tool, within: float) -> EffectClass:
        self.clock.time += self.asking
        found = self.effects.get(step.tool, "write")
        if isinstance(found, Failure):
            raise Failed(found)
        return step.effect or found

    async def call(self, request: ToolRequest, within: float) -> ToolAnswer:
        self.requests.append(request)
        self.withins.append(within)
        reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(reply, Failure):
            self._note(request, "failed", reply.code)
            self.clock.time += within if reply.code == "TOOL_TIMEOUT" else 0
            raise Failed(reply)
        answer = reply if isinstance(reply, ToolAnswer) else ToolAnswer("", reply)
        self._note(request, "error" if answer.is_error else "answered")
        return answer

    def _note(self, request: ToolRequest, outcome: ToolOutcome, code: str = "") -> None:
        named = (f"c{len(self.ledger)}", request.server, request.tool, request.arguments, request.effect, request.step)
        self.ledger.append(ToolCall(*named, self.clock.wall(), 0.0, 1, outcome, code=code))


@dataclass
class FakeArchive:
    kept: list[tuple[TaskResult, ErrorReport, Evidence, Snapshot]] = field(default_factory=list)
    held: list[tuple[TaskResult, ErrorReport, Evidence, Snapshot]] = field(default_factory=list)
    passes: list[TaskResult] = field(default_factory=list)
    skips: list[Any] = field(default_factory=list)

    def scratch(self, plan: Any) -> Path:
        return Path("scratch")

    def keep(self, plan: Any, result: Any, report: Any, evidence: Any, state: Any) -> Path:
        self.kept.append((result, report, evidence, state))
        return Path("errors") / plan.key

    def hold(self, plan: Any, result: Any, report: Any, evidence: Any, state: Any) -> None:
        self.held.append((result, report, evidence, state))

    def skipped(self, plan: Any) -> None:
        self.skips.append(plan)

    def passed(self, plan: Any, result: Any) -> None:
        self.passes.append(result)


@dataclass
class Theatre:
    """Everything one fake run used."""

    clock: FakeClock = field(default_factory=FakeClock)
    world: FakeWorld = field(default_factory=FakeWorld)
    injector: FakeInjector = field(default_factory=FakeInjector)
    archive: FakeArchive = field(default_factory=FakeArchive)
    events: list[Event] = field(default_factory=list)
    session: FakeSession = field(init=False)
    stage: Any = None
    settings: Settings = field(default_factory=Settings)
    toolbox: Any = None

    def __post_init__(self) -> None:
        self.session = FakeSession(self.clock)

    async def open_stage(self, plan: Any, folder: Path) -> Stage:
        if self.stage is not None:
            return await self.stage(plan, folder)
        return Stage(self.session, self.world, self.injector, self.toolbox)

    agent: Any = field(default_factory=ScriptedAgent)
    ask: Any = None
    repair: Any = None
    breaker: Any = None
    """URL -> the circuit of its site."""
    tool_breaker: Any = None
    """Name of a tool server -> its circuit."""
    policy: AgentPolicy = UNLIMITED
    model_calls: tuple[ModelCall, ...] = ()
    recovered: list[str] = field(default_factory=list)
    """URLs whose service was waited for before a retry."""
    find: Any = None
    """The tasks that a task names: id -> Loaded."""

    def ports(self) -> Ports:
        return Ports(
            self.open_stage,
            self.agent,
            self.archive,
            self.clock,
            self.events.append,
            Random(0).random,
            ask=self.ask,
            repair=self.repair,
            recover=self._recover,
            policy=lambda _: self.policy,
            model_calls=lambda _: self.model_calls,
            tool_calls=lambda _: tuple(self.toolbox.ledger) if self.toolbox is not None else (),
            **({"tool_breaker": self.tool_breaker} if self.tool_breaker else {}),
            **({"breaker": self.breaker} if self.breaker else {}),
        )

    async def _recover(self, url: str) -> None:
        self.recovered.append(url)

    def plan(self, **spec: Any) -> Any:
        document = {"task_id": "T-1", "goal": "g", "steps": [{"act": "open", "url": "http://shop.local/"}], **spec}
        return compile_plan(
            TaskSpec.model_validate(document),
            folder=Path(),
            source="t.task.yaml",
            settings=self.settings,
            run_id="r",
            find=self.find,
        )

    async def play(self, **spec: Any) -> TaskResult:
        return await run_task(self.plan(**spec), self.ports())
