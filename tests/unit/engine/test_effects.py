"""What may tell whether a write took effect: not a page or a memory that are those of before it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from harness.model.events import AttemptEnded, WriteSeen
from harness.model.record import MESSAGE, Sent, TaskResult
from harness.recovery.catalog import Effect
from harness.recovery.failure import Circumstances, Failed, Failure, Outcome, Passed
from harness.spec.loaded import Loaded
from harness.spec.source import Origin
from harness.spec.task import TaskSpec
from harness.values import replace
from tests.unit.fakes import Theatre, document, post, sending

SENT = {"url": "http://shop.local/pay", "method": "POST"}
MUTE = Failure("NET_TIMEOUT", "no answer", details=SENT, effect=Effect.POSSIBLE)
LATE = Failure("STEP_TIMEOUT", "too late")
SUBMIT: dict[str, Any] = {"act": "submit", "selector": "#pay"}
PAID = "json('env', 'order') == 'O-1'"
BACK = {"on_timeout": "retry_from_checkpoint"}


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(**spec))


def code(result: TaskResult) -> str | None:
    return result.failure.code if result.failure else None


def test_a_key_that_sent_a_form_is_not_pressed_again() -> None:
    theatre = Theatre()
    theatre.session.script = [MUTE]
    result = play(theatre, steps=[{"act": "press", "selector": "#q", "value": "Enter"}])
    assert (code(result), len(theatre.session.acts)) == ("OUTCOME_UNKNOWN", 1)


@pytest.mark.parametrize(
    "seen",
    ["exists('#order')", "title() == 'Thanks'", "mem('order') == 'O-1'", f"ALL[exists('#order'), {PAID}]"],
)
def test_what_never_saw_the_answer_cannot_say_that_nothing_happened(seen: str) -> None:
    theatre = Theatre()
    theatre.session.page["exists #order"] = False
    theatre.session.script = [MUTE]
    result = play(theatre, steps=[{**SUBMIT, "done_when": seen}])
    assert (code(result), len(theatre.session.acts)) == ("OUTCOME_UNKNOWN", 1)
    reason = (
        "its `done_when` reads the page or the memory, which are as before the step; read a channel with `json(...)`"
    )
    assert reason in str(result.failure and result.failure.message)


def test_a_page_that_shows_the_effect_is_believed() -> None:
    theatre = Theatre()
    theatre.session.page["exists #order"] = True
    theatre.session.script = [MUTE]
    result = play(theatre, steps=[{**SUBMIT, "done_when": "exists('#order')"}])
    assert (result.final_state, len(theatre.session.acts)) == ("completed", 1)


def test_what_the_page_does_not_show_says_nothing_of_a_request_beside_it() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("NET_CONNECTION_RESET", "reset", effect=Effect.POSSIBLE)]
    post = {"act": "api", "method": "POST", "url": "http://shop.local/pay", "done_when": "exists('#order')"}
    assert code(play(theatre, steps=[post])) == "OUTCOME_UNKNOWN"
    assert len(theatre.session.acts) == 1


def test_a_page_that_never_came_cannot_show_that_its_get_did_nothing() -> None:
    theatre = Theatre()
    lost = Failure("NET_EMPTY_RESPONSE", "no answer", effect=Effect.POSSIBLE)
    theatre.session.script = [sending(document("http://shop.local/order"), outcome=lost)]
    buy = {"act": "click", "selector": "#buy", "effect": "write", "done_when": "exists('#order')"}
    assert code(play(theatre, steps=[buy])) == "OUTCOME_UNKNOWN"
    assert len(theatre.session.acts) == 1


def test_what_the_old_pages_sent_on_the_way_back_is_the_doing_of_the_act_before() -> None:
    theatre = Theatre()
    theatre.session.parting = [Sent(MESSAGE, "ws://shop.local/socket")]
    theatre.session.script = [Passed(), LATE]
    wait = {"act": "wait", "selector": "#thanks"}
    click = {"act": "click", "selector": "#buy"}
    result = play(theatre, steps=[click, wait], checkpoints=[0], error_recovery=BACK)
    assert (code(result), len(theatre.session.acts)) == ("OUTCOME_UNKNOWN", 2)


@pytest.mark.parametrize("fails", [True, False])
def test_what_leaves_the_pages_twice_until_they_are_closed_is_told(fails: bool) -> None:
    theatre = Theatre()
    theatre.session.parting = [Sent("POST", "http://shop.local/order", again=1)]
    theatre.session.script = [Passed(), LATE if fails else Passed()]
    steps = [{"act": "click", "selector": "#buy"}, {"act": "wait", "selector": "#thanks"}]
    result = play(theatre, steps=steps)
    assert [each.type for each in result.warnings] == ["request_sent_twice"]
    assert [len(record.sent) for record in result.history] == [1, 0]


def test_done_when_refers_to_memory() -> None:
    theatre = Theatre()
    theatre.world.environment = {"O-1": "confirmed"}
    theatre.session.script = [MUTE]
    known = "json('env', '${memory.first}') == 'confirmed'"
    result = play(theatre, steps=[{**SUBMIT, "done_when": known}], memory={})
    assert code(result) == "MEMORY_MISSING"
    theatre.world.entries_["first"], theatre.session.script = "O-1", [MUTE]
    theatre.session.acts.clear()
    result = play(theatre, steps=[{**SUBMIT, "done_when": known}])
    assert [warning.type for warning in result.warnings] == ["effect_already_done"]
    assert len(theatre.session.acts) == 1


@pytest.mark.parametrize("seen", ["exists('#order')", "mem('order') == 'O-1'"])
def test_page_and_memory_that_were_put_back_cannot_say_that_a_write_was_undone(seen: str) -> None:
    theatre = Theatre()
    theatre.session.page |= {"text #order": "O-1", "exists #order": lambda _: not theatre.session.restored}
    theatre.session.script = [Passed(), LATE]
    write = {**SUBMIT, "done_when": seen, "remember": {"order": "text('#order')"}}
    result = play(theatre, steps=[write, {"act": "click", "selector": "#b"}], checkpoints=[0], error_recovery=BACK)
    assert (code(result), result.failed_index) == ("OUTCOME_UNKNOWN", 0)
    assert [step.act for _, step, *_ in theatre.session.acts] == ["submit", "click"]


def test_a_write_whose_value_cannot_be_read_is_not_done_again() -> None:
    theatre = Theatre()

    async def channel(name: str) -> Any:
        raise Failed(Failure("NET_CONNECTION_REFUSED", f"{name} is down"))

    theatre.world.channel = channel  # type: ignore[method-assign]
    result = play(theatre, steps=[{**SUBMIT, "remember": {"order": "json('env', 'order')"}}])
    assert (code(result), len(theatre.session.acts)) == ("OUTCOME_UNKNOWN", 1)


def test_an_act_that_was_done_is_not_done_again_because_its_memory_could_not_be_read() -> None:
    theatre = Theatre()
    answers = [Failed(Failure("CHANNEL_UNREADABLE", "away", details={"channel": "env"})), {"n": 3}]

    async def channel(name: str) -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Failed):
            raise answer
        return answer

    theatre.world.channel = channel  # type: ignore[method-assign]
    step = {"act": "click", "selector": "#inc", "remember": {"n": "json('env', 'n')"}}
    result = asyncio.run(theatre.play(steps=[step]))
    assert result.ok
    assert [done.act for _, done, *_ in theatre.session.acts] == ["click", "wait"]
    assert result.memory == {"n": 3}


OPEN: dict[str, Any] = {"act": "open", "url": "http://shop.local/order", "effect": "write"}
RETRY = {"on_network_error": {"strategy": "retry", "max_retries": 3, "retry_delay_ms": 1}}


def answered(status: int, code_: str, effect: Effect = Effect.NONE) -> Failure:
    return Failure(code_, f"HTTP {status}", details={"url": OPEN["url"], "status": status}, effect=effect)


@pytest.mark.parametrize(
    ("status", "code_"),
    [(408, "HTTP_TIMEOUT"), (429, "HTTP_RATE_LIMITED"), (500, "HTTP_SERVER_ERROR"), (503, "HTTP_UNAVAILABLE")],
)
@pytest.mark.parametrize("act", ["open", "api", "click"])
def test_only_a_declared_status_says_that_nothing_was_done(act: str, status: int, code_: str) -> None:
    done = Effect.NONE if act == "open" else Effect.DONE
    step = {
        "open": OPEN,
        "api": {"act": "api", "method": "POST", "url": OPEN["url"]},
        "click": {"act": "click", "selector": "#order", "effect": "write"},
    }[act]
    theatre = Theatre()
    theatre.session.script = [answered(status, code_, done)] * 2
    result = play(theatre, steps=[step], error_recovery=RETRY)
    assert (code(result), len(theatre.session.acts)) == ("OUTCOME_UNKNOWN", 1)
    assert result.failure is not None
    assert result.failure.details["last_code"] == code_
    theatre = Theatre()
    theatre.session.script = [answered(status, code_, done)] * 2
    result = play(theatre, steps=[{**step, "safe_statuses": [status]}], error_recovery=RETRY)
    assert (result.final_state, len(theatre.session.acts)) == ("completed", 3)


def test_done_when_outweighs_an_answer_that_says_nothing() -> None:
    theatre = Theatre()
    theatre.session.script = [answered(429, "HTTP_RATE_LIMITED")] * 2
    result = play(theatre, steps=[{**OPEN, "done_when": PAID}], error_recovery=RETRY)
    assert (result.final_state, len(theatre.session.acts)) == ("completed", 3)


def test_a_page_that_is_only_read_is_asked_for_again_whatever_it_answered() -> None:
    theatre = Theatre()
    theatre.session.script = [answered(429, "HTTP_RATE_LIMITED")] * 2
    result = play(theatre, steps=[{"act": "open", "url": OPEN["url"]}], error_recovery=RETRY)
    assert (result.final_state, len(theatre.session.acts)) == ("completed", 3)


REDIRECT = Failure("NET_TIMEOUT", "no answer", details={"url": "http://shop.local/thanks"}, effect=Effect.DONE)
"""Of the GET to which an order was redirected."""


@pytest.mark.parametrize(("effect", "acted"), [(None, 1), ("idempotent", 2)])
def test_a_click_whose_post_left_and_whose_redirect_broke_off_is_not_done_again(effect: str | None, acted: int) -> None:
    theatre = Theatre()
    theatre.session.script = [
        sending(post(page=True), document(REDIRECT.details["url"], follows=True), outcome=REDIRECT)
    ]
    step = {"act": "click", "selector": "#order"} | ({"effect": effect} if effect else {})
    result = play(theatre, steps=[step], error_recovery=RETRY)
    assert len(theatre.session.acts) == acted
    assert code(result) == ("OUTCOME_UNKNOWN" if acted == 1 else None)
    if acted == 1:
        assert "sent POST http://shop.local/order" in str(result.failure and result.failure.message)


@pytest.mark.parametrize("effect", ["read", "idempotent"])
@pytest.mark.parametrize(
    ("url", "details", "again"),
    [
        ("http://shop.local/search", {}, "submit"),
        ("http://shop.local/search", {"status": 503}, "reload"),
        ("chrome-error://chromewebdata/", {}, "reload"),
    ],
)
def test_a_form_whose_step_may_be_done_twice_is_sent_again(effect: str, url: str, details: Any, again: str) -> None:
    theatre = Theatre()
    theatre.session.url = url
    lost = replace(MUTE, effect=Effect.DONE, details={**SENT, **details})
    theatre.session.script = [sending(post(page=True), outcome=lost)]
    result = play(theatre, steps=[{**SUBMIT, "effect": effect, "status": 200}], error_recovery=RETRY)
    assert result.ok
    assert [(step.act, step.effect, step.status) for _, step, *_ in theatre.session.acts][1:] == [(again, effect, 200)]


def test_the_form_of_a_step_before_is_not_sent_again_by_one_that_may_be_done_twice() -> None:
    theatre = Theatre()
    theatre.session.url = "chrome-error://chromewebdata/"
    how = Circumstances(opened_before=True)
    lost = replace(MUTE, effect=Effect.NONE, details={**SENT, "status": 503}, circumstances=how)
    theatre.session.script = [Passed(), lost]
    play(theatre, steps=[SUBMIT, {"act": "click", "selector": "#a", "effect": "idempotent"}], error_recovery=RETRY)
    assert [step.act for _, step, *_ in theatre.session.acts] == ["submit", "click"]


@pytest.mark.parametrize("done", [True, False])
def test_done_when_decides_over_a_click_that_was_seen_to_write(done: bool) -> None:
    theatre = Theatre()
    theatre.world.environment = {"order": "O-1"} if done else {}
    late = Failure("NET_TIMEOUT", "no answer", details={"url": "http://shop.local/thanks"}, effect=Effect.DONE)
    theatre.session.script = [sending(post(), outcome=late)]
    result = play(theatre, steps=[{"act": "click", "selector": "#order", "done_when": PAID}], error_recovery=RETRY)
    assert result.ok
    assert [step.act for _, step, *_ in theatre.session.acts] == ["click"] * (1 if done else 2)


API: dict[str, Any] = {"act": "api", "method": "POST", "url": OPEN["url"], "done_when": PAID}
ORDER_IT: dict[str, Any] = {"act": "click", "selector": "#order", "done_when": PAID}
LIMIT = 10
"""Seconds of a step."""


def unanswered(method: str = "POST", *, page: bool = False) -> Sent:
    return Sent(method, "http://shop.local/order", page=page, open=True)


@pytest.mark.parametrize(
    ("step", "sent", "outcome"),
    [
        (ORDER_IT, unanswered(), MUTE),
        (SUBMIT, unanswered(page=True), MUTE),
        ({**ORDER_IT, "effect": "write"}, unanswered("GET", page=True), replace(REDIRECT, effect=Effect.POSSIBLE)),
        (API, None, MUTE),
        (API, None, Failure("BROWSER_CRASHED", "gone", effect=Effect.POSSIBLE)),
    ],
)
def test_while_a_write_has_no_answer_a_false_done_when_proves_nothing(
    step: dict[str, Any], sent: Sent | None, outcome: Failure
) -> None:
    theatre = Theatre()
    theatre.session.script = [sending(*([sent] if sent else []), outcome=replace(outcome, effect=Effect.POSSIBLE))]
    result = play(theatre, steps=[{**step, "done_when": PAID, "timeout": LIMIT}], error_recovery=RETRY, timeout=60)
    assert (code(result), len(theatre.session.acts)) == ("OUTCOME_UNKNOWN", 1)
    assert LIMIT - 1 < theatre.clock.time <= LIMIT
    failure = result.failure
    assert failure is not None
    assert " has no answer, and until then a false `done_when` proves nothing" in failure.message
    assert failure.details["unanswered"][0] in failure.hint


@pytest.mark.parametrize("step", [ORDER_IT, API])
def test_a_write_without_an_answer_that_takes_effect_a_little_later_is_not_done_again(step: dict[str, Any]) -> None:
    theatre = Theatre()

    async def channel(name: str) -> Any:
        return {"order": "O-1"} if theatre.clock.time > LIMIT / 2 else {}

    theatre.world.channel = channel  # type: ignore[method-assign]
    theatre.session.script = [sending(*([unanswered()] if step is ORDER_IT else []), outcome=MUTE)]
    result = play(theatre, steps=[{**step, "timeout": LIMIT}], error_recovery=RETRY, timeout=60)
    assert warned(result) == [("effect_already_done", 0)]
    assert len(theatre.session.acts) == 1


def test_a_write_whose_late_answer_leaves_nothing_done_is_done_again() -> None:
    theatre, sent = Theatre(), unanswered()

    async def channel(name: str) -> Any:
        sent.open = sent.open and theatre.clock.time < LIMIT / 2
        return {}

    theatre.world.channel = channel  # type: ignore[method-assign]
    theatre.session.script = [sending(sent, outcome=MUTE)]
    result = play(theatre, steps=[{**ORDER_IT, "timeout": LIMIT}], error_recovery=RETRY, timeout=60)
    assert (result.ok, len(theatre.session.acts)) == (True, 2)
    assert warned(result)[0] == ("write_repeated", 0)
    assert theatre.clock.time < LIMIT


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("first", [Passed(), MUTE])
def test_going_back_takes_nothing_back_that_has_no_answer(first: Outcome, whole: bool) -> None:
    theatre = Theatre()
    theatre.world.whole = whole
    theatre.session.script = [sending(unanswered(), outcome=first), LATE]
    wait = {"act": "wait", "selector": "#thanks"}
    rules = {**BACK, **RETRY}
    result = play(
        theatre, steps=[ORDER_IT, wait], checkpoints=[0], error_recovery=rules, timeout=120, step_timeout=LIMIT
    )
    assert (code(result), result.failed_index) == ("OUTCOME_UNKNOWN", 0)
    assert [step.act for _, step, *_ in theatre.session.acts].count("click") == 1


def test_what_leaves_while_a_step_only_looks_is_the_doing_of_the_act_before() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), sending(post(), outcome=LATE)]
    steps = [{"act": "click", "selector": "#order"}, {"act": "wait", "selector": "#done"}]
    result = play(theatre, steps=steps, checkpoints=[0], error_recovery=BACK)
    assert (code(result), len(theatre.session.acts)) == ("STEP_TIMEOUT", 2)
    assert "step 0 is a write without `done_when`" in str(result.failure and result.failure.message)
    assert "it sent POST http://shop.local/order; if it may be done twice, declare `effect: idempotent`" in str(
        result.failure
    )


def test_what_leaves_while_an_element_is_missing_is_not_the_doing_of_this_step() -> None:
    theatre = Theatre()
    missing = Failure("ELEMENT_NOT_FOUND", "no #b", "#b")
    theatre.session.script = [Passed(), sending(post(), outcome=missing)]
    steps = [{"act": "click", "selector": "#a"}, {"act": "click", "selector": "#b"}]
    result = play(theatre, steps=steps, error_recovery={"on_element_not_found": {"fallback_selectors": {"#b": ["#c"]}}})
    assert result.ok
    assert [record.wrote for record in result.history] == [True, False]


@pytest.mark.parametrize("done", [True, False])
def test_done_when_decides_whether_an_address_that_a_write_produced_is_asked_for_again(done: bool) -> None:
    theatre = Theatre()
    theatre.world.environment = {"order": "O-1"} if done else {}
    theatre.session.url = "http://shop.local/thanks"
    theatre.session.script = [sending(document(OPEN["url"]), document("http://shop.local/thanks")), LATE]
    steps = [{**OPEN, "done_when": PAID}, {"act": "wait", "selector": "#x"}]
    result = play(theatre, steps=steps, checkpoints=[1], error_recovery=BACK)
    assert len(theatre.session.restored) == (not done)
    assert code(result) == ("OUTCOME_UNKNOWN" if done else None)


def test_what_follows_a_form_by_redirect_may_be_asked_for_again() -> None:
    theatre = Theatre()
    theatre.session.url = "http://shop.local/thanks"
    theatre.session.script = [sending(post(page=True), document("http://shop.local/thanks", follows=True)), LATE]
    result = play(theatre, steps=[SUBMIT, {"act": "wait", "selector": "#x"}], checkpoints=[1], error_recovery=BACK)
    assert (code(result), len(theatre.session.restored)) == (None, 1)


def test_a_page_that_the_task_has_asked_for_by_itself_may_be_asked_for_again() -> None:
    theatre = Theatre()
    cart = "http://shop.local/cart"
    theatre.session.url = cart
    add = sending(document("http://shop.local/add?id=5"), document(cart))
    theatre.session.script = [sending(document(cart)), add, LATE]
    steps = [
        {"act": "open", "url": cart},
        {"act": "click", "selector": "#add", "effect": "write"},
        {"act": "wait", "selector": "#x"},
    ]
    result = play(theatre, steps=steps, checkpoints=[2], error_recovery=BACK)
    assert (code(result), len(theatre.session.restored)) == (None, 1)


def test_a_page_that_crashed_is_not_opened_again_at_the_address_of_a_write() -> None:
    theatre = Theatre()
    theatre.session.renewed_at = (OPEN["url"],)
    crash = Failure("PAGE_CRASHED", "crashed", tainted=True)
    theatre.session.script = [sending(document(OPEN["url"])), crash]
    result = play(theatre, steps=[OPEN, {"act": "click", "selector": "#b"}], error_recovery={})
    assert (code(result), theatre.session.renewed) == ("OUTCOME_UNKNOWN", 1)
    assert "produced http://shop.local/order: it is not requested again" in str(theatre.session.barred)


@pytest.mark.parametrize(
    ("keys", "kind", "text"),
    [
        ({"again": 1}, "request_sent_twice", "sent POST http://shop.local/pay again (1 time): the connection broke"),
        ({"asked_again": 5}, "request_sent_twice", "asked for http://shop.local/pay again (5 times): the file"),
        ({"again": None}, "request_maybe_sent_twice", "sent POST http://shop.local/pay again is unknown"),
    ],
)
def test_what_the_browser_sent_again_by_itself_is_a_warning(keys: dict[str, Any], kind: str, text: str) -> None:
    theatre = Theatre()
    again = post("http://shop.local/pay", page=True)
    for name, value in keys.items():
        setattr(again, name, value)
    theatre.session.script = [sending(again)]
    result = play(theatre, steps=[SUBMIT])
    (warning,) = result.warnings
    assert (warning.type, warning.step_index, text in warning.message) == (kind, 0, True), warning
    assert (warning.details["method"], warning.details["url"]) == ("POST", "http://shop.local/pay")


@pytest.mark.parametrize(
    ("step", "refused"),
    [
        ({"act": "open", "url": "http://shop.local/"}, True),
        ({"act": "click", "selector": "#a", "effect": "idempotent"}, True),
        ({"act": "api", "url": "http://shop.local/"}, True),
        ({"act": "click", "selector": "#a"}, False),
        (OPEN, False),
    ],
)
def test_safe_statuses_are_refused_where_nothing_is_written(step: dict[str, Any], refused: bool) -> None:
    document = {"task_id": "T-1", "goal": "g", "steps": [{**step, "safe_statuses": [503]}]}
    expected = pytest.raises(ValueError, match="add `effect: write`") if refused else nullcontext()
    with expected:
        TaskSpec.model_validate(document)


@pytest.mark.parametrize(
    ("between", "wrote"),
    [
        ({"act": "hover", "selector": "#h"}, True),
        ({"act": "type", "selector": "#t", "value": "x"}, True),
        ({"act": "type", "selector": "#t", "value": "x", "effect": "idempotent"}, False),
        ({"act": "open", "url": "http://shop.local/"}, False),
    ],
)
def test_what_leaves_late_while_a_step_types_or_hovers_is_the_doing_of_the_act_before(
    between: dict[str, Any], wrote: bool
) -> None:
    for late in (1, 2):  # during that step, and during the one after it
        theatre = Theatre()
        theatre.session.script = [Passed(), *[Passed()] * (late - 1), sending(post())]
        steps = [{"act": "click", "selector": "#order"}, between, {"act": "wait", "value": 1}]
        result = play(theatre, steps=steps)
        assert [record.wrote for record in result.history] == [wrote, False, False]


def test_a_page_that_sends_as_it_loads_is_not_asked_for_again_after_a_click_on_its_link() -> None:
    theatre = Theatre()
    page = "http://shop.local/pay"
    theatre.session.url = page
    theatre.session.script = [sending(document(page), post()), LATE]
    steps = [{"act": "click", "selector": "#link"}, {"act": "wait", "selector": "#x"}]
    result = play(theatre, steps=steps, checkpoints=[1], error_recovery=BACK)
    assert (code(result), len(theatre.session.restored)) == ("OUTCOME_UNKNOWN", 0)
    assert f"step 0 (click #link), which was seen to write, produced {page}" in str(result.failure)


@pytest.mark.parametrize(
    ("between", "done", "barred"),
    [(None, None, True), (None, True, True), (None, False, False), ({"act": "open", "url": "/"}, None, False)],
)
def test_a_field_whose_filling_wrote_is_not_filled_again(
    between: dict[str, Any] | None, done: bool | None, barred: bool
) -> None:
    theatre = Theatre()
    theatre.world.environment = {"order": "O-1"} if done else {}
    known = {} if done is None else {"done_when": PAID}
    steps = [{"act": "select", "selector": "#qty", "value": "2", **known}, *([between] if between else [])]
    theatre.session.script = [sending(post()), *[Passed()] * (len(steps) - 1), LATE]
    late = {"act": "wait", "selector": "#x"}
    play(theatre, steps=[*steps, late], checkpoints=[len(steps)], error_recovery=BACK, base_url="http://shop.local")
    (why,) = theatre.session.unfilled
    assert (why is not None) == barred
    if why is not None:
        assert why.startswith("step 0 (select #qty = '2'), which filled one of them, is a write (it sent POST")


GONE = "json('env', 'gone.order') == 'O-1'"
"""A path that never exists: this denies every order."""


def warned(result: TaskResult) -> list[tuple[str, int | None]]:
    return [(warning.type, warning.step_index) for warning in result.warnings]


@pytest.mark.parametrize("act", ["api", "click"])
def test_a_write_that_is_tried_again_only_because_done_when_was_false_is_told(act: str) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("NET_CONNECTION_RESET", "no answer", effect=Effect.POSSIBLE)]
    step = {
        "api": {"act": "api", "method": "POST", "url": OPEN["url"]},
        "click": {"act": "click", "selector": "#order", "effect": "write"},
    }[act]
    result = play(theatre, steps=[{**step, "done_when": GONE}], error_recovery=RETRY)
    assert (result.final_state, len(theatre.session.acts)) == ("completed", 2)
    assert warned(result)[0] == ("write_repeated", 0)
    assert "nothing was restored" in result.warnings[0].message
    assert result.warnings[0].details == {"done_when": GONE}


def test_a_write_that_sent_nothing_is_tried_again_without_a_word() -> None:
    theatre = Theatre()
    theatre.world.environment = {"order": "O-1"}
    theatre.session.script = [Failure("NET_CONNECTION_REFUSED", "refused")]
    result = play(theatre, steps=[{**SUBMIT, "done_when": PAID}], error_recovery=RETRY)
    assert (len(theatre.session.acts), warned(result)) == (2, [("network_error_recovered", 0)])


@pytest.mark.parametrize("whole", [True, False])
def test_a_write_that_passed_and_is_done_again_after_going_back_is_told(whole: bool) -> None:
    theatre = Theatre()
    theatre.world.whole = whole
    theatre.session.script = [lambda _: theatre.world.environment.update(order="O-1") or Passed(), LATE]
    steps = [{**SUBMIT, "done_when": GONE}, {"act": "click", "selector": "#b"}]
    result = play(theatre, steps=steps, checkpoints=[0], error_recovery=BACK)
    assert (result.final_state, len(theatre.session.acts)) == ("completed", 4)
    assert (("write_repeated", 0) in warned(result)) is not whole
    assert warned(result)[0] == ("done_when_false_after_write", 0)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (PAID, False),
        (GONE, True),
        (f"EVENTUALLY({GONE})", False),
        ("exists('#order')", False),
        ("json('none', 'order') == 1", False),
    ],
)
def test_a_done_when_that_denies_a_write_that_has_passed_is_told(seen: str, told: bool) -> None:
    theatre = Theatre()

    async def channel(name: str) -> Any:
        if name == "none":
            raise Failed(Failure("CHANNEL_UNREADABLE", "away"))
        return {"order": "O-1"} if theatre.clock.time > 1 else {}  # the request is under way for a moment

    theatre.world.channel = channel  # type: ignore[method-assign]
    theatre.session.page["exists #order"] = False
    result = play(theatre, steps=[{**SUBMIT, "done_when": seen}])
    assert result.ok
    assert warned(result) == ([("done_when_false_after_write", 0)] if told else [])
    assert theatre.clock.time <= 2.5


@pytest.mark.parametrize("when", ["opening", "later"])
def test_what_a_page_sent_as_it_was_left_is_the_doing_of_the_act_before_the_open(when: str) -> None:
    theatre = Theatre()
    beacon = Sent("POST", "http://shop.local/order", before=True)
    sends = sending(beacon)
    theatre.session.script = [Passed(), *([sends, Passed()] if when == "opening" else [Passed(), sends]), LATE]
    steps: list[dict[str, Any]] = [
        {"act": "click", "selector": "#buy"},
        {"act": "open", "url": "http://shop.local/thanks"},
        {"act": "wait", "value": 0},
        {"act": "click", "selector": "#c"},
    ]
    result = play(theatre, steps=steps, checkpoints=[0], error_recovery=BACK)
    assert result.failure is not None
    assert "step 0 is a write without `done_when`" in result.failure.message
    assert "(it sent POST http://shop.local/order;" in result.failure.message
    assert [record.sent for record in result.history[:2]] == [(beacon,), ()]


CLICK: dict[str, Any] = {"act": "click", "selector": "#a"}
LOOK: dict[str, Any] = {"act": "wait", "value": 1}
TYPED: dict[str, Any] = {"act": "type", "selector": "#q", "value": "tea"}


@pytest.mark.parametrize(
    ("steps", "sends", "seen"),
    [
        ([CLICK], [0], [0]),
        ([CLICK, LOOK], [1], [1]),  # it left late, because of the click
        ([CLICK, TYPED, LOOK], [2], [2]),
        ([{**CLICK, "effect": "idempotent"}, LOOK], [0, 1], []),
        ([LOOK], [0], []),
        ([TYPED], [0], []),  # suggestions
        ([CLICK, {**TYPED, "effect": "idempotent"}], [1], []),
        ([{"act": "open", "url": "http://shop.local/"}, LOOK], [0, 1], []),
    ],
)
def test_a_request_that_writes_is_told_of_before_its_step_ends(
    steps: list[dict[str, Any]], sends: list[int], seen: list[int]
) -> None:
    theatre = Theatre()
    theatre.session.script = [sending(post()) if number in sends else Passed() for number in range(len(steps))]
    play(theatre, steps=steps)
    told = [(type(each), each.index) for each in theatre.events if isinstance(each, AttemptEnded | WriteSeen)]
    assert [index for kind, index in told if kind is WriteSeen] == seen
    for index in seen:
        assert told.index((WriteSeen, index)) < told.index((AttemptEnded, index))


def test_what_left_the_page_before_belongs_to_the_act_before() -> None:
    theatre, opens = Theatre(), {"act": "open", "url": "http://shop.local/"}
    theatre.session.script = [Passed(), sending(Sent("POST", "http://shop.local/log", before=True))]
    play(theatre, steps=[CLICK, opens])
    assert [event.index for event in theatre.events if isinstance(event, WriteSeen)] == [1]


def test_the_writes_of_an_alternative_task_are_those_of_its_task() -> None:
    theatre = Theatre()
    spec = TaskSpec.model_validate({"task_id": "T-2", "steps": [CLICK]})
    theatre.find = {"T-2": Loaded(spec, Path("T-2"), Origin("T-2"))}.get
    theatre.session.script = [Failure("INVALID_INPUT", "no"), sending(post())]
    play(theatre, steps=[CLICK], fallback_plan={"enabled": True, "alternative_task_id": "T-2"})
    assert [event.plan.task_id for event in theatre.events if isinstance(event, WriteSeen)] == ["T-1"]
