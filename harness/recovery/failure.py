"""What went wrong, as values: taxonomy, catalog of codes, Failure and Outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from operator import or_
from typing import Any

from harness.recovery.catalog import Category, Effect, ErrorType, Family, Row, Scope, Severity, row


@dataclass(frozen=True, slots=True)
class Assertion:
    """Why a criterion does not hold: its smallest failing part (`context.assertion` of the report)."""

    expression: str
    expected: Any
    actual: Any
    diff: str = ""
    plain: str = ""
    """The end of the failure's message, where that says no more than `expected` and `actual`."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What decides, beside its code, how a failure is answered and counted. What is so is shown as evidence too."""

    waits: bool = False
    """Nothing was sent: the task waits for a circuit that is open, which is no retry."""
    innocent: bool = False
    """The browser was ended for another task's sake."""
    shared: bool = False
    """Other tasks were in the browser that is gone, and nobody knows which of them has ended it."""
    injected: bool = False
    """A fault of the task's own plan has ended the page or browser."""
    opened_before: bool = False
    """The page that failed was opened by an earlier step, whose GET is navigated again before this one."""
    intended: bool = False
    """The service was ended on purpose."""

    @property
    def others_may_be_to_blame(self) -> bool:
        return self.innocent or self.shared

    def __or__(self, other: Circumstances) -> Circumstances:
        """What is so of either."""
        return Circumstances(*map(or_, astuple(self), astuple(other)))

    def as_json(self) -> dict[str, bool]:
        """What is so, by name."""
        return {name: True for name, so in asdict(self).items() if so}


NOTHING_SPECIAL = Circumstances()


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt. `code` is a key of the catalog; everything general about the code stands there."""

    code: str
    message: str
    selector: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    """Evidence, JSON values only: url, status, net_error, covered_by, matches, call_log, ..."""
    assertion: Assertion | None = None
    retry_after: float | None = None
    """Seconds the server asked for (`Retry-After` of 429 and 503)."""
    effect: Effect = Effect.NONE
    tainted: bool = False
    """The page can no longer be trusted: the next attempt needs a fresh one (docs/design/deadlines.md)."""
    cause: BaseException | None = field(default=None, compare=False, repr=False)
    advice: str = ""
    """What to do about this very failure, where the catalog's hint for its code would mislead."""
    circumstances: Circumstances = NOTHING_SPECIAL
    act_done: bool = False
    """The step's act was done, and what it was to remember is missing: a retry does not do the act again."""

    @property
    def evidence(self) -> dict[str, Any]:
        """What a report shows of it: the details, and which circumstances decided."""
        return {**self.details, **self.circumstances.as_json()}

    def also(self, circumstances: Circumstances) -> Failure:
        """The same failure, of which this is so too."""
        return replace(self, circumstances=self.circumstances | circumstances)

    @property
    def row(self) -> Row:
        return row(self.code)

    @property
    def type(self) -> ErrorType:
        return self.row.error_type

    @property
    def category(self) -> Category:
        return self.row.category

    @property
    def severity(self) -> Severity:
        return self.row.severity

    @property
    def family(self) -> Family:
        return self.row.family

    @property
    def scope(self) -> Scope:
        return self.row.scope

    @property
    def retryable(self) -> bool:
        return self.row.retryable

    @property
    def hint(self) -> str:
        """What to do; what the page has instead of what was looked for comes first."""
        return self.advice or f"{_meant(self.details.get('similar', ()))}{self.row.hint}"


def _meant(similar: Sequence[str]) -> str:
    """`Did you mean #a or #b? `; empty when nothing is near."""
    return f"Did you mean {' or '.join(map(str, similar))}? " if similar else ""


@dataclass(frozen=True, slots=True)
class Passed:
    """A successful attempt. `details` says what is worth reporting: the element's role and name, a saved file, ..."""

    details: Mapping[str, Any] = field(default_factory=dict)


Outcome = Passed | Failure


class Failed(Exception):  # noqa: N818 - it carries a Failure, it is not itself the error
    """Carries a Failure through code that cannot return one (a page read in the middle of a criterion)."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
