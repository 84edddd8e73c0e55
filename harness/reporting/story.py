"""The story of a task: what happened in it, as one frozen value whose texts have no secrets.

It is made once, when the task ends (`telling.story_of`), and every report is a function of it. So a report
cannot show a secret, because it never has one, and what several reports say is worked out in one place.

Its texts can be written anywhere: they have no half of a surrogate pair, and no control character but line break and
tab. What identifies a task and its files is as it was, and so are the words of fixed vocabularies, as acts and codes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from pydantic import BaseModel

from harness.model.consumption import ModelCallLine, ModelFigures
from harness.model.diagnosis import after_faults
from harness.model.figures import Figures
from harness.model.report import FaultReport, RouteReport
from harness.model.tool_use import ToolFigures
from harness.recovery.catalog import CATALOG, Family, Row
from harness.reporting.words import CRITERION, other_reasons, reason_text, relation, repeats, shortened, shown_value
from harness.spec.names import well_formed
from harness.spec.task import FinalState

StepStatus = Literal["ok", "FAILED", "skipped", "done", "not run"]
"""`done`: the effect of a write was there already; `not run`: only `planned` steps are."""


class StoryAttempt(Struct, frozen=True):
    """One try of a step. Times are seconds since the start of the task."""

    way: str
    """What led to it: `ATTEMPT 1`, `RETRY (after 2s)`, `FALLBACK #b`."""
    passed: bool
    t: float = 0.0
    seconds: float | None = None
    """None: not known (of a kept failure)."""
    started: datetime | None = None
    code: str = ""
    message: str = ""
    """The message of its failure."""

    @property
    def note(self) -> str:
        """`RETRY (after 2s): FAILED - no answer`, as the trace says it."""
        return f"{self.way}: SUCCESS" if self.passed else f"{self.way}: FAILED - {self.message}"

    @property
    def end(self) -> float:
        return self.t + (self.seconds or 0.0)


class StoryStep(Struct, frozen=True):
    """All attempts at one step; done again after a way back, it has one for each time."""

    index: int
    """Negative: a precondition; the number of steps and more: success criteria."""
    place: str
    """`4`, `pre`, `end`."""
    act: str
    target: str = ""
    """Its target, with lasting selectors and the values that were filled in."""
    instead: str = ""
    """What the last attempt did in its place: ` by opening http://shop.local/`."""
    status: StepStatus = "ok"
    skipped: bool = False
    """It failed, and the task went on without it."""
    left_out: str = ""
    """Why it was not due: its `when` does not hold."""
    attempts: tuple[StoryAttempt, ...] = ()
    written: str = ""
    """Act and target as the step is written."""
    beside: bool = False
    """It is no step of the file, but a comparison of `state_bindings` after the one with its index."""
    went_back_to: int | None = None
    """It failed, and the task went back to the checkpoint before this step."""
    parameters: dict[str, str] = {}
    """Selector, frame, url and note, as far as the step has them."""
    agent: str = ""
    """The agent that chose it."""

    @property
    def passed(self) -> bool:
        return self.status in ("ok", "done") or bool(self.left_out)

    @property
    def worked_on(self) -> str:
        """The target, and what the last attempt did in place of it, or why nothing was done, if that was different."""
        if self.left_out:
            return f"{self.target} (skipped: {self.left_out})"
        return self.target + (f" (retried{self.instead})" if self.instead else "")

    @property
    def seconds(self) -> float | None:
        """The seconds of all attempts, without the waits between them; None: not known."""
        known = [each.seconds for each in self.attempts if each.seconds is not None]
        return sum(known) if known or not self.attempts else None

    @property
    def extra_attempts(self) -> int:
        return max(0, len(self.attempts) - 1)

    @property
    def went_back(self) -> str:
        """`from step 4 to the checkpoint before step 2`; empty for a step from which the task did not go back."""
        if self.went_back_to is None:
            return ""
        return f"from step {self.index} to the checkpoint before step {self.went_back_to}"

    @property
    def failure(self) -> StoryAttempt | None:
        """The last attempt, if the step failed."""
        return self.attempts[-1] if self.attempts and not self.passed and not self.attempts[-1].passed else None


class StoryComparison(Struct, frozen=True):
    """Why a criterion does not hold: the values of its smallest failing part."""

    expression: str
    relation: str
    """How the expected value is compared: `to include `; empty for equality."""
    expected: str
    actual: str
    """The values as a screen shows them: a text unchanged, any other as JSON."""
    expected_lines: str = ""
    actual_lines: str = ""
    """The values as files, with one line for each entry."""
    diff: str = ""
    repeated: bool = False
    """Whether the difference is only the two values."""


class StoryCall(Struct, frozen=True):
    """A call of a tool."""

    document: dict[str, Any]
    """As the trace has it: id, server, tool, arguments, effect, outcome, tries, seconds, result ..."""
    line: str = ""
    """`mail.get_code: answered in 0.3 s`."""
    step: int | None = None
    at: datetime | None = None
    seconds: float = 0.0


class StoryThought(Struct, frozen=True):
    """A request to a model."""

    line: str
    """`builder thought 3.2 s (claude, 12.1k/180 tokens, $0.0021)`."""
    step: int
    at: datetime
    seconds: float
    answered: bool
    facts: dict[str, str]
    """The model and the number of the attempt, for people."""


class StoryTakeOver(Struct, frozen=True):
    """An agent failed, and another one was to go on."""

    text: str
    t: float
    after: str


class StoryFailure(Struct, frozen=True):
    """Why the task failed."""

    code: str
    place: str
    """`at step 4 (of 0-5)`."""
    message: str = ""
    reason: str = ""
    """The message without what the headline and the comparison say."""
    criterion: str = ""
    also_unmet: tuple[str, ...] = ()
    """The reasons why other criteria do not hold."""
    comparison: StoryComparison | None = None
    limit: str = ""
    """The limit that ended the attempt."""
    unanswered: tuple[str, ...] = ()
    """The requests that had no answer then."""
    matches: tuple[str, ...] = ()
    """The matches of an ambiguous selector."""
    crashes: dict[str, str] = {}
    """Service that crashed shortly before -> when, in words."""
    call: dict[str, Any] | None = None
    """The call of a tool behind it, as the trace has it."""
    selector: str = ""
    url: str = ""
    service: str = ""
    hint: str = ""
    """What to do."""
    absent: tuple[str, ...] = ()
    """Words of the hint for things that the task lacks; a screen leaves the parts with them out (`fitting`)."""
    advised: bool = False
    """Whether the hint is about this failure, not about its code."""
    suspect: str = ""
    origin: dict[str, str] = {}
    """`code`, `severity` and `source` (who failed) of its event."""
    fault: str = ""
    """The injected fault that could not be done, if that is the failure."""

    @property
    def _row(self) -> Row:
        """The row of its code; a kept failure may have one of another version."""
        return CATALOG.get(self.code, CATALOG["UNKNOWN"])

    @property
    def family(self) -> Family:
        return self._row.family

    @property
    def type(self) -> str:
        """One of the 14 values of `error_type`."""
        return str(self._row.error_type)

    @property
    def kind(self) -> str:
        """The kind of failure in JUnit and Allure."""
        return self._row.kind


class StoryPart(Struct, frozen=True):
    """One scoring checkpoint."""

    name: str
    weight: float
    met: bool
    applies: bool = True
    required: bool = False
    reason: str = ""


class StoryScore(Struct, frozen=True):
    """How much of the task was reached, 0 to 1."""

    total: float
    parts: tuple[StoryPart, ...] = ()
    rubrics: dict[str, float] = {}


class StoryPage(Struct, frozen=True):
    """The page when the task failed."""

    url: str = ""
    vanished: tuple[str, ...] = ()
    """Texts that it showed after the last act, and no longer shows."""
    console: tuple[str, ...] = ()
    picture: str = ""
    """The name of its screenshot."""
    user: str = ""
    """The user whose page it is, in a task with several."""


class StoryFile(Struct, frozen=True):
    """What the file of the task says of it."""

    source: str = ""
    location: str = ""
    """The file for people; of a failed step that is written in another file, that file and line."""
    steps_source: str = ""
    folder: str = ""
    goal: str = ""
    family: str = ""
    episode: str = ""
    priority: int | None = None
    tags: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    """Keys of its own, and their values."""
    declared: tuple[str, ...] = ()
    """Types of warnings that its `expect` declares."""
    seed: int | None = None
    site: str = ""
    """The host of the first page that it opens, if only the run knew it."""


class InnerStory(Struct, frozen=True):
    """A task that ran inside another one, before its steps or in its place."""

    role: Literal["repair task", "alternative task"]
    task_id: str
    final_state: FinalState
    started: datetime
    seconds: float
    ok: bool
    code: str
    steps: tuple[StoryStep, ...]
    calls: tuple[StoryCall, ...]


class TaskStory(Struct, frozen=True):
    """What happened in one task. All texts are redacted."""

    task_id: str
    key: str
    final_state: FinalState
    headline: str
    """`T-1 failed: STEP_TIMEOUT at step 4 (of 0-5): wait #done`."""
    cause: str
    """The headline without the task."""
    file: StoryFile = StoryFile()
    started: datetime | None = None
    seconds: float = 0.0
    failure: StoryFailure | None = None
    failed_index: int | None = None
    steps_total: int = 0
    steps_completed: int = 0
    steps: tuple[StoryStep, ...] = ()
    """What was tried, in order."""
    planned: tuple[StoryStep, ...] = ()
    """The steps around the failure that did not run."""
    faults: tuple[FaultReport, ...] = ()
    routes: tuple[RouteReport, ...] = ()
    warnings: tuple[dict[str, Any], ...] = ()
    """`type`, `step_index`, `message`, and the details of the type."""
    score: StoryScore | None = None
    page: StoryPage | None = None
    """None for a task without a report."""
    artifacts: str = ""
    """The directory of its evidence, if one was written."""
    as_declared: bool = False
    """It did what it should: it passed, or showed the outcome that its `expect` declares."""
    differences: tuple[str, ...] = ()
    """How its end differs from that outcome."""
    expected: bool = False
    """It failed, and `expect` declares that."""
    unexpected: bool = False
    """It has an `expect`, and did not show that outcome."""
    refused: bool = False
    """It passed only in part, or by another agent, under `--taskspec-strict`."""
    skipped: str = ""
    """The reason why it was left out."""
    figures: Figures = field(default_factory=Figures)
    agent: str = ""
    """The agent that chose its last steps; empty for the steps of the file."""
    agents: tuple[str, ...] = ()
    """All agents that chose steps, in order."""
    takeovers: tuple[StoryTakeOver, ...] = ()
    control: str = ""
    """`observed` if an agent has driven the browser itself."""
    models: dict[str, ModelFigures] = {}
    """Name of a model -> what its calls have used, those of tasks inside it, too."""
    model_calls: tuple[ModelCallLine, ...] = ()
    """The first requests to models."""
    thoughts: tuple[StoryThought, ...] = ()
    """All requests to models of the task itself."""
    tools: dict[str, dict[str, ToolFigures]] = {}
    """Name of a tool server -> name of a tool -> what its calls have done, those of tasks inside it, too."""
    calls: tuple[StoryCall, ...] = ()
    """The calls of tools of the task itself."""
    inner: tuple[InnerStory, ...] = ()
    unmatched: tuple[str, ...] = ()
    """The selectors that criteria have read and that have matched no element at any look, as `a` or `frame >>> a`."""
    baselines: tuple[str, ...] = ()
    """The baselines that it has changed or made."""

    @property
    def ok(self) -> bool:
        """Whether it reached its end."""
        return self.final_state in ("completed", "partial_success") and not self.skipped

    @property
    def told_warnings(self) -> list[str]:
        """The warnings as lines, without those that the list of faults says."""
        return [
            f"{each.get('type')}: {each.get('message', '')}"
            for each in self.warnings
            if each.get("type") != "fault_not_met"
        ]

    @property
    def last_try(self) -> StoryStep | None:
        """The last try of the step that failed, whether it failed there or after it."""
        return next((each for each in reversed(self.steps) if each.index == self.failed_index), None)


# What a story that is told and one that is read back say alike.


def cause_of(failure: StoryFailure, faults: Sequence[FaultReport], tried: str, problems: Sequence[object]) -> str:
    """The code, the place, and the criterion or step that failed there. `problems`: of a file that cannot be loaded."""
    what = failure.criterion or tried or next(iter(map(str, problems)), "").partition("\n")[0]
    named = f": {shortened(what, CRITERION)}" if what else ""
    return f"{failure.code} {failure.place}{after_faults(faults)}{named}"


def failed(code: str, place: str, message: str, details: Mapping[str, Any], plain: str, **more: Any) -> StoryFailure:
    """A failure with what its `details` say. `plain`: the end of its message, if that only repeats compared values."""
    criterion, others = str(details.get("criterion") or ""), _texts(details.get("also_unmet"))
    crashes = details.get("service_crashes")
    return StoryFailure(
        code=code,
        place=place,
        message=message,
        reason=reason_text(message, plain, criterion, others),
        criterion=criterion,
        also_unmet=tuple(other_reasons(_texts(details.get("unmet_criteria"))[1:], others)),
        limit=str(details.get("limit") or ""),
        unanswered=_texts(details.get("unanswered")),
        matches=_texts(details.get("matches")),
        crashes={str(name): str(when) for name, when in crashes.items()} if isinstance(crashes, Mapping) else {},
        service=str(details.get("service") or ""),
        **more,
    )


def compared(expression: str, expected: Any, actual: Any, diff: str, shown_diff: str, **lines: str) -> StoryComparison:
    """A comparison. `diff`: as the failure has it; `shown_diff`: as it is shown."""
    return StoryComparison(
        expression=expression,
        relation=relation(expression),
        expected=shown_value(expected),
        actual=shown_value(actual),
        diff=shown_diff,
        repeated=repeats(expected, actual, diff),
        **lines,
    )


def _texts(found: Any) -> tuple[str, ...]:
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()


# Safe texts: redacted, and writable in every file.

_CONTROL = re.compile("\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_AS_IS = frozenset({
    "task_id", "key", "source", "steps_source", "folder", "artifacts", "baselines",  # what identifies it
    "act", "code", "declared", "final_state", "kind", "origin", "place", "role", "status", "suspect",
})  # fmt: skip
"""The fields that are not redacted, but safe to write: what identifies things, and words of fixed vocabularies."""


def writable(text: str) -> str:
    """The text without halves of surrogate pairs and without control characters; line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return well_formed(_CONTROL.sub(lambda found: "\n" if found.group() == "\r\n" else " ", text))


def cleaned(value: Any, text: Callable[[str], str]) -> Any:
    """The value with `text` applied to each text in it, as deep as it is."""
    kind = type(value)
    if kind is str or kind in _PLAIN:
        return text(value) if kind is str else value
    if kind in (tuple, list):
        return kind([cleaned(item, text) for item in value])
    if isinstance(value, Struct):
        return kind(*[_field(name, getattr(value, name), text) for name in value.__struct_fields__])
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: _field(name, found, text) for name, found in value})
    return {text(str(key)): cleaned(item, text) for key, item in value.items()} if isinstance(value, Mapping) else value


_PLAIN = (bool, int, float, datetime, type(None))


def _field(name: str, value: Any, text: Callable[[str], str]) -> Any:
    return cleaned(value, writable if name in _AS_IS else text)


# The story as JSON, and back.


def as_json(story: TaskStory) -> bytes:
    """The story as a JSON document."""
    return msgspec.json.encode(story, enc_hook=_plain)


def of_json(document: bytes | str) -> TaskStory:
    """The story of a JSON document. Raises ValueError for one that is none, or that another version has written."""
    return msgspec.json.decode(document, type=TaskStory, dec_hook=_made)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise NotImplementedError(type(value).__name__)


def _made(kind: type[BaseModel], document: Any) -> Any:
    return kind.model_validate(document)
