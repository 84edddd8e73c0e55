"""`on_element_not_found`, `on_selector_ambiguous`, `on_action_failed`: where a selector fallback is decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from harness.recovery.declaration import ChosenBy
from harness.recovery.remedy import GiveUp, Random, Remedy, Retry, Rule, Substitute, shorthand

if TYPE_CHECKING:
    from harness.recovery.failure import Failure


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
    fallback_selectors: dict[str, tuple[str, ...]] = Field(
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


class AbortOnElement(Rule):
    """End the task when the element does not come within the step's own limit."""

    strategy: Literal["abort"] = "abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted")


class UseFirst(Rule):
    """Act on the first match."""

    strategy: Literal["use_first"] = "use_first"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        if failure.selector:
            yield Substitute(f"{failure.selector} >> nth=0")
        yield GiveUp("failed")


class UseVisible(Rule):
    """Act on the first visible match."""

    strategy: Literal["use_visible"] = "use_visible"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        if failure.selector:
            yield Substitute(f"{failure.selector} >> visible=true >> nth=0")
        yield GiveUp("failed")


class AbortOnAmbiguity(Rule):
    """End the task; the report lists the matches."""

    strategy: Literal["abort"] = "abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted")


class RetryAction(Rule):
    """Try the act once more."""

    strategy: Literal["retry"] = "retry"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield Retry()
        yield GiveUp("failed")


class AbortOnAction(Rule):
    """End the task at once; nothing is tried again."""

    strategy: Literal["abort"] = "abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted")


OnElementNotFound = Annotated[
    WaitAndRetry | TryFallbackSelector | AbortOnElement, ChosenBy("strategy"), shorthand("wait_and_retry")
]
OnSelectorAmbiguous = Annotated[AbortOnAmbiguity | UseFirst | UseVisible, ChosenBy("strategy"), shorthand("abort")]
OnActionFailed = Annotated[RetryAction | AbortOnAction, ChosenBy("strategy"), shorthand("retry")]
