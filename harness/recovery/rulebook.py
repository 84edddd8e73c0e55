"""`error_recovery`: which rule answers for which failure (specs/003 2.1, DESIGN 4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.failure import Category, Failure, Family
from harness.recovery.assertion import OnAssertionFail, SaveTraceAndReport
from harness.recovery.element import (
    AbortOnAmbiguity,
    OnActionFailed,
    OnElementNotFound,
    OnSelectorAmbiguous,
    RetryAction,
    WaitAndRetry,
)
from harness.recovery.network import FixedRetry, OnNetworkError
from harness.recovery.precondition import AbortWithWarning, OnPreconditionFail, OnStateInconsistency
from harness.recovery.remedy import GiveUp, Remedy
from harness.recovery.rule import Planned, Random, Rule, shorthand
from harness.recovery.timeout import CaptureStateAndAbort, OnTimeout


class RestartFromCheckpoint(Planned):
    """Start a new browser and go on from the nearest checkpoint."""

    strategy: Literal["restart_from_checkpoint"] = "restart_from_checkpoint"


class AbortOnCrash(Rule):
    """End the task, with the evidence that was kept."""

    strategy: Literal["abort"] = "abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("failed")


OnBrowserCrash = Annotated[RestartFromCheckpoint | AbortOnCrash, Field(discriminator="strategy"), shorthand("abort")]


class Rulebook(BaseModel):
    """The rules of one task. A rule that the file does not declare is its default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    on_timeout: OnTimeout = CaptureStateAndAbort()
    on_network_error: OnNetworkError = FixedRetry()
    on_element_not_found: OnElementNotFound = WaitAndRetry()
    on_selector_ambiguous: OnSelectorAmbiguous = AbortOnAmbiguity()
    on_action_failed: OnActionFailed = RetryAction()
    on_assertion_fail: OnAssertionFail = SaveTraceAndReport()
    on_precondition_fail: OnPreconditionFail = AbortWithWarning()
    on_browser_crash: OnBrowserCrash = AbortOnCrash()
    on_state_inconsistency: OnStateInconsistency | None = None

    def rule(self, family: Family) -> Rule | None:
        """The rule of a family; None where nothing can be declared: then the task ends."""
        rule: Rule | None = getattr(self, family.value, None)  # a family's value is the name of its rule
        return rule

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        """What to try for a failure, by the family that its catalog row names."""
        rule = self.rule(failure.family)
        return rule.remedies(failure, random) if rule else iter((_end(failure),))

    def unavailable(self) -> Iterator[tuple[str, str]]:
        """(rule, strategy) pairs that this version refuses to run."""
        for name in type(self).model_fields:
            rule = getattr(self, name)
            if rule is not None and not rule.available:
                yield name, rule.strategy


class NoRecovery(Rulebook):
    """`--no-recovery`: nothing is tried, the evidence is taken (DESIGN 4.4)."""

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        return iter((_end(failure),))


def _end(failure: Failure) -> GiveUp:
    """Policy, authentication, budget and interruption abort a task (DESIGN 4.4); all else fails it."""
    return GiveUp("aborted" if failure.category is Category.CATASTROPHIC else "failed")
