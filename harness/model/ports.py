"""The Protocols through which the engine reaches everything outside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from random import Random as SeededRandom
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field

from harness.criteria.syntax import Happened, PageQuery, Selected
from harness.model.agent_events import AgentEvent
from harness.model.dialogs import MetDialog
from harness.model.events import Event
from harness.model.inference import ModelCall
from harness.model.plan import Plan
from harness.model.policy import UNLIMITED, AgentPolicy, WritePermission
from harness.model.record import ConsoleLine, History, MetFault, MetRoute, PageRequest, Sent, TaskResult, Warning_
from harness.model.report import ErrorReport
from harness.model.tools import OfferedTool, ToolAnswer, ToolCall, ToolDescription, ToolRequest
from harness.recovery import Capture, Random
from harness.recovery.failure import Failure, Outcome
from harness.resilience import Clock
from harness.resilience.breaker import Breaker
from harness.spec.step_base import EffectClass
from harness.spec.steps import Assert, Step, Tool

if TYPE_CHECKING:
    from harness.spec.faults import Fault

# The interface between an injector and the objects that do the damage.

Undo = Callable[[], Awaitable[None]]
"""Undoes a strike. May raise Failed."""


class Injection(Struct, frozen=True):
    """One activation of a fault."""

    fault: Fault
    random: SeededRandom
    """A seeded generator for the choices of the strike."""
    met: Callable[[], None]
    """Call it each time that the fault has an effect: a page is changed, a request is broken, a process is killed."""
    takes: Callable[[tuple[str, ...]], bool]
    """Return whether a request fault strikes the request with these URLs; if so, count it and call `met`."""


class FaultTarget(Protocol):
    """Injects faults in one place: the browser, the world, the services, the network."""

    async def strike(self, strike: Injection) -> Undo | None:
        """Inject the fault; return a function that undoes it, or None. Raises Failed when it cannot be injected."""


# The browser, as the engine and the agents use it.

USERS = "users"
"""The folder with a folder for each user beside the one whose pages are shown first."""


class Item(Struct, frozen=True):
    """One artifact of the evidence: taken, skipped or missed, with the reason."""

    name: str
    """File name inside the artifact directory."""
    status: Literal["taken", "skipped", "missed"]
    reason: str = ""
    """Why it is absent; for an artifact that was taken: a remark about it."""
    seconds: float = 0.0
    at: datetime | None = None
    """The time when it was taken, or tried."""


class Evidence(Struct, frozen=True):
    """What the browser could still show after the end. The files in `folder` are raw: not redacted, not inert."""

    folder: Path
    items: tuple[Item, ...] = ()
    url: str | None = None
    console: tuple[ConsoleLine, ...] = ()
    page: Mapping[str, Any] | str = "there was no page"
    """The answers of the page functions, as JSON; or the reason why they are unknown."""
    user: str = ""
    """The user whose pages they show, of several; the files of the others are in `folder`, named by user."""
    why: str = "the browser gave none"
    """The reason why artifacts that `items` does not name are absent."""
    vanished: tuple[str, ...] = ()
    """Texts that the page showed after the last act, and no longer shows."""


class Observation(Struct, frozen=True):
    """The view of the page that an agent gets when it asks."""

    url: str
    title: str
    aria: str
    """The ARIA snapshot in Playwright's AI mode; an element's `[ref=e12]` is the selector `aria-ref=e12`."""
    pages: tuple[str, ...] = ()
    """URLs of the open pages, in the order of opening."""
    page: int = 0
    """The position of the current page in `pages`."""
    dialogs: tuple[Mapping[str, Any], ...] = ()
    """Dialogs that opened during the last step: type, message, answer."""
    last: Outcome | None = None
    """The outcome of the last step; None before the first."""
    screenshot: bytes | None = None
    """A PNG of the viewport, if requested."""
    held_back: tuple[str, ...] = ()
    """Requests (`POST http://...`) since the last step began that the agent's policy did not let leave."""
    left: Mapping[str, float] = field(default_factory=dict)
    """What the task may still use: `steps`, `seconds`, and what else its budget limits."""
    tools: tuple[OfferedTool, ...] = ()
    """The tools beside the page that the agent may call, as far as they are known now."""


class Observe(Protocol):
    """Looks at the page only when called, so that a scripted run pays nothing."""

    async def __call__(self, *, screenshot: bool = False) -> Observation:
        """Return the page as the agent sees it. Raises Failed when the page cannot be read."""


class Resume(Protocol):
    """Ends a suspension of the task."""

    async def __call__(self) -> tuple[str, ...]:
        """Open the saved pages again; returns the differences that remain, a line each.

        Raises Failed if they cannot be opened; the task is still suspended then, and it may be called again.
        """


class Sight(Observe, Protocol):
    """What an agent is given with each question: it looks at the page, and may suspend the task."""

    async def suspend(self) -> Resume:
        """Save the browser's session and close its pages. The time of the task stands still until `resume`.

        Raises Failed if the session cannot be saved; nothing has changed then.
        """


class Saved(Protocol):
    """The browser's side of a checkpoint; opaque to the engine."""

    @property
    def url(self) -> str: ...

    @property
    def posted(self) -> bool:
        """Whether the page was the answer to an unsafe request, which is not sent again."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of its pages and of the documents in them; a restore requests them again."""


class Seat(Protocol):
    """The pages of one user, in a browser context of their own."""

    @property
    def user(self) -> str:
        """The name of the user; empty in a task without `users`."""

    async def perform(self, step: Step, within: float, patience: float) -> Outcome:
        """Do one act within `within` seconds, looking for its element for `patience` seconds. It never raises."""

    async def passed(self, index: int) -> None:
        """The step has passed: under full recording, the page's view is kept. It is bounded and never raises."""

    async def text(self, selector: str, frame: str | None, patience: float, within: float = 0) -> str | Failure:
        """The text of the first match that is displayed; else, after `patience`, ELEMENT_NOT_FOUND or ELEMENT_HIDDEN.

        A page that is busy is waited for, at most the longer of `within` and `patience`.
        """

    async def aria(self, selector: str, frame: str | None, within: float) -> str | Failure:
        """The ARIA snapshot of the first match, in Playwright's form; a Failure if there is none in time."""

    async def matches_aria(
        self, selector: str, frame: str | None, expected: str, expect: float, within: float
    ) -> str | Failure | None:
        """None once the ARIA snapshot of the first match is as `expected`; after `expect` seconds, what it was last.

        It returns a Failure if there is no match in time.
        """

    async def picture(self, step: Assert, patience: float, within: float) -> bytes | Failure:
        """A PNG of the element of the step, or of the page: masked, still, one pixel for a CSS pixel.

        It looks for the element for `patience` seconds, and takes `within` seconds at most.
        """

    @property
    def pictures(self) -> Path:
        """The folder whose pictures of failed comparisons are kept with the evidence; it need not exist."""

    @property
    def locale(self) -> str | None:
        """The locale that the context emulates; None if none is declared."""

    @property
    def platform(self) -> str:
        """The platform that the browser runs on, `linux`, `darwin` or `win32`; it may be another machine."""

    async def read(self, query: PageQuery, within: float) -> Json:
        """Evaluate a page function of the assertion language now. Raises Failed when the page cannot be read."""

    async def frame_of(self, selector: str) -> str:
        """The `frame` with an element that the page itself lacks; empty if none. Bounded, never raises."""

    async def page_failure(self) -> Failure | None:
        """The failure of the page if it lacks a part that it needs and nothing was done on it: it proves nothing."""

    async def by_page(self, failure: Failure) -> Failure:
        """The failure of a step, by the scripts and stylesheets that its page did not get."""

    async def screenshot(self, name: str, within: float) -> Path | None:
        """Keep a screenshot under a name (`screenshot_id`); None if the page yields none."""

    @property
    def renewed_at(self) -> tuple[str, ...]:
        """The address that `renew` requests to open the page again, and the address of the document shown there."""

    async def renew(self, failure: Failure, within: float, barred: str | None = None) -> Failure | None:
        """Provide a page that can be trusted, by the cheapest recovery that helps after this failure.

        A page that hangs is freed and keeps its state; a page that crashed is replaced in the same context; otherwise a
        new context is made with the same storage, at the last URL (docs/decisions/006). Returns the failure if none
        helps. `barred` is the reason why that URL must not be requested again; a page that still exists may be freed
        all the same.
        """

    async def observe(self, within: float, *, screenshot: bool) -> Observation:
        """Return the page as an agent sees it, without `last`. Raises Failed."""

    async def page_tools(self, within: float, awaited: str | None = None) -> tuple[ToolDescription, ...]:
        """The tools that the page offers to agents (WebMCP) now, or as soon as it offers the awaited one.

        A page that does not offer it yet is waited for a little. Raises Failed: WEBMCP_MISSING where pages can offer
        none, or the code of a lost page.
        """

    async def call_page_tool(
        self, name: str, arguments: Mapping[str, Json], within: float, effect: EffectClass = "write"
    ) -> ToolAnswer:
        """Call a tool of the page, waiting a little for the page to offer it; what it sends belongs to the step.

        `{"navigated": <address>}` is the answer of a tool that leads to another page. Raises Failed with TOOL_UNKNOWN,
        TOOL_TIMEOUT, TOOL_PROTOCOL (too large), WEBMCP_MISSING, POLICY_WRITE, or the code of a lost page or navigation.
        """

    @property
    def url(self) -> str | None: ...

    @property
    def exchanged(self) -> tuple[PageRequest, ...]:
        """The requests of the pages so far, in order: of each context the newest 500."""

    async def happened(self, function: str, pattern: str, within: float) -> Happened:
        """What the pages have done so far: `console`, `responses`, `messages` or `downloads`, as criteria read it."""

    @property
    def closed_pages(self) -> tuple[Mapping[str, str], ...]:
        """The pages that the site closed since the step began (`closed`), and where the task goes on (`went_on_at`)."""

    @property
    def dialogs(self) -> tuple[MetDialog, ...]:
        """The dialogs that the pages have opened so far, in order."""

    async def await_dialogs(self, within: float) -> Failure | None:
        """Wait until dialogs have taken the answers that `dialog` steps before this step declare, else the failure."""


class Session(Protocol):
    """The pages of all users of a task, of whom one acts at a time; the engine's hands and eyes."""

    def act_as(self, user: str | None) -> str | None:
        """From now on this user acts (None: the first); returns the one before."""

    def of(self, user: str | None = None) -> Seat:
        """The pages of a user; by default of the one who acts. Raises Failed if the task has no such user."""

    def begin_step(self, index: int, heard: Callable[[Sent], None]) -> None:
        """A step begins, perhaps again: the routes that name it answer from now on.

        `heard` is called with each unsafe request as it leaves, until the next step begins; it must return at once.
        """

    def restrict(self, permission: WritePermission | None) -> None:
        """From now on, of the pages' unsafe requests only these leave; None: all do."""

    async def leave_storage(self, within: float, *, held_up: bool) -> Failure | None:
        """Read the browser's storage for whoever goes on with it, if anybody does.

        Returns the failure if the task is for nothing else, and it could not be read. `held_up`: a page may not answer.
        """

    def take_sent(self) -> tuple[Sent, ...]:
        """Return the requests that left the pages since the last call: unsafe ones, and those for documents.

        A request is known as soon as it leaves, and outlives page, browser and driver. Those that the page repeats by
        itself (a heartbeat) are left out as soon as they are recognized.
        """

    async def take_settled(self) -> tuple[Sent, ...]:
        """Like `take_sent`, once the last act's consequences are over, so repeated requests are known. Bounded."""

    async def hold(self) -> bool:
        """Stop the pages from sending until `release`, or until others take their place. Bounded, never raises.

        Returns whether `take_sent` now knows everything that they had sent. What they try to send afterwards fails, and
        counts as not sent.
        """

    async def release(self) -> None:
        """Let pages that are held send again. Bounded, never raises."""

    async def save(self, within: float) -> Saved:
        """Save cookies, localStorage, IndexedDB, sessionStorage, and the open pages with URL and form values.

        Raises Failed when the page cannot be read.
        """

    async def restore(
        self, saved: Saved | None, within: float, *, restart: bool, barred: str | None = None
    ) -> tuple[str, ...] | Failure:
        """Restore what was saved (None: an empty browser) in a new context, or with `restart` in a new browser.

        Returns the differences that remain, a line each; a Failure if the pages could not be opened at all.
        """

    async def record(self, *, freeing: bool = True) -> None:
        """Record in full from now on: a step has failed. `freeing`: the script of a page that hangs is ended."""

    async def evidence(self, capture: Capture, folder: Path, selectors: Collection[Selected] = ()) -> Evidence:
        """Write the artifacts that `capture` wants into `folder`. Bounded; it never raises, and names what fails.

        `selectors`: the elements that criteria read, whose state is kept with that of the page.
        """

    async def close(self) -> None:
        """Close the context. Bounded; it never raises."""

    @property
    def dialogs(self) -> tuple[MetDialog, ...]:
        """The dialogs that the pages of all users have opened so far."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The screenshots and downloads that the steps kept, in order."""

    @property
    def requests(self) -> int:
        """The number of requests that the task's pages have sent so far."""

    @property
    def routes(self) -> tuple[MetRoute, ...]:
        """What the routes of the task have answered so far."""

    @property
    def looked(self) -> Mapping[Selected, bool]:
        """The selectors that criteria have read -> whether an element has matched at any look."""


# Memory and environment of a task.

Json = Any
"""A JSON value."""


class WorldCheckpoint(Struct, frozen=True):
    """The world's side of a checkpoint."""

    entries: dict[str, Json]
    """Key -> MemoryKV entry."""
    environment: dict[str, Json]
    """Channel -> document, for the channels that can be written."""
    whole: bool
    """Whether `environment` has all channels, and at least one.

    Only then does going back undo what the steps did, and a `write` may be done again (docs/design/never-twice.md).
    """
    refused: str = ""
    """Why the environment is not restored although it could be written: the project's isolation forbids it."""


class Snapshot(Struct, frozen=True):
    """Memory and environment at the end; None if not taken."""

    memory: dict[str, Json] | None = None
    environment: dict[str, Json] | None = None
    why: str = "the task had not begun"
    """The reason why a part that is None was not taken."""


class World(Protocol):
    """The memory and environment of one task or episode. Channels raise Failed when they cannot be read."""

    def memory(self) -> Mapping[str, Json]:
        """Key -> value, as of the last `synchronize`, with what was remembered since."""

    def remember(self, key: str, value: Json, source: str) -> None: ...

    async def synchronize(self) -> None:
        """Write what was remembered to where the system under test keeps its memory, and read that place again.

        It does nothing if the harness keeps the memory itself. Raises Failed.
        """

    def entries(self) -> dict[str, Json]:
        """Key -> MemoryKV entry (key, value, ts, source, confidence)."""

    async def channel(self, name: str) -> Json: ...

    async def merge(self, name: str, path: str, value: Json) -> None:
        """Write one value into a channel."""

    async def save(self) -> WorldCheckpoint:
        """Save memory, and the environment if its channels are writable (docs/design/checkpoints.md). Raises Failed."""

    async def has_changed(self, kept: WorldCheckpoint) -> bool:
        """Return whether a document of the environment differs from the saved one. Raises Failed."""

    async def restore(self, kept: WorldCheckpoint) -> tuple[str, ...]:
        """Restore what was saved, and compare. Returns the differences that remain, a line each. Raises Failed."""

    async def snapshot(self) -> dict[str, Json]:
        """The documents of all channels; a channel that cannot be read is `{"error": ...}`."""

    async def begin(self) -> None:
        """Make the world ready: initial memory and the world's clock."""


# The participants of a run: agent, faults, archive, people.

Ask = Callable[[str, tuple[str, ...]], Awaitable[str | None]]
"""Question and choices -> one of the choices, or None."""

RepairHook = Callable[[Plan, str, Mapping[str, Json]], Awaitable[Mapping[str, Json] | bool]]
"""Plan, precondition, memory -> entries to write into memory; True: done; False: not possible. May raise LeftOut."""


class LeftOut(Exception):  # noqa: N818 - no error: it says what becomes of the task
    """The repair of a precondition left the task out (`pytest.skip`); the text is the reason."""


class Agent(Protocol):
    """Chooses the steps. It is stateless over history (docs/design/steps-and-recovery.md)."""

    async def propose(self, plan: Plan, history: History, observe: Sight) -> Step | None:
        """Return the next step, or None if there is no more to do."""

    async def relieve(self, plan: Plan, failure: Failure) -> str | None:
        """Return the name of the agent that goes on after this failure of the plan's agent; None: it ends the task."""


class Injector(Protocol):
    """Injects the declared faults."""

    def begin(self, at: float) -> None:
        """Set the time when the task began (monotonic seconds); the faults' times count from it."""

    async def before_step(self, index: int, step: Step) -> None:
        """Inject the faults of a step that begins, perhaps again. Raises Failed if one cannot be injected."""

    def claim_loss(self) -> bool:
        """Return whether a fault ended the page or browser that was just lost; each loss is claimed once."""

    def results(self) -> tuple[MetFault, ...]:
        """The results of all faults so far."""

    async def close(self) -> None:
        """Undo all faults. It never raises."""


class ToolBox(Protocol):
    """The tools of servers and of the page, for one task. Nothing is started or connected before its first use."""

    def offered(self) -> tuple[OfferedTool, ...]:
        """The tools that agents may call, as far as they are known now: it never waits."""

    async def learn(self, within: float) -> None:
        """Wait until the tools that agents are offered are known, as far as their servers answer in time.

        A server that is known, or was waited for once in the task, is not waited for. The page is asked anew. Never
        raises.
        """

    async def effect_of(self, step: Tool, within: float) -> EffectClass:
        """The effect of the call: that of the step, else by the settings, else by the server's hints, else `write`.

        What a page says of its tools may only raise it. The server is asked for its tools if they are not known yet.
        """

    async def call(self, request: ToolRequest, within: float) -> ToolAnswer:
        """Call a tool, also again by the server's own schedule where that repeats no write (docs/design/tools.md).

        Raises Failed with TOOL_UNAVAILABLE, TOOL_TIMEOUT, TOOL_AUTH, TOOL_UNKNOWN, TOOL_INVALID or TOOL_PROTOCOL; its
        `effect` says whether the call may have taken effect. An answer with `is_error` is returned.
        """


class Archive(Protocol):
    """Keeps the artifacts of a task under `errors/` (docs/design/evidence.md)."""

    def scratch(self, plan: Plan) -> Path:
        """Make an empty folder for the files that the task writes while it runs."""

    def keep(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> Path:
        """Write `errors/<key>` completely, redacted and inert, by a rename. Returns its path."""

    def hold(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> None:
        """Write the evidence of a task that passed and is judged later, where nobody sees it yet. Raises OSError."""

    def skipped(self, plan: Plan) -> None:
        """The task was left out: delete the scratch folder, keep an old directory."""

    def passed(self, plan: Plan, result: TaskResult) -> None:
        """The task passed: move its old directory to `.previous`, delete the scratch folder."""


class Stage(Struct, frozen=True):
    """The objects that belong to one task alone, from its start to its end."""

    session: Session
    world: World
    injector: Injector
    toolbox: ToolBox | None = None
    """None: the project names no tool servers, and the task calls no tools."""


def _counted_nowhere(_url: str) -> None:
    """The default of `breaker` and `tool_breaker`: no site and no tool server has a circuit."""


async def _no_service(*_url: str) -> None:
    """The default of `recover` and `ready`: the harness runs no service."""


async def not_recorded(_plan: Plan) -> None:
    """The default of `before_write`: nobody goes on with a task whose process has died."""


class Ports(Struct, frozen=True):
    """All that the engine needs to run a task."""

    stage: Callable[[Plan, Path], Awaitable[Stage]]
    """Opens a browser context, a world and the faults; raises Failed. The folder receives their files."""
    agent: Agent
    archive: Archive
    clock: Clock
    emit: Callable[[Event], None]
    random: Random
    explain: Callable[[Failure], Failure] = lambda failure: failure
    """Adds to a network failure what is known of the host's process: a site may be down for good."""
    breaker: Callable[[str], Breaker | None] = _counted_nowhere
    """The circuit of the site at a URL; None if it has none."""
    recover: Callable[[str], Awaitable[None]] = _no_service
    """Waits until a service of the harness at this URL answers again, if there is one and it is down; never raises."""
    ready: Callable[[], Awaitable[None]] = _no_service
    """Waits until the services of the task listen, and restarts lost ones. Raises Failed."""
    model_calls: Callable[[Plan], tuple[ModelCall, ...]] = lambda _: ()
    """The requests to models of a task so far."""
    tool_calls: Callable[[Plan], tuple[ToolCall, ...]] = lambda _: ()
    """The calls of tools of a task so far."""
    agent_events: Callable[[Plan], tuple[AgentEvent, ...]] = lambda _: ()
    """What the hooks of a task's agent have told so far."""
    agent_warnings: Callable[[Plan], tuple[Warning_, ...]] = lambda _: ()
    """What a person should know about the agents of a task so far."""
    ask: Ask | None = None
    """Asks a person at a terminal; None if there is none."""
    repair: RepairHook | None = None
    """`pytest_taskspec_repair`: repairs a precondition in code."""
    policy: Callable[[Plan], AgentPolicy] = lambda _: UNLIMITED
    """What the agent may do that has just been asked."""
    witness: Callable[[Plan, TaskResult, Evidence, Snapshot], Path] | None = None
    """Keeps the final view of a task that passed; may raise OSError. None: it is not kept."""
    tool_breaker: Callable[[str], Breaker | None] = _counted_nowhere
    """The circuit of a tool server, by its name; None if it has none."""
    before_write: Callable[[Plan], Awaitable[None]] = not_recorded
    """Awaited before each `write` of a task: returns when it is recorded where it outlasts this process that the task
    has begun to write. Raises Failed if that is impossible; then the step is not begun."""
    crashed: Callable[[], Sequence[tuple[str, float]]] = tuple
    """The services that crashed while the task ran, each with the time."""
