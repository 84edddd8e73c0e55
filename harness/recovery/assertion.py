"""`on_assertion_fail` (specs/003 4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from harness.failure import Failure
from harness.recovery.remedy import Capture, GiveUp, Remedy, Retry
from harness.recovery.rule import Random, Rule, shorthand


class AssertionRule(Rule):
    """What the strategies that report share: which evidence the report has."""

    capture_screenshot: bool = Field(True, description="Whether the report has a screenshot.")
    capture_dom: bool = Field(True, description="Whether it has the page's DOM.")
    capture_memory: bool = Field(True, description="Whether it has the memory.")

    def _give_up(self) -> GiveUp:
        return GiveUp("failed", Capture(self.capture_screenshot, self.capture_dom, self.capture_memory))


class SaveTraceAndReport(AssertionRule):
    """End the task as failed, with evidence, expected, actual and diff."""

    strategy: Literal["save_trace_and_report"] = "save_trace_and_report"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield self._give_up()


class RetryAfterWait(AssertionRule):
    """Look once more after a wait: some states come late."""

    strategy: Literal["retry_after_wait"] = "retry_after_wait"
    wait_before_retry_seconds: float = Field(
        5, ge=0, le=3600, description="How long to wait before the second look, in seconds."
    )

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield Retry(after=self.wait_before_retry_seconds)
        yield self._give_up()


class AbortSilent(Rule):
    """End the task; no evidence but what is declared."""

    strategy: Literal["abort_silent"] = "abort_silent"
    capture_screenshot: bool = Field(False, description="Whether the report has a screenshot.")
    capture_dom: bool = Field(False, description="Whether it has the page's DOM.")
    capture_memory: bool = Field(False, description="Whether it has the memory.")

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        wanted = Capture(self.capture_screenshot, self.capture_dom, self.capture_memory, environment=False, logs=False)
        yield GiveUp("aborted", wanted)


OnAssertionFail = Annotated[
    SaveTraceAndReport | RetryAfterWait | AbortSilent,
    Field(discriminator="strategy"),
    shorthand("save_trace_and_report"),
]
