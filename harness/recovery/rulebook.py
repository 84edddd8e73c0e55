"""`error_recovery`: which rule answers for which failure (docs/design/steps-and-recovery.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from pydantic import Field

from harness.recovery.catalog import Category, Family
from harness.recovery.declaration import Declaration
from harness.recovery.remedy import NOTHING, Capture, Captured, GiveUp, Random, Remedy, Rule, Skip
from harness.recovery.strategies import (
    AbortOnAmbiguity,
    AbortWithWarning,
    CaptureStateAndAbort,
    FixedRetry,
    OnActionFailed,
    OnAssertionFail,
    OnBrowserCrash,
    OnElementNotFound,
    OnNetworkError,
    OnPreconditionFail,
    OnSelectorAmbiguous,
    OnStateInconsistency,
    OnTimeout,
    RestartFromCheckpoint,
    RetryAction,
    SaveTraceAndReport,
    TrustEnvironment,
    WaitAndRetry,
)

if TYPE_CHECKING:
    from harness.recovery.failure import Failure

MANY = 1000
"""The largest number of remedies of one rule that are counted."""


class Rulebook(Declaration):
    """The rules of one task. A rule that the file does not declare is its default."""

    on_timeout: OnTimeout = Field(CaptureStateAndAbort(), description="A step or the task took too long.")
    on_network_error: OnNetworkError = Field(
        FixedRetry(wait_for_circuit=False),
        description="A host could not be reached, broke off, did not answer, or answered with an error.",
    )
    on_element_not_found: OnElementNotFound = Field(WaitAndRetry(), description="Nothing matches a selector.")
    on_selector_ambiguous: OnSelectorAmbiguous = Field(
        AbortOnAmbiguity(), description="Several elements match where one is wanted."
    )
    on_action_failed: OnActionFailed = Field(
        RetryAction(),
        description="An act fails although its element exists: covered, hidden, disabled, no such option, no download.",
    )
    on_assertion_fail: OnAssertionFail = Field(
        SaveTraceAndReport(), description="An `assert` or a success criterion does not hold."
    )
    on_precondition_fail: OnPreconditionFail = Field(AbortWithWarning(), description="A precondition does not hold.")
    on_state_inconsistency: OnStateInconsistency = Field(
        TrustEnvironment(), description="Memory and environment differ in one of `state_bindings`."
    )
    on_browser_crash: OnBrowserCrash = Field(
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
        every = islice(self.remedies(failure, lambda: 0.5), MANY)
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
