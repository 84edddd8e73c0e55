"""Where to look first: the catalog's answer for a failure's code, which the evidence of the failure may change."""

from __future__ import annotations

from harness.recovery.failure import Failure
from harness.recovery.vocabulary import Scope, Suspect


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
    """Whether the page was not complete: requests had no answer, or the site did not give one of its parts."""
    lacked = any("ERR_BLOCKED" not in str(each) for each in failure.details.get("missing_parts", ()))
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
