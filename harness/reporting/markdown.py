"""A run as Markdown for the page of a CI job: the failures, their causes, and where to look first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from msgspec import Struct

from harness.model.consumption import money_text
from harness.reporting.files import printable, visible, workflow_command
from harness.reporting.healings import healings
from harness.reporting.history.record import Execution, Happening, RunRecord
from harness.reporting.tables import markdown_table
from harness.reporting.triage import Cause, Trouble, first_look
from harness.reporting.words import shortened
from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from harness.spec.names import how_many
from harness.spec.problems import Problem, SpecError

# The failures that are shown at the lines of their files.

MOST = 10
"""The number of errors that GitHub shows for one step."""

_PLACE = re.compile(r"(?P<file>[^\s:][^\n:]*):(?P<line>\d+):\d+: ")
_Line = tuple[str, int | None]
"""A file, and a line number from 1."""


def commands(causes: Sequence[Cause], place: Callable[[Trouble], _Line]) -> Iterator[str]:
    """GitHub commands: for the first task of every cause, then for the others, as many as are shown."""
    firsts = ((cause, cause.tasks[0]) for cause in causes)
    others = ((cause, task) for cause in causes for task in cause.tasks[1:])
    return (_annotation(cause, task, place(task)) for cause, task in islice(chain(firsts, others), MOST))


def uncollected_commands(files: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[str]:
    """GitHub commands for the files that could not be collected: file -> why."""
    for file, why in islice(files.items(), MOST):
        place, line = _told_place(why, environment) or (_from_checkout(file.partition("::")[0], environment), 1)
        yield workflow_command("error", visible(why), {"file": place, "line": line, "title": "not collected"})


def _told_place(message: str, environment: Mapping[str, str]) -> _Line | None:
    """The place that a message begins with, as those about files do."""
    found = _PLACE.match(message)
    return (_from_checkout(found["file"], environment), int(found["line"])) if found else None


def _annotation(cause: Cause, task: Trouble, place: _Line) -> str:
    file, line = place
    alike = f"the same cause as for {cause.count - 1} more" if cause.count > 1 else ""
    lines = [
        task.message,
        task.hint and f"hint: {task.hint}",
        alike,
        task.suspect and f"suspect: {task.suspect}",
        f"look at: {first_look(cause)}",
    ]
    title = printable(f"{task.task_id}: {task.code}" if task.code else task.task_id)
    message = visible("\n".join(filter(None, lines)))
    return workflow_command("error", message, {"file": file, "line": line, "title": title})


def line_of(task: Trouble, environment: Mapping[str, str]) -> _Line:
    """The failing step's line in the task's file, if it can be read; the file's path from the checkout's root."""
    if not task.source:
        return "", None
    if place := _told_place(task.message, environment):
        return place
    try:
        loaded = load_file(Path(task.source), needs_steps=False)
    except SpecError as error:
        first = error.problems[0]
        return _from_checkout(first.file or task.source, environment), first.line or 1
    problem = _problem(loaded, task.step_index)
    return _from_checkout(problem.file, environment), problem.line


def _problem(loaded: Loaded, index: int | None) -> Problem:
    """The place of the failure: the step; the key of what comes before or after the steps; else the top of the file."""
    if index is None:
        return loaded.origin.problem((), "")
    if 0 <= index < len(loaded.spec.steps):
        return loaded.origin.problem(("steps", index), "")
    return loaded.origin.problem(("preconditions" if index < 0 else "success_criteria",), "", key=True)


def _from_checkout(file: str, environment: Mapping[str, str]) -> str:
    """The path of a file relative to the checkout, as GitHub identifies files."""
    root = environment.get("GITHUB_WORKSPACE")
    path = Path(file).absolute()
    return path.relative_to(root).as_posix() if root and path.is_relative_to(root) else file


# Text of pages and tasks in GitHub's and GitLab's Markdown, escaped so that it can only be read.

_MARKDOWN = re.compile(r"([\\`*_\[\]#!|~$@^])|\A([-+=]|\d+(?=[.)]))")
_AHEAD = 4
"""The factor by which the examined text is longer than the shown one, since white space is folded."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape_markdown(text: str, longest: int = 200) -> str:
    """One line of at most so many characters before escaping, without markup, links, mentions and table cells."""
    short = shortened(printable(text[: _AHEAD * longest]), longest)
    plain = "".join(_ENTITIES.get(letter, letter) for letter in short)
    return _MARKDOWN.sub(_escape_mark, plain).replace("://", r":\//").replace("www.", r"www\.")


def _escape_mark(found: re.Match[str]) -> str:
    """An escaped mark. A number that would begin a list cannot be escaped, so a space of zero width precedes it."""
    return f"&#8203;{found[2]}" if found[2] and found[2].isdigit() else f"\\{found[0]}"


def code(text: str, longest: int = 200) -> str:
    """The same as code."""
    return f"<code>{escape_markdown(text, longest)}</code>" if text else ""


LIMIT = 1024 * 1024
"""The number of bytes that GitHub takes from one step."""
_ROWS = 200
"""The largest number of rows of a table; fewer if they would not fit into the limit."""
_OF_SERVICES = frozenset({"circuit-state-change", "service-status", "tool-server-status"})
_FEW = 5
"""The number of tasks that a cause names."""


class Page(Struct, frozen=True):
    """The content of a page."""

    run: RunRecord
    causes: Sequence[Cause]
    uncollected: Mapping[str, str]
    """File -> why it could not be collected."""
    reports: Sequence[tuple[str, str]]
    """Name and place of each report."""
    others: int = 0
    """The number of ordinary tests that failed in the same session."""
    not_begun: int = 0
    """The number of tasks that the run did not begin, because it was interrupted."""


def markdown(page: Page, limit: int = LIMIT) -> str:
    """The page in at most `limit` bytes; tables are shortened first."""
    rows = _ROWS
    while len((text := "\n".join(_lines(page, rows)) + "\n").encode()) > limit and rows:
        rows //= 2
    return text if len(text.encode()) <= limit else ""


def _lines(page: Page, rows: int) -> Iterator[str]:
    yield from _head(page)
    uncollected = [f"{code(file)}: {escape_markdown(why, 300)}" for file, why in page.uncollected.items()]
    yield from _list_section("Files that could not be collected", uncollected, rows)
    troubles = [task for cause in page.causes for task in cause.tasks]
    if len(troubles) > 1:
        yield from _causes(page.causes, rows)
    yield from _tasks(troubles, rows)
    if len(troubles) == 1:
        yield from _single(page.causes[0])
    yield from _list_section("Flaky and healed", [*_flaky(page.run), *_healed_section(page.run)], rows)
    yield from _list_section("Agents", [*_agent_section(page.run)], rows)
    yield from _list_section("Tools", [*_tool_section(page.run)], rows)
    yield from _list_section("Circuits and services", [*_service_section(page.run.happenings)], rows)
    yield from _list_section(
        "Reports", [f"{escape_markdown(name)}: {code(place)}" for name, place in page.reports], rows
    )


def _head(page: Page) -> Iterator[str]:
    last = page.run.last
    counts = Counter(each.counted_as for each in last)
    failed, unjudged = counts["failed"], counts["not judged"]
    if not last:
        yield "## No task ran\n"
        return
    mark = "❌" if failed or page.uncollected or page.others else "⚠️" if unjudged or page.not_begun else "✅"
    beside = f", {unjudged} not judged" if unjudged else ""
    said = f"{failed} of {len(last)} tasks failed" if failed else f"{how_many(len(last), 'task')}, none failed{beside}"
    said += f"; {page.not_begun} more did not run" if page.not_begun else ""
    said += f"; {how_many(page.others, 'other test')} failed" if page.others else ""
    yield f"## {mark} {said}\n"
    yield f"{', '.join(_counts(last))} in {page.run.seconds:.0f} s. Run {code(page.run.run)}.\n"


def _counts(last: Sequence[Execution]) -> Iterator[str]:
    expected = sum(each.outcome == "passed" and bool(each.record and each.record.expected) for each in last)
    found = Counter(each.counted_as for each in last)
    counts = {
        "passed": found["passed"],
        "failed": found["failed"],
        "not judged": found["not judged"],
        "skipped": found["skipped"],
        "flaky": sum(each.outcome == "passed" and each.number > 1 for each in last),
        "healed": sum(each.outcome == "passed" and each.healed for each in last),
    }
    of_them = f" ({expected} as declared)" if expected else ""
    return (f"{count} {name}{of_them if name == 'passed' else ''}" for name, count in counts.items() if count)


def _causes(causes: Sequence[Cause], rows: int) -> Iterator[str]:
    cells = [
        (
            str(cause.count),
            code(cause.code) or "-",
            escape_markdown(cause.title),
            _few(cause),
            cause.suspect or "-",
            code(first_look(cause)),
        )
        for cause in causes[:rows]
    ]
    yield from _table(
        "Failures by cause", ("tasks", "code", "what", "which", "suspect", "look first at"), cells, len(causes)
    )


def _single(cause: Cause) -> Iterator[str]:
    """The lines about a single cause that its table would contain."""
    new = "It passed when it ran before. " if cause.new else ""
    suspect = f"Suspect: {cause.suspect}. " if cause.suspect else ""
    yield f"{new}{suspect}Look first at {code(first_look(cause))}.\n"


def _few(cause: Cause) -> str:
    names = ", ".join(escape_markdown(task.task_id, 80) for task in cause.tasks[:_FEW])
    return f"{names}{f' and {cause.count - _FEW} more' if cause.count > _FEW else ''}{' (new)' if cause.new else ''}"


def _tasks(troubles: Sequence[Trouble], rows: int) -> Iterator[str]:
    cells = [
        (
            escape_markdown(each.task_id, 80),
            code(each.code) or "-",
            escape_markdown(each.step),
            escape_markdown(each.message, 300),
            escape_markdown(each.hint),
        )
        for each in troubles[:rows]
    ]
    title = "Failed tasks" if any(each.judged for each in troubles) else "Tasks that are not judged"
    yield from _table(title, ("task", "code", "step", "message", "what to do"), cells, len(troubles))


def _flaky(run: RunRecord) -> Iterator[str]:
    """The tasks that passed in the end, and not at once."""
    before = {each.nodeid: each for each in run.executions if each.outcome == "rerun"}
    for each in run.last:
        first = before.get(each.nodeid)
        if each.outcome == "passed" and first is not None:
            record = first.record
            why = f"{record.code}: {record.message}" if record and record.code else first.reason
            yield f"{escape_markdown(each.task_id, 80)} passed at execution {each.number}, after {escape_markdown(why)}"


def _healed_section(run: RunRecord) -> Iterator[str]:
    """The proposed changes of files that make a fallback the selector."""
    for each in run.last:
        for healing in healings(each.record) if each.record and each.outcome == "passed" else ():
            told = f"{code(healing.original)} matched nothing, {code(healing.used)} was used"
            step = healing.record.place_of(healing.warning.get("step_index"))
            place = f"{healing.record.steps_source or healing.record.source} step {step}"
            todo = escape_markdown(healing.settled or f"update {place}")
            yield f"{escape_markdown(each.task_id, 80)} healed: {told} ({todo})"


def _agent_section(run: RunRecord) -> Iterator[str]:
    """What all agents have used, then each takeover."""
    used = run.used
    if used.calls:
        success = run.cost_per_success
        more = "" if success is None else f"; {money_text(success)} for each task that passed"
        yield f"models: {escape_markdown(used.describe() + more)}"
    for each in run.last:
        for warning in each.record.warnings if each.record else ():
            if warning.get("type") == "agent_fallback_used":
                yield f"{escape_markdown(each.task_id, 80)}: {escape_markdown(str(warning.get('message')))}"


def _tool_section(run: RunRecord) -> Iterator[str]:
    """What all calls of tools have done, then each tool that has failed."""
    if run.called.calls:
        yield f"tools: {escape_markdown(run.called.describe())}"
    for server, tools in run.tools.items():
        for tool, used in tools.items():
            if used.errors or used.failed:
                yield f"{escape_markdown(f'{server}.{tool}', 80)}: {escape_markdown(used.describe())}"


def _service_section(happenings: Sequence[Happening]) -> Iterator[str]:
    """The failures of services and circuits; recoveries are left out."""
    for each in happenings:
        if each.type in _OF_SERVICES and each.level in ("WARNING", "ERROR", "CRITICAL"):
            yield f"{each.at:%H:%M:%S} {escape_markdown(each.text or each.type)}"


def _list_section(title: str, lines: Sequence[str], rows: int) -> Iterator[str]:
    if lines:
        yield f"### {title}\n"
        yield from (f"- {line}" for line in lines[:rows])
        yield from _more_line(len(lines) - rows)


def _table(title: str, head: Sequence[str], cells: Sequence[Sequence[str]], of: int) -> Iterator[str]:
    """A table; `of`: the number of all rows."""
    if not cells:
        return
    yield f"### {title}\n"
    yield from markdown_table(head, cells)
    yield from _more_line(of - len(cells))


def _more_line(more: int) -> Iterator[str]:
    yield f"\n{more} more: `harness triage` lists them.\n" if more > 0 else ""
