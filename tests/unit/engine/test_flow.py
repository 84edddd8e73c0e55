"""`until` repeats an act that does not write; `when` leaves a step or the steps of a group out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from harness.model.record import TaskResult
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure, Passed
from harness.reporting.telling import story_of
from harness.spec.page_handlers import Handler
from harness.spec.steps import Step
from tests.unit.fakes import Theatre, post, sending

MORE = {"act": "click", "selector": "#more", "until": "count('.row') >= 3"}
SUBMIT = {"act": "submit", "selector": "#pay"}
LAST = {"act": "click", "selector": "#last"}


def play(theatre: Theatre, *steps: dict[str, Any], **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(steps=list(steps), **spec))


def acts(theatre: Theatre) -> list[str]:
    return [step.selector for _, step, *_ in theatre.session.acts]


def code(result: TaskResult) -> str:
    assert result.failure is not None
    return result.failure.code


def test_an_act_is_repeated_with_pauses_until_its_criterion_holds() -> None:
    theatre = Theatre()
    theatre.session.page = {"count .row": lambda _: len(theatre.session.acts)}
    result = play(theatre, MORE)
    assert (result.final_state, acts(theatre), theatre.clock.time) == ("completed", ["#more"] * 3, 1.25)
    assert result.history[0].attempts[0].outcome.details["times"] == 3
    assert result.history[0].extra_attempts == 0  # a repetition is no retry


def test_the_act_is_done_at_most_so_often_and_then_fails_with_what_was_seen() -> None:
    theatre = Theatre()
    theatre.session.page = {"count .row": 0}
    result = play(theatre, {**MORE, "at_most": 2})
    assert (code(result), len(theatre.session.acts)) == ("ASSERTION_FAILED", 2)
    assert result.failure is not None
    assert result.failure.message == (
        "Assertion failed: count('.row') >= 3: after 0.75 s: count('.row') is 0, expected >= 3; "
        "`until` did not hold after 2 clicks"
    )


def test_it_ends_with_the_time_of_the_step() -> None:
    theatre = Theatre()
    theatre.session.page = {"count .row": 0}
    result = play(theatre, {**MORE, "timeout": 5})
    assert (code(result), theatre.clock.time <= 5) == ("ASSERTION_FAILED", True)


@pytest.mark.parametrize("rule", ["save_trace_and_report", "retry_after_wait"])
def test_what_is_seen_to_write_is_not_repeated(rule: str) -> None:
    theatre = Theatre()
    theatre.session.page = {"count .row": 0}
    theatre.session.script = [sending(post()), sending(post())]
    result = play(theatre, MORE, error_recovery={"on_assertion_fail": rule})
    assert (code(result), acts(theatre).count("#more")) == ("ASSERTION_FAILED", 1)
    assert result.failure is not None
    said = "after 1 click, and the act was not repeated, because it sent POST http://shop.local/order"
    assert said in result.failure.message


def test_what_is_declared_to_do_no_harm_twice_is_repeated() -> None:
    theatre = Theatre()
    theatre.session.page = {"count .row": lambda _: len(theatre.session.acts)}
    theatre.session.script = [sending(post()) for _ in range(3)]
    assert play(theatre, {**MORE, "effect": "idempotent"}).final_state == "completed"


def test_a_button_that_goes_because_the_act_took_effect_is_no_failure() -> None:
    theatre = Theatre()
    gone = Failure("ELEMENT_NOT_FOUND", "gone", effect=Effect.NONE)
    theatre.session.script = [Passed(), gone, gone]
    theatre.session.page = {"count .row": lambda _: 3 if len(theatre.session.acts) > 2 else 1}
    assert play(theatre, MORE).final_state == "completed"
    theatre.session.page = {"count .row": 1}
    theatre.session.acts.clear()
    theatre.session.script = [Passed(), gone]
    assert code(play(theatre, {**MORE, "at_most": 2})) == "ELEMENT_NOT_FOUND"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({**SUBMIT, "until": "exists('#a')"}, "a step that writes is never repeated"),
        ({**MORE, "effect": "write"}, "a step that writes is never repeated"),
        ({"act": "api", "method": "POST", "url": "/", "until": "exists('#a')"}, "a step that writes is never repeated"),
        ({**LAST, "at_most": 2}, "`at_most` goes with `until`"),
        ({"act": "scroll", "until": "#row-9"}, "to scroll on until an element is in view, write `to: #row-9`"),
    ],
)
def test_a_write_refuses_to_be_repeated(step: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TypeAdapter(Step).validate_python(step)


def test_a_step_that_is_not_due_is_skipped_without_a_warning() -> None:
    theatre = Theatre()
    theatre.session.page = {"exists #c": False}
    result = play(theatre, {**SUBMIT, "when": "exists('#c')"}, LAST)
    assert (result.final_state, result.warnings, acts(theatre)) == ("completed", (), ["#last"])
    first = result.history[0]
    assert first.left_out == "exists('#c') does not hold: no element matches '#c'"
    assert (first.passed, first.skipped, first.may_have_written) == (True, False, False)
    told = story_of(theatre.plan(steps=[{**SUBMIT, "when": "exists('#c')"}, LAST]), result).steps[0]
    assert (told.status, told.passed, told.skipped) == ("skipped", True, False)
    assert told.worked_on == "#pay (skipped: exists('#c') does not hold: no element matches '#c')"


def test_a_step_that_is_due_is_done_and_asked_once() -> None:
    theatre = Theatre()
    theatre.session.page = {"exists #c": lambda _: not theatre.session.acts}
    theatre.session.script = [Failure("ELEMENT_COVERED", "covered"), Passed()]
    result = play(theatre, {**LAST, "when": "exists('#c')"})
    assert (result.final_state, acts(theatre), result.history[0].left_out) == ("completed", ["#last"] * 2, "")


def test_a_criterion_that_could_not_be_judged_is_not_false() -> None:
    theatre = Theatre()
    theatre.session.page = {"text #c": None}
    result = play(theatre, {**LAST, "when": "text('#c') == 'open'"})
    assert (code(result), acts(theatre)) == ("ASSERTION_FAILED", [])
    assert result.failure is not None
    assert "so `when` of step 0 cannot be judged" in result.failure.message
    assert "exists('#status') && " in result.failure.hint

    def busy(_: float) -> Any:
        raise Failed(Failure("STEP_TIMEOUT", "Step timeout: exists(#c) exceeded 2s"))

    theatre.session.page = {"exists #c": busy}
    assert code(play(theatre, {**LAST, "when": "exists('#c')"})) == "STEP_TIMEOUT"
    missing = play(Theatre(), {**LAST, "when": "text('#a') == 'x ${memory.gone}'"})
    assert code(missing) == "MEMORY_MISSING"


def test_the_steps_of_a_group_are_left_out_together() -> None:
    theatre = Theatre()
    theatre.session.page = {"exists #c": lambda _: len(theatre.session.acts) == 1}
    first = {"act": "click", "selector": "#a", "guards": {"2": "exists('#c')"}}
    second = {"act": "click", "selector": "#b"}
    result = play(theatre, first, second, LAST, first, second, LAST, checkpoints=[1])
    assert acts(theatre) == ["#last", "#a", "#b", "#last"]
    assert [bool(each.left_out) for each in result.history] == [True, True, False, False, False, False]
    assert [each.index for each in result.history] == [0, 1, 2, 3, 4, 5]
    assert result.final_state == "completed"


def test_a_group_in_a_repair_is_left_out_together() -> None:
    theatre = Theatre()
    theatre.session.page = {"exists #c": False, "exists #ready": lambda _: bool(theatre.session.acts)}
    steps = [{"act": "click", "selector": "#a", "guards": {"2": "exists('#c')"}}, SUBMIT, LAST]
    rules = {"on_precondition_fail": "attempt_repair"}
    repairs = [{"steps": steps}]
    spec: dict[str, Any] = {"preconditions": ["exists('#ready')"], "repairs": repairs, "error_recovery": rules}
    assert play(theatre, LAST, **spec).final_state == "completed"
    assert acts(theatre) == ["#last", "#last"]


def rounds(items: int, expression: str = "mem('skus')") -> list[dict[str, Any]]:
    """Two steps for each item of a list, as a `use` with `for_each` brings them."""
    steps: list[dict[str, Any]] = []
    for number in range(items):
        guards = {f"{2 * (items - number)} for_each_1 {number} {items}": expression}
        steps.append({"act": "click", "selector": f"#${{memory.for_each_1[{number}]}}", "guards": guards})
        steps.append({"act": "click", "selector": "#next"})
    return steps


def test_a_group_is_done_for_each_item_of_a_list_that_is_read_when_it_is_reached() -> None:
    theatre = Theatre()
    theatre.world.entries_ = {"skus": ["a", "b"]}
    result = play(theatre, *rounds(4), LAST, checkpoints=[8])
    assert acts(theatre) == ["#a", "#next", "#b", "#next", "#last"]
    assert (result.final_state, result.warnings) == ("completed", ())
    assert [(each.index, each.left_out) for each in result.history] == [
        *((index, "") for index in range(4)),
        (4, "`for_each` has 2 items"),
        (5, "`for_each` has 2 items"),  # the rounds after it are told by none
        (8, ""),
    ]


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ({"skus": list("abcde")}, "mem('skus') has 5 items, and there are at most 4 rounds"),
        ({"skus": "a"}, "mem('skus') gives 'a', and not a list"),
        ({}, "mem('skus') gives None, and not a list"),
    ],
)
def test_what_is_no_list_or_too_long_fails_the_step(memory: dict[str, Any], said: str) -> None:
    theatre = Theatre()
    theatre.world.entries_ = dict(memory)
    result = play(theatre, *rounds(4))
    assert (code(result), acts(theatre)) == ("INVALID_INPUT", [])
    assert result.failure is not None
    assert said in result.failure.message


def test_an_empty_list_leaves_all_rounds_out() -> None:
    theatre = Theatre()
    theatre.world.entries_ = {"skus": []}
    result = play(theatre, *rounds(3), LAST)
    assert (acts(theatre), [each.index for each in result.history]) == (["#last"], [0, 1, 6])


def test_the_way_back_to_a_checkpoint_in_a_round_keeps_the_list() -> None:
    theatre = Theatre()
    theatre.world.entries_ = {"skus": ["a", "b"]}
    late = Failure("STEP_TIMEOUT", "late")
    theatre.session.script = [Passed(), Passed(), Passed(), late]
    rules = {"on_timeout": "retry_from_checkpoint"}
    result = play(theatre, *rounds(3), LAST, checkpoints=[2], error_recovery=rules)
    assert (result.final_state, acts(theatre)) == (
        "completed",
        [*("#a", "#next", "#b", "#next"), "#b", "#next", "#last"],
    )
    assert [each.index for each in result.history] == [0, 1, 2, 3, 2, 3, 4, 5, 6]


BANNER = {"when": "exists('#banner')", "steps": [{"act": "click", "selector": "#accept"}]}


def test_a_handler_is_done_before_the_step_in_whose_way_it_is_and_at_most_so_often() -> None:
    theatre = Theatre()
    theatre.session.page = {"exists #banner": True}
    result = play(
        theatre, LAST, {**LAST, "selector": "#b"}, {**LAST, "selector": "#c"}, handlers=[{**BANNER, "times": 2}]
    )
    assert acts(theatre) == ["#accept", "#last", "#accept", "#b", "#c"]
    assert (result.final_state, result.warnings, result.steps_completed) == ("completed", (), 3)
    assert [each.index for each in result.history] == [0, 0, 1, 1, 2]


def test_a_handler_is_done_when_an_act_is_covered() -> None:
    theatre = Theatre()
    covered = Failure("ELEMENT_COVERED", "covered", effect=Effect.NONE)
    theatre.session.script = [covered]
    theatre.session.page = {"exists #banner": lambda _: acts(theatre) == ["#last"]}
    rules = {"on_action_failed": "abort"}
    result = play(theatre, LAST, handlers=[BANNER], error_recovery=rules)
    assert (result.final_state, acts(theatre)) == ("completed", ["#last", "#accept", "#last"])
    theatre = Theatre()
    theatre.session.script = [covered, covered]
    theatre.session.page = {"exists #banner": False}
    assert code(play(theatre, LAST, handlers=[BANNER], error_recovery=rules)) == "ELEMENT_COVERED"
    assert acts(theatre) == ["#last"]


def test_no_handler_is_done_between_a_dialog_and_the_step_that_opens_it() -> None:
    theatre = Theatre()
    theatre.session.page = {"exists #banner": lambda _: True}
    play(theatre, {"act": "dialog"}, LAST, handlers=[BANNER])
    assert [step.act for _, step, *_ in theatre.session.acts] == ["dialog", "click"]


def test_a_failed_handler_fails_the_step_and_says_so() -> None:
    theatre = Theatre()
    theatre.session.page = {"exists #banner": True}
    theatre.session.script = [Failure("INVALID_INPUT", "no such element")]
    result = play(theatre, LAST, handlers=[BANNER])
    assert result.failure is not None
    assert result.failure.message == "no such element; it is a step of the handler of exists('#banner')"
    assert result.failed_index == 0


def test_a_handler_does_not_write() -> None:
    with pytest.raises(ValidationError, match="step 0 of the handler writes"):
        Handler.model_validate({"when": "exists('#a')", "steps": [SUBMIT]})
