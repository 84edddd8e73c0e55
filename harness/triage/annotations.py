"""Which failures are shown beside the lines of their files, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from harness.reporting.visible import printable, visible
from harness.reporting.workflow_commands import workflow_command
from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from harness.spec.problems import Problem, SpecError
from harness.triage.causes import Cause
from harness.triage.first_look import first_look
from harness.triage.trouble import Trouble

MOST = 10
"""Errors that GitHub shows of one step."""

Line = tuple[str, int | None]
"""A file, and the line in it, from 1."""


def commands(causes: Sequence[Cause], place: Callable[[Trouble], Line]) -> Iterator[str]:
    """GitHub's command for each: the first task of every cause, then the others, as many as are shown."""
    firsts = ((cause, cause.tasks[0]) for cause in causes)
    others = ((cause, task) for cause in causes for task in cause.tasks[1:])
    return (_command(cause, task, place(task)) for cause, task in islice(chain(firsts, others), MOST))


def _command(cause: Cause, task: Trouble, place: Line) -> str:
    file, line = place
    alike = f"the same cause as of {cause.count - 1} more" if cause.count > 1 else ""
    lines = [task.message, task.hint and f"hint: {task.hint}", alike, f"look at: {first_look(cause)}"]
    title = printable(f"{task.task_id}: {task.code}" if task.code else task.task_id)
    message = visible("\n".join(filter(None, lines)))
    return workflow_command("error", message, {"file": file, "line": line, "title": title})


def line_of(task: Trouble, environment: Mapping[str, str]) -> Line:
    """The failing step in the task's file, as far as it can be read; the file as seen from the checkout's root."""
    if not task.source:
        return "", None
    try:
        loaded = load_file(Path(task.source), needs_steps=False)
    except SpecError:
        return _from_checkout(task.source, environment), 1
    problem = _problem(loaded, task.step_index)
    return _from_checkout(problem.file, environment), problem.line


def _problem(loaded: Loaded, index: int | None) -> Problem:
    """At the step; at the key of what comes before the steps, and after them; at the top of the file."""
    if index is None:
        return loaded.origin.problem((), "")
    if 0 <= index < len(loaded.spec.steps):
        return loaded.origin.problem(("steps", index), "")
    return loaded.origin.problem(("preconditions" if index < 0 else "success_criteria",), "", key=True)


def _from_checkout(file: str, environment: Mapping[str, str]) -> str:
    """GitHub knows files by their place below the checkout."""
    root = environment.get("GITHUB_WORKSPACE")
    path = Path(file).absolute()
    return path.relative_to(root).as_posix() if root and path.is_relative_to(root) else file
