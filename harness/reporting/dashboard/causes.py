"""Failures grouped by their probable cause: the most frequent first, with a mark on the first failure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, takewhile

import yaml
from msgspec import Struct

from harness.model.report import ErrorReport
from harness.recovery.catalog import CATALOG, FAMILIES
from harness.reporting.dashboard.evidence import FoundEvidence
from harness.reporting.dashboard.timeline import seconds_of
from harness.reporting.dashboard.view import CauseView, ComparedValues, DrawnAttempt, FlakyView, Healed, Occurrence
from harness.reporting.healings import Healing, healings
from harness.reporting.history.comparison import FLIPS, flaky_tasks
from harness.reporting.history.comparison import Flaky as FlakyTask
from harness.reporting.history.record import Execution, Happening, Outcome, RunRecord, TaskPoint
from harness.reporting.task_record import StepLine, TaskRecord
from harness.reporting.triage import causes as behind
from harness.reporting.triage import troubles
from harness.reporting.words import fold_lines, place, relation, repeats, shortened, shown_value, step_label

# Replaced selectors, and tasks whose results vary: each with a proposed change.


def healed_selectors(records: Iterable[TaskRecord]) -> list[Healed]:
    """One entry for each pair of selectors: first those to be changed, and of them those with most places."""
    found: dict[tuple[str, str, str], list[Healing]] = {}
    for each in (healing for record in records for healing in healings(record)):
        found.setdefault((each.original, each.used, each.settled), []).append(each)
    return sorted(map(_healed_entry, found.values()), key=lambda one: (bool(one.settled), -len(one.places)))


def _healed_entry(those: Sequence[Healing]) -> Healed:
    first = those[0]
    steps = ((each.record, each.record.place_of(each.warning.get("step_index"))) for each in those)
    places = (f"{record.steps_source or record.source or record.task_id}, step {step}" for record, step in steps)
    act = next((line.act for line in first.record.steps if line.index == first.warning.get("step_index")), "")
    change = f"selector: {_quote_yaml(first.used)}   # was {_quote_yaml(first.original)}"
    role, name = first.warning.get("role"), first.warning.get("name")
    return Healed(
        original=first.original,
        used=first.used,
        what=f"{role} {name!r}" if role and name else str(role or ""),
        places=tuple(dict.fromkeys(places)),
        settled=first.settled,
        change="" if first.settled else f"- act: {act}\n  {change}" if act else f"- {change}",
    )


def _quote_yaml(text: str) -> str:
    """The text quoted for YAML, on one line."""
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float("inf")).strip()


def flaky(run: RunRecord, points: Mapping[str, Sequence[TaskPoint]]) -> list[FlakyView]:
    """The tasks of this run that the history calls flaky (`flaky_tasks`), the worst first."""
    times = Counter(each.nodeid for each in run.executions)
    executions: dict[str, list[Execution]] = {}
    for execution in run.executions:
        if times[execution.nodeid] > 1 or execution.nodeid in points:
            executions.setdefault(execution.nodeid, []).append(execution)
    known = {nodeid: [*earlier(run, points.get(nodeid, ())), _point(run, each)] for nodeid, each in executions.items()}
    return [_flaky(each, executions[each.nodeid], known[each.nodeid]) for each in flaky_tasks(known)]


def earlier(run: RunRecord, points: Sequence[TaskPoint]) -> list[TaskPoint]:
    """The points of runs before this one in which the task passed or failed, oldest first."""
    before = (each for each in points if each.run != run.run and each.started < run.started)
    return [each for each in before if each.judged and each.outcome in ("passed", "failed")]


def _point(run: RunRecord, executions: Sequence[Execution]) -> TaskPoint:
    last = executions[-1]
    outcome: Outcome = "failed" if last.outcome == "rerun" else last.outcome
    code = last.record.code if last.record and outcome == "failed" else None
    return TaskPoint(
        run=run.run, started=run.started, outcome=outcome, executions=len(executions), seconds=last.seconds, code=code
    )


def _flaky(found: FlakyTask, executions: Sequence[Execution], points: Sequence[TaskPoint]) -> FlakyView:
    last, judged = executions[-1], [each for each in points if each.judged]
    again = [each.record.code for each in executions[:-1] if each.record and each.record.code]
    codes = Counter([each.code for each in judged if each.code] + again)
    low, high = found.rate.interval
    return FlakyView(
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
    """A proposed change for the most frequent code that waiting or going back can overcome."""
    known = (code for code, _ in codes.most_common() if code in CATALOG)
    proposed = (FAMILIES[CATALOG[code].family].proposed_rule for code in known)
    rule, *more = next(filter(None, proposed), ("",))
    if not rule:
        return ""
    source = shortened(record.source, 120) if record and record.source else ""
    head = [f"# {source}"] if source else []
    return "\n".join([*head, "error_recovery:", f"  {rule}", *more])


# One failed task, described by its record and its artifacts.

BEFORE, CONSOLE = 8, 3
"""The number of steps before the failing one, and of console lines, that are shown."""
_VALUE, _DIFF = 300, 1500
"""The number of characters of a compared value and of a diff."""
_BARS = 40
"""The number of attempts of a task that are drawn."""
_AS_ABOVE = "FAILED - as above"
NO_RECORD = "It failed without a record of the reason: see pytest's own output."
UNEXPECTED = "It did not end as its `expect` declares."
NO_FAILURE = "It passed, although its `expect` declares a failure."


def _occurrence(execution: Execution, found: FoundEvidence, since: str, group: CauseGroup) -> Occurrence:
    """One failure of a cause. `since`: how long the task has been failing, in words."""
    record, again = execution.record, {"since": since, "worker": execution.worker, "executions": execution.number}
    if record is None:
        text = execution.reason or NO_RECORD
        line = shortened(text, _TITLE)
        return Occurrence(task_id=execution.task_id, message=text, cause=line, suspect=group.suspect, **again)
    steps, last = record.steps, record.step_index
    failing = next((each for each in reversed(steps) if each.index == last and not each.passed), None)
    until = steps.index(failing) if failing else len(steps)
    context, comparison = found.report.context if found.report else None, _comparison(found.report)
    # The message is without what the comparison below it shows.
    told = record.reason if comparison is not None and record.reason is not None else message(record)
    return Occurrence(
        **again,
        task_id=record.task_id,
        goal=shortened(record.goal, _TITLE),
        source=record.source,
        code=record.code or "",
        suspect=record.suspect or group.suspect,
        cause=_cause_line(record, comparison, group),
        step=_failure_place(record, failing),
        message=f"{UNEXPECTED} {told}".rstrip() if record.unexpected and not record.ok else told,
        seconds=record.seconds,
        bars=tuple(_bars(record)),
        attempts=tuple(_attempts(failing, record)) if failing else (),
        before=tuple(_step(each, record) for each in steps[max(0, until - BEFORE) : until]),
        comparison=comparison,
        url=(context.url or "") if context else "",
        console=fold_lines(context.browser_console_logs)[-CONSOLE:] if context else (),
        evidence=found.evidence,
    )


def _cause_line(record: TaskRecord, compared: ComparedValues | None, group: CauseGroup) -> str:
    """Why it failed, in a line: the criterion that does not hold, or else what the cause is called."""
    if compared is not None and compared.criterion:
        return compared.criterion
    if len(group.executions) == 1:
        return shortened(group.title, _TITLE)
    return shortened(next(iter(message(record).splitlines()), group.title), _TITLE)


def _bars(record: TaskRecord) -> Iterator[DrawnAttempt]:
    """The attempts at its steps; of very many the last."""
    every = sorted((each for step in record.steps for each in step.attempts), key=lambda each: each.t)
    for each in every[-_BARS:]:
        yield DrawnAttempt(start=round(each.t, 2), end=round(each.t + each.seconds, 2), passed=each.passed)


def message(record: TaskRecord) -> str:
    told = record.message or ("" if record.ok else f"It ended as {record.final_state}, without a message.")
    if record.ok and record.known_defect:
        return f"It passed, although its `expected_failure` says that it fails: {record.known_defect}"
    return told or (NO_FAILURE if record.unexpected else f"It ended as {record.final_state}.")


def _failure_place(record: TaskRecord, failing: StepLine | None) -> str:
    """The place of the failure: `step 4 (of 0-22): click #pay`."""
    if record.step_index is None:
        return ""
    if record.code == "WORKER_CRASHED":
        return "at an unknown step"
    words = {"pre": "before the first step", "end": "at the success criteria"}
    known = place(record.step_index, record.steps_total)
    only = f"step {known}, the only one"
    told = record.place.removeprefix("at ") if record.place.startswith("at step") else record.place
    if record.steps_total == 1 and known not in words:
        text = only
    else:
        text = told or words.get(known) or step_label(record.step_index, record.steps_total)
    done = f"{failing.act} {failing.target}".strip() if failing else ""
    return f"{text}: {done}" if done else text


def history_text(run: RunRecord, points: Sequence[TaskPoint]) -> str:
    """`new: passed in the 5 runs before`, `failed in the 2 runs before, too`, `flaky: ...`; else empty."""
    before = earlier(run, points)
    if not before:
        return ""
    failed = sum(each.outcome == "failed" for each in before)
    turns = sum(one.outcome != other.outcome for one, other in pairwise(before))
    if turns + (before[-1].outcome == "passed") >= FLIPS:
        return f"flaky: failed in {failed} of the {_runs(len(before))} before"
    lately = len(list(takewhile(lambda each: each.outcome == before[-1].outcome, reversed(before))))
    how = "new: passed in the {} before" if before[-1].outcome == "passed" else "also failed in the {} before"
    return how.format(_runs(lately))


def _runs(number: int) -> str:
    return "run" if number == 1 else f"{number} runs"


def _attempts(failing: StepLine, record: TaskRecord) -> list[str]:
    """The attempts as lines, without what the message says; none for a single one that it describes completely."""
    told = []
    for each in failing.attempts:
        outcome = each.note or ("SUCCESS" if each.passed else f"FAILED - {each.code}")
        if record.message:
            outcome = outcome.replace(f"FAILED - {record.message}", _AS_ABOVE)
        told.append(f"at {each.t:.1f} s, {each.seconds:.1f} s long: {outcome}")
    return told if len(told) > 1 or not "".join(told).endswith(_AS_ABOVE) else []


def _step(step: StepLine, record: TaskRecord) -> str:
    state = "skipped" if step.skipped or step.left_out else "ok" if step.passed else "failed"
    tries = f", {len(step.attempts)} attempts" if len(step.attempts) > 1 else ""
    where = step.place or place(step.index, record.steps_total)
    return f"{where} {step.act} {step.target} ({state}, {step.seconds:.1f} s{tries})"


def _comparison(report: ErrorReport | None) -> ComparedValues | None:
    found = report.context.assertion if report else None
    if found is None:
        return None
    expected, actual = (shortened(shown_value(value), _VALUE) for value in (found.expected, found.actual))
    diff = found.diff if len(found.diff) <= _DIFF else f"{found.diff[: _DIFF - 1]}…"
    return ComparedValues(
        criterion=shortened(found.expression, _VALUE),
        expected=f"{relation(found.expression)}{expected}",
        actual=actual,
        diff="" if repeats(found.expected, found.actual, found.diff) else diff,
    )


_TELLING = frozenset(
    {"service-status", "tool-server-status", "circuit-state-change", "invariant-violated", "escalated"}
)
_BEFORE, _AFTER = timedelta(seconds=15), timedelta(seconds=1)
_LONGEST = timedelta(seconds=60)
"""An event that came so long before a failure is not its cause, even in a long task."""
_NEEDS = re.compile(r"depends on (.+), which ")
"""Matches the reason that pytest gets for a skipped task."""
_AROUND, _TITLE = 3, 180

Look = Callable[[TaskRecord], FoundEvidence]


class CauseGroup(Struct, frozen=True):
    """Failures with one cause."""

    title: str
    executions: tuple[Execution, ...]
    suspect: str = ""
    judged: bool = True
    """Whether it says something about its tasks: not all of them were cut off from outside."""


def grouped(run: RunRecord) -> list[CauseGroup]:
    """Group the failures as `harness triage` does, so that both give the same answer. A declared failure is none."""
    found = {each.nodeid: each for each in run.last if each.counted_as in ("failed", "not judged")}
    made = [
        CauseGroup(cause.title, tuple(found[task.nodeid] for task in cause.tasks), cause.suspect, cause.judged)
        for cause in behind(troubles(run))
    ]
    return sorted(made, key=lambda group: not group.judged)


def causes(
    run: RunRecord, groups: Sequence[CauseGroup], points: Mapping[str, Sequence[TaskPoint]], look: Look
) -> Iterator[CauseView]:
    """The causes in the order of `groups`. `look` reads the artifacts of a failed task."""
    earliest = min((_moment(group, run) for group in groups if group.judged), default=None)
    left_out = [each for each in run.last if each.outcome == "skipped"]
    for group in groups:
        ordered = sorted(group.executions, key=lambda each: _start_time(each, run))
        first = ordered[0]
        yield CauseView(
            title=shortened(group.title, _TITLE),
            codes=dict(Counter(map(_code, ordered)).most_common()),
            hint=first.record.hint if first.record else "",
            suspect=group.suspect,
            first=len(groups) > 1 and group.judged and _moment(group, run) == earliest,
            faulted=first.record is not None and "struck" in first.record.faults.values(),
            around=tuple(_events_around(first.record, run.happenings)),
            skipped=tuple(_skipped({each.task_id for each in ordered}, left_out)),
            occurrences=tuple(
                _occurrence(
                    each,
                    look(each.record) if each.record else FoundEvidence(),
                    history_text(run, points.get(each.nodeid, ())),
                    group,
                )
                for each in ordered
            ),
        )


def _skipped(failed_ids: set[str], left_out: Iterable[Execution]) -> Iterator[str]:
    """The tasks that were left out because of these, directly or not, in the run's order (dependencies first)."""
    stopped = set(failed_ids)
    for each in left_out:
        needed = _NEEDS.search(each.reason)
        if needed and needed[1] in stopped:
            stopped.add(each.task_id)
            yield each.task_id


def _code(execution: Execution) -> str:
    record = execution.record
    if record is None:
        return "no record"
    return record.code or ("expect" if record.unexpected else "unknown")


def _start_time(execution: Execution, run: RunRecord) -> datetime:
    """The start of a task; one that never began comes last."""
    return execution.began or run.started + timedelta(days=365)


def _moment(group: CauseGroup, run: RunRecord) -> datetime:
    """The time of the first failure, which need not be that of the task that began first: it may be a long one."""
    return min(_start_time(each, run) + timedelta(seconds=seconds_of(each)) for each in group.executions)


def _events_around(record: TaskRecord | None, happenings: Sequence[Happening]) -> Iterator[str]:
    """The last events of services and circuits around the failure; events that report no trouble are left out."""
    if record is None or record.started is None:
        return
    end = record.started + timedelta(seconds=record.seconds)
    since = max(record.started - _BEFORE, end - _LONGEST)
    told = [each for each in happenings if since <= each.at <= end + _AFTER and _may_concern(each, record)]
    for each in told[-_AROUND:]:
        apart = (end - each.at).total_seconds()
        yield f"{abs(apart):.1f} s {'before' if apart >= 0 else 'after'} the failure: {shortened(each.text, _TITLE)}"


def _may_concern(each: Happening, record: TaskRecord) -> bool:
    """Return whether an event may concern the task: a circuit concerns the tasks of its site, a service any task."""
    if each.type not in _TELLING or each.level in ("INFO", "DEBUG"):
        return False
    if each.type != "circuit-state-change":
        return each.task_id in ("", record.task_id)
    origin = str(each.details.get("circuit", "")).removeprefix("origin:")
    return any(origin in text for text in (record.message, *(step.target for step in record.steps)))
