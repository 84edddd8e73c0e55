"""What happened, as values: attempts, step records, history, warnings, the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from msgspec import Struct, field

from harness.model.agent_events import AgentEvent
from harness.model.dialogs import MetDialog
from harness.model.inference import ModelCall
from harness.model.report import ErrorReport, control_of
from harness.model.snapshot import with_selectors
from harness.model.tools import ToolCall
from harness.recovery import Remedy
from harness.recovery.catalog import Effect, Family
from harness.recovery.failure import Failure, Outcome, Passed
from harness.spec.agents import SCRIPTED
from harness.spec.steps import Step, Tool, Type
from harness.spec.task import FinalState

if TYPE_CHECKING:
    from harness.criteria.syntax import Selected
    from harness.spec.faults import Fault
    from harness.spec.routes import Route

LASTING = "lasting_selectors"
"""The detail of an outcome that has, for each ref of the step, a selector that matches the same element alone."""
CLOSED_PAGES = "closed_pages"
"""The detail of an outcome that has the pages which the site closed, each with the page at which the task went on."""
LEFT_OUT = "left_out"
"""The detail of an outcome that has the reason why the step was not due: its `when` does not hold."""
TIMES = "times"
"""The detail of an outcome that has how often `until` had the act done, if more than once."""
NOT_KEPT = "not_kept"
"""The detail of an outcome that has the text which was typed and the one that the field has, if they differ."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")
"""Methods of requests that, by the rules of HTTP, change nothing."""
MESSAGE = "WebSocket"
"""What stands in place of a method for a message that is sent over an open WebSocket."""


class ConsoleLine(Struct, frozen=True):
    """A message that a page wrote to its console, with its time."""

    at: datetime
    level: str
    """`LOG`, `INFO`, `WARNING`, `ERROR`, as Playwright names it, in capitals."""
    text: str
    place: str = ""
    """`url:line`, if known."""

    def __str__(self) -> str:
        return f"[{self.level}] {self.text}" + (f" ({self.place})" if self.place else "")


class Sent(Struct):
    """What left a page: a request with an unsafe method, one for the document of a page, or a message of a WebSocket.

    Or, with `unseen`, what may have left it and could not be seen.
    """

    method: str
    """The method of the request; `MESSAGE` for a message of a WebSocket, empty for what was not seen."""
    url: str
    """The URL without its fragment."""
    page: bool = False
    """Whether it requests the document of a page."""
    follows: bool = False
    """Whether it follows an unsafe request that was answered: it was redirected from it, or began later."""
    arrived: bool = True
    """False once it is known that nothing was sent: refused, not resolved, blocked, or answered by a route."""
    again: int | None = 0
    """How often the browser has repeated it by itself: a connection broke, or the answer was 408. None: not known."""
    asked_again: int = 0
    """How often the browser has asked for its URL again by GET, because the file that came in answer broke off."""
    before: bool = False
    """Whether it left the page that an `open` was about to leave: then the act before the `open` caused it."""
    unseen: str = ""
    """Why nobody knows whether something was sent; empty for what was seen."""
    open: bool = False
    """Whether it has neither an answer nor an error of its connection: its site may still be at work on it, also if the
    browser gave it up."""

    def describe(self) -> str:
        """What is known of it, to follow "it": in words for people."""
        if self.unseen:
            return f"may have sent what could not be seen: {self.unseen}"
        if self.method == MESSAGE:
            return f"sent a message over {f'the WebSocket {self.url}' if self.url else 'a WebSocket of a worker'}"
        return f"sent {self.method} {self.url}"

    @property
    def unsafe(self) -> bool:
        """Whether it may have changed something: its method is unsafe, and it may have arrived."""
        return self.method not in SAFE_METHODS and self.arrived


class Attempt(Struct, frozen=True):
    """One try of a step. `seconds` is its duration, `t` its start, in seconds since the start of the task."""

    step: Step
    t: float
    seconds: float
    started: datetime
    outcome: Outcome
    remedy: Remedy | None = None
    """The remedy that led to this attempt; None for the first."""

    @property
    def passed(self) -> bool:
        return isinstance(self.outcome, Passed)


class Answer(Struct, frozen=True):
    """What was done about a failure so that the task goes on; `figures` counts retries and fallbacks of these.

    An answer may not lead to another attempt: a repair may fail, and a page may be lost again before the retry.
    """

    family: Family
    """The family of the failure."""
    remedy: Remedy
    waited: bool = False
    """Whether the task only waited for the open circuit of its site. Nothing was sent, so that is no retry."""


class Rewound(Struct, frozen=True):
    """The return to a checkpoint after a step failed, and how well it went (docs/design/checkpoints.md)."""

    checkpoint: int
    """The number of the step before which it was taken."""
    differences: tuple[str, ...] = ()
    """The differences from the saved state, a line each."""
    restart: bool = False
    """Whether it is in a new browser."""
    stretch: float = 1.0
    """The factor for `timeout` and `step_timeout` from here on."""
    why: str = ""
    """The reason, if it is not the failure of the step: another agent begins anew."""


class StepRecord(Struct, frozen=True):
    """All attempts at one step. A negative index is a precondition, an index past the steps the success criteria."""

    index: int
    step: Step
    attempts: tuple[Attempt, ...]
    skipped: bool = False
    """The step failed, and the task went on without it: `optional`, or the strategy `skip_step`."""
    effect_already_done: bool = False
    remembered: Mapping[str, Any] = field(default_factory=dict)
    """The entries that it wrote into memory."""
    rewound: Rewound | None = None
    """Set if the step failed and the task went back."""
    answers: tuple[Answer, ...] = ()
    """The answers to its failures, in order."""
    sent: tuple[Sent, ...] = ()
    """The requests that left the pages from its act to the start of the next step."""
    repeated: bool = False
    """A write that passed, or may have taken effect, was done again because `done_when` was false."""
    contradicted: bool | None = None
    """Whether a write passed, and `done_when` did not hold after it; None: it was not asked then."""
    agent: str = ""
    """The name of the agent that chose it (`scripted`: a step of the file); empty for what belongs to no agent."""

    @property
    def passed(self) -> bool:
        return self.effect_already_done or (bool(self.attempts) and self.attempts[-1].passed)

    @property
    def came(self) -> bool:
        """Whether `done_when` has shown the effect of this write."""
        return self.effect_already_done or self.contradicted is False

    @property
    def lasting_step(self) -> Step | None:
        """The step with a lasting selector in the place of each ref, which is valid only for one view of the page.

        None if it has no refs, or if no selector was found for one of them.
        """
        last = self.attempts[-1].outcome if self.attempts else None
        selectors = last.details.get(LASTING, {}) if last is not None else {}
        return with_selectors(self.step, selectors) if selectors else None

    @property
    def left_out(self) -> str:
        """Why it was not due (`when`); empty if it was."""
        return str(self.attempts[-1].outcome.details.get(LEFT_OUT, "")) if self.attempts else ""

    @property
    def acted(self) -> bool:
        """Whether it did more than look, so that what leaves the pages afterwards may be due to it."""
        return not (self.step.looks_only or self.left_out)

    @property
    def wrote(self) -> bool:
        """Whether it may have changed what must not be changed twice: a `write`, or seen to be one (`seen_writing`)."""
        return not self.left_out and (self.step.effect_class == "write" or seen_writing(self.step, self.sent))

    @property
    def may_have_written(self) -> bool:
        """Whether it is a write that passed, or that failed and may have taken effect all the same."""
        unsure = self.failure is not None and self.failure.effect is not Effect.NONE
        return self.wrote and (self.passed or unsure or any(each.unsafe for each in self.sent))

    @property
    def failure(self) -> Failure | None:
        """The failure of the last attempt; None if the step passed."""
        if self.passed or not self.attempts:
            return None
        last = self.attempts[-1].outcome
        return last if isinstance(last, Failure) else None

    @property
    def extra_attempts(self) -> int:
        """The number of attempts after the first, whatever led to them."""
        return max(0, len(self.attempts) - 1)

    @property
    def spent(self) -> int:
        """The retries and fallbacks, which count against the budget."""
        return sum(not each.waited for each in self.answers)


def first_unsafe(sent: Iterable[Sent]) -> Sent | None:
    """The first one that may have changed something, best one that was seen; None without any."""
    return min((each for each in sent if each.unsafe), key=lambda each: bool(each.unseen), default=None)


def seen_writing(step: Step, sent: Iterable[Sent]) -> bool:
    """Return whether what left the pages, or may have, shows that a step is a write although its file does not say so.

    Typing is a write only if it submits a form: a field that requests suggestions as it is typed into writes nothing.
    """
    if step.effect is not None or step.effect_class == "read":
        return False
    return any(each.unsafe and (each.page or not isinstance(step, Type)) for each in sent)


History = tuple[StepRecord, ...]


def written_addresses(records: Iterable[StepRecord]) -> dict[str, StepRecord]:
    """The addresses of documents that a write produced: to request them again may repeat the write.

    They are those that a declared write requested, also through redirects; those that answered an unsafe request; and
    those of pages from which one left, which may send it each time that they load. A page that follows an answered
    unsafe request (post, redirect, get) is not among them: the write is the request before it. Nor is an address that a
    step which is no write requested as well.
    """
    harmless: set[str] = set()
    made: dict[str, StepRecord] = {}
    for record in records:
        pages = [each for each in record.sent if each.page and each.arrived]
        if not record.wrote:
            asked = pages if record.acted else ()
            harmless |= {each.url for each in asked if each.method in SAFE_METHODS}
            continue
        declared = record.step.effect_class == "write"
        last = max((place for place, each in enumerate(record.sent) if each.unsafe), default=-1)
        sender = {id(each) for each in record.sent[: last + 1]}
        own = [each for each in pages if each.unsafe or (not each.follows and (declared or id(each) in sender))]
        made |= {each.url: record for each in own}
    return {url: record for url, record in made.items() if url not in harmless}


class Warning_(Struct, frozen=True):  # noqa: N801 - `Warning` is a builtin
    """Something worth knowing about a task that went on; harness/spec/warnings.py lists the types."""

    type: str
    message: str
    step_index: int | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Type, step_index and message, and the details of the type."""
        return {"type": self.type, "step_index": self.step_index, "message": self.message, **self.details}


class MetFault(Struct, frozen=True):
    """The result of one declared fault. Times are seconds since the start of the task."""

    name: str
    fault: Fault
    count: int = 0
    """How many times it struck; 0: never."""
    strikes: tuple[float, ...] = ()
    """The times of the strikes: of more than a hundred the first ones, and the last."""
    healed: tuple[float, ...] = ()
    problem: str = ""
    """Why it could not strike, or could not be undone."""
    steps: tuple[int, ...] = ()
    """The step that ran at each of `strikes`."""
    why: str = ""
    """Why it never struck."""

    def describe(self) -> str:
        """One line for people: its id, kind, place of declaration, and result."""
        fault = self.fault
        named, place = (f"{fault.id} (", ")") if fault.id else ("", "")
        if fault.source:
            place = f", {fault.source})" if fault.id else f" ({fault.source})"
        return f"{named}{fault.describe()}{place}: {self._describe_outcome()}"

    def _describe_outcome(self) -> str:
        if self.problem:
            return self.problem
        if not self.count:
            return f"never struck: {self.why}" if self.why else "never struck"
        often = "once" if self.count == 1 else f"{self.count} times, first"
        step = f"in step {self.steps[0]} " if self.steps and self.steps[0] >= 0 else ""
        return f"struck {often} {step}at {self.strikes[0]:.1f} s"


class RoutedRequest(Struct, frozen=True):
    """A request that a route answered."""

    step: int
    """The step that ran; -1 before the first."""
    method: str
    """`MESSAGE` for a WebSocket."""
    url: str
    status: int
    what: str = ""
    """What it did about a WebSocket: `taken`, `dropped sent ping`, `received pong`."""


class MetRoute(Struct, frozen=True):
    """What one declared route has answered."""

    number: int
    """Its place in the file, from 0."""
    route: Route
    count: int = 0
    """How many requests it answered."""
    answered: tuple[RoutedRequest, ...] = ()
    """The requests themselves: of more than a hundred, the first ones and the last."""
    problem: str = ""
    """The last request that it could not answer, and why."""
    late: int = 0
    """How many requests matched while none of its `steps` ran."""
    idle: tuple[int, ...] = ()
    """The entries of its `messages` that never acted."""

    def describe(self) -> str:
        """One line for people: what it answers, its place, and what it has answered."""
        place = f" ({self.route.source})" if self.route.source else ""
        return f"{self.route.describe()}{place}: {self._describe_outcome()}"

    def _describe_outcome(self) -> str:
        answered, request = ("took", "WebSocket") if self.route.for_sockets else ("answered", "request")
        if not self.count:
            return self.problem or f"{answered} no {request}: {self.why}"
        first, often = self.answered[0], "once" if self.count == 1 else f"{self.count} times, first"
        step = f"in step {first.step}" if first.step >= 0 else "before the first step"
        idle = ", ".join(f"`messages[{each}]`" for each in self.idle)
        rest = f"; {idle} did nothing: no message matched" if idle else ""
        rest += f"; {self.problem}" if self.problem else ""
        return f"{answered} {often} {step}: {first.method} {first.url}{rest}"

    @property
    def why(self) -> str:
        """Why it answered nothing."""
        return f"{self.late} matched, but not during its `steps`" if self.late else "none matched"


class TakeOver(Struct, frozen=True):
    """An agent failed, and another one was to go on with the task."""

    before: str
    """The name of the agent that failed; `scripted` for the steps of the file."""
    after: str
    failure: Failure
    """The failure of the first one."""
    index: int
    """The number of the step at which it failed."""
    t: float = 0.0
    """The moment, in seconds since the start of the task."""
    refused: str = ""
    """The reason why the next one did not begin anew, although it was to; empty: it was not, or it did."""

    def describe(self) -> str:
        """One line for people."""
        return f"`{self.after}` went on in place of `{self.before}`: {self.failure.message}"


class PageRequest(Struct, frozen=True):
    """A request that a page sent, as criteria read it with `requests(...)`."""

    method: str
    url: str
    status: int | None = None
    """The status of its answer; None: there is none (yet)."""
    body: bytes | None = None
    kind: str = ""
    """The content type of the body."""

    @property
    def json(self) -> Any:
        """The body as a document: JSON, or the fields of a form; None if it is neither."""
        text = (self.body or b"").decode("utf-8", "replace")
        if self.kind.startswith("application/x-www-form-urlencoded"):
            return {name: each[0] if len(each) == 1 else each for name, each in parse_qs(text, True).items()}
        try:
            return loads(text)
        except (ValueError, RecursionError):
            return None

    def as_json(self) -> dict[str, Any]:
        """The fields that criteria read."""
        body = None if self.body is None else self.body.decode("utf-8", "replace")
        return {"method": self.method, "url": self.url, "status": self.status, "json": self.json, "body": body}

    def describe(self) -> str:
        """Method, URL and status in one line."""
        return f"{self.method} {self.url}" + (f" ({self.status})" if self.status is not None else "")


class ScorePart(Struct, frozen=True):
    """The result of one scoring checkpoint (docs/decisions/005)."""

    id: str
    name: str
    weight: float
    """Its share of the score: normalized over the parts that apply; 0 if it does not apply."""
    met: bool
    applies: bool = True
    required: bool = False
    reason: str = ""
    """Why it is not met, or does not apply."""


class Score(Struct, frozen=True):
    """How much of the task was reached, 0 to 1 (docs/decisions/005)."""

    total: float
    """The sum of the weights of the parts that are met; with `rubrics` the weighted mean of their metrics."""
    parts: tuple[ScorePart, ...] = ()
    rubrics: Mapping[str, float] = field(default_factory=dict)
    """Metric -> value, 0 to 1."""

    @property
    def unmet(self) -> tuple[str, ...]:
        """The ids of required parts that apply and are not met."""
        return tuple(part.id for part in self.parts if part.required and part.applies and not part.met)


RESULT = "result"
"""The detail of an outcome that has the answer of a tool, or of an `api` step that reads it."""


def answer_text(record: StepRecord) -> str:
    """What a tool of a server answered in a step, as JSON in one line; empty for every other step."""
    outcome = record.attempts[-1].outcome if record.attempts else None
    if not isinstance(record.step, Tool) or outcome is None or RESULT not in outcome.details:
        return ""
    return dumps(outcome.details[RESULT], ensure_ascii=False, default=str)


class TaskEnding(Struct, frozen=True):
    """What the agent of a task is told of its end."""

    key: str
    passed: bool
    state: FinalState
    failure: Failure | None


class TaskResult(Struct, frozen=True):
    """The end of a task: `final_state`, `error`, `warnings`."""

    task_id: str
    key: str
    final_state: FinalState
    history: History
    """All records in order; a step that was repeated after a rewind is in it twice."""
    started: datetime
    elapsed: float
    """The duration in seconds, without the times in which it was suspended."""
    steps_total: int
    failure: Failure | None = None
    failed_index: int | None = None
    warnings: tuple[Warning_, ...] = ()
    memory: dict[str, Any] = field(default_factory=dict)
    error: ErrorReport | None = None
    artifacts: Path | None = None
    """The directory `errors/<key>`, if one was written."""
    unlike_expected: tuple[str, ...] = ()
    """The criteria of `expect` that did not hold on the page as the failure had left it, each with the reason."""
    score: Score | None = None
    """None for a task that declares neither scoring checkpoints nor rubrics."""
    alternative: TaskResult | None = None
    """The result of the task that ran in place of this one (`fallback_plan`)."""
    inner: tuple[TaskResult, ...] = ()
    """The results of the tasks that ran inside this one before its steps, as repairs of its preconditions."""
    faults: tuple[MetFault, ...] = ()
    """The results of the declared faults, in the order of the file."""
    routes: tuple[MetRoute, ...] = ()
    """What the declared routes have answered, in the order of the file."""
    dialogs: tuple[MetDialog, ...] = ()
    """The dialogs that its pages have opened, in order."""
    model_calls: tuple[ModelCall, ...] = ()
    """The requests to models that its agents made, in order."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls of tools that its steps and channels made, in order."""
    agent_events: tuple[AgentEvent, ...] = ()
    """What the hooks of its agent have told, in order."""
    takeovers: tuple[TakeOver, ...] = ()
    """The agents that went on in place of one that failed, in order."""
    skipped: str = ""
    """Why the task was left out (`on_precondition_fail: skip_task`); it counts as neither passed nor failed."""
    suspended: float = 0.0
    """The seconds in which its agent had suspended it; they are not in `elapsed`."""
    steps_unused: int = 0
    """How many of `steps_total` are of rounds for which the list of a `for_each` had no item."""
    step_numbers: Mapping[int, str] = field(default_factory=dict)
    """`4.2` and so on, of the steps that stand with others for one of the file."""
    unmatched: tuple[Selected, ...] = ()
    """The selectors that criteria have read and that have matched no element at any look."""

    @property
    def ok(self) -> bool:
        return self.final_state in ("completed", "partial_success") and not self.skipped

    @property
    def verdict(self) -> TaskEnding:
        return TaskEnding(self.key, self.ok, self.final_state, self.failure)

    @property
    def written(self) -> tuple[StepRecord, ...]:
        """The writes that may have taken effect, with those of the tasks that ran inside it or in its place."""
        others = (*self.inner, *([self.alternative] if self.alternative else []))
        own = (record for record in self.history if record.may_have_written)
        return (*own, *(record for other in others for record in other.written))

    def chosen_by(self, first: str | None) -> tuple[str, ...]:
        """The names of all agents that chose steps, in order; `first` began, None: the steps of the file."""
        begun = (first or SCRIPTED,) if first or self.takeovers else ()
        return (*begun, *(each.after for each in self.takeovers))

    @property
    def control(self) -> str:
        """`observed` if an agent has driven the browser itself; empty if the harness has performed every step."""
        return control_of(each.details for each in self.warnings)

    @property
    def makeshift(self) -> bool:
        """Whether it passed only in part, or by another agent than its own: `--taskspec-strict` refuses that."""
        return self.ok and (self.final_state == "partial_success" or bool(self.takeovers))

    def ended_by(self, first: str | None) -> str:
        """The agent that chose the last steps (`chosen_by`); empty for the steps of the file."""
        name = next(reversed(self.chosen_by(first)), "")
        return "" if name == SCRIPTED else name

    @property
    def steps_completed(self) -> int:
        return sum({each.index: each.passed for each in self.history if 0 <= each.index < self.steps_total}.values())
