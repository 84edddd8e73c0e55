"""`harness show`: shows the artifacts of a failed task under `errors/` in the terminal."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct

from harness.cli.ending import fail
from harness.cli.failures import (
    LAST,
    ArtifactDirectory,
    Artifacts,
    AsJson,
    Run,
    artifacts_root,
    cases_of,
    directories_of,
    earlier,
    folders_of,
    full_document,
    is_kept,
    last_run,
    local_time,
    readable,
    readable_or_end,
    summary_document,
    task_id,
    the_failure,
    unknown,
)
from harness.cli.project import project_of
from harness.model.diagnosis import after_faults, undone_fault
from harness.model.record import control_of
from harness.model.report import ErrorReport
from harness.reporting.console import (
    CRITERION,
    crash_lines,
    fails_the_choice,
    fold_lines,
    place,
    repeats,
    shortened,
    shown_value,
    step_label,
)
from harness.reporting.files import shown_path, told_lines, visible
from harness.reporting.tool_lines import call_lines, called

# The steps of a kept failure, one line each: the act, whether it worked, where the task went back.

MOST_CALLS, LONGEST_LINE = 5, 1000
"""The number of calls of tools that are shown, and of characters of what was sent or answered."""
MOST = 6
"""The number of lines of the trace that are shown: those before the failure, and the failing step's."""
_GONE_BACK = "; WENT BACK "


def choosing(report: ErrorReport) -> bool:
    """Return whether the agent failed to choose the next step."""
    return fails_the_choice(report.code)


class _Line(Struct, frozen=True):
    """One step, with its consecutive attempts."""

    place: str
    act: str
    target: str
    status: str
    failing: bool
    seconds: float | None = None
    attempts: int = 1
    went_back: str = ""


def attempt_lines(kept: ArtifactDirectory, width: int) -> Iterator[str]:
    """The last steps; the trace has all attempts."""
    groups = list(_group_attempts(kept.steps))
    lines = [_line(kept.report, attempts) for attempts in groups[-MOST:]] + list(_line_without_attempt(kept.report))
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


def _group_attempts(steps: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The consecutive attempts at each step, until the task went back from it."""
    group: list[Mapping[str, Any]] = []
    for step in steps:
        if group and not _once_more(group[-1], step):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def _once_more(before: Mapping[str, Any], step: Mapping[str, Any]) -> bool:
    """Return whether the line is another attempt: all preconditions have one number, and all success criteria."""
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
        target(first) + _describe_substitute(first, last),
        status,
        failing,
        seconds,
        len(attempts),
        went_back,
    )


def _afterwards(report: ErrorReport, index: Any) -> str:
    """What happened to a failed step if the task went on."""
    outcomes = {"step_skipped": "skipped", "effect_already_done": "done"}
    own = (str(each.get("type")) for each in report.warnings if each.get("step_index") == index)
    return next((outcomes[kind] for kind in own if kind in outcomes), "")


def _line_without_attempt(report: ErrorReport) -> Iterator[_Line]:
    """The line of a failure without an attempt: the agent's, or that of a fault that could not be injected."""
    where = _place(report, report.step_index)
    if choosing(report):
        yield _Line(where, "", "the agent's choice", "FAILED", failing=True)
    elif wrong := undone_fault(report.faults):
        yield _Line(where, "fault", f"{wrong.kind} {wrong.target}", "FAILED", failing=True)


def _place(report: ErrorReport, index: Any) -> str:
    """The place of a step as the terminal shows it in a run: `4`, `end`."""
    total = report.metrics.steps_total if report.metrics and not choosing(report) else None
    return str(index) if total is None or not isinstance(index, int) else place(index, total)


def _describe_substitute(first: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    """What the last attempt did in place of the step as written, in the words of reporting/console.py."""
    if last.get("act") == first.get("act"):
        return ""
    return f" (retried by {'opening' if last.get('act') == 'open' else last.get('act')} {target(last)})"


def target(step: Mapping[str, Any]) -> str:
    """The target of a step in a kept report."""
    if step.get("act") == "tool":
        return called(step.get("server"), step.get("tool"), step.get("arguments"))
    element = step.get("selector") or step.get("frame") or "the page"
    if "screenshot" in step:
        return f"{element} looks like {step['screenshot']}"
    if "aria" in step:
        return f"ARIA snapshot of {element}"
    found = step.get("url") or step.get("expr") or step.get("selector") or ""
    value = step.get("value")
    return f"{found} = {value!r}" if found and value is not None else str(found or ("" if value is None else value))


# A kept failure as text, complete, in the words of a run's terminal report (reporting/console.py).


def page(kept: ArtifactDirectory, width: int) -> str:
    """The whole page: where it failed, what was done and tried, why, what to do, and the files."""
    return "\n".join(visible(line).rstrip() for line in _lines(kept, width))


def headline(report: ErrorReport) -> str:
    """`T-1 failed: STEP_TIMEOUT at step 4 (of 0-22)`, in the words that the terminal shows in a run."""
    what = (report.context.model_extra or {}).get("criterion") or _step(report)
    named = f": {shortened(str(what), CRITERION)}" if what else ""
    expected = ", as the task expects" if report.expected else ""
    why = f"{report.code} {_failure_place(report)}{after_faults(report.faults)}{named}"
    return f"{report.task_id} {report.final_state}: {why}{expected}"


def _step(report: ErrorReport) -> str:
    """The step that failed, as written."""
    if not report.step or report.code in ("INCOMPLETE", "WORKER_CRASHED") or choosing(report):
        return ""
    return f"{report.step.get('act', '')} {target(report.step)}".strip()


def _failure_place(report: ErrorReport) -> str:
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
    return words.get(place(report.step_index, total), f"at {step_label(report.step_index, total)}")


def _lines(kept: ArtifactDirectory, width: int) -> Iterator[str]:
    report = kept.report
    yield headline(report)
    if report.source:
        yield f"  {report.source}"
    yield f"  {local_time(report):%Y-%m-%d %H:%M:%S}, run {kept.run}{_metrics(report)}"
    yield from _agent(report)
    yield from attempt_lines(kept, width)
    yield from _titled_list("tried", report.tried if report.recovery_attempted else ())
    yield from (f"  {line}" for line in crash_lines(report.context.model_extra or {}))
    yield from _text("message", report.error_message)
    yield from _calls(kept)
    yield from _comparison(report)
    yield from _titled_list("matches", _matches(report))
    yield from _titled_list("faults injected", [each.text for each in report.faults])
    yield from _titled_list("answered by routes", [each.text for each in report.routes if each.count])
    yield from _text("suspect", report.suspect or "")
    yield from _text("hint", report.hint)
    told = [each for each in report.warnings if each.get("type") != "fault_not_met"]  # the list of faults says it
    yield from _titled_list("warnings", [f"{each.get('type')}: {each.get('message', '')}" for each in told])
    yield from _page_lines(report)
    yield from _files(kept)


def _calls(kept: ArtifactDirectory) -> Iterator[str]:
    """The sums of the calls of tools, and the last calls with what was sent and what came back."""
    report = kept.report
    if report.tools_total is None:
        return
    yield f"  tools: {report.tools_total.describe()}"
    calls = [call for step in kept.steps for call in _entries(step.get("tool_calls"))]
    if len(calls) > MOST_CALLS:
        yield f"    ({len(calls) - MOST_CALLS} calls before these: partial_trace.json)"
    for line in (each for call in calls[-MOST_CALLS:] for each in call_lines(call)):
        yield f"    {line[:2]}{shortened(line[2:], LONGEST_LINE)}"
    failed = report.tool_error.payload if report.tool_error else None
    if failed is not None and all(failed.tool_call_id != each.get("id") for each in calls):
        yield f"    {failed.tool} (called by a channel): {failed.message}"


def _agent(report: ErrorReport) -> Iterator[str]:
    """The agent and what it has asked; the command that tells more."""
    if report.agent:
        used = f": {report.models_total.describe()}" if report.models_total else ""
        if control := control_of(report.warnings):
            used += f", control: {control}"
        yield f"  agent: {report.agent}{used} (harness show {shlex.quote(report.task_id)} --agent)"


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
    yield f"  expected: {_indent_text(found.expected)}"
    yield f"  actual:   {_indent_text(found.actual)}"
    if not repeats(found.expected, found.actual, found.diff):
        yield from (f"    {line}" for line in found.diff.splitlines())


def _matches(report: ErrorReport) -> list[Any]:
    """The matches of an ambiguous selector."""
    found = (report.context.model_extra or {}).get("matches")
    return found if isinstance(found, list) else []


def _indent_text(value: Any) -> str:
    """A text; one of several lines is below its title."""
    first, *rest = shown_value(value).splitlines() or [""]
    return "\n".join([first, *(f"    {line}" for line in rest)])


def _page_lines(report: ErrorReport) -> Iterator[str]:
    if report.context.url:
        yield f"  url: {report.context.url}"
    yield from _titled_list("shown for a moment", report.context.vanished)
    yield from _titled_list("console", fold_lines(told_lines(report.context.browser_console_logs)))


def _files(kept: ArtifactDirectory) -> Iterator[str]:
    """The files to look at, and why others are missing."""
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


def _titled_list(title: str, items: Any) -> Iterator[str]:
    found = [str(item) for item in items]
    if found:
        yield f"  {title}:"
    yield from (f"    {line}" for item in found for line in item.splitlines() or [""])


def _text(title: str, text: str) -> Iterator[str]:
    """A text with its first line beside the title, the others below."""
    first, *rest = text.splitlines() or [""]
    if first or rest:
        yield f"  {title}: {first}"
    yield from (f"    {line}" for line in rest)


def line(kept: ArtifactDirectory, last_run: str | None) -> str:
    """One line of the list of all failures; `last_run` marks those of an earlier run, None: unknown."""
    name = kept.folder.name
    notes = [] if name == kept.report.task_id else [f"  [{name}]"]
    if last_run is not None and kept.run != last_run:
        notes.append("  (not of the last run)")
    elif not kept.counts:
        notes.append("  (a later execution counts)")
    return visible(f"{local_time(kept.report):%Y-%m-%d %H:%M}  {headline(kept.report)}{''.join(notes)}")


NARROWEST = 60


def show(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK_ID|DIR", help="A task's id, its directory, or `last`. Without it, all failures are listed."
        ),
    ] = None,
    run: Run = None,
    artifacts: Artifacts = None,
    agent: Annotated[
        bool, typer.Option("--agent", help="Show what an agent saw, asked and did in its last run, also a passed one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one failure: what was tried, why the task failed, which files there are. Without a task, list all failures.

    Example: harness show B1-2025-001
    """
    if agent:
        _show_agent(task, run, artifacts, as_json)
        return
    if task is not None and run is None and is_kept(Path(task)):
        _show([Path(task)], as_json)
        return
    root = artifacts or artifacts_root()
    folders = folders_of(root, run)
    if task is None:
        _list(root, folders, run, None if run is not None or artifacts is not None else last_run(), as_json)
        return
    if task == LAST:
        _show([the_failure(task, run, artifacts, "harness show").folder], as_json)
        return
    found = directories_of(folders, task)
    if not found and (cases := cases_of(folders, task)):
        _list_cases(cases, run, as_json)
        return
    if not found:
        fail(unknown(root, folders, task, run))
    _show(found, as_json)


def _show_agent(task: str | None, run: str | None, artifacts: Path | None, as_json: bool) -> None:
    """Print the way of an agent."""
    from harness.cli.agent_way import found_trajectory  # most failures are not an agent's
    from harness.reporting.agent_way import way_text

    if task is None or artifacts is not None:
        fail("--agent needs the id of a task, a folder with trajectory.jsonl, or `last`, and takes no --artifacts")
    found = found_trajectory(project_of(Path.cwd()) or Path.cwd(), task, run)
    if as_json:
        _print(
            {"task": msgspec.to_builtins(found.task), "choices": [msgspec.to_builtins(each) for each in found.choices]}
        )
        return
    typer.echo(way_text(found, max(NARROWEST, shutil.get_terminal_size((120, 24)).columns)))


def _show(folders: list[Path], as_json: bool) -> None:
    """Print whole failures; one that cannot be read ends the command."""
    found = [readable_or_end(folder) for folder in folders]
    if as_json:
        _print(full_document(found))
        return
    width = max(NARROWEST, shutil.get_terminal_size((100, 24)).columns)
    typer.echo("\n\n".join(page(kept, width) for kept in found))


def _print(document: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def _tell(folders: list[Path], of_last_run: str | None) -> None:
    for kept in filter(None, map(readable, folders)):
        typer.echo(line(kept, of_last_run))


def _list_cases(folders: list[Path], run: str | None, as_json: bool) -> None:
    if as_json:
        _print(summary_document(folders, {}, None))
        return
    _tell(folders, None)
    option = f" --run {run}" if run is not None else ""
    typer.echo(f"one of them: harness show {shlex.quote(task_id(folders[0]))}{option}")


def _list(root: Path, folders: list[Path], run: str | None, newest: str | None, as_json: bool) -> None:
    runs = earlier(root) if run is None else {}
    if as_json:
        _print(summary_document(folders, runs, newest))
        return
    _tell(folders, newest)
    if not folders:
        typer.echo(f"no failures under {shown_path(root)}")
    for name, kept in runs.items():
        typer.echo(f"earlier run {name}: {', '.join(folder.name for folder in kept)}")
