"""A kept failure as text, in the words of the terminal report of a run (reporting/console.py), and in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.cli.kept import Kept, when
from harness.report import ErrorReport
from harness.reporting.names import shown_path
from harness.reporting.table import numbered, place, shortened

STEPS = 6
"""Lines of the trace that are shown: those before the failure, and the failing step's."""
_STANDING = frozenset({"url", "screenshot_id", "dom_snapshot_id", "memory_snapshot", "env_snapshot"})


def page(kept: Kept, width: int) -> str:
    """Where, what was done, what was tried, why, what to do, and which files there are."""
    return "\n".join(line.rstrip() for line in _lines(kept, width))


def headline(report: ErrorReport) -> str:
    """`T-1 failed: STEP_TIMEOUT (timeout_step) at step 4 (of 0-22)`."""
    kind = report.code if report.error_type == "unknown" else f"{report.code} ({report.error_type})"
    expected = ", as the task expects" if report.expected else ""
    return f"{report.task_id} {report.final_state}: {kind} {_where(report)}{expected}"


def _where(report: ErrorReport) -> str:
    total = report.metrics.steps_total if report.metrics else None
    if report.step_index < 0:
        return "before the first step"
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
    yield from _steps(kept, width)
    yield from _list("tried", report.tried if report.recovery_attempted else ())
    yield from _text("message", report.error_message)
    yield from _comparison(report)
    yield from _text("hint", report.hint)
    yield from _list("warnings", [f"{each.get('type')}: {each.get('message', '')}" for each in report.warnings])
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


def _steps(kept: Kept, width: int) -> Iterator[str]:
    """The last attempts; the trace has them all."""
    steps = kept.steps[-STEPS:]
    if not steps:
        return
    act = max(len(str(step.get("act", ""))) for step in steps)
    if len(kept.steps) > len(steps):
        yield f"  steps ({len(kept.steps) - len(steps)} attempts before them: partial_trace.json):"
    else:
        yield "  steps:"
    for step in steps:
        failed = step.get("step_index") == kept.report.step_index
        seconds = step.get("seconds")
        time = f"  {seconds:.1f} s" if isinstance(seconds, int | float) else ""
        index, name = step.get("step_index", ""), str(step.get("act", ""))
        what = shortened(_target(step), max(20, width - act - 24))
        yield f"  {'>' if failed else ' '} {index:>3}  {name:<{act}}  {what}{time}"


def _target(step: Mapping[str, Any]) -> str:
    found = step.get("url") or step.get("expr") or step.get("selector") or ""
    value = step.get("value")
    return f"{found} = {value!r}" if found and value is not None else str(found or ("" if value is None else value))


def _comparison(report: ErrorReport) -> Iterator[str]:
    found = report.context.assertion
    if found is None:
        return
    yield from _text("criterion", found.expression)
    yield f"  expected: {_shown(found.expected)}"
    yield f"  actual:   {_shown(found.actual)}"
    yield from (f"    {line}" for line in found.diff.splitlines())


def _shown(value: Any) -> str:
    return value if isinstance(value, str) and value.strip() == value != "" else repr(value)


def _surroundings(report: ErrorReport) -> Iterator[str]:
    if report.context.url:
        yield f"  url: {report.context.url}"
    yield from _list("console", report.context.browser_console_logs)


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


def line(folder: Path, report: ErrorReport) -> str:
    """One line of the list of all."""
    return f"{when(report):%Y-%m-%d %H:%M}  {headline(report)}" + (
        f"  [{folder.name}]" if folder.name != report.task_id else ""
    )
