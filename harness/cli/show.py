"""`harness show`: shows the artifacts of a failed task under `errors/` in the terminal."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from harness.cli.ending import AsJson, fail
from harness.cli.failures import (
    LAST,
    ArtifactDirectory,
    Artifacts,
    Run,
    cases_of,
    directories_of,
    earlier,
    folders_of,
    full_document,
    is_kept,
    last_run,
    readable,
    readable_or_end,
    summary_document,
    task_id,
    the_failure,
    unknown,
)
from harness.cli.project import project_of, settings_here
from harness.model.consumption import ModelFigures
from harness.model.report import ErrorReport
from harness.model.tool_use import of_all_tools
from harness.reporting.console import EVERYTHING, screen
from harness.reporting.files import shown_path, visible
from harness.reporting.story import TaskStory
from harness.reporting.tool_lines import call_lines
from harness.reporting.words import shortened

if TYPE_CHECKING:
    from harness.reporting.trajectory import Trajectory

MOST_CALLS, LONGEST_LINE = 5, 1000
"""The number of calls of tools that are shown, and of characters of what was sent or answered."""


# A kept failure as text: the terminal's screen of a run without limits, with what only the directory knows.


def page(kept: ArtifactDirectory) -> str:
    """The whole page: where it failed, what was done and tried, why, what to do, and the files."""
    return "\n".join(visible(line).rstrip() for line in _lines(kept))


def _headline(story: TaskStory) -> str:
    return f"{story.headline}{', as the task expects' if story.expected else ''}"


def _lines(kept: ArtifactDirectory) -> Iterator[str]:
    report = kept.report
    yield _headline(kept.story)
    at = report.timestamp.astimezone()
    head = [f"  {at:%Y-%m-%d %H:%M:%S}, run {kept.run}{_metrics(report)}", *_agent(kept)]
    yield from screen(kept.story, EVERYTHING, head)
    yield from _calls(kept.story)
    yield from _files(kept)


def _calls(story: TaskStory) -> Iterator[str]:
    """The sums of the calls of tools, and the last calls with what was sent and what came back."""
    total = of_all_tools(story.tools)
    if not total.calls:
        return
    yield f"  tools: {total.describe()}"
    failed = story.failure.call if story.failure else None  # the screen has it already
    calls = [call.document for call in story.calls if call.document != failed]
    if len(calls) > MOST_CALLS:
        yield f"    ({len(calls) - MOST_CALLS} calls before these: partial_trace.json)"
    for line in (each for call in calls[-MOST_CALLS:] for each in call_lines(call)):
        yield f"    {line[:2]}{shortened(line[2:], LONGEST_LINE)}"


def _agent(kept: ArtifactDirectory) -> Iterator[str]:
    """The agent and what it has asked; the command that tells more."""
    story = kept.story
    if story.agent:
        used = f": {sum(story.models.values(), ModelFigures()).describe()}" if story.models else ""
        if story.control:
            used += f", control: {story.control}"
        yield f"  agent: {story.agent}{used} (harness show {shlex.quote(_way_of(kept))} --agent)"


def _way_of(kept: ArtifactDirectory) -> str:
    """What `harness show --agent` calls the agent's way: of a trial of an evaluation its folder, else the task."""
    from harness.reporting.trajectory import TRAJECTORIES  # most failures are not an agent's

    of_trial = kept.folder.absolute().parent.parent / TRAJECTORIES / kept.folder.name
    return shown_path(of_trial) if of_trial.is_dir() else kept.story.task_id


def _metrics(report: ErrorReport) -> str:
    found = report.metrics
    if found is None:
        return ""
    done = f"{found.steps_completed} of {found.steps_total} steps done in {found.time_elapsed_seconds:.1f} s"
    count = found.retries_count
    retries = f", {count} {'retry' if count == 1 else 'retries'}" if count else ""
    return f": {done}{retries}"


def _files(kept: ArtifactDirectory) -> Iterator[str]:
    """The files to look at, and why others are missing."""
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


def _size(count: Any) -> str:
    if not isinstance(count, int):
        return ""
    return f"{count} bytes" if count < 1024 else f"{count / 1024:.0f} KB"


def _entries(found: Any) -> list[Mapping[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def line(kept: ArtifactDirectory, last_run: str | None) -> str:
    """One line of the list of all failures; `last_run` marks those of an earlier run, None: unknown."""
    name = kept.folder.name
    notes = [] if name == kept.report.task_id else [f"  [{name}]"]
    if last_run is not None and kept.run != last_run:
        notes.append("  (not of the last run)")
    elif not kept.counts:
        notes.append("  (a later execution counts)")
    at = kept.report.timestamp.astimezone()
    return visible(f"{at:%Y-%m-%d %H:%M}  {_headline(kept.story)}{''.join(notes)}")


_NARROWEST = 60


def show(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK_ID|DIR", help="A task's id, its directory, or `last`. Default: list all failures."
        ),
    ] = None,
    run: Run = None,
    artifacts: Artifacts = None,
    agent: Annotated[
        bool, typer.Option("--agent", help="Show the way of an agent through its last run, also a passed one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a failure: what was tried, why it failed, which files.

    Example: harness show B1-2025-001
    """
    if agent:
        _show_agent(task, run, artifacts, as_json)
        return
    if task is not None and run is None and is_kept(Path(task)):
        _show([Path(task)], as_json)
        return
    root = artifacts or settings_here().artifacts
    folders = folders_of(root, run)
    if task is None:
        _list(root, folders, run, None if run is not None or artifacts is not None else last_run(), as_json)
    elif task == LAST:
        _show([the_failure(task, run, artifacts, "harness show").folder], as_json)
    elif found := directories_of(folders, task):
        _show(found, as_json)
    elif cases := cases_of(folders, task):
        _list_cases(cases, run, as_json)
    else:
        fail(unknown(root, folders, task, run))


def _show_agent(task: str | None, run: str | None, artifacts: Path | None, as_json: bool) -> None:
    from harness.reporting.agent_way import way_text  # most failures are not an agent's

    if task is None or artifacts is not None:
        fail("--agent needs the id of a task, a folder with trajectory.jsonl, or `last`, and takes no --artifacts")
    found = _found_trajectory(project_of(Path.cwd()) or Path.cwd(), task, run)
    if as_json:
        _print({"task": msgspec.to_builtins(found.task), "choices": msgspec.to_builtins(found.choices)})
        return
    typer.echo(way_text(found, max(_NARROWEST, shutil.get_terminal_size((120, 24)).columns)))


def _show(folders: list[Path], as_json: bool) -> None:
    """Print whole failures; one that cannot be read ends the command."""
    found = list(map(readable_or_end, folders))
    if as_json:
        _print(full_document(found))
    else:
        typer.echo("\n\n".join(map(page, found)))


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


def _found_trajectory(root: Path, task: str, run: str | None) -> Trajectory:
    """The newest trajectory of a task (an id, a key, a folder with one, or `last`); ends the command without one."""
    from harness.reporting.trajectory import FILE, TrajectoryError, newest, read, trajectories

    try:
        if (Path(task) / FILE).is_file():
            return read(Path(task) / FILE)
        each = newest(root) if task == LAST else trajectories(root, task)
        found = next((one for one in each if run is None or one.task.run == run), None)
    except (TrajectoryError, OSError) as error:
        fail(str(error))
    if found is None:
        of_run = f" in run {run}" if run else ""
        fail(f"no agent has chosen the steps of {task}{of_run}, or its trajectory was deleted: see `harness show`")
    return found
