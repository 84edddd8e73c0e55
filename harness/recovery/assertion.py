"""`on_assertion_fail`: what to do when an assertion or a success criterion does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from harness.recovery.declaration import ChosenBy
from harness.recovery.remedy import Capture, GiveUp, Random, Remedy, Retry, Rule, shorthand

if TYPE_CHECKING:
    from harness.recovery.failure import Failure


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


class AssertionRule(_Captures):
    """The base of the strategies that report."""

    def _give_up(self) -> GiveUp:
        return GiveUp("failed", Capture(self.capture_screenshot, self.capture_dom, self.capture_memory))


_SILENT = "`abort_silent` takes only what its `capture_*` keys name"


class SaveTraceAndReport(AssertionRule):
    """End the task as failed, with evidence, expected, actual and diff."""

    strategy: Literal["save_trace_and_report"] = "save_trace_and_report"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield self._give_up()


class RetryAfterWait(AssertionRule):
    """Check once more after a wait, because some states come late."""

    strategy: Literal["retry_after_wait"] = "retry_after_wait"
    wait_before_retry_seconds: float = Field(
        5, ge=0, le=3600, description="How long to wait before the second check, in seconds."
    )

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield Retry(after=self.wait_before_retry_seconds)
        yield self._give_up()


class AbortSilent(_Captures):
    """End the task, and keep only the evidence that the `capture_*` keys name."""

    strategy: Literal["abort_silent"] = "abort_silent"
    capture_screenshot: bool = Field(False, description="Whether the report has a screenshot.")
    capture_dom: bool = Field(False, description="Whether the report has the page's DOM.")
    capture_memory: bool = Field(False, description="Whether the report has the memory.")

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        named = self.capture_screenshot, self.capture_dom, self.capture_memory
        wanted = Capture(*named, environment=False, logs=False, why=_SILENT)
        yield GiveUp("aborted", wanted)


OnAssertionFail = Annotated[
    SaveTraceAndReport | RetryAfterWait | AbortSilent,
    ChosenBy("strategy"),
    shorthand("save_trace_and_report"),
]
