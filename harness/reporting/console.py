"""The text that a failed task prints: one screen, or all of it (`harness show`), plain text."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from harness.reporting.comparisons import compared_pictures
from harness.reporting.files import shown_path, told_lines, visible
from harness.reporting.story import StoryComparison, StoryFailure, StoryStep, TaskStory
from harness.reporting.tool_lines import call_lines
from harness.reporting.words import crash_lines, fails_the_choice, fitting, fold_lines, place, shortened
from harness.spec.names import commandless
from harness.values import replace

_NO_SERVICES = "Check the host's spelling; there is no [tool.harness.services] in {}: `harness demo` shows a set-up."


# The step table of a terminal report: some steps before the failure, the failing one, the next.

BEFORE = 3
"""The number of steps shown before the failing one."""


class TableRow(Struct, frozen=True):
    """One line of the table. `seconds` covers all attempts, not the waits between them."""

    place: str
    act: str
    target: str
    status: str
    seconds: float | None = None
    attempts: int = 1
    failing: bool = False


def table(story: TaskStory, before: int = BEFORE) -> Iterator[TableRow]:
    """The rows around the failure; none for a task without one."""
    failed, failure = story.failed_index, story.failure
    if failed is None:
        return
    if failure is not None and failure.place == "before the first step":
        yield from (_row(step) for step in story.planned if 0 <= step.index < BEFORE)
        return
    rows = _rows(story)
    stop = min(failed, story.steps_total)
    yield from (rows[index] for index in range(max(0, stop - before), stop) if index in rows)
    if failure is not None and fails_the_choice(failure.code):
        yield TableRow(str(failed), "", "the agent's choice", "FAILED", failing=True)
        return
    if failure is not None and failure.code == "INCOMPLETE":
        yield TableRow("end", "", "memory_keys, artifacts", "FAILED", failing=True)
        return
    yield from _failing(story, rows.get(failed))
    following = max(0, failed + 1)
    if max(failed, -1) + 1 < story.steps_total and following in rows:
        yield rows[following]


def _rows(story: TaskStory) -> dict[int, TableRow]:
    """The row of each step: of its last try. A comparison of `state_bindings` counts only if it failed."""
    found: dict[int, StoryStep] = {}
    for step in story.steps:
        if not step.beside or not step.passed or step.index not in found:
            found[step.index] = step
    tried = {index: _row(step) for index, step in found.items()}
    return {step.index: _row(step) for step in story.planned} | tried


def _failing(story: TaskStory, row: TableRow | None) -> Iterator[TableRow]:
    """The row of the failure; for a failed comparison of `state_bindings`, after the row of the step before it."""
    last, failed = story.last_try, story.failed_index
    own = next((each for each in reversed(story.steps) if each.index == failed and each.passed), None)
    if own is not None and last is not None and own.written != last.written and 0 <= own.index < story.steps_total:
        yield _row(own)
    if story.failure is not None and story.failure.fault:
        where = row.place if row is not None else place(failed or 0, story.steps_total)
        yield TableRow(where, "fault", story.failure.fault, "FAILED", failing=True)
        yield from [row] if row else []
    elif row is not None:
        yield replace(row, failing=True)


def _row(step: StoryStep) -> TableRow:
    ran = step.attempts or step.status == "done"
    status, seconds = (step.status, step.seconds) if ran else ("not run", None)
    count = len(step.attempts) if ran else 1
    return TableRow(step.place, step.act, step.worked_on, status, seconds, count)


# The room that a screen has for each part.

ALL = sys.maxsize


class Room(Struct, frozen=True):
    """How much of each part is shown: so many characters of a line, and so many lines."""

    width: int
    steps: int = BEFORE
    tried: int = 5
    message: int = 3
    log: int = 5
    unmet: int = 3
    diff: int = 4
    warnings: int = 2
    console: int = 3
    matches: int = 5
    faults: int = 3
    crashes: int = 2
    hint: int = 3

    @property
    def whole(self) -> bool:
        """Whether there is room for everything: then no text is cut, and its own lines stay."""
        return self.width == ALL


EVERYTHING = Room(*[ALL] * 13)


def failure_text(story: TaskStory, width: int = 100, unserved: Path | None = None, full_trace: str = "") -> str:
    """The failure in at most 35 lines of `width`: where, what was tried, why, and the evidence.

    `unserved`: the settings file of a project that does not say where its hosts are. `full_trace`: the path of a trace
    with snapshots from the start, or how to get one.
    """
    lines = [story.headline, *screen(story, Room(width), unserved=unserved), f"  {full_trace}" if full_trace else ""]
    return printed(lines).rstrip()


def brief(story: TaskStory) -> str:
    """The failure for one box, such as Allure's: where, why, expected and actual, what to do."""
    return printed(filter(None, _brief(story)))


def _brief(story: TaskStory) -> Iterator[str]:
    room = Room(200)
    yield story.headline
    if (failure := story.failure) is None:
        return
    yield from (*crash_lines(failure.crashes)[: room.crashes], failure.reason)
    yield from (line.strip() for line in _comparison(story, failure, room))
    yield from _limits(failure, room)
    yield from (f"also unmet: {each}" for each in failure.also_unmet)
    yield from [f"match: {shortened(each, room.width)}" for each in failure.matches][: room.matches]
    yield from [f"injected fault: {each.text}" for each in story.faults if each.behind][: room.matches]
    url = story.page.url if story.page else ""
    yield from (f"url: {url}" if url else "", f"suspect: {failure.suspect}", hint_text(failure))


def printed(lines: Iterable[str]) -> str:
    """The lines without what steers a terminal or a reader of the log."""
    return commandless(visible("\n".join(line.rstrip() for line in lines)))


def hint_text(failure: StoryFailure, said: Sequence[str] = (), unserved: Path | None = None) -> str:
    """The hint without the parts about things that the task lacks, or that are `said` already."""
    if unserved is not None and failure.code == "NET_DNS" and not failure.advised:
        return _NO_SERVICES.format(shown_path(unserved))
    return fitting(failure.hint, (*failure.absent, *said))


def screen(story: TaskStory, room: Room, more: Sequence[str] = (), unserved: Path | None = None) -> Iterator[str]:
    """The lines below the headline. `more`: lines that are known of a kept failure, below its file."""
    if story.file.source:
        yield from _line("  ", story.file.location, room)
    yield from (f"  {name}: {shortened(text, room.width)}" for name, text in story.file.notes)
    yield from more
    lost = story.failure is not None and story.failure.code == "WORKER_CRASHED"
    yield from _table([] if lost else list(table(story, room.steps)), room)
    yield from _attempt_lines(story, room)
    if story.failure is not None:
        yield from _reasons(story, story.failure, room)
        hint = hint_text(story.failure, _shown_parts(story.failure, room), unserved)
        yield from [f"  suspect: {story.failure.suspect}"] if story.failure.suspect else []
        yield from _wrap_titled("hint", hint, room, room.hint)
    yield from _score(story, room)
    yield from _list("warnings", story.told_warnings, room, room.warnings)
    yield from _page_lines(story, room)


def _reasons(story: TaskStory, failure: StoryFailure, room: Room) -> Iterator[str]:
    """Why it failed."""
    for line in crash_lines(failure.crashes)[: room.crashes]:
        yield from _line("  ", line, room)
    message, log = _without_log(failure.code, failure.reason)
    yield from _wrap_titled("message", message, room, room.message)
    yield from (f"    | {shortened(line, room.width - 6)}" for line in log[-room.log :])  # the last say why it ended
    yield from (f"  {line}" for line in _limits(failure, room))
    yield from _tool(failure, room)
    yield from _comparison(story, failure, room)
    yield from _list("also unmet", failure.also_unmet, room, room.unmet)
    yield from _list("matches", failure.matches, room, room.matches)
    yield from _faults(story, room)
    answered = [each.text for each in story.routes if each.count]
    yield from _list("answered by routes", answered, room, room.faults)


def _limits(failure: StoryFailure, room: Room) -> list[str]:
    """The limit that ended the attempt, and the requests that had no answer then."""
    lines = [f"limit: {failure.limit}"] if failure.limit else []
    return lines + [f"no answer yet: {shortened(each, room.width - 17)}" for each in failure.unanswered[: room.matches]]


def _tool(failure: StoryFailure, room: Room) -> Iterator[str]:
    """The call of a tool behind the failure."""
    if failure.call is not None:
        first, *more = call_lines(failure.call)
        yield from _line("  tool: ", first, room)
        yield from (f"    {line[:2]}{shortened(line[2:], room.width - 6)}" for line in more)


def _table(rows: list[TableRow], room: Room) -> Iterator[str]:
    act = max((len(row.act) for row in rows), default=0)
    target = min(max((len(row.target) for row in rows), default=0), max(10, room.width - act - 43))
    for row in rows:
        mark = ">" if row.failing else " "
        time = "" if row.seconds is None else f"{row.seconds:6.1f} s"
        tries = f"{row.attempts} attempts" if row.attempts > 1 else ""
        name = shortened(row.target, target)
        yield f"  {mark} {row.place:>3}  {row.act:<{act}}  {name:<{target}}  {row.status:<7} {time}  {tries}"


def _attempt_lines(story: TaskStory, room: Room) -> Iterator[str]:
    """What was tried before the task went back, and then at the failing step."""
    last = story.last_try
    lines = [
        line
        for step in story.steps
        if step.went_back
        for line in (*(each.note for each in step.attempts), f"WENT BACK {step.went_back}")
    ]
    if last is not None and not last.passed and (last.extra_attempts or lines):
        again = "AFTER GOING BACK" if lines else "ATTEMPT 1"
        lines += [each.note.replace("ATTEMPT 1", again) for each in last.attempts]
    yield from _list("tried", _first_and_last(lines, room.tried), room, room.tried)


def _score(story: TaskStory, room: Room) -> Iterator[str]:
    if story.score is not None:
        unmet = ", ".join(part.name for part in story.score.parts if part.applies and not part.met)
        text = f"{story.score.total:g}" + (f"; not met: {unmet}" if unmet else "")
        yield from _line("  score: ", text, room)


def _without_log(code: str, message: str) -> tuple[str, list[str]]:
    """A service's failure, and the end of its log, of which wrapped text would show the beginning."""
    if code != "SERVICE_DOWN":
        return message, []
    said, _, log = message.partition(":\n")
    return (f"{said}:", [line for line in log.splitlines() if line.strip()]) if log else (message, [])


def _comparison(story: TaskStory, failure: StoryFailure, room: Room) -> Iterator[str]:
    found = failure.comparison
    if found is None:
        return
    if found.expression != (failure.criterion or found.expression):
        yield from _line("  failing part: ", found.expression, room)
    whole = (("  expected: ", f"{found.relation}{found.expected}"), ("  actual:   ", found.actual))
    diff = [] if found.repeated else changes(found)
    for title, text in whole:
        yield from _line(title, text, room)
    yield from (f"    {line}"[: room.width] for line in diff[: room.diff])
    lengths = [*(len(title) + len(text) for title, text in whole), *map(len, diff)]
    if story.artifacts and (len(diff) > room.diff or max(lengths) > room.width - 4):
        yield "    (shortened; error_report.json has the whole text)"


def changes(found: StoryComparison) -> list[str]:
    """The lines of a difference without its heading, for which a screen has no room."""
    lines = found.diff.splitlines()
    body = lines[2:] if lines[:2] == ["--- expected", "+++ actual"] else lines
    return [line for line in body if not line.startswith("@@ ")]


def _shown_parts(failure: StoryFailure, room: Room) -> tuple[str, ...]:
    """The parts of a hint that the screen itself shows."""
    found = failure.comparison
    whole = found is not None and 0 < len(found.diff.splitlines()) <= room.diff
    return ("the diff", "the report lists the matches") if whole else ("the report lists the matches",)


def _faults(story: TaskStory, room: Room) -> Iterator[str]:
    """The faults that the failure follows, then the other faults that struck."""
    faults = sorted(story.faults, key=lambda each: (not each.behind, not each.struck))
    if faults:
        yield "  faults injected:"
    for each in faults[: room.faults]:
        yield from _lines(each.text, " " * 4, " " * 6, room, 2)
    if len(faults) > room.faults:
        yield f"    ... {len(faults) - room.faults} more"


def _page_lines(story: TaskStory, room: Room) -> Iterator[str]:
    if story.page is not None:
        if story.page.url:
            of = f" of {story.page.user}" if story.page.user else ""
            yield from _line(f"  url{of}: ", story.page.url, room)
        yield from _list("shown for a moment", story.page.vanished, room, room.console)
        said = fold_lines(told_lines(story.page.console), room.width - 4)[-room.console :]
        yield from _list("console", said, room, room.console)
    if story.artifacts:
        folder = Path(story.artifacts)
        yield f"  artifacts: {shown_path(folder)}"
        for each in list(compared_pictures(folder))[: room.matches]:
            yield f"  pictures: {shown_path(each.files[next(iter(each.files))].parent)} ({', '.join(each.files)})"


def _line(prefix: str, text: str, room: Room) -> Iterator[str]:
    """One line as long as the room is wide; with room for everything, the lines of the text."""
    if not room.whole:
        yield prefix + shortened(text, room.width - len(prefix))
        return
    first, *rest = text.splitlines() or [""]
    yield prefix + first
    yield from (f"    {line}" for line in rest)


def _list(title: str, items: Sequence[str], room: Room, most: int) -> Iterator[str]:
    if items:
        yield f"  {title}:"
    for item in _few(items, most):
        yield from _line("    ", item, room)


def _few(items: Sequence[str], most: int) -> Sequence[str]:
    """The first ones, and below them the number of the others."""
    return items if len(items) <= most else [*items[: most - 1], f"... {len(items) - most + 1} more"]


def _first_and_last(items: Sequence[str], most: int) -> Sequence[str]:
    """The first ones and the last: of what was tried in turn, the last says how it ended."""
    return items if len(items) <= most else [*_few(items[:-1], most - 1), items[-1]]


def _wrap_titled(title: str, text: str, room: Room, most: int) -> Iterator[str]:
    if text:
        yield from _lines(text, f"  {title}: ", " " * (len(title) + 4), room, most)


def _lines(text: str, first: str, next_: str, room: Room, most: int) -> Iterator[str]:
    """The text wrapped into at most so many lines, with `first` and `next_` as prefixes."""
    if room.whole:
        yield from _line(first, text, room)
        return
    width = max(20, room.width - len(next_))
    lines = textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)
    if len(lines) > most:
        lines = [*lines[: most - 1], shortened(" ".join(lines[most - 1 :]), width)]
    for number, line in enumerate(lines):
        yield (first if number == 0 else next_) + line
