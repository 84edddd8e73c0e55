"""The steps of a kept failure, a line each: what was done, whether it worked, where the task went back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.cli.kept import Kept
from harness.model.diagnosis import undone_fault
from harness.model.report import ErrorReport
from harness.reporting.console import place, shortened

MOST = 6
"""Lines of the trace that are shown: those before the failure, and the failing step's."""
_CHOOSING = frozenset({"AGENT_FAILED", "AGENT_TIMEOUT", "AGENT_INVALID_STEP"})
_GONE_BACK = "; WENT BACK "


def choosing(report: ErrorReport) -> bool:
    """Whether the agent failed to choose the next step."""
    return report.code in _CHOOSING


@dataclass(frozen=True, slots=True)
class _Line:
    """One step, with the attempts at it that followed one another."""

    place: str
    act: str
    target: str
    status: str
    failing: bool
    seconds: float | None = None
    attempts: int = 1
    went_back: str = ""


def attempt_lines(kept: Kept, width: int) -> Iterator[str]:
    """The last steps; the trace has all attempts."""
    groups = list(_together(kept.steps))
    lines = [_line(kept.report, attempts) for attempts in groups[-MOST:]] + list(_untried(kept.report))
    if not lines:
        return
    before = sum(map(len, groups[:-MOST]))
    yield f"  steps ({before} attempts before them: partial_trace.json):" if before else "  steps:"
    act = max(len(line.act) for line in lines)
    for line in lines:
        mark, target = ">" if line.failing else " ", shortened(line.target, max(20, width - act - 32))
        time = "" if line.seconds is None else f"  {line.seconds:.1f} s"
        tries = f"  {line.attempts} attempts" if line.attempts > 1 else ""
        yield f"  {mark} {line.place:>3}  {line.act:<{act}}  {target}  {line.status}{time}{tries}"
        if line.went_back:
            yield f"         went back {line.went_back}"


def _together(steps: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Attempts at one step that followed one another, until it was gone back from."""
    group: list[Mapping[str, Any]] = []
    for step in steps:
        if group and not _once_more(group[-1], step):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def _once_more(before: Mapping[str, Any], step: Mapping[str, Any]) -> bool:
    """Whether it is tried again: all preconditions have one number, and all success criteria."""
    if any(step.get(name) != before.get(name) for name in ("step_index", "expr")):
        return False
    return _GONE_BACK not in str(before.get("note"))


def _line(report: ErrorReport, attempts: Sequence[Mapping[str, Any]]) -> _Line:
    first, last = attempts[0], attempts[-1]
    index, note = last.get("step_index"), str(last.get("note", ""))
    note, _, went_back = note.partition(_GONE_BACK)
    status = "ok"
    if ": FAILED" in note:
        status = _afterwards(report, index) or "FAILED"
    failing = status == "FAILED" and index == report.step_index
    times = [each["seconds"] for each in attempts if isinstance(each.get("seconds"), int | float)]
    seconds = sum(times) if times else None
    return _Line(
        _place(report, index),
        str(first.get("act", "")),
        target(first) + _instead(first, last),
        status,
        failing,
        seconds,
        len(attempts),
        went_back,
    )


def _afterwards(report: ErrorReport, index: Any) -> str:
    """What became of a step that failed, when the task went on."""
    outcomes = {"step_skipped": "skipped", "effect_already_done": "done"}
    own = (str(each.get("type")) for each in report.warnings if each.get("step_index") == index)
    return next((outcomes[kind] for kind in own if kind in outcomes), "")


def _untried(report: ErrorReport) -> Iterator[_Line]:
    """A failure without an attempt: the agent's, or that of a fault that could not be done."""
    where = _place(report, report.step_index)
    if choosing(report):
        yield _Line(where, "", "the agent's choice", "FAILED", failing=True)
    elif wrong := undone_fault(report.faults):
        yield _Line(where, "fault", f"{wrong.kind} {wrong.target}", "FAILED", failing=True)


def _place(report: ErrorReport, index: Any) -> str:
    """As in the terminal's report of a run: `4`, `end`."""
    total = report.metrics.steps_total if report.metrics and not choosing(report) else None
    return str(index) if total is None or not isinstance(index, int) else place(index, total)


def _instead(first: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    """What the last attempt did in place of the step as written, in the words of the terminal (reporting/table.py)."""
    if last.get("act") == first.get("act"):
        return ""
    return f" (retried by {'opening' if last.get('act') == 'open' else last.get('act')} {target(last)})"


def target(step: Mapping[str, Any]) -> str:
    """What a step of a kept report works on."""
    found = step.get("url") or step.get("expr") or step.get("selector") or ""
    value = step.get("value")
    return f"{found} = {value!r}" if found and value is not None else str(found or ("" if value is None else value))
