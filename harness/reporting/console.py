"""The text that a failed task prints: one screen, plain text."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.criteria import CriterionError, difference, parse
from harness.criteria.syntax import Compare, oriented
from harness.masking import MARK
from harness.model.diagnosis import (
    advice,
    after_faults,
    assertion_hint,
    fault_reports,
    note,
    substitute_text,
    suspect,
    uninjected_fault,
    went_back,
)
from harness.model.plan import Plan
from harness.model.record import MetRoute, StepRecord, TaskResult
from harness.model.tool_evidence import call_document, failed_call
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.reporting.comparisons import compared_pictures
from harness.reporting.files import ARTIFACTS, printable, shown_path, visible
from harness.reporting.redaction import Redactor
from harness.reporting.tool_lines import call_lines, called
from harness.spec.names import commandless
from harness.spec.steps import Step, Tool
from harness.task_secrets import hidden, is_secret_name, masking
from harness.values import replace

# Hints for readers of the terminal: they mention no evidence that does not exist.

NO_SERVICES = "Check the host's spelling; there is no [tool.harness.services] in {}: `harness demo` shows a set-up."


def fitting_hint(plan: Plan, result: TaskResult, said: Collection[str] = (), unserved: Path | None = None) -> str:
    """The hint of the failure's code, without the parts about things that it lacks, or that are `said` already.

    `unserved`: the settings file of a project that does not say where its hosts are.
    """
    if result.failure is None:
        return ""
    if text := advice(result, expected=bool(result.error and result.error.expected)):
        return text
    if result.failure.family is Family.ASSERTION:
        return assertion_hint(plan, result.failure)
    if unserved is not None and result.failure.code == "NET_DNS":
        return NO_SERVICES.format(shown_path(unserved))
    text, absent = result.failure.hint, _absent_words(plan, result).union(said)
    parts = text.removesuffix(".").split("; ")
    kept = [part for part in parts if not any(words in part for words in absent)]
    if len(kept) == len(parts):
        return text
    fitting = "; ".join(kept)
    return f"{fitting[0].upper()}{fitting[1:]}." if fitting else ""


def _absent_words(plan: Plan, result: TaskResult) -> set[str]:
    folder, assertion = result.artifacts, result.failure.assertion if result.failure else None
    found: set[str] = set()
    if folder is not None and folder.is_dir():
        found |= {each.hint_words for each in ARTIFACTS if each.hint_words and not (folder / each.name).is_file()}
    if assertion is None or not assertion.diff:
        found.add("the diff")
    if not plan.heal:
        found.add("`fallback_selectors`")
    return found


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


def table(plan: Plan, result: TaskResult) -> Iterator[TableRow]:
    """The rows around the failure; none for a result without one."""
    failed, total = result.failed_index, result.steps_total
    if failed is None:
        return
    if before_the_first_step(result):
        for index in range(min(BEFORE, total)):
            yield _row(plan, index, total, None, failed)
        return
    records = _records(plan, result)
    stop = min(failed, total)
    for index in range(max(0, stop - BEFORE), stop):
        yield _row(plan, index, total, records.get(index), failed)
    if chosen_nothing(result):
        yield TableRow(str(failed), "", "the agent's choice", "FAILED", failing=True)
        return
    if incomplete(result):
        yield TableRow("end", "", "memory_keys, artifacts", "FAILED", failing=True)
        return
    yield from _failing(plan, result, records.get(failed), failed)
    if max(failed, -1) + 1 < total:
        following = max(0, failed + 1)
        yield _row(plan, following, total, records.get(following), failed)


def _failing(plan: Plan, result: TaskResult, record: StepRecord | None, failed: int) -> Iterator[TableRow]:
    """The row of the failure; for a failed comparison of `state_bindings`, after the row of the step before it."""
    own = next((r for r in reversed(result.history) if r.index == failed and r.passed), None)
    if own is not None and record is not None and own.step != record.step and 0 <= failed < result.steps_total:
        yield replace(_row(plan, failed, result.steps_total, own, failed), failing=False)
    if fault := uninjected_fault(result):
        yield TableRow(place(failed, result.steps_total), "fault", fault.fault.describe(), "FAILED", failing=True)
        yield replace(_row(plan, failed, result.steps_total, record, failed), failing=False)
        return
    yield _row(plan, failed, result.steps_total, record, failed)


def _records(plan: Plan, result: TaskResult) -> dict[int, StepRecord]:
    """The last record of each step. A comparison of `state_bindings` after it replaces it only if it failed."""
    found: dict[int, StepRecord] = {}
    for record in result.history:
        own = record.index >= len(plan.steps) or (record.index >= 0 and _is_of_file(record, plan))
        if own or not record.passed or record.index not in found:
            found[record.index] = record
    return found


def _is_of_file(record: StepRecord, plan: Plan) -> bool:
    """Return whether a record is that of the step in the file; the effect of a tool's call is settled by the run."""
    declared = plan.steps[record.index]
    if isinstance(declared, Tool):
        declared = declared.model_copy(update={"effect": record.step.effect})
        return record.step.model_copy(update={"effect": record.step.effect}) == declared
    return record.step == declared


def place(index: int, total: int) -> str:
    """`4`, or words for what comes before and after the steps."""
    return "pre" if index < 0 else "end" if index >= total else str(index)


def step_label(index: int, total: int) -> str:
    """`step 2 (of 0-5)`: the count starts at 0."""
    return f"step {index} (of 0-{total - 1})"


def before_the_first_step(result: TaskResult) -> bool:
    """Return whether it failed before anything of the task was tried: neither browser nor site was involved."""
    if result.failure is None or (result.failed_index or 0) >= 0:
        return False
    tried = any(record.index < 0 and not record.passed for record in result.history)
    return result.failure.code != "PRECONDITION_NOT_MET" and not tried


_CHOOSING = frozenset({
    "AGENT_FAILED", "AGENT_TIMEOUT", "AGENT_INVALID_STEP", "AGENT_GAVE_UP", "AGENT_LOST", "AGENTS_EXHAUSTED",
    "AGENT_UNAVAILABLE",
})  # fmt: skip


def fails_the_choice(code: str) -> bool:
    """Return whether a failure with this code means that no next step was chosen: by the agent, or by its model."""
    return code in _CHOOSING or code.startswith("MODEL_")


def chosen_nothing(result: TaskResult) -> bool:
    """Return whether the agent failed to choose the next step."""
    return result.failure is not None and fails_the_choice(result.failure.code)


def incomplete(result: TaskResult) -> bool:
    """Return whether everything passed, but something that the task names is missing."""
    return result.failure is not None and result.failure.code == "INCOMPLETE"


def filled_step(record: StepRecord) -> Step:
    """The step to show: with a selector that lasts, and `${memory...}` filled in if the first attempt has the value."""
    if record.lasting_step is not None:
        return record.lasting_step
    return record.attempts[0].step if record.attempts and "${" in step_target(record.step) else record.step


def worked_on(record: StepRecord) -> str:
    """The target of a step, and what the last attempt did in place of it, if that was different."""
    other = substitute_text(record.attempts[-1].step, record.step) if record.attempts else ""
    return step_target(filled_step(record)) + (f" (retried{other})" if other else "")


def step_target(step: Step) -> str:
    """The target of a step; a password is not shown."""
    if isinstance(step, Tool):
        return called(step.server, step.tool, step.arguments)
    value = getattr(step, "value", None)
    if value and step.act == "type" and is_secret_name(step.target or ""):
        value = MARK
    if picture := getattr(step, "screenshot", None):
        return f"{step.target or getattr(step, 'frame', None) or 'the page'} looks like {picture}"
    if getattr(step, "aria", None):
        return f"ARIA snapshot of {step.target or 'the page'}"
    found = getattr(step, "url", None) or getattr(step, "expr", None) or step.target or ""
    return f"{found} = {value!r}" if found and value is not None else str(found or (value if value is not None else ""))


def _row(plan: Plan, index: int, total: int, record: StepRecord | None, failed: int) -> TableRow:
    step = filled_step(record) if record else plan.steps[index] if 0 <= index < len(plan.steps) else None
    act, target = (step.act, worked_on(record) if record else step_target(step)) if step else ("", "")
    if record is not None and record.effect_already_done:
        seconds = sum(attempt.seconds for attempt in record.attempts)
        return TableRow(place(index, total), act, target, "done", seconds, len(record.attempts), index == failed)
    if record is None or not record.attempts:
        return TableRow(place(index, total), act, target, "not run", failing=index == failed)
    seconds = sum(attempt.seconds for attempt in record.attempts)
    status = "skipped" if record.skipped else "ok" if record.passed else "FAILED"
    return TableRow(place(index, total), act, target, status, seconds, len(record.attempts), index == failed)


def shortened(text: str, width: int) -> str:
    """The text in one line of at most `width` characters, without control characters."""
    line = printable(hidden(text))
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"


CRITERION = 120
"""The number of characters of a criterion in the first line."""
_TRIED, _MESSAGE, _LOG, _UNMET, _DIFF, _WARNINGS, _CONSOLE, _MATCHES, _FAULTS = 5, 3, 5, 3, 4, 2, 3, 5, 3
_CRASHES, _HINT = 2, 3
"""The number of lines of each part that fit on a screen."""


def failure_text(
    plan: Plan,
    result: TaskResult,
    width: int = 100,
    redactor: Redactor | None = None,
    unserved: Path | None = None,
    full_trace: str = "",
) -> str:
    """The failure in at most 35 lines of `width`: where, what was tried, why, and the evidence. It has no secrets.

    `unserved`: the settings file of a project that does not say where its hosts are. `full_trace`: the path of a trace
    with snapshots from the start, or how to get one.
    """

    def lines() -> Iterator[str]:
        yield _headline(result)
        yield from _body(plan, result, width, unserved)
        yield f"  {full_trace}" if full_trace else ""

    return _as_printed(lines, plan, redactor).rstrip()


def brief(plan: Plan, result: TaskResult, redactor: Redactor | None = None) -> str:
    """The failure for one box, such as Allure's: where, why, expected and actual, what to do. It has no secrets."""

    def lines() -> Iterator[str]:
        yield _headline(result)
        if (failure := result.failure) is None:
            return
        yield from (*crash_lines(failure.details), reason(failure))
        yield from (line.strip() for line in _comparison(result, 200))
        yield from _limits(failure, 200)
        yield from (f"also unmet: {each}" for each in also_unmet(failure))
        yield from [f"match: {shortened(str(each), 200)}" for each in failure.details.get("matches", ())][:_MATCHES]
        yield from [f"injected fault: {each.text}" for each in fault_reports(result) if each.behind][:_MATCHES]
        url = result.error.context.url if result.error else None
        yield from (f"url: {url}" if url else "", f"suspect: {suspect(plan, result)}", fitting_hint(plan, result))

    return _as_printed(lambda: filter(None, lines()), plan, redactor)


def headline(plan: Plan, result: TaskResult, redactor: Redactor | None = None) -> str:
    """The first line alone."""
    return _as_printed(lambda: [_headline(result)], plan, redactor)


def _as_printed(lines: Callable[[], Iterable[str]], plan: Plan, redactor: Redactor | None) -> str:
    """The lines, shortened and wrapped without secrets, and without what steers a terminal or a reader of the log."""
    redact = (redactor or Redactor()).plus(plan.all_secrets).text
    with masking(redact):
        return commandless(visible(redact("\n".join(line.rstrip() for line in lines()))))


def _headline(result: TaskResult) -> str:
    failure = result.failure
    if failure is None:
        return f"{result.task_id} {result.final_state} after {result.elapsed:.1f} s"
    return f"{result.task_id} {result.final_state}: {_cause(result, failure)}"


def cause(plan: Plan, result: TaskResult, redactor: Redactor | None = None) -> str:
    """The headline without the task, for lines that name it already. It has no secrets."""
    failure = result.failure
    return _as_printed(lambda: [_cause(result, failure) if failure else _headline(result)], plan, redactor)


def _cause(result: TaskResult, failure: Failure) -> str:
    """The code, the place, and the criterion or step that failed there."""
    problems = failure.details.get("problems", ("",))  # of a file that cannot be loaded
    what = failure.details.get("criterion") or _step(result) or problems[0].partition("\n")[0]
    named = f": {shortened(str(what), CRITERION)}" if what else ""
    return f"{failure.code} {_failure_place(result)}{after_faults(fault_reports(result))}{named}"


def _step(result: TaskResult) -> str:
    """The step that failed, as written; empty if none was tried."""
    failed = (each for each in reversed(result.history) if each.index == result.failed_index and not each.passed)
    record = None if _is_process_lost(result) or incomplete(result) or chosen_nothing(result) else next(failed, None)
    return f"{record.step.act} {step_target(filled_step(record))}" if record is not None else ""


def _is_process_lost(result: TaskResult) -> bool:
    """Return whether its process died, and all its knowledge with it."""
    return result.failure is not None and result.failure.code == "WORKER_CRASHED"


def _failure_place(result: TaskResult) -> str:
    if _is_process_lost(result):
        return "at an unknown step"
    if chosen_nothing(result):
        return f"while choosing step {result.failed_index}"
    if before_the_first_step(result):
        return "before the first step"
    if incomplete(result):
        return "at the end"
    index = -1 if result.failed_index is None else result.failed_index
    where = {"pre": "at a precondition", "end": "at the success criteria"}
    return where.get(place(index, result.steps_total), f"at {step_label(index, result.steps_total)}")


def _body(plan: Plan, result: TaskResult, width: int, unserved: Path | None) -> Iterator[str]:
    """The lines below the headline. Secrets are hidden before a text is wrapped: a broken one would not be found."""
    if plan.source:
        yield f"  {shortened(plan.place_of(result.failed_index), width - 2)}"
    yield from (f"  {name}: {shortened(text, width)}" for name, text in plan.spec.own.notes)
    yield from _table([] if _is_process_lost(result) else list(table(plan, result)), width)
    yield from _attempt_lines(result, width)
    if result.failure is not None:
        yield from (f"  {shortened(line, width - 2)}" for line in crash_lines(result.failure.details))
        message, log = _without_log(result.failure.code, hidden(reason(result.failure)))
        yield from _wrap_titled("message", message, width, _MESSAGE)
        yield from (f"    | {shortened(line, width - 6)}" for line in log[-_LOG:])  # the last lines say why it ended
        yield from (f"  {line}" for line in _limits(result.failure, width))
        yield from _tool(result, width)
        yield from _comparison(result, width)
        yield from _list("also unmet", list(map(hidden, also_unmet(result.failure))), width, _UNMET)
        yield from _list("matches", list(result.failure.details.get("matches", ())), width, _MATCHES)
        yield from _faults(result, width)
        yield from _list(
            "answered by routes", [hidden(met.describe()) for met in answered_routes(result)], width, _FAULTS
        )
        hint = fitting_hint(plan, result, _shown_parts(result), unserved)
        yield f"  suspect: {suspect(plan, result)}"
        yield from _wrap_titled("hint", hidden(hint), width, _HINT)
    yield from _score(result, width)
    told = [f"{w.type}: {w.message}" for w in result.warnings if w.type != "fault_not_met"]  # the faults say it
    yield from _list("warnings", told, width, _WARNINGS)
    yield from _page_lines(result, width)


def crash_lines(details: Mapping[str, Any]) -> list[str]:
    """The services that crashed shortly before the failure with these details, and where their last words are."""
    crashes = details.get("service_crashes", {})
    return [f"{text}; look: {service_log(name)}" for name, text in crashes.items()][:_CRASHES]


def service_log(name: str, command: str = "harness") -> str:
    """The command that shows the log of a service."""
    return f"{command} services logs {shlex.quote(printable(name))}"


def _limits(failure: Failure, width: int) -> list[str]:
    """The limit that ended the attempt, and the requests that had no answer then."""
    limit, unanswered = failure.details.get("limit"), failure.details.get("unanswered", ())
    lines = [f"limit: {limit}"] if limit else []
    return lines + [f"no answer yet: {shortened(hidden(str(each)), width - 17)}" for each in unanswered[:_MATCHES]]


def _tool(result: TaskResult, width: int) -> Iterator[str]:
    """The call of a tool behind the failure."""
    if (call := failed_call(result)) is not None:
        first, *more = call_lines(call_document(call), hidden)
        yield f"  tool: {shortened(first, width - 8)}"
        yield from (f"    {line[:2]}{shortened(line[2:], width - 6)}" for line in more)


def _table(rows: list[TableRow], width: int) -> Iterator[str]:
    act = max((len(row.act) for row in rows), default=0)
    target = min(max((len(row.target) for row in rows), default=0), max(10, width - act - 43))
    for row in rows:
        mark = ">" if row.failing else " "
        time = "" if row.seconds is None else f"{row.seconds:6.1f} s"
        tries = f"{row.attempts} attempts" if row.attempts > 1 else ""
        name = shortened(row.target, target)
        yield f"  {mark} {row.place:>3}  {row.act:<{act}}  {name:<{target}}  {row.status:<7} {time}  {tries}"


def _attempt_lines(result: TaskResult, width: int) -> Iterator[str]:
    record = next((r for r in reversed(result.history) if r.index == result.failed_index), None)
    lines = [
        line
        for r in result.history
        if r.rewound
        for line in (*(note(each, r.step) for each in r.attempts), f"WENT BACK {went_back(r)}")
    ]
    if record is not None and not record.passed and (record.extra_attempts or lines):
        again = "AFTER GOING BACK" if lines else "ATTEMPT 1"
        lines += [note(each, record.step).replace("ATTEMPT 1", again) for each in record.attempts]
    yield from _list("tried", _first_and_last(lines, _TRIED), width, _TRIED)


def _score(result: TaskResult, width: int) -> Iterator[str]:
    if result.score is not None:
        unmet = ", ".join(part.name for part in result.score.parts if part.applies and not part.met)
        text = f"{result.score.total:g}" + (f"; not met: {unmet}" if unmet else "")
        yield f"  score: {shortened(text, width - 9)}"


def reason(failure: Failure) -> str:
    """The message without the parts that the first line and the comparison below it show already."""
    text, assertion, criterion = failure.message, failure.assertion, failure.details.get("criterion")
    others = failure.details.get("also_unmet", ())
    text = text.removesuffix(f"; {'; '.join(others)}") if others else text
    if assertion is not None and assertion.plain and text.endswith(assertion.plain):
        before = text.removesuffix(assertion.plain)
        if not before or (criterion and before.endswith(f": {criterion}: ")):
            return ""
    return text.partition(f": {criterion}: ")[2] or text if criterion else text


def also_unmet(failure: Failure) -> list[str]:
    """The reasons why the other criteria do not hold."""
    criteria = list(failure.details.get("unmet_criteria", ()))[1:]
    messages = [text.removeprefix("Assertion failed: ") for text in failure.details.get("also_unmet", ())]
    return [
        text.removeprefix(f"{criterion}: ") if criterion else text
        for text, criterion in zip_longest(messages, criteria[: len(messages)], fillvalue="")
    ]


def _without_log(code: str, message: str) -> tuple[str, list[str]]:
    """A service's failure, and the end of its log, of which wrapped text would show the beginning."""
    if code != "SERVICE_DOWN":
        return message, []
    said, _, log = message.partition(":\n")
    return (f"{said}:", [line for line in log.splitlines() if line.strip()]) if log else (message, [])


def _comparison(result: TaskResult, width: int) -> Iterator[str]:
    if result.failure is None or result.failure.assertion is None:
        return
    assertion = result.failure.assertion
    if assertion.expression != result.failure.details.get("criterion", assertion.expression):
        yield f"  failing part: {shortened(assertion.expression, width - 16)}"
    whole = [
        f"  expected: {relation(assertion.expression)}{shown_value(assertion.expected)}",
        f"  actual:   {shown_value(assertion.actual)}",
    ]
    told = repeats(assertion.expected, assertion.actual, assertion.diff)
    diff = [] if told or not assertion.diff else _changes(difference(assertion.expected, assertion.actual))
    yield from (line[:12] + shortened(line[12:], width - 12) for line in whole)
    yield from (f"    {line}"[:width] for line in diff[:_DIFF])
    if result.artifacts is not None and (len(diff) > _DIFF or any(len(line) > width - 4 for line in (*whole, *diff))):
        yield "    (shortened; error_report.json has the whole text)"


def repeats(expected: Any, actual: Any, diff: str) -> bool:
    """Return whether a difference is only the two values, which are shown above it."""
    told = (shown_value(expected), shown_value(actual))
    return diff == f"- {told[0]}\n+ {told[1]}" and all(each == " ".join(each.split()) for each in told)


def relation(expression: str) -> str:
    """How the expected value is compared, such as `to include `; empty for equality, or without a criterion."""
    try:
        tree = parse(expression).tree
    except CriterionError:
        return ""
    operator = oriented(tree)[0] if isinstance(tree, Compare) else "=="
    return {"==": "", "!=": "anything but ", "includes": "to include ", "matches": "to match "}.get(
        operator, f"{operator} "
    )


def _changes(diff: str) -> list[str]:
    """The lines of a difference without its heading, for which a screen has no room."""
    lines = diff.splitlines()
    body = lines[2:] if lines[:2] == ["--- expected", "+++ actual"] else lines
    return [line for line in body if not line.startswith("@@ ")]


def _shown_parts(result: TaskResult) -> tuple[str, ...]:
    """The parts of a hint that the screen itself shows."""
    assertion = result.failure.assertion if result.failure else None
    whole = assertion is not None and 0 < len(assertion.diff.splitlines()) <= _DIFF
    return ("the diff", "the report lists the matches") if whole else ("the report lists the matches",)


def shown_value(value: Any) -> str:
    """A text unchanged; any other value as JSON, as in the difference."""
    if isinstance(value, str):
        return value if value.strip() == value != "" else repr(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _faults(result: TaskResult, width: int) -> Iterator[str]:
    """The faults that the failure follows, then the other faults that struck."""
    faults = sorted(fault_reports(result), key=lambda each: (not each.behind, not each.struck))
    if faults:
        yield "  faults injected:"
    for each in faults[:_FAULTS]:
        yield from _lines(hidden(each.text), " " * 4, " " * 6, width, 2)
    if len(faults) > _FAULTS:
        yield f"    ... {len(faults) - _FAULTS} more"


def answered_routes(result: TaskResult) -> list[MetRoute]:
    """The routes that had something to do; warnings tell of the others."""
    return [met for met in result.routes if met.count]


def _page_lines(result: TaskResult, width: int) -> Iterator[str]:
    context = result.error.context if result.error else None
    if context is not None:
        if context.url:
            yield f"  url: {shortened(context.url, width - 7)}"
        yield from _list("shown for a moment", context.vanished, width, _CONSOLE)
        said = fold_lines(context.browser_console_logs, width - 4)[-_CONSOLE:]
        yield from _list("console", list(said), width, _CONSOLE)
    if result.artifacts is not None:
        yield f"  artifacts: {shown_path(result.artifacts)}"
        for each in list(compared_pictures(result.artifacts))[:_MATCHES]:
            yield f"  pictures: {shown_path(each.files[next(iter(each.files))].parent)} ({', '.join(each.files)})"


def fold_lines(lines: Iterable[str], room: int | None = None) -> tuple[str, ...]:
    """Each line of the browser's console once, at its last place, with its count: each attempt repeats the lines.

    `room`: the number of characters of a line; the count is never cut.
    """
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.pop(line, 0) + 1
    ends = {line: f" ({count} times)" if count > 1 else "" for line, count in counts.items()}
    return tuple((shortened(line, room - len(end)) if room else line) + end for line, end in ends.items())


def _list(title: str, items: list[str], width: int, most: int) -> Iterator[str]:
    if items:
        yield f"  {title}:"
    for item in _few(items, most):
        yield f"    {shortened(item, width - 4)}"


def _few(items: list[str], most: int) -> list[str]:
    """The first ones, and below them the number of the others."""
    return items if len(items) <= most else [*items[: most - 1], f"... {len(items) - most + 1} more"]


def _first_and_last(items: list[str], most: int) -> list[str]:
    """The first ones and the last: of what was tried in turn, the last says how it ended."""
    return items if len(items) <= most else [*_few(items[:-1], most - 1), items[-1]]


def _wrap_titled(title: str, text: str, width: int, most: int) -> Iterator[str]:
    if not text:
        return
    yield from _lines(text, f"  {title}: ", " " * (len(title) + 4), width, most)


def _lines(text: str, first: str, next_: str, width: int, most: int) -> Iterator[str]:
    """The text wrapped into at most so many lines, with `first` and `next_` as prefixes."""
    room = max(20, width - len(next_))
    lines = textwrap.wrap(" ".join(hidden(text).split()), room, break_on_hyphens=False)
    if len(lines) > most:
        lines = [*lines[: most - 1], shortened(" ".join(lines[most - 1 :]), room)]
    for number, line in enumerate(lines):
        yield (first if number == 0 else next_) + line
