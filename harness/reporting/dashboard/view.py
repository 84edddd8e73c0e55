"""What a dashboard shows, as values: all texts and numbers, no markup. `harness dashboard --json` prints it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import Field

from harness.model.consumption import ModelFigures
from harness.model.tool_use import ToolFigures
from harness.reporting.history.record import Ending, FrozenValue, RunSummary
from harness.resilience.thresholds import Level

Status = Literal["passed", "failed", "not_judged", "skipped", "expected"]
"""`expected`: it failed as its file declares, which pytest counts as passed. `not_judged`: cut off from outside."""


StatefulLane = Literal["circuit", "service", "tool server"]
"""What has states over time that a lane of the timeline shows."""


class PageLink(FrozenValue):
    """A file beside the page, or a page of a CI system."""

    label: str
    href: str = Field(description="Percent-encoded; relative to the page's folder, or http(s).")


class PictureView(FrozenValue):
    """One picture of a comparison that failed."""

    name: str = Field(description="`expected`, `actual` or `diff`.")
    link: PageLink
    data: str = Field("", description="The picture as a data: URL; of some failures only.")


class PictureComparison(FrozenValue):
    """A screenshot that differs from its baseline."""

    name: str = Field(description="Number of the step, and name of the baseline.")
    pictures: tuple[PictureView, ...]


class EvidenceLinks(FrozenValue):
    """What a failed task left."""

    folder: str = Field("", description="Relative to the project; empty when there is none.")
    links: tuple[PageLink, ...] = ()
    problem: str = Field("", description="Why there is less than there should be.")
    picture: str = Field("", description="The screenshot as a data: URL; of some failures only.")
    comparisons: tuple[PictureComparison, ...] = Field((), description="Screenshots that differ from their baselines.")


class ComparedValues(FrozenValue):
    """What a failed assertion compared."""

    criterion: str = ""
    expected: str
    actual: str
    diff: str = ""


class DrawnAttempt(FrozenValue):
    """One attempt at a step. Times are seconds since the start of the task."""

    start: float
    end: float
    passed: bool


class Occurrence(FrozenValue):
    """One failed task of a cause."""

    task_id: str
    goal: str = ""
    source: str = ""
    code: str = ""
    suspect: str = Field("", description="Where to look first; empty if that is not known.")
    cause: str = Field(description="Why it failed, in a line.")
    step: str = ""
    message: str = Field("", description="Less what the comparison says; empty where that says all.")
    seconds: float = 0
    worker: str = ""
    executions: int = Field(1, description="How often the run executed it; this is about the last time.")
    bars: tuple[DrawnAttempt, ...] = Field((), description="The attempts at all of its steps.")
    since: str = Field("", description="`new`, or since how many runs it fails; empty without history.")
    attempts: tuple[str, ...] = Field((), description="Of the failing step: when, how long, what came of it.")
    before: tuple[str, ...] = Field((), description="The steps before the failing one.")
    comparison: ComparedValues | None = None
    url: str = ""
    console: tuple[str, ...] = ()
    evidence: EvidenceLinks = EvidenceLinks()


class CauseView(FrozenValue):
    """Failures that look like one."""

    title: str
    codes: dict[str, int] = Field(description="Code -> failures.")
    hint: str = ""
    suspect: str = Field("", description="Where to look first; empty if that is not known.")
    first: bool = Field(False, description="It has the failure that was seen first.")
    faulted: bool = Field(False, description="Faults were injected into these tasks, and struck.")
    around: tuple[str, ...] = Field((), description="Services, circuits, thresholds shortly before its first failure.")
    occurrences: tuple[Occurrence, ...]
    skipped: tuple[str, ...] = Field((), description="Ids of tasks that did not run because of it.")


class RecoveryRate(FrozenValue):
    """How often a kind of recovery worked, under its name in metrics.json."""

    name: str
    tried: int
    worked: int
    rate: float = Field(description="0 to 1.")


class ThresholdState(FrozenValue):
    """A metric that has thresholds: its most alarming value in the run, and the last one."""

    metric: str
    level: Level
    worst: str
    at_the_end: str
    warning: str
    critical: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBar:
    """A task, or a state of a circuit or service, in the timeline. Times are seconds since the start of the run."""

    label: str
    start: float
    end: float
    kind: str
    """A Status, or `open`, `half_open`, `down`, ...: which colour it has."""
    marks: tuple[float, ...] = ()
    """When attempts failed."""
    thinking: tuple[tuple[float, float], ...] = ()
    """Begin and end of each request to a model."""


class Lane(FrozenValue):
    """A row of the timeline."""

    name: str
    kind: Literal["worker"] | StatefulLane
    bars: tuple[TimelineBar, ...]


class Moment(FrozenValue):
    """A line of the list of events."""

    at: float
    type: str
    level: str
    task_id: str = ""
    text: str


class Timeline(FrozenValue):
    """Who ran what, and what happened around it."""

    seconds: float
    lanes: tuple[Lane, ...] = ()
    moments: tuple[Moment, ...] = ()
    more: int = Field(0, description="Events that are not listed.")


class SlowStep(FrozenValue):
    """A step that took long."""

    task_id: str
    step: str
    seconds: float
    attempts: int
    passed: bool


class Healed(FrozenValue):
    """A selector that did not work and was stood in for."""

    original: str
    used: str
    what: str = Field("", description="Role and name of the element that was used.")
    places: tuple[str, ...] = Field(description="Files and steps.")
    change: str = Field(description="The proposed change of the file, as YAML; empty when there is none to propose.")
    settled: str = Field("", description="Why nothing is to be changed: a fault that was injected, say.")


class FlakyView(FrozenValue):
    """A task that does not always end the same way."""

    task_id: str
    outcomes: tuple[str, ...] = Field(description="Of the runs, oldest first; the last is this one.")
    passed: int
    runs: int
    fails: str = Field(description="How often, with the interval that is known by now.")
    codes: tuple[str, ...] = ()
    reruns: int = Field(0, description="Executions in this run beyond the first.")
    change: str = Field("", description="A proposed change of the file, as YAML; empty when there is none to propose.")


class ModelRow(FrozenValue):
    """What the calls of one model have used."""

    name: str
    used: ModelFigures


class AgentRow(FrozenValue):
    """A task whose steps an agent has chosen."""

    task_id: str
    status: Status
    agent: str
    seconds: float
    takeovers: int
    used: ModelFigures


class AgentsView(FrozenValue):
    """What agents have done and used in the run."""

    used: ModelFigures
    cached: float = Field(description="Share of the tokens in that came from a cache, 0 to 1.")
    cost_per_success: float | None = Field(None, description="US dollars; None: not known.")
    passed: int = Field(description="Of `tasks`.")
    takeovers: tuple[str, ...] = Field((), description="Task and reason of each.")
    models: tuple[ModelRow, ...]
    tasks: tuple[AgentRow, ...] = Field(description="The most expensive first.")


class ToolRow(FrozenValue):
    """What the calls of one tool have done."""

    server: str
    tool: str
    used: ToolFigures


class ToolServerState(FrozenValue):
    """What became of a tool server in the run."""

    server: str
    state: str = Field(description="The last state; the worst one if several workers used the server.")
    changes: tuple[str, ...] = Field((), description="When it was not well, and why.")


class ToolsView(FrozenValue):
    """What calls of tools have done in the run."""

    used: ToolFigures
    tasks: int = Field(description="Tasks that have called tools.")
    tools: tuple[ToolRow, ...] = Field(description="Those that failed most first.")
    servers: tuple[ToolServerState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A line of the table of all tasks."""

    task_id: str
    status: Status
    note: str = ""
    """A failure has its code and message here, a skipped task the reason."""
    feature: str = ""
    worker: str = ""
    start: float | None = None
    seconds: float = 0
    executions: int = 1
    retries: int = 0
    healed: bool = False
    cause: int | None = None
    """Which of the causes, from 0."""
    links: tuple[PageLink, ...] = ()


class Counts(FrozenValue):
    """The numbers of tasks, each of which counts once."""

    total: int = 0
    passed: int = 0
    failed: int = 0
    not_judged: int = 0
    expected: int = 0
    partial: int = Field(0, description="Of those that passed: as a partial success.")
    skipped: int = 0
    flaky: int = 0
    healed: int = 0
    retries: int = 0


class Dashboard(FrozenValue):
    """The whole page."""

    run: str
    project: str
    started: datetime
    seconds: float
    ending: Ending
    running: bool = Field(False, description="Its process was alive when the page was made.")
    verdict: str
    notices: tuple[str, ...] = Field((), description="What the reader must know of the run or of this page.")
    counts: Counts
    facts: dict[str, str] = Field(description="Environment, commit, arguments.")
    links: tuple[PageLink, ...] = ()
    causes: tuple[CauseView, ...] = ()
    uncollected: dict[str, str] = Field({}, description="File that could not be collected -> why.")
    breakdown: dict[str, int] = Field(description="error_type -> failed tasks.")
    codes: dict[str, tuple[str, ...]] = Field({}, description="error_type -> codes of these tasks.")
    recoveries: tuple[RecoveryRate, ...] = ()
    resilience: dict[str, str] = Field({})
    thresholds: tuple[ThresholdState, ...] = ()
    agents: AgentsView | None = Field(None, description="None: no agent has chosen a step.")
    tools: ToolsView | None = Field(None, description="None: no tool was called.")
    timeline: Timeline
    slow_steps: tuple[SlowStep, ...] = ()
    slow_tasks: tuple[TaskRow, ...] = ()
    healed: tuple[Healed, ...] = ()
    flaky: tuple[FlakyView, ...] = ()
    trend: tuple[RunSummary, ...] = Field((), description="Oldest first; the last is this run.")
    tasks: tuple[TaskRow, ...] = ()
