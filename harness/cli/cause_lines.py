"""The causes of a run's failures, one in a line, and as a JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from harness.cli.failed_tasks import FailedTasks
from harness.reporting.files import printable
from harness.reporting.triage import Cause, first_look
from harness.reporting.words import shortened
from harness.spec.names import how_many

FEW = 3
"""The number of tasks that a line names."""
NARROWEST, WIDEST = 30, 90
"""The number of columns for what happened."""


def lines(found: FailedTasks, causes: Sequence[Cause], width: int) -> Iterator[str]:
    """The headline of the run, then a line for each cause."""
    yield _headline(found, causes)
    code = max((len(cause.code or "-") for cause in causes), default=0)
    for cause in sorted(causes, key=lambda each: not each.judged):
        start = f"{cause.count:>4}  {printable(cause.code) or '-':<{code}}  "
        rest = f"  [{tasks(cause)}]{_new(cause)}{_suspect(cause)}  look: {first_look(cause)}"
        room = min(WIDEST, max(NARROWEST, width - len(start) - len(rest)))
        yield f"{start}{shortened(cause.title, room)}{rest}"


def _headline(found: FailedTasks, causes: Sequence[Cause]) -> str:
    failed = sum(cause.count for cause in causes if cause.judged)
    run = f"run {printable(found.run)}: " if found.run else ""
    of = "" if found.tasks is None else f" of {how_many(found.tasks, 'task')}"
    if not failed:
        return f"{run}nothing failed{of}{_count_others(found, causes)}"
    new = sum(cause.new for cause in causes)
    newly = f", {new} of them newly" if new else ""
    several = sum(cause.judged for cause in causes)
    return f"{run}{failed}{of} failed{newly}: {how_many(several, 'cause')}{_count_others(found, causes)}"


def _count_others(found: FailedTasks, causes: Sequence[Cause]) -> str:
    unjudged = sum(cause.count for cause in causes if not cause.judged)
    counts = {"passed as declared": found.expected, "not judged": unjudged}
    return "".join(f"; {count} {words}" for words, count in counts.items() if count)


def tasks(cause: Cause) -> str:
    """The ids of the first few tasks."""
    names = [printable(task.task_id) for task in cause.tasks[:FEW]]
    more = f" +{cause.count - FEW}" if cause.count > FEW else ""
    return f"{', '.join(names)}{more}"


def _new(cause: Cause) -> str:
    if not cause.new:
        return ""
    return " new" if cause.new == cause.count else f" {cause.new} new"


def _suspect(cause: Cause) -> str:
    return f"  suspect: {cause.suspect}" if cause.suspect else ""


def document(found: FailedTasks, causes: Sequence[Cause]) -> Mapping[str, Any]:
    """The same as plain JSON, with all tasks."""
    return {
        "run": found.run,
        "tasks": found.tasks,
        "failed": sum(cause.count for cause in causes if cause.judged),
        "not_judged": sum(cause.count for cause in causes if not cause.judged),
        "passed_as_declared": found.expected,
        "causes": [_of_cause(cause) for cause in causes],
        "notes": list(found.notes),
    }


def _of_cause(cause: Cause) -> Mapping[str, Any]:
    return {
        "count": cause.count,
        "new": cause.new,
        "judged": cause.judged,
        "code": cause.code or None,
        "codes": dict(cause.codes),
        "what": cause.what,
        "site": cause.site,
        "service": cause.service,
        "selector": cause.selector,
        "suspect": cause.suspect or None,
        "look": first_look(cause),
        "tasks": [asdict(task) for task in cause.tasks],
    }
