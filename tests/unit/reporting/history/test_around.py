"""What happened around the tasks, out of an event log that several processes have written."""

from __future__ import annotations

import json
from pathlib import Path

from harness.model.figures import TaskDone
from harness.reporting.history.writing import happenings_of
from harness.reporting.telemetry.log import EventLog, events_of
from harness.reporting.telemetry.record import Record, StepDone, TelemetryEvent
from harness.resilience.events import CircuitChanged, GaveUp, Retrying
from tests.unit.reporting.history.runs import BEGAN


def logged(root: Path, *events: tuple[TelemetryEvent, int | None]) -> None:
    log = EventLog(events_of(root, "R"))
    for event, step in events:
        log.on_record(Record(BEGAN, event, "R", worker="gw1", task_id="T-1", step=step))
    log.close()


def test_circuits_and_setups_but_no_attempts(tmp_path: Path) -> None:
    logged(
        tmp_path,
        (Retrying("open", 1, 2, 0.5, "refused"), 0),
        (StepDone("open", True, 1, 0.5), 0),
        (CircuitChanged("origin:http://x", "closed", "open", "5 failures"), None),
        (Retrying("health of demo", 1, 2, 0.5, "refused"), None),
        (GaveUp("open", "refused", True), 0),
        (TaskDone("failed", 1.0, 0, 3, 3), None),
    )
    circuit, retry = happenings_of(tmp_path, "R")
    assert (circuit.at, circuit.type, circuit.level) == (BEGAN, "circuit-state-change", "ERROR")
    assert (circuit.task_id, circuit.worker) == ("T-1", "gw1")
    assert circuit.text == "circuit origin:http://x: closed -> open (5 failures)"
    details = {"circuit": "origin:http://x", "from": "closed", "to": "open", "reason": "5 failures"}
    assert circuit.details == {**details, "step": None, "faulted": False}
    assert retry.text == "Retrying 1/2 in 0.5 s: refused"


def test_no_log_a_broken_one_and_one_of_another_run(tmp_path: Path) -> None:
    assert happenings_of(tmp_path, "R") == ()
    logged(tmp_path, (CircuitChanged("c", "closed", "open", "why"), None))
    file = events_of(tmp_path, "R")
    line = json.loads(file.read_text("utf-8"))
    file.write_text("{half\n" + json.dumps({**line, "run": "S"}) + "\n" + json.dumps(line) + "\n{", "utf-8")
    assert len(happenings_of(tmp_path, "R")) == 1
    file.unlink()
    file.mkdir()
    assert happenings_of(tmp_path, "R") == ()
