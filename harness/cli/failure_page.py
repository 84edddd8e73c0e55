"""A kept failure as text, in the words of the terminal report of a run (reporting/console.py), and in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.cli.attempt_lines import attempt_lines, choosing, target
from harness.cli.kept import Kept, when
from harness.model.diagnosis import after_faults
from harness.model.report import ErrorReport
from harness.reporting.console import CRITERION, folded, numbered, place, repeats, shortened, shown_value
from harness.reporting.files import shown_path, visible


def page(kept: Kept, width: int) -> str:
    """Where, what was done, what was tried, why, what to do, and which files there are."""
    return "\n".join(visible(line).rstrip() for line in _lines(kept, width))


def headline(report: ErrorReport) -> str:
    """`T-1 failed: STEP_TIMEOUT at step 4 (of 0-22)`, in the words of the terminal's report of a run."""
    what = (report.context.model_extra or {}).get("criterion") or _step(report)
    named = f": {shortened(str(what), CRITERION)}" if what else ""
    expected = ", as the task expects" if report.expected else ""
    why = f"{report.code} {_where(report)}{after_faults(report.faults)}{named}"
    return f"{report.task_id} {report.final_state}: {why}{expected}"


def _step(report: ErrorReport) -> str:
    """The step that failed, as written."""
    if not report.step or report.code in ("INCOMPLETE", "WORKER_CRASHED") or choosing(report):
        return ""
    return f"{report.step.get('act', '')} {target(report.step)}".strip()


def _where(report: ErrorReport) -> str:
    total = report.metrics.steps_total if report.metrics else None
    if report.code in ("INCOMPLETE", "WORKER_CRASHED"):
        return "at the end" if report.code == "INCOMPLETE" else "at an unknown step"
    if choosing(report):
        return f"while choosing step {report.step_index}"
    if report.step_index < 0:
        return "at a precondition" if report.code == "PRECONDITION_NOT_MET" else "before the first step"
    if total is None:
        return f"at step {report.step_index}"
    words = {"end": "at the success criteria"}
    return words.get(place(report.step_index, total), f"at {numbered(report.step_index, total)}")


def _lines(kept: Kept, width: int) -> Iterator[str]:
    report = kept.report
    yield headline(report)
    if report.source:
        yield f"  {report.source}"
    yield f"  {when(report):%Y-%m-%d %H:%M:%S}, run {kept.run}{_metrics(report)}"
    yield from attempt_lines(kept, width)
    yield from _list("tried", report.tried if report.recovery_attempted else ())
    yield from _text("message", report.error_message)
    yield from _comparison(report)
    yield from _list("matches", _matches(report))
    yield from _list("faults injected", [each.text for each in report.faults])
    yield from _text("hint", report.hint)
    told = [each for each in report.warnings if each.get("type") != "fault_not_met"]  # the faults say it
    yield from _list("warnings", [f"{each.get('type')}: {each.get('message', '')}" for each in told])
    yield from _surroundings(report)
    yield from _files(kept)


def _metrics(report: ErrorReport) -> str:
    found = report.metrics
    if found is None:
        return ""
    done = f"{found.steps_completed} of {found.steps_total} steps done in {found.time_elapsed_seconds:.1f} s"
    count = found.retries_count
    retries = f", {count} {'retry' if count == 1 else 'retries'}" if count else ""
    return f": {done}{retries}"


def _comparison(report: ErrorReport) -> Iterator[str]:
    found = report.context.assertion
    if found is None:
        return
    yield from _text("criterion", found.expression)
    yield f"  expected: {_indented(found.expected)}"
    yield f"  actual:   {_indented(found.actual)}"
    if not repeats(found.expected, found.actual, found.diff):
        yield from (f"    {line}" for line in found.diff.splitlines())


def _matches(report: ErrorReport) -> list[Any]:
    """What an ambiguous selector found."""
    found = (report.context.model_extra or {}).get("matches")
    return found if isinstance(found, list) else []


def _indented(value: Any) -> str:
    """A text of several lines stands below its title."""
    first, *rest = shown_value(value).splitlines() or [""]
    return "\n".join([first, *(f"    {line}" for line in rest)])


def _surroundings(report: ErrorReport) -> Iterator[str]:
    if report.context.url:
        yield f"  url: {report.context.url}"
    yield from _list("console", folded(report.context.browser_console_logs))


def _files(kept: Kept) -> Iterator[str]:
    """What is there to look at, and why the rest is not."""
    yield f"  artifacts: {shown_path(kept.folder)}"
    entries = [each for key in ("artifacts", "files") for each in _entries(kept.manifest.get(key))]
    if not entries:
        names = sorted(path.name for path in kept.folder.iterdir() if path.is_file())
        yield from (f"    {name}" for name in names)
    for entry in entries:
        name, status = str(entry.get("name", "")), str(entry.get("status", ""))
        size = _size(entry.get("bytes")) if status == "taken" else f"{status}: {entry.get('reason', '')}"
        yield f"    {name:<22} {size}"
    again = kept.manifest.get("retrace")
    if isinstance(again, dict) and again.get("trace"):
        ended = "passed" if again.get("passed") else f"failed with {again.get('code')}"
        yield f"    {again['trace']!s:<22} the full trace of a second run (--task-retrace), which {ended}"


def _entries(found: Any) -> list[Mapping[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _size(count: Any) -> str:
    if not isinstance(count, int):
        return ""
    return f"{count} bytes" if count < 1024 else f"{count / 1024:.0f} KB"


def _list(title: str, items: Any) -> Iterator[str]:
    found = [str(item) for item in items]
    if found:
        yield f"  {title}:"
    yield from (f"    {line}" for item in found for line in item.splitlines() or [""])


def _text(title: str, text: str) -> Iterator[str]:
    """The first line beside its title, the others below it."""
    first, *rest = text.splitlines() or [""]
    if first or rest:
        yield f"  {title}: {first}"
    yield from (f"    {line}" for line in rest)


def line(kept: Kept, last_run: str | None) -> str:
    """One line of the list of all; `last_run` tells what is of an earlier one, None where that is not known."""
    name = kept.folder.name
    notes = [] if name == kept.report.task_id else [f"  [{name}]"]
    if last_run is not None and kept.run != last_run:
        notes.append("  (not of the last run)")
    elif not kept.counts:
        notes.append("  (a later execution counts)")
    return visible(f"{when(kept.report):%Y-%m-%d %H:%M}  {headline(kept.report)}{''.join(notes)}")
