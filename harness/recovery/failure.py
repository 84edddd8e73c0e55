"""Failures and outcomes as values: what went wrong, and under which circumstances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import or_
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, astuple

from harness.recovery.catalog import Category, Effect, ErrorType, Family, Row, Scope, Severity, Suspect, row
from harness.values import replace


class Assertion(Struct, frozen=True):
    """Why a criterion does not hold: its smallest failing part (`context.assertion` of the report)."""

    expression: str
    expected: Any
    actual: Any
    diff: str = ""
    plain: str = ""
    """The end of the failure's message if that only repeats `expected` and `actual`."""


class Circumstances(Struct, frozen=True):
    """Facts that decide, with the code, how a failure is answered and counted. Those that hold are evidence too."""

    waits: bool = False
    """Nothing was sent: the task waits for an open circuit, which is not a retry."""
    innocent: bool = False
    """The browser was ended for another task's sake."""
    shared: bool = False
    """The browser that is gone was shared with other tasks, and it is unknown which of them ended it."""
    injected: bool = False
    """A fault of the task's own plan ended the page or browser."""
    opened_before: bool = False
    """The page that failed was opened by an earlier step, whose GET is repeated before this step."""
    intended: bool = False
    """The service was ended on purpose."""
    routed: bool = False
    """A route of the task gave the answer, or changed it: the circuit of the site does not count it."""
    patched: bool = False
    """The site got the request, and a route changed its answer."""
    permanent: bool = False
    """Only a person can mend it, so that no other attempt of this task can help, whatever holds for its code."""

    @property
    def others_may_be_to_blame(self) -> bool:
        return self.innocent or self.shared

    def __or__(self, other: Circumstances) -> Circumstances:
        """The circumstances that hold in either."""
        return Circumstances(*map(or_, astuple(self), astuple(other)))

    def as_json(self) -> dict[str, bool]:
        """The circumstances that hold, by name."""
        return {name: True for name, so in asdict(self).items() if so}


_NOTHING_SPECIAL = Circumstances()


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt. `code` is a key of the catalog, whose row has all that each failure of the code shares."""

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
    """What to do about this failure, if the catalog's hint for its code would mislead."""
    circumstances: Circumstances = _NOTHING_SPECIAL
    act_done: bool = False
    """The step's act was done, and only what it was to remember is missing: a retry does not repeat the act."""

    @property
    def evidence(self) -> dict[str, Any]:
        """The failure's evidence for a report: its details and the circumstances that hold."""
        return {**self.details, **self.circumstances.as_json()}

    @property
    def requested(self) -> str | None:
        """The URL whose request failed: that of a part of the page, else that of the page."""
        url = self.details.get("resource", self.details.get("url"))
        return url if isinstance(url, str) else None

    def also(self, circumstances: Circumstances) -> Failure:
        """Return the same failure with these circumstances added."""
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
        return self.row.retryable and not self.circumstances.permanent

    @property
    def event_category(self) -> str:
        """The `category` of its events. A browser that was ended for another task is no lost session of this one."""
        if self.family is Family.BROWSER and self.circumstances.innocent:
            return str(self.category)
        return self.row.event_category

    @property
    def origin(self) -> dict[str, str]:
        """The fields `code`, `severity` and `source` (who failed) of an event."""
        hook = self.family is Family.PRECONDITION and "pytest_taskspec_repair" in self.message
        server = self.family is Family.NETWORK or self.scope in (Scope.ORIGIN, Scope.WORLD)
        source = "hook" if hook else "server" if server else "client"
        return {"code": self.code, "severity": str(self.severity), "source": source}

    @property
    def hint(self) -> str:
        """What to do; similar names found on the page come first."""
        similar = " or ".join(map(str, self.details.get("similar", ())))
        return self.advice or (f"Did you mean {similar}? " if similar else "") + self.row.hint


def budget_exceeded(limit: str, words: str, details: Mapping[str, Any] | None = None) -> Failure:
    """The failure of a task at a limit of its `budget`. `words`: what that allows, and what was used or needed."""
    advice = (
        f"Raise `{limit}` in `budget` of the task file if the task needs more; the steps in `harness show` and "
        "partial_trace.json say what used it up."
    )
    return Failure(
        "BUDGET_EXCEEDED", f"Budget exceeded: `{limit}` allows {words}", details=details or {}, advice=advice
    )


def routed_failure(failure: Failure, *, patched: bool = False) -> Failure:
    """The same failure, by an answer that a route of the task gave or changed: no site is to blame for it."""
    advice = "A route of the task gave this answer, and the site got no request: see `routes` in the report."
    if patched:
        advice = "A route of the task changed this answer of the site (`patch`): see `routes` in the report."
    return replace(failure.also(Circumstances(routed=True, patched=patched)), advice=failure.advice or advice)


class Passed(Struct, frozen=True):
    """A successful attempt. `details` has what is worth reporting: the element's role and name, a saved file, ..."""

    details: Mapping[str, Any] = msgspec.field(default_factory=dict)


Outcome = Passed | Failure


class Failed(Exception):  # noqa: N818 - it carries a Failure, it is not itself the error
    """Carries a Failure through code that cannot return one (a read of the page in the middle of a criterion)."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


# Where to look first: the catalog's answer for a failure's code, which the evidence of the failure may change.


def suspect_of(failure: Failure, *, by_agent: bool = False, after_fault: bool = False) -> Suspect:
    """Return where a person should look first.

    `by_agent`: an agent chose the step, not the task's file. `after_fault`: the failure follows an injected fault.
    """
    known = failure.row.suspect
    of_run = failure.row.scope is Scope.RUN  # the harness or its disk: no fault and no agent brings that about
    if found := known if of_run else _by_circumstances(failure, after_fault=after_fault):
        return found
    if _died_by_itself(failure):
        return Suspect.SITE
    if "login" in failure.details:  # the site shows its login page
        return Suspect.PROJECT
    if "other_match" in failure.details:  # the page has the text, and the selector names another element
        known = Suspect.TASK
    if known is not Suspect.TASK:
        return known
    if _was_never_whole(failure):
        return Suspect.SITE
    return Suspect.AGENT if by_agent else known


def _was_never_whole(failure: Failure) -> bool:
    """Whether the page was not complete: requests had no answer or an error, or a part of it did not come."""
    lacked = any("ERR_BLOCKED" not in str(each) for each in failure.details.get("missing_parts", ()))
    lacked = lacked or any(": HTTP 5" in str(each) for each in failure.details.get("bad_answers", ()))
    return lacked or bool(failure.details.get("pending") or failure.details.get("flood"))


def _died_by_itself(failure: Failure) -> bool:
    """Whether a service that ran has ended by itself: it is down now, or crashed shortly before the failure."""
    if "service_crashes" in failure.details and failure.row.suspect is not Suspect.MACHINE:
        return True
    return "crashes" in failure.details and "at_start" not in failure.details


def _by_circumstances(failure: Failure, *, after_fault: bool) -> Suspect | None:
    """The suspect if something else than the failed act itself brought the failure about."""
    how = failure.circumstances
    if how.others_may_be_to_blame:
        return Suspect.MACHINE
    if after_fault or how.injected or how.routed:  # the task declares what was done to it, and how to outlast that
        return Suspect.TASK
    if "driver" in failure.details:  # the process through which the harness drives the browser was lost
        return Suspect.MACHINE
    return Suspect.PROJECT if how.intended else None
