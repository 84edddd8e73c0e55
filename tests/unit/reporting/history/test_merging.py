"""Runs of shards as one: each execution once, in the order of time, however and how often they are merged."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reporting.history.merging import identity_of, merge_runs, merged_executions
from harness.reporting.history.record import Execution
from tests.unit.conftest import examples
from tests.unit.reporting.history.runs import (
    BEGAN,
    execution,
    executions,
    failed,
    happenings,
    nodeid,
    record,
    run,
    skipped,
)
from tests.unit.reporting.history.test_store import parts

several = st.lists(parts, max_size=4)


@given(several, several, several)
@settings(max_examples=examples(100), deadline=None)
def test_in_any_order_and_as_often_as_one_likes(
    one: list[Execution], two: list[Execution], three: list[Execution]
) -> None:
    whole = merged_executions([one, two, three])
    assert merged_executions([merged_executions([one, two]), three]) == whole
    assert merged_executions([one, merged_executions([three, two])]) == whole
    assert merged_executions([whole]) == whole
    assert merged_executions([whole, one]) == whole
    numbers: dict[str, list[int]] = {}
    for each in whole:
        numbers.setdefault(each.nodeid, []).append(each.number)
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())


def test_a_node_that_ran_in_several_shards() -> None:
    late, early = execution(record("T-1", at=60)), execution(failed("T-1", "STEP_TIMEOUT", at=30))
    left_out = skipped("T-1").model_copy(update={"at": None})
    found = merge_runs([run("20251116T090000-1", [late, left_out]), run("20251116T090000-2", [early])])
    assert [(each.number, each.outcome) for each in found.executions] == [(1, "skipped"), (2, "failed"), (3, "passed")]
    assert [(each.nodeid, each.outcome) for each in found.last] == [(nodeid("T-1"), "passed")]


def test_what_the_shards_say() -> None:
    one = run(
        "20251116T090000-1",
        executions()[:5],
        environment={"Python": "3.11", "Platform": "Linux", "Run": "1"},
        shard="1",
        exit_status=0,
    )
    two = run(
        "20251116T090001-2",
        executions()[5:],
        environment={"Python": "3.11", "Platform": "macOS", "Run": "2"},
        shard="2",
        happenings=happenings()[:1],
        ending="interrupted",
        exit_status=2,
        arguments=("tasks",),
    )
    found = merge_runs([two, one])
    assert found.merged_from == ("20251116T090000-1", "20251116T090001-2")
    assert (found.started, found.finished) == (BEGAN, BEGAN + timedelta(seconds=91))
    assert (found.ending, found.exit_status, found.shard, found.arguments) == ("interrupted", 2, "1, 2", ())
    assert found.environment == {"Python": "3.11", "Platform": "Linux | macOS"}
    assert len(found.happenings) == 5
    assert len(found.executions) == 19
    assert found.metrics["error_metrics"]["total_tasks"] == 17
    assert found.metrics["resilience"] == {"totalAttempts": 51, "successfulRetries": 4, "failedRetries": 20}
    assert found.metrics["thresholds"] == {"error_rate": {"value": 0.12, "level": "warning"}}
    assert (found.commit, found.branch, found.note) == (one.commit, "main", "")
    assert merge_runs([one, two]) == found
    assert merge_runs([found]).executions == found.executions
    assert merge_runs([found]).run == found.run


def test_what_they_do_not_agree_in() -> None:
    one = run("20251116T090000-1", commit="a" * 40, metrics={"resilience": {"avgRecoveryTime": 2.0}})
    slow = {"avgRecoveryTime": 4.0, "successfulRetries": 3}
    two = run(
        "20251116T090000-2",
        commit="b" * 40,
        finished=None,
        ending="unfinished",
        note="its process is gone",
        ci={"buildName": "x", "buildUrl": "javascript:alert(1)"},
        metrics={"resilience": slow, "thresholds": {"error_rate": {"level": "critical"}, "odd": 1}},
    )
    found = merge_runs([one.model_copy(update={"ci": {}}), two])
    assert (found.commit, found.finished, found.ending) == ("", None, "unfinished")
    assert found.note == f"of several commits: {'a' * 40}, {'b' * 40}; its process is gone"
    assert found.ci == {"buildName": "x"}
    assert found.metrics["resilience"] == {"avgRecoveryTime": 3.5, "successfulRetries": 3}
    assert found.metrics["thresholds"] == {"error_rate": {"level": "critical"}}


def test_the_same_run_in_two_folders() -> None:
    def at(place: str) -> Execution:
        return execution(failed("T-1", "STEP_TIMEOUT", artifacts=place))

    one, two = run(parts=[at("/a/errors/T-1")]), run(parts=[at("/b/errors/T-1")])
    assert identity_of(one) == identity_of(two)
    assert identity_of(one) != identity_of(run(parts=executions()))


def test_a_whole_with_one_of_its_parts_again_is_the_same_whole() -> None:
    one = run("20251116T090000-1", executions()[:5])
    two = run("20251116T090001-2", executions()[5:])
    three = run("20251116T090002-3", [execution(record("T-9"))])
    whole = merge_runs([one, two])
    assert merge_runs([whole, one]) == merge_runs([whole, whole]) == whole
    assert merge_runs([whole, merge_runs([two, three])]).metrics == merge_runs([one, two, three]).metrics
