"""Writes the trace of a run (specs/003 5) as partial_trace.json."""

from __future__ import annotations

from pathlib import Path

from harness.model.diagnosis import trace
from harness.model.ports import Json
from harness.model.record import TaskResult
from harness.reporting.documents import write_json
from harness.reporting.redaction import Redactor, masked_step


def redacted_trace(result: TaskResult, redactor: Redactor) -> Json:
    """The Trace document without secrets."""
    document = trace(result)
    return redactor.json({**document, "steps": [masked_step(step) for step in document["steps"]]})


def write_trace(result: TaskResult, path: Path, redactor: Redactor) -> None:
    write_json(path, redacted_trace(result, redactor))
