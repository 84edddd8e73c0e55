"""One task that failed, as far as its cause goes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from harness.history.record import Execution, RunRecord
from harness.model.figures import UNJUDGED
from harness.reporting.table import place
from harness.reporting.task_record import TaskRecord, site_of

_ADDRESS = re.compile(r"(?:https?|wss?)://[^\s'\"<>`]+")
_SERVICE = re.compile(r"service `([^`]+)`")


@dataclass(frozen=True, slots=True)
class Trouble:
    """Empty texts stand for what is not known. `code` is empty for what no failure of a task explains."""

    task_id: str
    code: str = ""
    message: str = ""
    nodeid: str = ""
    site: str = ""
    service: str = ""
    selector: str = ""
    act: str = ""
    criterion: str = ""
    """Of a failed one: as it is written."""
    step_index: int | None = None
    steps_total: int = 0
    source: str = ""
    artifacts: str = ""
    hint: str = ""
    new: bool = False
    """It passed when it ran before."""
    faulted: bool = False
    """A fault that was ordered struck it: never one with what failed by itself."""

    @property
    def step(self) -> str:
        """`3 click`, `end assert`: where it failed, as the terminal names it; empty when that is not known."""
        if self.step_index is None:
            return ""
        counted = self.steps_total and not self.code.startswith("AGENT_")  # an agent's steps have no end
        where = place(self.step_index, self.steps_total) if counted else str(self.step_index)
        return f"{where} {self.act}".strip()

    @property
    def judged(self) -> bool:
        """Whether it says something about the task: it was not cut off from outside."""
        return self.code not in UNJUDGED


def troubles(run: RunRecord, passed_before: Collection[str] = ()) -> tuple[Trouble, ...]:
    """The tasks of a run that failed in the end, in its order; not those whose failure is declared.

    `passed_before`: node ids of those that passed when they ran before.
    """
    return tuple(
        _of_execution(each, new=each.judged and each.nodeid in passed_before)
        for each in run.last
        if each.counted_as in ("failed", "not judged") and not (each.record and each.record.expected)
    )


def _of_execution(execution: Execution, *, new: bool) -> Trouble:
    if execution.record is None:
        message = execution.reason or "it failed before or after the task itself"
        return Trouble(execution.task_id, message=message, nodeid=execution.nodeid, new=new)
    return of_record(execution.record, execution.nodeid, new=new)


def of_record(record: TaskRecord, nodeid: str = "", *, new: bool = False) -> Trouble:
    """What is known of a failed task."""
    last = next((line for line in reversed(record.steps) if line.index == record.step_index), None)
    return Trouble(
        record.task_id,
        record.code or "",
        record.message or _without_a_failure(record),
        nodeid,
        site=record.site or next(_sites(record), ""),
        service=record.service or _service(record),
        selector=record.selector,
        act=last.act if last else "",
        criterion=last.target if last and last.act == "assert" else "",
        step_index=record.step_index,
        steps_total=record.steps_total,
        source=record.source,
        artifacts=record.artifacts or "",
        hint=record.hint,
        new=new,
        faulted="struck" in record.faults.values(),
    )


def _without_a_failure(record: TaskRecord) -> str:
    if record.unexpected:
        return "it did not show the outcome that its `expect` declares"
    return f"it ended as {record.final_state}"


def _sites(record: TaskRecord) -> Iterator[str]:
    """Of a record that does not name its site: the addresses in its message, then where its steps went, last first."""
    told = (record.message, *(line.target for line in reversed(record.steps)))
    return filter(None, (site_of(address) for text in told for address in _ADDRESS.findall(text)))


def _service(record: TaskRecord) -> str:
    found = _SERVICE.search(record.message) if record.code == "SERVICE_DOWN" else None
    return found[1] if found else ""
