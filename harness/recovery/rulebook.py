"""`error_recovery`: its rules and their strategies (docs/design/steps-and-recovery.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from harness.recovery.catalog import DEFAULT_RETRIES, Category, ErrorType, Family, Scope
from harness.recovery.declaration import ChosenBy, Declaration
from harness.recovery.locators import Selector
from harness.recovery.remedy import (
    NOTHING,
    Capture,
    Captured,
    GiveUp,
    Random,
    Remedy,
    RepairPrecondition,
    Retry,
    Rewind,
    Rule,
    Skip,
    Substitute,
    Trust,
    shorthand,
)
from harness.resilience import Backoff

if TYPE_CHECKING:
    from harness.recovery.failure import Failure


class AbortRule(Rule):
    """The base of `abort`: end the task at once; nothing is tried again."""

    strategy: Literal["abort"] = "abort"
    answers = (GiveUp("aborted"),)


# `on_timeout`: what to do when a step or the task takes too long.

_STRETCH = 1.5
"""The factor for both limits when the task goes back to a checkpoint."""


class CaptureStateAndAbort(Rule):
    """Take the full evidence and end the task as failed."""

    strategy: Literal["capture_state_and_abort"] = "capture_state_and_abort"
    answers = (GiveUp("failed"),)


class AbortOnTimeout(AbortRule):
    """End the task at once; nothing is tried again."""


class RetryFromCheckpoint(Rule):
    """Go back to the nearest checkpoint, once in a task, with limits 1.5 times as long; then end the task as failed."""

    strategy: Literal["retry_from_checkpoint"] = "retry_from_checkpoint"
    answers = (Rewind(stretch=_STRETCH), GiveUp("failed"))


class SkipStep(Rule):
    """Go on with the next step. A timeout of the whole task still ends it."""

    strategy: Literal["skip_step"] = "skip_step"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        if failure.type != ErrorType.TIMEOUT_TASK:
            yield Skip("step")
        yield GiveUp("failed")


_OnTimeout = Annotated[
    CaptureStateAndAbort | AbortOnTimeout | RetryFromCheckpoint | SkipStep,
    ChosenBy("strategy"),
    shorthand("capture_state_and_abort"),
]


# `on_network_error`: what to do when a host cannot be reached, breaks off, or answers with an error.

_WAITS = Backoff(retries=1000, initial=0.1, multiplier=2.0, cap=2.0)
"""The delays between checks of an open circuit. They are not retries: nothing is sent. The task's time ends them."""


class NetworkRule(Rule):
    """What `retry` and `exponential_backoff` share. Retries are extra attempts after the first."""

    max_retries: int | None = Field(
        None,
        ge=0,
        le=100,
        description=f"Extra attempts. Without it {DEFAULT_RETRIES}, and 2 for a name that does not resolve,"
        " as a number of attempts.",
    )
    retry_delay_ms: int = Field(
        1000, ge=0, le=3_600_000, description="How long to wait before the first retry, in milliseconds."
    )
    backoff_multiplier: float = Field(
        1.0, ge=1, le=100, description="Each delay is this many times the one before, as a factor."
    )
    max_delay_ms: int = Field(30_000, ge=0, le=3_600_000, description="Longest delay, in milliseconds.")
    jitter: float = Field(0.0, ge=0, le=1, description="Random variation of each delay, up or down, as a share.")

    wait_for_circuit: bool | None = Field(
        None,
        description="Whether the task waits until a site that is left alone (`CIRCUIT_OPEN`) may be tried again, if "
        "its time allows. `true`: each time. `false`: never; retries keep their delays and send nothing. "
        "Default: only the first time.",
    )

    def backoff(self, failure: Failure) -> Backoff:
        """The delays for this failure; none if its catalog row says that a retry cannot help."""
        if not failure.retryable:
            return Backoff(retries=0)
        retries = failure.row.max_retries if self.max_retries is None else self.max_retries
        initial, cap = self.retry_delay_ms / 1000, self.max_delay_ms / 1000
        return Backoff(retries, initial, self.backoff_multiplier, max(cap, initial), self.jitter)

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        backoff = _WAITS if failure.circumstances.waits else self.backoff(failure)
        yield from map(Retry, backoff.delays(random))
        yield GiveUp("failed")


class FixedRetry(NetworkRule):
    """Try again after a fixed delay; a declared `backoff_multiplier` makes it grow."""

    strategy: Literal["retry"] = "retry"


class ExponentialBackoff(NetworkRule):
    """Try again after delays that grow by a factor, 2 unless declared."""

    strategy: Literal["exponential_backoff"] = "exponential_backoff"
    backoff_multiplier: float = Field(
        2.0, ge=1, le=100, description="Each delay is this many times the one before, as a factor."
    )


class AbortOnNetworkError(AbortRule):
    """End the task at once; nothing is tried again."""


_TIMES = re.compile(r"retry_(\d{1,3})_times?")


def _counted(value: Any) -> Any:
    """`"retry_3_times"` is short for `{strategy: retry, max_retries: 3}`."""
    found = _TIMES.fullmatch(value) if isinstance(value, str) else None
    return {"strategy": "retry", "max_retries": int(found[1])} if found else value


_OnNetworkError = Annotated[
    FixedRetry | ExponentialBackoff | AbortOnNetworkError,
    ChosenBy("strategy"),
    shorthand("retry"),
    BeforeValidator(_counted),
]


# `on_element_not_found`, `on_selector_ambiguous`, `on_action_failed`: where a selector fallback is decided.


class ElementRule(Rule):
    """The base of `wait_and_retry` and `try_fallback_selector`.

    The wait of `wait_seconds` is the first attempt itself; the fallbacks follow it (docs/design/steps-and-recovery.md).
    `wait_and_retry` goes on to declared fallbacks too.
    """

    wait_seconds: float = Field(
        10, ge=0, le=3600, description="How long the first attempt looks for the element, in seconds."
    )
    fallback_wait_seconds: float = Field(
        5, ge=0, le=3600, description="How long the task looks for each fallback, in seconds."
    )
    fallback_selectors: dict[str, tuple[Selector, ...]] = Field(
        default_factory=dict, description="Selector as written in the step -> selectors to try instead, in order."
    )

    @property
    def patience(self) -> float | None:
        return self.wait_seconds

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        for selector in self.fallback_selectors.get(failure.selector or "", ()):
            yield Substitute(selector, self.fallback_wait_seconds)
        yield GiveUp("failed")


class WaitAndRetry(ElementRule):
    """Look for the element for `wait_seconds`."""

    strategy: Literal["wait_and_retry"] = "wait_and_retry"


class TryFallbackSelector(ElementRule):
    """Look for the element for `wait_seconds`, then for each of its fallbacks."""

    strategy: Literal["try_fallback_selector"] = "try_fallback_selector"


class AbortOnElement(AbortRule):
    """End the task when the element does not come within the step's own limit."""


class _UseOne(Rule):
    chosen_by: ClassVar[str]

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        if failure.selector:
            yield Substitute(f"{failure.selector} >> {self.chosen_by}")
        yield GiveUp("failed")


class UseFirst(_UseOne):
    """Act on the first match."""

    strategy: Literal["use_first"] = "use_first"
    chosen_by = "nth=0"


class UseVisible(_UseOne):
    """Act on the first visible match."""

    strategy: Literal["use_visible"] = "use_visible"
    chosen_by = "visible=true >> nth=0"


class AbortOnAmbiguity(AbortRule):
    """End the task; the report lists the matches."""


class RetryAction(Rule):
    """Try the act once more."""

    strategy: Literal["retry"] = "retry"
    answers = (Retry(), GiveUp("failed"))


class AbortOnAction(AbortRule):
    """End the task at once; nothing is tried again."""


_OnElementNotFound = Annotated[
    WaitAndRetry | TryFallbackSelector | AbortOnElement, ChosenBy("strategy"), shorthand("wait_and_retry")
]
_OnSelectorAmbiguous = Annotated[AbortOnAmbiguity | UseFirst | UseVisible, ChosenBy("strategy"), shorthand("abort")]
_OnActionFailed = Annotated[RetryAction | AbortOnAction, ChosenBy("strategy"), shorthand("retry")]


# `on_assertion_fail`: what to do when an assertion or a success criterion does not hold.


class _Captures(Rule):
    """The `capture_*` settings that all strategies share."""

    capture_screenshot: bool = Field(True, description="Whether the report has a screenshot.")
    capture_dom: bool = Field(True, description="Whether the report has the page's DOM.")
    capture_memory: bool = Field(True, description="Whether the report has the memory.")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        declared = (name for name in ("capture_screenshot", "capture_dom", "capture_memory") if getattr(self, name))
        wanted = next((name for name in declared if name in self.model_fields_set), None)
        if self.capture == "none" and wanted is not None:
            raise ValueError(f"`capture: none` keeps nothing, so `{wanted}: true` has no effect; leave one of them out")
        return self


class SaveTraceAndReport(_Captures):
    """End the task as failed, with evidence, expected, actual and diff."""

    strategy: Literal["save_trace_and_report"] = "save_trace_and_report"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("failed", Capture(self.capture_screenshot, self.capture_dom, self.capture_memory))


class RetryAfterWait(_Captures):
    """Check once more after a wait, because some states come late."""

    strategy: Literal["retry_after_wait"] = "retry_after_wait"
    wait_before_retry_seconds: float = Field(
        5, ge=0, le=3600, description="How long to wait before the second check, in seconds."
    )

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield Retry(after=self.wait_before_retry_seconds)
        yield GiveUp("failed", Capture(self.capture_screenshot, self.capture_dom, self.capture_memory))


class AbortSilent(_Captures):
    """End the task, and keep only the evidence that the `capture_*` keys name."""

    strategy: Literal["abort_silent"] = "abort_silent"
    capture_screenshot: bool = Field(False, description="Whether the report has a screenshot.")
    capture_dom: bool = Field(False, description="Whether the report has the page's DOM.")
    capture_memory: bool = Field(False, description="Whether the report has the memory.")

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        named = self.capture_screenshot, self.capture_dom, self.capture_memory
        why = "`abort_silent` takes only what its `capture_*` keys name"
        yield GiveUp("aborted", Capture(*named, environment=False, logs=False, why=why))


_OnAssertionFail = Annotated[
    SaveTraceAndReport | RetryAfterWait | AbortSilent, ChosenBy("strategy"), shorthand("save_trace_and_report")
]


# `on_precondition_fail`: what to do when a precondition does not hold.


class AbortWithWarning(Rule):
    """Do not start the task, and report the precondition that does not hold."""

    strategy: Literal["abort_with_warning"] = "abort_with_warning"
    answers = (GiveUp("aborted"),)


class AttemptRepair(Rule):
    """Set up the precondition and check it again; if it still does not hold, do not start the task."""

    strategy: Literal["attempt_repair"] = "attempt_repair"
    answers = (RepairPrecondition(), GiveUp("aborted"))


class SkipTask(Rule):
    """Skip the task with the reason, and write no report."""

    strategy: Literal["skip_task"] = "skip_task"
    answers = (Skip("task"),)


_OnPreconditionFail = Annotated[
    AbortWithWarning | AttemptRepair | SkipTask, ChosenBy("strategy"), shorthand("abort_with_warning")
]


# `on_state_inconsistency`: what to do when memory and environment differ.


class TrustEnvironment(Rule):
    """Memory takes the environment's value."""

    strategy: Literal["trust_env"] = "trust_env"
    answers = (Trust("environment"), GiveUp("failed"))


class TrustMemory(Rule):
    """The environment takes memory's value, written through its channel."""

    strategy: Literal["trust_memory"] = "trust_memory"
    answers = (Trust("memory"), GiveUp("failed"))


class ManualResolution(Rule):
    """Ask a person at the terminal; without a terminal the task fails and names both values."""

    strategy: Literal["manual_resolution"] = "manual_resolution"
    answers = (Trust("person"), GiveUp("failed"))


class AbortOnInconsistency(AbortRule):
    """End the task."""


_OnStateInconsistency = Annotated[
    TrustEnvironment | TrustMemory | ManualResolution | AbortOnInconsistency,
    ChosenBy("strategy"),
    shorthand("trust_env"),
]


# `on_browser_crash`: what to do when a page, the browser or its driver is lost (docs/decisions/006).

PERMANENT = 3
"""The number of crashes of one task within `WITHIN` seconds that is permanent."""
WITHIN = 300.0
"""Seconds for which a crash counts."""


class _Restart(Rule):
    to_start: ClassVar[bool] = False

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        """Yield the remedies from the cheapest upwards (docs/decisions/006).

        A task whose browser was ended for another task's sake, or while other tasks used it, may always begin again.
        """
        if failure.code == "PAGE_CLOSED":  # the site closed it, and would do so again
            yield GiveUp("failed")
            return
        to_start = self.to_start or failure.circumstances.others_may_be_to_blame
        if failure.code == "PAGE_UNRESPONSIVE":
            yield Retry()
        yield Rewind(restart=failure.scope is not Scope.PAGE, to_start=to_start)
        if failure.code == "PAGE_CRASHED":
            yield Retry()
        yield GiveUp("failed")


class RestartFromCheckpoint(_Restart):
    """Free or replace the page, or start a new browser, and continue from the nearest checkpoint.

    A page that hangs is freed first, and the step done again. Where there is no checkpoint, a crashed page is opened
    again in the same context, and a browser that is gone ends the task.
    """

    strategy: Literal["restart_from_checkpoint"] = "restart_from_checkpoint"


class RestartTask(_Restart):
    """Do the same as `restart_from_checkpoint`, but without a checkpoint begin the task again with its first step."""

    strategy: Literal["restart_task"] = "restart_task"
    to_start = True


class AbortOnCrash(AbortRule):
    """End the task with the evidence that was kept."""


_OnBrowserCrash = Annotated[
    RestartFromCheckpoint | RestartTask | AbortOnCrash, ChosenBy("strategy"), shorthand("restart_from_checkpoint")
]


# The rules of a task.

_MANY = 1000
"""The largest number of remedies of one rule that are counted."""


class Rulebook(Declaration):
    """The rules of one task. A rule that the file does not declare is its default."""

    on_timeout: _OnTimeout = Field(CaptureStateAndAbort(), description="A step or the task took too long.")
    on_network_error: _OnNetworkError = Field(
        FixedRetry(wait_for_circuit=False),
        description="A host could not be reached, broke off, did not answer, or answered with an error.",
    )
    on_element_not_found: _OnElementNotFound = Field(WaitAndRetry(), description="Nothing matches a selector.")
    on_selector_ambiguous: _OnSelectorAmbiguous = Field(
        AbortOnAmbiguity(), description="Several elements match where one is wanted."
    )
    on_action_failed: _OnActionFailed = Field(
        RetryAction(),
        description="An act fails although its element exists: covered, hidden, disabled, no such option, no download.",
    )
    on_assertion_fail: _OnAssertionFail = Field(
        SaveTraceAndReport(), description="An `assert` or a success criterion does not hold."
    )
    on_precondition_fail: _OnPreconditionFail = Field(AbortWithWarning(), description="A precondition does not hold.")
    on_state_inconsistency: _OnStateInconsistency = Field(
        TrustEnvironment(), description="Memory and environment differ in one of `state_bindings`."
    )
    on_browser_crash: _OnBrowserCrash = Field(
        RestartFromCheckpoint(), description="The browser or the page crashed, or went away."
    )

    capture: Captured = Field(
        "all",
        description="What is kept when the task fails. `none` keeps only the report and the steps, without "
        "screenshot, DOM, logs, memory and environment. The `capture` of a rule overrides it.",
    )

    def rule(self, family: Family) -> Rule | None:
        """Return the rule of a family, or None for the families that have none: their failures end the task."""
        rule: Rule | None = getattr(self, family.value, None)  # the value of a family is the name of its rule
        return rule

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        """Yield the remedies to try for a failure, by the family of its code."""
        rule = self.rule(failure.family)
        return rule.remedies(failure, random) if rule else iter((_end(failure),))

    def planned(self, failure: Failure, kind: type[Remedy]) -> int:
        """The number of remedies of one kind that its rule has for such a failure."""
        every = islice(self.remedies(failure, lambda: 0.5), _MANY)
        return sum(isinstance(each, kind) for each in every)

    def evidence(self, failure: Failure, wanted: Capture) -> Capture:
        """Return what to take as evidence if the task ends with this failure; `wanted` is what its strategy wants."""
        rule = self.rule(failure.family)
        declared = rule.capture if rule and rule.capture else self.capture
        return NOTHING if declared == "none" else wanted


class NoRecovery(Rulebook):
    """`--task-no-recovery`: nothing is tried again. How a task ends, and what it leaves, is as its rules say."""

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        """Yield only the remedy that ends the task or leaves it out, as if nothing before it had helped."""
        rule = self.rule(failure.family)
        ends = (each for each in (rule.remedies(failure, random) if rule else ()) if _is_an_end(each))
        yield next(ends, _end(failure))


def _is_an_end(remedy: Remedy) -> bool:
    """Return whether the remedy ends the task. To go on without a step (`skip_step`) is recovery, and no end."""
    return isinstance(remedy, GiveUp) or remedy == Skip("task")


def _end(failure: Failure) -> GiveUp:
    """A failure of policy, login or budget and an interruption abort the task; every other failure fails it."""
    return GiveUp("aborted" if failure.category is Category.CATASTROPHIC else "failed")
