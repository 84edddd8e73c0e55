"""The attempts of a kept failure, a line each: what was done, whether it worked, where the task went back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.cli.kept import Kept
from harness.report import ErrorReport
from harness.reporting.table import shortened

MOST = 6
"""Lines of the trace that are shown: those before the failure, and the failing step's."""
_CHOOSING = frozenset({"AGENT_FAILED", "AGENT_TIMEOUT", "AGENT_INVALID_STEP"})
_GONE_BACK = "; WENT BACK "


def choosing(report: ErrorReport) -> bool:
    """Whether the agent failed to choose the next step."""
    return report.code in _CHOOSING


@dataclass(frozen=True, slots=True)
class _Line:
    """One attempt."""

    place: str
    act: str
    target: str
    status: str
    failing: bool
    time: str = ""
    went_back: str = ""


def attempt_lines(kept: Kept, width: int) -> Iterator[str]:
    """The last attempts; the trace has them all."""
    lines = list(_last(kept))
    if not lines:
        return
    before = len(kept.steps) - len(kept.steps[-MOST:])
    yield f"  steps ({before} attempts before them: partial_trace.json):" if before else "  steps:"
    act = max(len(line.act) for line in lines)
    for line in lines:
        mark, target = ">" if line.failing else " ", shortened(line.target, max(20, width - act - 32))
        yield f"  {mark} {line.place:>3}  {line.act:<{act}}  {target}  {line.status}{line.time}"
        if line.went_back:
            yield f"         went back {line.went_back}"


def _last(kept: Kept) -> Iterator[_Line]:
    report, steps = kept.report, kept.steps[-MOST:]
    outcomes = {"step_skipped": "skipped", "effect_already_done": "done"}
    after = {each.get("step_index"): outcomes.get(str(each.get("type")), "") for each in report.warnings}
    for number, step in enumerate(steps):
        index, note = step.get("step_index"), str(step.get("note", ""))
        note, _, went_back = note.partition(_GONE_BACK)
        status = "FAILED" if ": FAILED" in note else "ok"
        if status == "FAILED" and not _again(steps[number + 1 :], index):
            status = after.get(index) or status
        seconds = step.get("seconds")
        time = f"  {seconds:.1f} s" if isinstance(seconds, int | float) else ""
        failing = status == "FAILED" and index == report.step_index
        yield _Line(str(index), str(step.get("act", "")), _target(step), status, failing, time, went_back)
    if choosing(report):
        yield _Line(str(report.step_index), "", "the agent's choice", "FAILED", failing=True)


def _again(steps: Sequence[Mapping[str, Any]], index: Any) -> bool:
    """Whether another attempt at the same step follows."""
    return bool(steps) and steps[0].get("step_index") == index


def _target(step: Mapping[str, Any]) -> str:
    found = step.get("url") or step.get("expr") or step.get("selector") or ""
    value = step.get("value")
    return f"{found} = {value!r}" if found and value is not None else str(found or ("" if value is None else value))
