"""What a report says of the faults of its task: what became of each, and whether the failure follows it."""

from __future__ import annotations

from collections.abc import Sequence

from harness.aftermath import behind
from harness.record import MetFault, TaskResult
from harness.recovery.catalog import Family
from harness.report import FaultReport

AFTER = r", (?:after|because) injected faults? "
"""A pattern: by it a headline tells of a failure that follows a fault."""
NAMED = 2
"""How many faults a headline names."""


def fault_reports(result: TaskResult) -> tuple[FaultReport, ...]:
    """What became of the faults, in the order of the file."""
    followed = behind(result)
    return tuple(_fault(met, is_behind=met in followed) for met in result.faults)


def _fault(met: MetFault, *, is_behind: bool) -> FaultReport:
    return FaultReport(
        id=met.name,
        title=met.fault.title,
        kind=met.fault.kind,
        target=met.fault.target,
        where=met.fault.source,
        struck=met.count,
        times=met.strikes,
        steps=met.steps,
        healed=met.healed,
        problem=met.problem,
        why=met.why,
        behind=is_behind,
        text=met.describe(),
    )


def after_faults(faults: Sequence[FaultReport]) -> str:
    """For a headline: the faults that the failure follows, if any."""
    followed = [each for each in faults if each.behind]
    titles = list(dict.fromkeys(each.title for each in followed))
    return _following(titles, undone=undone_fault(faults) is not None)


def undone_fault(faults: Sequence[FaultReport]) -> FaultReport | None:
    """The fault that could not be done, when that is the failure."""
    return next((each for each in faults if each.behind and each.problem and not each.struck), None)


def _following(titles: Sequence[str], *, undone: bool) -> str:
    """For a headline: `, after injected fault browser_kill`."""
    if not titles:
        return ""
    if undone:
        return f", because injected fault {titles[0]} could not be done"
    more = f" and {len(titles) - NAMED} more" if len(titles) > NAMED else ""
    return f", after injected fault{'s' if len(titles) > 1 else ''} {', '.join(titles[:NAMED])}{more}"


def advice(result: TaskResult, *, expected: bool = False) -> str:
    """What to do about a failure that follows a fault: nothing about the site or the machine. Empty for any other.

    `expected`: the task declares it already.
    """
    failure = result.failure
    if failure is None or failure.advice or not behind(result):
        return ""
    way = _WAYS.get(failure.family, "")
    if expected:
        return "This failure follows an injected fault, as the task declares: there is nothing to do."
    outlast = f"to outlast it: {way}; " if way else ""
    declared = f"`expect: {{final_state: {result.final_state}, code: {failure.code}}}`"
    return f"This failure follows an injected fault; {outlast}to declare it: {declared}."


_WAYS = {
    Family.BROWSER: "`on_browser_crash` and checkpoints",
    Family.NETWORK: "more of `on_network_error`",
    Family.ELEMENT: "more of `on_element_not_found`",
    Family.AMBIGUOUS: "`on_selector_ambiguous`",
    Family.ACTION: "more of `on_action_failed`",
    Family.TIMEOUT: "`on_timeout` or a longer `timeout`",
    Family.ASSERTION: "`on_assertion_fail`",
    Family.PRECONDITION: "`on_precondition_fail`",
    Family.INCONSISTENCY: "`on_state_inconsistency`",
}
"""Family of a failure -> what of a task gets over it."""
