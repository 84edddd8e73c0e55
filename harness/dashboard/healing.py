"""Selectors that were stood in for, and tasks that do not always end the same way: each with a proposed change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import yaml

from harness.dashboard.view import Flaky, Healed
from harness.history import Flaky as FlakyTask
from harness.history import flaky_tasks
from harness.history.record import Execution, Outcome, RunRecord, TaskPoint
from harness.recovery.catalog import CATALOG, Family
from harness.reporting.table import shortened
from harness.reporting.task_record import TaskRecord
from harness.triage.healings import Healing, healings

_CHECKPOINT = "checkpoints: [0]   # or the last step that is safe to go back to"
_CHANGES: Mapping[Family, tuple[str, ...]] = {
    Family.ELEMENT: ("on_element_not_found: {strategy: wait_and_retry, wait_seconds: 20}",),
    Family.NETWORK: ("on_network_error: {strategy: exponential_backoff, max_retries: 5}",),
    Family.ASSERTION: ("on_assertion_fail: {strategy: retry_after_wait, wait_before_retry_seconds: 5}",),
    Family.TIMEOUT: ("on_timeout: {strategy: retry_from_checkpoint}", _CHECKPOINT),
    Family.BROWSER: ("on_browser_crash: {strategy: restart_from_checkpoint}", _CHECKPOINT),
}
"""A rule, and what it needs beside `error_recovery`. What no waiting outlasts (a login) has none."""


def healed(records: Sequence[TaskRecord]) -> list[Healed]:
    """One for each pair of selectors: those to be changed first, of them the one with most places."""
    found: dict[tuple[str, str, str], list[Healing]] = {}
    for each in (healing for record in records for healing in healings(record)):
        found.setdefault((each.original, each.used, each.settled), []).append(each)
    return sorted(map(_healed, found.values()), key=lambda one: (bool(one.settled), -len(one.places)))


def _healed(those: Sequence[Healing]) -> Healed:
    first = those[0]
    acts = (line.act for line in first.record.steps if line.index == first.warning.get("step_index"))
    role, name = first.warning.get("role"), first.warning.get("name")
    return Healed(
        original=first.original,
        used=first.used,
        what=f"{role} {name!r}" if role and name else str(role or ""),
        places=tuple(dict.fromkeys(map(_place, those))),
        settled=first.settled,
        change="" if first.settled else _selector_change(next(acts, ""), first.original, first.used),
    )


def _place(each: Healing) -> str:
    record = each.record
    return f"{record.steps_source or record.source or record.task_id}, step {each.warning.get('step_index')}"


def _selector_change(act: str, original: str, used: str) -> str:
    act = f"act: {act}\n  " if act else ""
    return f"- {act}selector: {_quoted(used)}   # was {_quoted(original)}"


def _quoted(text: str) -> str:
    """As YAML takes it, on one line."""
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float("inf")).strip()


def flaky(run: RunRecord, points: Mapping[str, Sequence[TaskPoint]]) -> list[Flaky]:
    """Of the tasks of this run those that the history calls flaky (`flaky_tasks`), as of this run; the worst first."""
    executions: dict[str, list[Execution]] = {}
    for execution in run.executions:
        executions.setdefault(execution.nodeid, []).append(execution)
    known = {nodeid: [*earlier(run, points.get(nodeid, ())), _point(run, each)] for nodeid, each in executions.items()}
    return [_flaky(each, executions[each.nodeid], known[each.nodeid]) for each in flaky_tasks(known)]


def earlier(run: RunRecord, points: Sequence[TaskPoint]) -> list[TaskPoint]:
    """Those of runs before this one in which the task passed or failed, oldest first."""
    before = (each for each in points if each.run != run.run and each.started < run.started)
    return [each for each in before if each.judged and each.outcome in ("passed", "failed")]


def _point(run: RunRecord, executions: Sequence[Execution]) -> TaskPoint:
    last = executions[-1]
    outcome: Outcome = "failed" if last.outcome == "rerun" else last.outcome
    code = last.record.code if last.record and outcome == "failed" else None
    return TaskPoint(
        run=run.run,
        started=run.started,
        outcome=outcome,
        executions=len(executions),
        seconds=last.seconds,
        code=code,
    )


def _flaky(found: FlakyTask, executions: Sequence[Execution], points: Sequence[TaskPoint]) -> Flaky:
    last, judged = executions[-1], [each for each in points if each.judged]
    again = [each.record.code for each in executions[:-1] if each.record and each.record.code]
    codes = Counter([each.code for each in judged if each.code] + again)
    low, high = found.rate.interval
    return Flaky(
        task_id=last.task_id,
        outcomes=tuple(each.outcome for each in judged),
        passed=sum(each.outcome == "passed" for each in judged),
        runs=found.runs,
        fails=f"{100 * found.rate.share:.0f} % of executions fail (95 %: {100 * low:.0f} to {100 * high:.0f} %)",
        codes=tuple(code for code, _ in codes.most_common()),
        reruns=len(executions) - 1 if last.outcome == "passed" else 0,
        change=_flaky_change(last.record, codes),
    )


def _flaky_change(record: TaskRecord | None, codes: Counter[str]) -> str:
    """For the most frequent code that waiting or going back can outlast."""
    changes = (_CHANGES[CATALOG[code].family] for code, _ in _ranked(codes) if CATALOG[code].family in _CHANGES)
    rule, *more = next(changes, ("",))
    if not rule:
        return ""
    source = shortened(record.source, 120) if record and record.source else ""
    head = [f"# {source}"] if source else []
    return "\n".join([*head, "error_recovery:", f"  {rule}", *more])


def _ranked(codes: Counter[str]) -> Iterator[tuple[str, int]]:
    return ((code, count) for code, count in codes.most_common() if code in CATALOG)
