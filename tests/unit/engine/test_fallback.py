"""`fallback_plan`, budgets and scores."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.model.outcome import attempts_of, metrics
from harness.model.record import TaskResult
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed
from harness.spec.advice import METRICS
from harness.spec.loaded import Loaded
from harness.spec.problems import SpecError
from harness.spec.source import Origin
from harness.spec.task import TaskSpec
from tests.unit.fakes import Theatre

CLICK = {"act": "click", "selector": "#a"}
BROKEN = Failure("INVALID_INPUT", "no such thing")
REFUSED = Failure("NET_CONNECTION_REFUSED", "refused")
UNANSWERED = Failure("NET_TIMEOUT", "no answer", effect=Effect.POSSIBLE)


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(**{"steps": [CLICK], **spec}))


def types(result: TaskResult) -> list[str]:
    return [warning.type for warning in result.warnings]


def tasks(**specs: dict[str, Any]) -> Any:
    made = {
        name: Loaded(TaskSpec.model_validate({"task_id": name, "steps": [CLICK], **spec}), Path(name), Origin(name))
        for name, spec in specs.items()
    }
    return made.get


UNMET = {"success_criteria": ["title() == 'x'"]}


def test_relaxed_criteria_hold_instead() -> None:
    theatre = Theatre()
    plan = {"enabled": True, "relaxed_success_criteria": ["mem('a') == 1"]}
    result = play(theatre, **UNMET, memory={}, fallback_plan=plan)
    assert result.final_state == "failed"
    theatre = Theatre()
    theatre.world.entries_["a"] = 1
    result = play(theatre, **UNMET, fallback_plan=plan)
    assert (result.final_state, types(result)) == ("partial_success", ["criteria_relaxed"])
    assert "title() == 'x'" in result.warnings[0].details["unmet"]
    assert theatre.archive.kept == []


def test_all_relaxed_criteria_must_hold() -> None:
    theatre = Theatre()
    theatre.world.entries_["a"] = 1
    plan = {"enabled": True, "relaxed_success_criteria": ["mem('a') == 1", "mem('b') == 1"]}
    assert play(theatre, **UNMET, fallback_plan=plan).final_state == "failed"


def test_a_fallback_plan_that_is_not_enabled_does_nothing() -> None:
    theatre = Theatre()
    theatre.world.entries_["a"] = 1
    plan = {"relaxed_success_criteria": ["mem('a') == 1"], "alternative_task_id": "NOWHERE"}
    assert play(theatre, **UNMET, fallback_plan=plan).final_state == "failed"


def test_relaxed_criteria_are_for_criteria_not_for_steps() -> None:
    theatre = Theatre()
    theatre.session.script = [BROKEN]
    plan = {"enabled": True, "relaxed_success_criteria": ["1 == 1"]}
    assert play(theatre, fallback_plan=plan).final_state == "failed"


ALTERNATIVE = {"fallback_plan": {"enabled": True, "alternative_task_id": "OTHER"}}


def test_the_alternative_task_runs_in_the_same_world() -> None:
    theatre = Theatre()
    theatre.find = tasks(OTHER={})
    theatre.session.script = [BROKEN, Passed()]
    result = play(theatre, **ALTERNATIVE)
    assert (result.final_state, types(result)) == ("partial_success", ["alternative_task_used"])
    assert result.warnings[0].details["code"] == "INVALID_INPUT"
    assert result.alternative is not None
    assert result.alternative.task_id == "OTHER"
    assert (result.failure, result.error) == (None, None)


def test_an_alternative_task_that_fails_too_leaves_the_first_failure() -> None:
    theatre = Theatre()
    theatre.find = tasks(OTHER={})
    theatre.session.script = [BROKEN, Failure("INVALID_INPUT", "nor this")]
    result = play(theatre, **ALTERNATIVE)
    assert result.final_state == "failed"
    assert result.failure is not None
    assert result.failure.message == "no such thing; the alternative task OTHER did not succeed either: nor this"
    assert {kept[1].task_id for kept in theatre.archive.kept} == {"T-1", "OTHER"}


@pytest.mark.parametrize("code", ["POLICY_DOMAIN", "AUTHENTICATION_FAILED"])
def test_what_must_be_aborted_has_no_alternative(code: str) -> None:
    theatre = Theatre()
    theatre.find = tasks(OTHER={})
    theatre.session.script = [Failure(code, "no")]
    result = play(theatre, **ALTERNATIVE)
    assert (result.final_state, result.alternative) == ("aborted", None)


def test_an_alternative_task_that_is_not_there_is_told_before_anything_runs() -> None:
    theatre = Theatre()
    theatre.find = tasks(NEAR={})
    with pytest.raises(SpecError, match="no task is called `OTHER`"):
        play(theatre, **ALTERNATIVE)
    assert theatre.session.acts == []


def test_tasks_that_stand_in_for_each_other_are_refused() -> None:
    theatre = Theatre()
    theatre.find = tasks(OTHER={"fallback_plan": {"enabled": True, "alternative_task_id": "T-1"}}, **{"T-1": {}})
    with pytest.raises(SpecError, match="T-1 -> OTHER -> T-1"):
        play(theatre, **ALTERNATIVE)


@pytest.mark.parametrize(
    ("budget", "acts", "words"),
    [
        ({"max_steps": 2}, 2, "`max_steps` allows 2 steps, and another one was to begin"),
        ({"max_seconds": 5}, 3, "`max_seconds` allows 5 seconds, and they are over"),
        ({"max_requests": 3}, 1, "`max_requests` allows 3 requests, and the task's pages have sent 4"),
    ],
)
def test_a_budget_ends_the_task(budget: dict[str, Any], acts: int, words: str) -> None:
    theatre = Theatre()

    def work(_: Any) -> Passed:
        theatre.clock.time += 2
        theatre.session.requests += 4
        return Passed()

    theatre.session.script = [work] * 9
    result = play(theatre, steps=[CLICK] * 5, budget=budget)
    assert len(theatre.session.acts) == acts
    assert result.final_state == "aborted"
    assert result.failure is not None
    assert (result.failure.type, result.failure.code) == ("budget_exceeded", "BUDGET_EXCEEDED")
    assert words in result.failure.message


def test_requests_of_the_last_step_count_too() -> None:
    theatre = Theatre()

    def work(_: Any) -> Passed:
        theatre.session.requests += 4
        return Passed()

    theatre.session.script = [work]
    result = play(theatre, budget={"max_requests": 3})
    assert result.failure is not None
    assert "`max_requests` allows 3 requests, and the task's pages have sent 4" in result.failure.message


def test_a_budget_of_retries_counts_those_of_all_steps() -> None:
    theatre = Theatre()
    theatre.session.script = [REFUSED, Passed(), REFUSED, REFUSED]
    result = play(theatre, steps=[CLICK] * 3, budget={"max_retries": 2})
    assert len(theatre.session.acts) == 4
    assert result.failure is not None
    assert (
        "`max_retries` allows 2 retries, fallbacks included, and another one is needed (refused)"
        in result.failure.message
    )


def test_a_budget_that_is_kept_changes_nothing() -> None:
    budget = {"max_steps": 1, "max_requests": 10, "max_seconds": 100, "max_retries": 0}
    assert play(Theatre(), budget=budget).final_state == "completed"


PARTS = [
    {"id": "a", "name": "First", "assertion": "mem('a') == 1", "weight": 3},
    {"id": "b", "assertion": "mem('b') == 1", "weight": 1},
]


def scored(memory: dict[str, Any], parts: list[dict[str, Any]], **spec: Any) -> TaskResult:
    theatre = Theatre()
    theatre.world.entries_ |= memory
    return play(theatre, scoring_checkpoints=parts, **spec)


def test_parts_are_weighted_and_told() -> None:
    score = scored({"a": 1}, PARTS).score
    assert score is not None
    assert score.total == 0.75
    assert [(part.id, part.name, part.weight, part.met) for part in score.parts] == [
        ("a", "First", 0.75, True),
        ("b", "b", 0.25, False),
    ]
    assert "mem('b') == 1" in score.parts[1].reason


def test_a_part_that_does_not_apply_has_no_weight() -> None:
    score = scored({"a": 1}, [PARTS[0], {**PARTS[1], "when": "mem('rich') == true"}]).score
    assert score is not None
    assert (score.total, score.parts[1].applies, score.parts[1].weight) == (1.0, False, 0.0)


def test_a_part_counts_only_when_those_it_depends_on_hold() -> None:
    score = scored({"b": 1}, [PARTS[0], {**PARTS[1], "depends_on": ["a"]}]).score
    assert score is not None
    assert (score.total, score.parts[1].reason) == (0.0, "depends on a")


def test_a_required_part_that_is_not_met_leaves_a_partial_success() -> None:
    result = scored({"a": 1}, [PARTS[0], {**PARTS[1], "required": True}])
    assert (result.final_state, types(result)) == ("partial_success", ["required_part_unmet"])
    assert scored({"a": 1, "b": 1}, [PARTS[0], {**PARTS[1], "required": True}]).final_state == "completed"


def test_a_failed_task_has_a_score_too() -> None:
    result = scored({"a": 1}, PARTS, **UNMET)
    assert result.final_state == "failed"
    assert result.score is not None
    assert result.score.total == 0.75


def test_rubrics_weigh_metrics() -> None:
    result = scored({"a": 1, "b": 1}, PARTS, rubrics={"SR": 1.0, "LH-F1": 0.5, "cost_efficiency": 0.5})
    assert result.score is not None
    assert (result.score.total, dict(result.score.rubrics)) == (1.0, {"SR": 1.0, "LH-F1": 1.0, "cost_efficiency": 1.0})
    failed = scored({"a": 1}, PARTS, rubrics={"SR": 1.0, "LH-F1": 1.0}, **UNMET)
    assert failed.score is not None
    assert failed.score.rubrics["SR"] == 0.0
    assert 0.4 < failed.score.total < 0.5


def test_retries_cost_efficiency() -> None:
    theatre = Theatre()
    theatre.session.script = [REFUSED, Passed()]
    result = play(theatre, rubrics={"cost_efficiency": 1.0})
    assert result.score is not None
    assert result.score.total == 0.5


def test_without_parts_and_rubrics_there_is_no_score() -> None:
    assert play(Theatre()).score is None


def test_the_advice_knows_the_metrics_that_are_measured() -> None:
    assert tuple(metrics((), attempts_of((), 0), succeeded=True)) == METRICS


@pytest.mark.parametrize("failure", [Failure("STEP_TIMEOUT", "late", effect=Effect.POSSIBLE), UNANSWERED])
def test_a_write_of_which_nobody_knows_has_no_alternative(failure: Failure) -> None:
    theatre = Theatre()
    theatre.find = tasks(OTHER={})
    theatre.session.script = [failure]
    result = play(theatre, **{**ALTERNATIVE, "steps": [{"act": "click", "selector": "#buy", "effect": "write"}]})
    assert (result.final_state, result.alternative) == ("failed", None)
    assert "the alternative task OTHER was not run, because it might repeat the write" in str(result.failure)


@pytest.mark.parametrize(
    ("done_when", "environment", "runs"),
    [
        (None, {}, False),
        ("json('env', 'paid') == true", {"paid": True}, False),
        ("json('env', 'paid') == true", {"paid": False}, True),
        ("exists('#paid')", {}, False),
    ],
)
def test_no_alternative_repeats_a_write_that_passed(
    done_when: str | None, environment: dict[str, Any], runs: bool
) -> None:
    theatre = Theatre()
    theatre.find = tasks(OTHER={})
    theatre.world.environment = environment
    theatre.session.script = [Passed(), BROKEN]
    buy = {"act": "click", "selector": "#buy", "effect": "write", "done_when": done_when}
    result = play(theatre, **{**ALTERNATIVE, "steps": [buy, CLICK]})
    assert (result.alternative is not None) is runs
    told = "the alternative task OTHER was not run, because it might repeat the write of step 0 (click #buy)"
    assert (told in str(result.failure)) is not runs


def test_a_write_that_an_alternative_task_repeated_is_told_by_the_task_that_it_ran_for() -> None:
    theatre = Theatre()
    buy = {"act": "click", "selector": "#buy", "effect": "write", "done_when": "json('env', 'paid') == true"}
    theatre.find = tasks(OTHER={"steps": [buy]})
    theatre.session.script = [BROKEN, UNANSWERED, Passed()]
    result = play(theatre, **ALTERNATIVE)
    told = {each.type: each.message for each in result.warnings}
    assert (result.final_state, sorted(told)) == ("partial_success", ["alternative_task_used", "write_repeated"])
    assert told["write_repeated"].startswith("OTHER: ")
