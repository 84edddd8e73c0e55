"""What may tell whether a write took effect: not a page or a memory that are those of before it (DESIGN 4.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.failure import Effect, Failed, Failure, Passed
from harness.record import TaskResult
from tests.unit.fakes import Theatre

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
    assert "its `done_when` asks the page or the memory" in str(result.failure and result.failure.message)


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
