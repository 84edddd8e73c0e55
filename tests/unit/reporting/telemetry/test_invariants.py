"""What cannot be at the same time, in the stream and the summary; and what belongs to all tasks, whoever began it."""

from __future__ import annotations

import pytest

from harness.pytest_plugin.telemetry import is_shown
from harness.reporting.telemetry.metrics import MetricsSink
from harness.reporting.telemetry.stream import in_task, of_all_tasks
from harness.resilience.connection import Invariants
from harness.resilience.events import CircuitChanged, InvariantBroken, ResilienceEvent
from tests.unit.reporting import sample
from tests.unit.reporting.telemetry.stage import Stage, record

BROKEN = InvariantBroken("Polling must be `running` if extension is `connected`", {"of": "demo", "polling": "stopped"})
RESET = CircuitChanged("origin:http://shop.local", "open", "closed", "manual_reset")


def test_what_is_of_all_tasks_wakes_who_waits_and_is_not_stamped() -> None:
    stage = Stage()
    woken: list[object] = []
    with in_task(sample.plan(task_id="T-1"), woken.append):
        with of_all_tasks():
            stage.telemetry.emit(RESET)
        stage.telemetry.emit(RESET)
    with of_all_tasks():
        stage.telemetry.emit(RESET)
    assert [each.task_id for each in stage.records] == ["", "T-1", ""]
    assert woken == stage.records[:2]


def test_a_summary_names_each_once() -> None:
    tally = MetricsSink()
    line = "inconsistent: `demo` answers, but nobody is monitoring it any more (of=demo, polling=stopped)"
    tally.on_record(record(BROKEN))
    assert tally.lines() == [line]
    tally.on_record(record(BROKEN))
    tally.on_record(record(InvariantBroken("service: no way from one state to the other")))
    assert tally.lines() == [
        f"{line}, twice",
        "inconsistent: service: no way from one state to the other ()",
    ]


@pytest.mark.parametrize(("verbosity", "seen"), [(-1, False), (0, True), (1, True)])
def test_a_person_sees_it_at_once(verbosity: int, seen: bool) -> None:
    assert is_shown(record(BROKEN), verbosity) is seen


def test_what_is_there_at_so_many_looks_in_a_row_is_told() -> None:
    told: list[ResilienceEvent] = []
    invariants = Invariants(told.append)
    bad, good = {"extension": "connected", "polling": "stopped"}, {"polling": "running"}
    for states, count in [(bad, 0), (bad, 0), (good, 0), (bad, 0), (bad, 0), (bad, 1), (bad, 1), (good, 1), (bad, 1)]:
        invariants.check(states, "demo", looks=3, more={"tasks": "T-1"})
        invariants.check(good, "other", looks=3)
        assert len(told) == count
    assert told == [InvariantBroken(BROKEN.rule, {"of": "demo", **bad, "tasks": "T-1"})]


def test_each_rule_has_words_of_its_own() -> None:
    from harness.resilience.connection import EXCLUSIONS
    from harness.resilience.events import INCONSISTENT

    assert list(INCONSISTENT) == [each.text for each in EXCLUSIONS]
