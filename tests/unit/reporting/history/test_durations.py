"""The expected seconds of tasks: from a history, or from the document that a command has written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from harness.reporting.history.file import HISTORY, HistoryError
from harness.reporting.history.reading import Durations, read_durations
from harness.reporting.history.writing import save_run
from tests.unit.reporting.history.runs import execution, failed, record, run


def history(root: Path) -> Path:
    for number, seconds in enumerate((2.0, 4.0, 9.0)):
        parts = [execution(record("A", seconds=seconds)), execution(failed("B", "STEP_TIMEOUT"))]
        save_run(root, run(f"20251116T09000{number}-1", parts))
    return root / HISTORY


def test_a_history_gives_the_median_of_passed_executions(tmp_path: Path) -> None:
    assert read_durations(history(tmp_path)).seconds == {"A": 4.0}


def test_a_command_writes_the_same_as_a_document(tmp_path: Path) -> None:
    found = read_durations(history(tmp_path))
    result = CliRunner().invoke(app, ["history", "durations", "--project", str(tmp_path)])
    assert result.exit_code == 0, result.output
    file = tmp_path / "durations.json"
    file.write_text(result.output, "utf-8")
    assert read_durations(file) == found
    assert read_durations(file).digest == found.digest != Durations({"A": 4.5}).digest


def test_an_unknown_task_takes_the_median() -> None:
    known = Durations({"A": 1.0, "B": 3.0, "C": 10.0})
    assert (known.of("A"), known.of("Z"), Durations({}).of("Z")) == (1.0, 3.0, 1.0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "found something else"),
        ("not json", "found something else"),
        (json.dumps({"seconds": {"A": "long"}}), "found something else"),
        (json.dumps({"seconds": {"A": -1.0}}), "expected a number of seconds, 0 or more, for A"),
        (json.dumps({"seconds": {"\x1b[31mA": -1.0}}), r"0 or more, for  \[31mA"),
        (json.dumps({"second": {}}), "found something else"),
        (None, "cannot be read"),
    ],
)
def test_what_has_no_durations_is_refused(tmp_path: Path, text: str | None, why: str) -> None:
    file = tmp_path / "durations.json"
    if text is not None:
        file.write_text(text, "utf-8")
    with pytest.raises(HistoryError, match=f"{why}(.|\n)*harness history durations > durations.json"):
        read_durations(file)
