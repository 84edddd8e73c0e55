"""A part of a run that several processes did, one after the other: what each has told, and which of it counts.

A machine may be taken away in the middle of its part. The next one goes on with what has no end yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from pydantic import ValidationError

from harness.model.ledger import RULES, Gone
from harness.reporting.history.file import HistoryError
from harness.reporting.history.record import Execution, RunRecord


class PartAttempt(Struct, frozen=True):
    """What one process has told of the part."""

    name: str
    run: RunRecord
    """The run of that process, without its executions."""
    tasks: tuple[str, ...]
    """Node ids of all tasks of the part, those that had ended before included."""
    executions: tuple[Execution, ...] = ()
    over: bool = False
    """Whether it has told its end; otherwise it still runs, or its machine is gone."""
    after: int = 0
    """The number of attempts that it had found."""


Owner = Callable[[str], str | None]
"""Id of a task -> the name of the attempt that has begun to write in it; None: nobody has."""


# The journal of an attempt: one JSON document in each line, with one key.


def begun_line(run: RunRecord, tasks: Iterable[str], after: int = 0) -> str:
    """The first line: the process has begun, with these tasks in its part (node ids), after so many others."""
    return _line("begun", {"run": run.model_dump(mode="json"), "tasks": sorted(tasks), "after": after})


def ended_line(execution: Execution) -> str:
    """A task has ended once, or its fixtures were torn down, which may change the end."""
    return _line("ended", execution.model_dump(mode="json"))


def over_line(run: RunRecord) -> str:
    """The last line: the process has ended by itself."""
    return _line("over", run.model_copy(update={"executions": ()}).model_dump(mode="json"))


def _line(word: str, document: object) -> str:
    try:
        return msgspec.json.encode({word: document}).decode()
    except UnicodeEncodeError:  # half a character, which pages do produce
        whole = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        return msgspec.json.encode({word: json.loads(whole)}).decode()


def attempt_of(name: str, lines: Iterable[str]) -> PartAttempt | None:
    """The attempt by its journal; None if it has not begun. Raises HistoryError for what is no journal."""
    run: RunRecord | None = None
    tasks: tuple[str, ...] = ()
    after = 0
    executions: dict[tuple[str, int], Execution] = {}
    over = False
    try:
        for document in map(msgspec.json.decode, lines):
            match document:
                case {"begun": {"run": begun, "tasks": names, **more}}:
                    run, tasks = RunRecord.model_validate(begun), tuple(map(str, names))
                    after = msgspec.convert(more.get("after", 0), int)
                case {"ended": ended}:
                    execution = Execution.model_validate(ended)
                    executions[execution.nodeid, execution.number] = execution
                case {"over": ended}:
                    run, over = RunRecord.model_validate(ended), True
    except (msgspec.DecodeError, ValidationError, TypeError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise HistoryError(f"{name}: expected the journal of a run, found something else: {first}") from error
    if run is None:
        return None
    if run.started.tzinfo is None:
        raise HistoryError(f"{name}: expected the journal of a run, found a time without its zone: {run.started}")
    return PartAttempt(name, run, tasks, tuple(executions.values()), over, after)


def in_order(attempts: Iterable[PartAttempt]) -> tuple[PartAttempt, ...]:
    """The attempts in the order in which they began; those that began at once, by the clocks of their machines."""
    return tuple(sorted(attempts, key=lambda each: (each.after, each.run.started, each.name)))


# What counts.


def _has_ended(execution: Execution, attempt: str, owner: Owner) -> bool:
    """Return whether the execution is the end of its task, so that no later process runs it again.

    A task that was skipped may run the next time: perhaps what it depends on passes then. One that failed
    as its `expected_failure` says counts as skipped, too, but has run.
    """
    code, known = (execution.record.code, execution.record.known_defect) if execution.record else (None, "")
    if execution.outcome == "rerun" or (execution.outcome == "skipped" and not known):
        return False
    return code not in RULES[Gone.PART].no_end or owner(execution.task_id) == attempt


def counting(attempts: Sequence[PartAttempt], owner: Owner) -> dict[str, tuple[Execution, ...]]:
    """Node id -> the executions that count, of one attempt: of the last in which the task ended, else of the last."""
    found: dict[str, tuple[Execution, ...]] = {}
    ended: set[str] = set()
    for attempt in attempts:
        for nodeid, executions in _by_node(attempt).items():
            end = _has_ended(executions[-1], attempt.name, owner)
            if end or nodeid not in ended:
                found[nodeid] = executions
            ended |= {nodeid} if end else set()
    return found


def ends(attempts: Sequence[PartAttempt], owner: Owner) -> dict[str, Execution]:
    """Node id -> the last execution of each task that has ended."""
    return {
        nodeid: executions[-1]
        for attempt in attempts
        for nodeid, executions in _by_node(attempt).items()
        if _has_ended(executions[-1], attempt.name, owner)
    }


def _by_node(attempt: PartAttempt) -> Mapping[str, tuple[Execution, ...]]:
    found: dict[str, list[Execution]] = {}
    for each in sorted(attempt.executions, key=lambda each: each.number):
        found.setdefault(each.nodeid, []).append(each)
    return {nodeid: tuple(executions) for nodeid, executions in found.items()}


def as_one_run(attempts: Sequence[PartAttempt], owner: Owner) -> RunRecord:
    """The run of a part, of at least one attempt: each task with the executions that count, the end of the last."""
    first, last = min(each.run.started for each in attempts), attempts[-1].run
    executions = tuple(each for several in counting(attempts, owner).values() for each in several)
    happenings = tuple(each for attempt in attempts for each in attempt.run.happenings)
    note = last.note if attempts[-1].over else "its last process has not told its end"
    return last.model_copy(update={"started": first, "executions": executions, "happenings": happenings, "note": note})


def without_end(attempts: Sequence[PartAttempt], owner: Owner) -> tuple[list[str], list[str]]:
    """Node ids of the tasks of the part that have no end: those that had begun to write, and the others."""
    done = {nodeid for nodeid, executions in counting(attempts, owner).items() if executions[-1].outcome != "rerun"}
    known = {nodeid: nodeid.partition("::")[2] for attempt in attempts for nodeid in attempt.tasks}
    missing = [nodeid for nodeid in sorted(known) if nodeid not in done]
    wrote = [nodeid for nodeid in missing if owner(known[nodeid]) is not None]
    return wrote, [nodeid for nodeid in missing if nodeid not in wrote]
