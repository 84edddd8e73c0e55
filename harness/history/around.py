"""What happened around the tasks of a run: out of its event log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.history.record import Happening
from harness.telemetry import Record
from harness.telemetry.event_log import Tail, events_of
from harness.telemetry.levels import level_name
from harness.telemetry.wording import describe

_OF_TASKS = {"step", "task"}
"""The record of a task says it."""
_OF_ATTEMPTS = {"retry", "failed", "recovered", "fallback"}
"""At a step, its attempts say it; without one, it was a service's or a setup's."""


def happenings_of(root: Path, run: str) -> tuple[Happening, ...]:
    """In the order of the log, which several processes write; nothing where there is none, or it cannot be read."""
    try:
        return tuple(_happenings(Tail(events_of(root, run), run).records()))
    except OSError:
        return ()


def _happenings(records: Iterator[Record]) -> Iterator[Happening]:
    for each in records:
        if _is_around(each):
            document = each.as_json(level_name(each.event))
            stamp = {name: document.pop(name) for name in ("at", "type", "level", "task_id", "worker")}
            del document["run"]
            yield Happening.model_validate({**stamp, "text": describe(each.event), "details": document})


def _is_around(record: Record) -> bool:
    kind = record.event.type
    return kind not in _OF_TASKS and not (record.step is not None and kind in _OF_ATTEMPTS)
