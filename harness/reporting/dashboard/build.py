"""Makes the view of a run: errors, recoveries, thresholds, timeline. It is pure, except for `look`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any
from urllib.parse import urlsplit

from harness.model.figures import success_rates
from harness.reporting.dashboard.causes import NO_RECORD, Look, causes, flaky, grouped, healed_selectors, message
from harness.reporting.dashboard.timeline import amount, seconds_of, start_offset, status, timeline
from harness.reporting.dashboard.view import (
    AgentRow,
    AgentsView,
    CauseView,
    Counts,
    Dashboard,
    FlakyView,
    ModelRow,
    PageLink,
    RecoveryRate,
    SlowStep,
    TaskRow,
    ThresholdState,
    ToolRow,
    ToolServerState,
    ToolsView,
)
from harness.reporting.history.record import Execution, Happening, RunRecord, RunSummary, TaskPoint, still_running
from harness.reporting.task_record import TaskRecord, error_metrics, rule_name
from harness.reporting.words import place, shortened
from harness.resilience.thresholds import THRESHOLDS, Unit

_SLOWEST = 10
_CHANGES = 10
"""The number of changes of a tool server's state that are told."""
_WORDS = {
    "totalAttempts": "attempts",
    "circuitOpens": "circuits opened",
    "fallbacksUsed": "fallbacks",
    "avgRecoveryTime": "average recovery",
}
"""Figures of metrics.json, in words for people."""


def _records(run: RunRecord) -> Iterator[TaskRecord]:
    """The records of the executions that count."""
    return (each.record for each in run.last if each.record is not None)


def _breakdown(run: RunRecord) -> dict[str, int]:
    """error_type -> number of tasks, the most frequent first. Declared and unjudged failures are not counted."""
    counted = (each.record for each in run.last if each.judged)
    found = error_metrics(each for each in counted if each is not None)["error_breakdown"]
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def _codes(run: RunRecord) -> dict[str, tuple[str, ...]]:
    """error_type -> the codes of its failures: some types have several, and those without a type are all `unknown`."""
    found: dict[str, dict[str, None]] = {}
    for each in (each.record for each in run.last if each.judged and each.record):
        for kind in error_metrics([each])["error_breakdown"]:
            found.setdefault(kind, {})[each.code or each.final_state] = None
    return {kind: tuple(codes) for kind, codes in found.items()}


def _recoveries(run: RunRecord) -> Iterator[RecoveryRate]:
    """The use and success of each kind of recovery, the least successful first."""
    found = success_rates(pair for each in run.executions if each.record for pair in each.record.recoveries)
    for family, tried, worked in sorted(found, key=lambda each: (each[2] / each[1], each[0])):
        yield RecoveryRate(name=rule_name(family), tried=tried, worked=worked, rate=round(worked / tried, 4))


def resilience(run: RunRecord) -> dict[str, str]:
    """The resilience figures in words; empty for a run that wrote none."""
    found = run.metrics.get("resilience")
    known, told = found if isinstance(found, Mapping) else {}, dict[str, str]()
    worked, failed = (known.get(key) for key in ("successfulRetries", "failedRetries"))
    if isinstance(worked, int) and isinstance(failed, int):
        told["retries"] = f"{worked + failed} ({worked} worked)"
    for key, words in _WORDS.items():
        if (value := known.get(key)) is not None:
            seconds = key == "avgRecoveryTime" and isinstance(value, int | float)
            told[words] = f"{value:g} s" if seconds else str(value)
    return told


def thresholds(run: RunRecord) -> Iterator[ThresholdState]:
    """The error rate, and each other metric that was above 0 at some time.

    A rate of few attempts is not measured, and recorded as 0: of a run in which some failed, that would be untrue.
    """
    some_failed = any(each.counted_as == "failed" or (each.record and each.record.retries) for each in run.executions)
    found = run.metrics.get("thresholds")
    for row in THRESHOLDS if isinstance(found, Mapping) else ():
        worst = _value(found.get(row.metric)) if isinstance(found, Mapping) else None
        if worst is None or (worst == 0 and row.metric != "error_rate"):
            continue
        last = _value((found or {}).get(row.metric, {}).get("at_the_end"))
        yield ThresholdState(
            metric="failed attempts (error rate)" if row.metric == "error_rate" else row.metric.replace("_", " "),
            level=row.level(worst),
            worst=_amount(worst, row.unit) if worst or not some_failed else f"not measured: below {row.least} attempts",
            at_the_end="" if last is None else _amount(last, row.unit),
            warning=f"over {_amount(row.warning, row.unit)}",
            critical=f"over {_amount(row.critical, row.unit)}",
        )


def _value(reading: Any) -> float | None:
    value = reading.get("value") if isinstance(reading, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def _amount(value: float, unit: Unit) -> str:
    return f"{100 * value:.3g} %" if unit == "share" else f"{value:.3g} per minute"


def agents(run: RunRecord) -> AgentsView | None:
    """What agents have done and used; None without agents."""
    chosen = [each for each in run.last if each.record and (each.record.agent or each.record.takeovers)]
    used = run.used
    if not chosen and not used.calls:
        return None
    return AgentsView(
        used=used,
        cached=round(used.cached, 4),
        cost_per_success=run.cost_per_success,
        passed=sum(each.counted_as == "passed" for each in chosen),
        takeovers=tuple(
            f"{each.task_id}: {warning.get('message')}"
            for each in chosen
            for warning in (each.record.warnings if each.record else ())
            if warning.get("type") == "agent_fallback_used"
        ),
        models=tuple(ModelRow(name=name, used=those) for name, those in run.models.items()),
        tasks=tuple(sorted(map(_agent_row, chosen), key=lambda row: (-row.used.cost_usd, -row.used.calls))),
    )


def tools(run: RunRecord) -> ToolsView | None:
    """What calls of tools have done, and the states of their servers; None without calls and servers."""
    states = [each for each in run.happenings if each.type == "tool-server-status"]
    if not run.called.calls and not states:
        return None
    rows = [
        ToolRow(server=server, tool=tool, used=used)
        for server, found in run.tools.items()
        for tool, used in found.items()
    ]
    return ToolsView(
        used=run.called,
        tasks=sum(each.record is not None and bool(each.record.tools) for each in run.last),
        tools=tuple(sorted(rows, key=lambda row: (-row.used.failed, -row.used.errors, -row.used.calls))),
        servers=tuple(_server_states(states, run)),
    )


def _server_states(states: Sequence[Happening], run: RunRecord) -> Iterator[ToolServerState]:
    found = run.metrics.get("tools")
    last = found.get("servers") if isinstance(found, Mapping) else None
    ended = {str(each.details.get("server")): str(each.details.get("to")) for each in states}
    ended |= {str(name): str(state) for name, state in last.items()} if isinstance(last, Mapping) else {}
    for server, state in sorted(ended.items()):
        told = [each for each in states if each.details.get("server") == server and each.level != "INFO"]
        changes = tuple(f"{(each.at - run.started).total_seconds():.1f} s: {each.text}" for each in told[:_CHANGES])
        yield ToolServerState(server=server, state=state, changes=changes)


def _agent_row(execution: Execution) -> AgentRow:
    record = execution.record
    assert record is not None
    return AgentRow(
        task_id=execution.task_id,
        status=status(execution),
        agent=record.agent,
        seconds=round(seconds_of(execution), 2),
        takeovers=record.takeovers,
        used=record.used,
    )


def _slow_steps(found: Iterable[TaskRecord]) -> list[SlowStep]:
    every = (
        SlowStep(
            task_id=record.task_id,
            step=f"{place(line.index, record.steps_total)} {line.act} {line.target}".strip(),
            seconds=line.seconds,
            attempts=len(line.attempts),
            passed=line.passed,
        )
        for record in found
        for line in record.steps
    )
    return nsmallest(_SLOWEST, every, key=lambda each: (-each.seconds, each.task_id, each.step))


_NOTE = 200
_PARTIAL = "partial success"


def dashboard(
    run: RunRecord, summaries: Sequence[RunSummary], points: Mapping[str, Sequence[TaskPoint]], look: Look
) -> Dashboard:
    """Make the dashboard. `summaries`: the newest first, as from `recent_runs`; `points`: as from `task_points`."""
    groups = grouped(run)
    found = tuple(causes(run, groups, points, look))
    membership = {each.nodeid: number for number, group in enumerate(groups) for each in group.executions}
    links = {(number, o.task_id): o.evidence.links[:1] for number, cause in enumerate(found) for o in cause.occurrences}
    rows = tuple(_row(each, run, membership.get(each.nodeid), links) for each in run.last)
    unsteady, line = flaky(run, points), timeline(run)
    counts = _counts(run, rows, unsteady)
    return Dashboard(
        run=run.run,
        project=run.project,
        started=run.started,
        seconds=round(line.seconds, 1),
        ending=run.ending,
        running=run.running,
        verdict=_verdict(run, counts, sum(group.judged for group in groups)) + _uncollected(run),
        notices=tuple(_notices(run, found)),
        counts=counts,
        facts=_facts(run),
        links=tuple(_links(run)),
        causes=found,
        uncollected=run.uncollected,
        breakdown=_breakdown(run),
        codes=_codes(run),
        recoveries=tuple(_recoveries(run)),
        resilience=resilience(run),
        thresholds=tuple(thresholds(run)),
        agents=agents(run),
        tools=tools(run),
        timeline=line,
        slow_steps=tuple(_slow_steps(_records(run))),
        slow_tasks=tuple(sorted(rows, key=lambda row: -row.seconds)[:_SLOWEST]),
        healed=tuple(healed_selectors(_records(run))),
        flaky=tuple(unsteady),
        trend=tuple(reversed([each for each in summaries if each.started <= run.started])),
        tasks=rows,
    )


def _row(
    execution: Execution, run: RunRecord, cause: int | None, links: Mapping[tuple[int, str], tuple[PageLink, ...]]
) -> TaskRow:
    record, start = execution.record, start_offset(execution, run)
    return TaskRow(
        task_id=execution.task_id,
        status=status(execution),
        note=shortened(_note(execution), _NOTE),
        feature=record.feature if record else "",
        worker=execution.worker,
        start=None if start is None else round(start, 1),
        seconds=round(seconds_of(execution), 2),
        executions=execution.number,
        retries=record.retries if record else 0,
        healed=execution.healed,
        cause=cause,
        links=() if cause is None else links.get((cause, execution.task_id), ()),
    )


def _note(execution: Execution) -> str:
    record = execution.record
    if execution.outcome == "skipped":
        return execution.reason
    if record is None:
        return (execution.reason or NO_RECORD) if execution.outcome != "passed" else ""
    if execution.outcome != "passed" or record.expected:
        return record.summary or (f"{record.code}: {message(record)}" if record.code else message(record))
    return _PARTIAL if record.final_state == "partial_success" else ""


def _counts(run: RunRecord, rows: Sequence[TaskRow], unsteady: Sequence[FlakyView]) -> Counts:
    states = [row.status for row in rows]
    return Counts(
        total=len(rows),
        passed=states.count("passed") + states.count("expected"),
        failed=states.count("failed"),
        not_judged=states.count("not_judged"),
        expected=states.count("expected"),
        partial=sum(row.status == "passed" and row.note == _PARTIAL for row in rows),
        skipped=states.count("skipped"),
        flaky=len(unsteady),
        healed=sum(row.healed for row in rows),
        retries=sum(each.record.retries for each in run.executions if each.record),
    )


def _verdict(run: RunRecord, counts: Counts, causes_found: int) -> str:
    if not counts.total:
        return "No task was run"
    so_far = "" if run.ending == "finished" else " so far"
    if counts.failed:
        why = f", from {amount(causes_found, 'cause')}" if causes_found < counts.failed else ""
        return f"{counts.failed} of {amount(counts.total, 'task')} failed{so_far}{why}"
    if counts.skipped == counts.total:
        return "The only task was skipped" if counts.total == 1 else f"All {counts.total} tasks were skipped"
    skipped = f", {counts.skipped} skipped" if counts.skipped else ""
    if counts.not_judged:
        return f"{amount(counts.total, 'task')}, none failed{so_far}, {counts.not_judged} not judged{skipped}"
    return f"Nothing failed{so_far}: {counts.passed} of {amount(counts.total, 'task')} passed{skipped}"


def _uncollected(run: RunRecord) -> str:
    number = len(run.uncollected)
    return f", {amount(number, 'file')} not collected" if number else ""


def _notices(run: RunRecord, found: Sequence[CauseView]) -> list[str]:
    notices = []
    if run.ending == "interrupted":
        notices.append("The run was interrupted. Tasks that it did not reach are missing here.")
    if run.running:
        notices.append(f"The run is {still_running(len(run.last))}. The page shows what it has written so far.")
    elif run.ending == "killed":
        why = run.note or "its process is gone; the page shows what it had written"
        notices.append(f"The run was killed: {why}.")
    elif run.ending == "unfinished":
        why = run.note or "its process died, or it is still running; the page shows what it had written"
        notices.append(f"The run has no end: {why}.")
    elif run.note:
        notices.append(f"{run.note[:1].upper()}{run.note[1:]}.")
    if run.merged_from:
        notices.append(f"This run was merged from {len(run.merged_from)} runs: {', '.join(run.merged_from)}.")
    gone = sum(bool(each.evidence.problem) for cause in found for each in cause.occurrences)
    if gone:
        notices.append(f"Of {amount(gone, 'failed task')} not all artifacts are here; each says why.")
    return notices


def _facts(run: RunRecord) -> dict[str, str]:
    facts = {"Commit": run.commit, "Branch": run.branch, "Shard": run.shard, "Arguments": " ".join(run.arguments)}
    name, build = (str(run.ci.get(key) or "") for key in ("name", "buildName"))
    ci = build if build.startswith(name) else f"{name} {build}".rstrip()
    facts |= {"CI": ci, "Exit status": "" if run.exit_status is None else str(run.exit_status)}
    return {name: text for name, text in {**facts, **run.environment}.items() if text}


def _links(run: RunRecord) -> list[PageLink]:
    """Links to pages of the CI system; only http(s)."""
    url = str(run.ci.get("buildUrl") or "")
    try:
        fine = urlsplit(url).scheme in ("http", "https")
    except ValueError:
        fine = False
    return [PageLink(label="CI build", href=url)] if fine else []
