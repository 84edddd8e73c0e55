"""What the page shows of a run, and in which order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from harness.reporting.dashboard.build import dashboard
from harness.reporting.dashboard.evidence import FoundEvidence
from harness.reporting.dashboard.view import Dashboard
from harness.reporting.history.record import Execution, Happening, RunRecord, RunSummary
from tests.unit.reporting.history.runs import BEGAN, execution, failed, many, record, run, skipped


def view_of(found: RunRecord, *summaries: RunSummary) -> Dashboard:
    return dashboard(found, summaries, {}, lambda _record: FoundEvidence())


def summary(name: str, days: int) -> RunSummary:
    return RunSummary(run=name, started=BEGAN + timedelta(days=days), ending="finished")


def test_each_task_is_counted_once() -> None:
    counts = view_of(run()).counts
    assert (counts.total, counts.passed, counts.failed, counts.expected, counts.skipped) == (18, 7, 10, 1, 1)
    assert (counts.flaky, counts.healed) == (1, 1)


def test_what_was_cut_off_from_outside_is_counted_and_told_apart() -> None:
    parts = [execution(failed("T-1", "INTERRUPTED")), execution(failed("T-2", "STEP_TIMEOUT", at=9))]
    view = view_of(run(parts=parts, ending="interrupted"))
    assert (view.counts.failed, view.counts.not_judged, view.breakdown) == (1, 1, {"timeout_step": 1})
    assert view.verdict == "1 of 2 tasks failed so far"
    assert [each.title.startswith("not judged: ") for each in view.causes] == [False, True]
    assert [each.first for each in view.causes] == [True, False]
    assert view.timeline.lanes[0].bars[0].kind == "not_judged"


@pytest.mark.parametrize(
    ("parts", "ending", "verdict"),
    [
        ((), "finished", "No task was run"),
        ((execution(record("T-1")),), "finished", "Nothing failed: 1 of 1 task passed"),
        (
            (execution(record("T-1")), skipped("T-2")),
            "unfinished",
            "Nothing failed so far: 1 of 2 tasks passed, 1 skipped",
        ),
        (
            (execution(failed("T-1", "INTERRUPTED")),),
            "interrupted",
            "1 task, none failed so far, 1 not judged",
        ),
        (
            (execution(record("T-1")), execution(failed("T-2", "WORKER_CRASHED")), skipped("T-3")),
            "finished",
            "3 tasks, none failed, 1 not judged, 1 skipped",
        ),
        (
            (execution(failed("T-1", "STEP_TIMEOUT"), "rerun"),),
            "interrupted",
            "1 of 1 task failed so far",
        ),
        ((skipped("T-1"),), "finished", "The only task was skipped"),
        ((execution(failed("T-1", "STEP_TIMEOUT")),), "finished", "1 of 1 task failed"),
        (
            tuple(execution(failed(name, "SERVICE_DOWN", service="x", message="`x` is down")) for name in ("A", "B")),
            "finished",
            "2 of 2 tasks failed, from 1 cause",
        ),
    ],
)
def test_the_verdict_is_one_line(parts: tuple[Execution, ...], ending: Any, verdict: str) -> None:
    assert view_of(run(parts=parts, ending=ending)).verdict == verdict


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ending": "interrupted"}, "The run was interrupted"),
        ({"ending": "unfinished", "finished": None}, "its process died, or it is still running"),
        ({"ending": "killed", "finished": None}, "The run was killed: its process is gone; the page shows"),
        (
            {"ending": "unfinished", "finished": None, "note": "its process is gone"},
            "The run has no end: its process is gone.",
        ),
        ({"note": "shard 2 of 3 is missing"}, "Shard 2 of 3 is missing."),
        ({"merged_from": ("a", "b")}, "This run was merged from 2 runs: a, b."),
    ],
)
def test_what_must_be_known_of_the_run_is_told_first(fields: dict[str, Any], words: str) -> None:
    assert any(words in notice for notice in view_of(run(parts=[execution(record("T-1"))], **fields)).notices)


def test_a_green_run_has_nothing_to_tell_first() -> None:
    assert view_of(run(parts=[execution(record("T-1"))])).notices == ()


def test_figures_have_the_names_of_the_specification() -> None:
    view = view_of(run())
    assert view.breakdown["network_error"] == 2
    assert "element_not_found" in view.breakdown
    assert {each.name for each in view.recoveries} >= {"network_error", "element_not_found", "assertion_retry"}
    network = next(each for each in view.recoveries if each.name == "network_error")
    assert (network.worked, network.tried, network.rate) == (1, 4, 0.25)
    assert list(view.breakdown.values()) == sorted(view.breakdown.values(), reverse=True)


def test_an_error_of_no_type_is_told_by_its_code() -> None:
    parts = [execution(failed(name, code)) for name, code in (("A", "NET_OFFLINE"), ("B", "NET_OFFLINE"))]
    lost = execution(failed("C", "BROWSER_CRASHED", error_type="unknown"))
    view = view_of(run(parts=[*parts, lost]))
    assert view.breakdown == {"network_error": 2, "unknown": 1}
    assert view.codes == {"network_error": ("NET_OFFLINE",), "unknown": ("BROWSER_CRASHED",)}


def test_retries_are_one_figure() -> None:
    found = view_of(run(metrics={"resilience": {"successfulRetries": 1, "failedRetries": 4, "totalAttempts": 9}}))
    assert found.resilience == {"retries": "5 (1 worked)", "attempts": "9"}


@pytest.mark.parametrize(
    ("ci", "told"),
    [
        ({"name": "GitHub Actions", "buildName": "GitHub Actions"}, "GitHub Actions"),
        ({"name": "GitHub Actions", "buildName": "nightly #7"}, "GitHub Actions nightly #7"),
        ({"name": "Jenkins"}, "Jenkins"),
    ],
)
def test_a_build_is_named_once(ci: dict[str, Any], told: str) -> None:
    assert view_of(run(ci=ci)).facts["CI"] == told


def test_files_that_were_not_collected_are_told() -> None:
    view = view_of(run(parts=[execution(record("T-1"))], uncollected={"test_a.py": "ImportError: no b"}))
    assert view.uncollected == {"test_a.py": "ImportError: no b"}
    assert view.verdict == "Nothing failed: 1 of 1 task passed, 1 file not collected"


def test_what_a_task_declares_is_no_error() -> None:
    view = view_of(run(parts=[execution(failed("T-1", "HTTP_UNAVAILABLE", expected=True), "passed")]))
    assert (view.breakdown, view.causes, view.counts.expected) == ({}, (), 1)


@pytest.mark.parametrize(("value", "level"), [(0.05, "ok"), (0.051, "warning"), (0.16, "critical")])
def test_thresholds_have_the_levels_of_specs_001(value: float, level: str) -> None:
    metrics = {"thresholds": {"error_rate": {"value": value, "at_the_end": {"value": 0.01}}}}
    (found,) = view_of(run(metrics=metrics)).thresholds
    assert (found.level, found.at_the_end) == (level, "1 %")
    assert (found.warning, found.critical) == ("over 5 %", "over 15 %")


def test_the_rate_of_few_attempts_is_not_shown_as_none() -> None:
    metrics = {"thresholds": {"error_rate": {"value": 0.0}}}
    (quiet,) = view_of(run(parts=[execution(record("T-1"))], metrics=metrics)).thresholds
    (found,) = view_of(run(parts=[execution(failed("T-1", "HTTP_UNAVAILABLE"), "failed")], metrics=metrics)).thresholds
    assert (quiet.worst, found.worst) == ("0 %", "not measured: below 20 attempts")


@pytest.mark.parametrize("metrics", [{}, {"thresholds": None}, {"thresholds": {"error_rate": "x"}, "resilience": [1]}])
def test_figures_of_another_shape_are_left_out(metrics: dict[str, Any]) -> None:
    view = view_of(run(metrics=metrics))
    assert (view.thresholds, view.resilience) == ((), {})


def test_the_slowest_come_first() -> None:
    view = view_of(many(50))
    assert [each.seconds for each in view.slow_tasks] == sorted(
        (each.seconds for each in view.slow_tasks), reverse=True
    )
    assert len(view.slow_tasks) == len(view.slow_steps) == 10


def test_the_timeline_has_workers_circuits_and_services() -> None:
    lanes = {lane.name: lane for lane in view_of(run()).timeline.lanes}
    assert list(lanes) == ["this process", "gw0", "gw1", "http://bank.local", "demo"]
    assert [(bar.kind, bar.start, bar.end) for bar in lanes["http://bank.local"].bars] == [("open", 26, 56)]
    assert [(bar.kind, bar.start, bar.end) for bar in lanes["demo"].bars] == [("down", 40, 42)]
    assert lanes["gw0"].bars[0].label == "T-PASSED-0"


def test_tasks_at_once_in_one_worker_have_lanes_of_their_own() -> None:
    parts = [execution(record(f"T-{n}", at=n, seconds=3)) for n in range(4)]
    lanes = view_of(run(parts=parts, happenings=())).timeline.lanes
    assert [(lane.name, [bar.label for bar in lane.bars]) for lane in lanes] == [
        ("this process (1)", ["T-0", "T-3"]),
        ("this process (2)", ["T-1"]),
        ("this process (3)", ["T-2"]),
    ]


def test_a_failed_attempt_is_marked_in_its_bar() -> None:
    parts = [execution(failed("T-1", "STEP_TIMEOUT", at=10))]
    (lane,) = view_of(run(parts=parts, happenings=())).timeline.lanes
    assert lane.bars[0].marks == (11.5, 12.0)


def test_a_circuit_that_stays_open_is_drawn_to_the_end() -> None:
    opened = Happening(
        at=BEGAN + timedelta(seconds=5), type="circuit-state-change", details={"circuit": "c", "after": "open"}
    )
    (lane,) = view_of(run(parts=(), happenings=(opened,))).timeline.lanes
    assert (lane.bars[0].start, lane.bars[0].end) == (5, 90)


def test_trends_end_with_this_run() -> None:
    this = run()
    trend = view_of(this, summary("later", 2), summary(this.run, 0), summary("before", -1)).trend
    assert [each.run for each in trend] == ["before", this.run]


@pytest.mark.parametrize(
    ("url", "linked"),
    [("https://ci.example/1", True), ("javascript:alert(1)", False), ("", False), ("http://[", False)],
)
def test_only_web_addresses_are_linked(url: str, linked: bool) -> None:
    assert bool(view_of(run(ci={"buildUrl": url})).links) is linked


def test_each_failed_task_leads_to_its_cause() -> None:
    view = view_of(run())
    led = {row.task_id: row.cause for row in view.tasks if row.cause is not None}
    assert len(led) == 10
    assert all(task in [each.task_id for each in view.causes[cause].occurrences] for task, cause in led.items())


def test_the_view_is_json_and_back() -> None:
    view = view_of(run())
    assert Dashboard.model_validate_json(view.model_dump_json()) == view
