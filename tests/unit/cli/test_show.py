"""A kept failure as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from harness.cli.failures import (
    UnreadableReportError,
    directories_of,
    earlier,
    last_run,
    latest,
    read_kept,
    the_failure,
)
from harness.cli.main import app
from harness.cli.show import line, page
from harness.reporting.history.writing import save_run
from harness.reporting.task_record import LAST_RUN, write_last_run
from harness.reporting.words import target_text
from tests.unit.reporting.history.runs import run

REPORT: dict[str, Any] = {
    "task_id": "T-1",
    "error_type": "assertion_failed",
    "code": "ASSERTION_FAILED",
    "timestamp": "2025-11-16T09:00:00Z",
    "step_index": 1,
    "error_message": "Assertion failed: #total\nsecond line",
    "recovery_attempted": True,
    "tried": ["ATTEMPT 1: FAILED - no", "RETRY (after 5s): FAILED - still no"],
    "context": {
        "url": "http://shop.local/cart",
        "browser_console_logs": ["[ERROR] boom"],
        "assertion": {"expression": "text('#total')", "expected": "30", "actual": " 31", "diff": "- 30\n+ 31"},
    },
    "metrics": {"steps_completed": 1, "steps_total": 3, "time_elapsed_seconds": 7.25, "retries_count": 1},
    "hint": "Look at the page.",
    "warnings": [{"type": "network_error_recovered", "message": "recovered"}],
    "source": "tasks/t.task.yaml",
}
TRACE = [
    {"act": "open", "url": "http://shop.local/", "seconds": 0.5, "step_index": 0},
    {
        "act": "assert",
        "selector": "#total",
        "value": "30",
        "seconds": 1,
        "step_index": 1,
        "note": "ATTEMPT 1: FAILED - no",
    },
    {
        "act": "assert",
        "selector": "#total",
        "value": "30",
        "seconds": 1,
        "step_index": 1,
        "note": "RETRY (after 5s): FAILED - still no",
    },
]
MANIFEST = {
    "task_id": "T-1",
    "run": "run-7",
    "artifacts": [
        {"name": "screenshot.png", "status": "taken", "bytes": 2048},
        {"name": "trace.zip", "status": "skipped", "reason": "not recorded"},
    ],
    "files": [{"name": "receipt.txt", "status": "taken", "bytes": 7}],
}


def keep(folder: Path, **report: Any) -> Path:
    folder.mkdir(parents=True)
    documents = {"error_report": {**REPORT, **report}, "manifest": MANIFEST, "partial_trace": {"steps": TRACE}}
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(document), "utf-8")
    return folder


def test_everything_that_is_known_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = page(read_kept(keep(tmp_path / "errors" / "T-1"))).splitlines()
    assert lines[0] == "T-1 failed: ASSERTION_FAILED at step 1 (of 0-2)"
    assert lines[1] == "  tasks/t.task.yaml"
    assert lines[2].endswith("run run-7: 1 of 3 steps done in 7.2 s, 1 retry")
    assert lines[3:] == [
        "      0  open    http://shop.local/  ok         0.5 s",
        "  >   1  assert  #total = '30'       FAILED     2.0 s  2 attempts",
        "  tried:",
        "    ATTEMPT 1: FAILED - no",
        "    RETRY (after 5s): FAILED - still no",
        "  message: Assertion failed: #total",
        "    second line",
        "  expected: 30",
        "  actual:   ' 31'",
        "    - 30",
        "    + 31",
        "  hint: Look at the page.",
        "  warnings:",
        "    network_error_recovered: recovered",
        "  url: http://shop.local/cart",
        "  console:",
        "    [ERROR] boom",
        "  artifacts: errors/T-1",
        "    screenshot.png         2 KB",
        "    trace.zip              skipped: not recorded",
        "    receipt.txt            7 bytes",
    ]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"step_index": -1}, "before the first step"),
        ({"step_index": -1, "code": "PRECONDITION_NOT_MET"}, "at a precondition"),
        ({"step_index": 3, "code": "AGENT_FAILED"}, "while choosing step 3"),
        ({"step_index": 3, "code": "AGENT_UNAVAILABLE"}, "while choosing step 3"),
        ({"step_index": 3, "code": "MODEL_AUTH"}, "while choosing step 3"),
        ({"step_index": 3, "code": "INCOMPLETE"}, "at the end"),
        ({"step_index": 3}, "at the success criteria"),
        ({"step_index": 1, "metrics": None}, "at step 1"),
        ({"error_type": "unknown", "code": "BROWSER_CRASHED"}, "T-1 failed: BROWSER_CRASHED at"),
        ({"expected": True}, ", as the task expects"),
    ],
)
def test_the_first_line_says_where(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    assert words in page(read_kept(keep(tmp_path / "T-1", **changed))).splitlines()[0]


def test_a_report_alone_is_enough(tmp_path: Path) -> None:
    folder = keep(tmp_path / "T-1")
    (folder / "manifest.json").unlink()
    (folder / "partial_trace.json").write_text("[]", "utf-8")
    text = page(read_kept(folder))
    assert "run unknown" in text
    assert "steps:" not in text
    assert "    error_report.json" in text


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"task_id": "T-1"'])
def test_what_is_no_report_is_said(tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = keep(tmp_path / "T-1")
    (folder / "error_report.json").write_text(content, "utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnreadableReportError, match=r"^T-1/error_report\.json: not an error report"):
        read_kept(folder)


def shown(folder: Path, steps: list[dict[str, Any]], **report: Any) -> list[str]:
    keep(folder, **report)
    (folder / "partial_trace.json").write_text(json.dumps({"steps": steps}), "utf-8")
    return page(read_kept(folder)).splitlines()


def test_the_way_of_an_agent_is_named_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (own,) = [line for line in shown(tmp_path / "errors/T", [], agent="ann") if "--agent" in line]
    assert own == "  agent: ann (harness show T-1 --agent)"
    (tmp_path / "eval/trajectories/T--ann--clean--0").mkdir(parents=True)
    trial = shown(tmp_path / "eval/errors/T--ann--clean--0", [], agent="ann")
    (line,) = [line for line in trial if "--agent" in line]
    assert line == "  agent: ann (harness show eval/trajectories/T--ann--clean--0 --agent)", "not the last one of T-1"


def step(index: int, note: str = "") -> dict[str, Any]:
    return {"act": "click", "selector": f"#s{index}", "step_index": index, **({"note": note} if note else {})}


def test_each_attempt_says_how_it_went(tmp_path: Path) -> None:
    warnings = [{"type": "step_skipped", "step_index": 1, "message": "skipped"}]
    steps = [
        step(0, "ATTEMPT 1: FAILED - no"), step(0, "RETRY (after 1s): SUCCESS"), step(1, "ATTEMPT 1: FAILED - no"),
        step(2, "ATTEMPT 1: FAILED - no; WENT BACK from step 2 to the checkpoint before step 1"),
        step(1), step(2, "ATTEMPT 1: FAILED - no"),
    ]  # fmt: skip
    lines = shown(tmp_path / "T", steps, step_index=2, warnings=warnings)
    assert lines[3:10] == [
        "      0  click  #s0  ok        2 attempts",
        "      1  click  #s1  ok",
        "  >   2  click  #s2  FAILED",
        "  tried:",
        "    ATTEMPT 1: FAILED - no",
        "    WENT BACK from step 2 to the checkpoint before step 1",
        "    AFTER GOING BACK: FAILED - no",
    ]
    (skipped,) = (line for line in shown(tmp_path / "S", steps[:3], step_index=2, warnings=warnings) if " #s1 " in line)
    assert skipped.split() == ["1", "click", "#s1", "skipped"]


def test_criteria_are_no_attempts_of_each_other(tmp_path: Path) -> None:
    """They have one number, as preconditions have."""
    one = {"act": "assert", "expr": "title() == 'a'", "step_index": 3}
    other = {"act": "assert", "expr": "title() == 'b'", "step_index": 3, "note": "ATTEMPT 1: FAILED - no"}
    lines = shown(tmp_path / "T", [one, other, {**other, "note": "RETRY (after 1s): FAILED - no"}], step_index=3)
    assert lines[3] == "  > end  assert  title() == 'b'  FAILED    2 attempts"


def test_a_choice_that_failed_is_a_line_of_the_steps(tmp_path: Path) -> None:
    lines = shown(tmp_path / "T", [step(0)], step_index=1, code="AGENT_TIMEOUT")
    assert [line.split() for line in lines[3:5]] == [
        ["0", "click", "#s0", "ok"],
        [">", "1", "the", "agent's", "choice", "FAILED"],
    ]
    assert "  >   0    the agent's choice  FAILED" in shown(tmp_path / "S", [], step_index=0, code="AGENT_FAILED")


def test_what_the_failure_found_is_told(tmp_path: Path) -> None:
    assertion = {"expression": "e", "expected": None, "actual": "one\ntwo", "diff": ""}
    context = {"assertion": assertion, "matches": ["<a>1</a>", "<a>2</a>"]}
    refused = {"id": "f", "title": "f", "kind": "refuse", "text": "shop.local is refused", "behind": True, "struck": 1}
    lines = shown(tmp_path / "T", [], context=context, faults=[refused])
    text = "\n".join(lines)
    assert "  expected: null\n  actual:   one\n    two\n" in text
    assert "  matches:\n    <a>1</a>\n    <a>2</a>\n" in text
    assert "  faults injected:\n    shop.local is refused\n" in text
    assert lines[0].endswith(", after injected fault f")


def test_a_fault_that_could_not_be_done_is_the_failing_line(tmp_path: Path) -> None:
    wrong = {"id": "f", "title": "f", "kind": "covered", "target": "#x", "problem": "no", "behind": True}
    lines = shown(tmp_path / "T", [step(0)], faults=[wrong])
    assert lines[0].endswith(", because injected fault f could not be done")
    assert any(line.split() == [">", "1", "fault", "covered", "#x", "FAILED"] for line in lines)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"selector": "#card", "screenshot": "card.png"}, "#card looks like card.png"),
        ({"screenshot": "page.png"}, "the page looks like page.png"),
        ({"selector": "ul", "aria": "- list"}, "ARIA snapshot of ul"),
        ({"selector": "#a", "value": 1}, "#a = 1"),
    ],
)
def test_an_assert_says_what_it_compares(step: dict[str, Any], words: str) -> None:
    assert target_text({"act": "assert", **step}) == words


def test_criteria_stand_at_the_end(tmp_path: Path) -> None:
    lines = shown(tmp_path / "T", [step(2), step(3, "ATTEMPT 1: FAILED - no")], step_index=3)
    assert "  > end  click  #s3  FAILED" in lines


def test_what_is_not_of_the_last_run_is_marked(tmp_path: Path) -> None:
    kept = read_kept(keep(tmp_path / "T-1"))
    assert line(kept, "run-8").endswith("(not of the last run)")
    assert not line(kept, "run-7").endswith("run)")
    assert not line(kept, None).endswith("run)")


def test_the_last_run_is_that_of_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")
    assert last_run() is None
    write_last_run(tmp_path / LAST_RUN, "20251116T090000-1", ())
    assert last_run() == "20251116T090000-1"
    save_run(tmp_path, run("20251116T100000-2", ()))  # killed before it could write its last-run.json
    assert last_run() == "20251116T100000-2"


def test_directories_are_found_by_name_and_by_task(tmp_path: Path) -> None:
    one, two = keep(tmp_path / "T-1"), keep(tmp_path / "T-1-2")
    old = keep(tmp_path / ".previous" / "run-1" / "T-0")
    newer = keep(tmp_path / ".previous" / "run-2" / "T-0")
    (tmp_path / "notes").mkdir()
    assert latest(tmp_path) == [one, two]
    assert list(earlier(tmp_path).items()) == [("run-2", [newer]), ("run-1", [old])]
    assert directories_of([one, two], "T-1-2") == [two]
    assert directories_of([two], "T-1") == [two]
    assert directories_of([one, two], "X") == []
    assert latest(tmp_path / "nowhere") == []


def test_the_last_failure_of_the_last_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, at, more in [("A", 1, {}), ("B", 3, {}), ("C", 2, {}), ("D", 4, {"expected": True})]:
        stamp = f"2025-11-16T09:0{at}:00Z"
        keep(tmp_path / "errors" / name, task_id=name, timestamp=stamp, **more)
    assert the_failure("last", None, None, "harness open").folder.name == "B"
    assert "B, the last of 3 failures; `harness triage` lists all" in capsys.readouterr().err
    save_run(tmp_path, run("20251116T091000-1"))
    with pytest.raises(typer.Exit):
        the_failure("last", None, None, "harness open")
    told = capsys.readouterr().err
    assert (
        "no failure of the last run, 20251116T091000-1, was kept; the last failure is of run run-7: harness open B"
        in told
    )


def test_what_failed_last_where_nothing_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(typer.Exit):
        the_failure("last", None, None, "harness open")
    assert "no failures under errors" in capsys.readouterr().err


def test_open_takes_what_failed_last_when_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keep(tmp_path / "errors" / "A")
    found = CliRunner().invoke(app, ["open"])
    assert (found.exit_code, "errors/A has no trace.zip" in found.stderr) == (1, True)
    assert "ASSERTION_FAILED" in CliRunner().invoke(app, ["show", "last"]).stdout


def test_the_full_trace_of_a_second_run_is_listed(tmp_path: Path) -> None:
    folder = keep(tmp_path / "errors" / "T-1")
    retrace = {"trace": "trace_full.zip", "passed": False, "final_state": "failed", "code": "ELEMENT_NOT_FOUND"}
    (folder / "manifest.json").write_text(json.dumps({**MANIFEST, "retrace": retrace}), "utf-8")
    text = page(read_kept(folder))
    assert "trace_full.zip         the full trace of a second run (--task-retrace), which failed with ELEMENT" in text
