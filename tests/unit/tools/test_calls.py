"""The table of B3, row by row: which call is sent again, when, and what the task is told in the end."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.events import Event, ResilienceActed, ToolAnswered, ToolCalled
from harness.model.tools import ToolAnswer, ToolState
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure
from harness.resilience.events import InvariantBroken, Retrying
from harness.tools.box import BoxTerms, TaskToolBox
from harness.tools.exchange import ServerDied, ToolProblem
from tests.unit.conftest import examples
from tests.unit.resilience.virtual import LoopClock, play
from tests.unit.tools.scripted_server import (
    GET,
    HTTP,
    PLACE,
    STDIO,
    Shop,
    World,
    called,
    plan_with,
    problem,
    request,
)

pytestmark = pytest.mark.fake_clock

EFFECTS = ("read", "idempotent", "write")
P = ToolProblem
NOTHING, MAYBE = Effect.NONE, Effect.POSSIBLE
TABLE: list[tuple[ToolProblem, str, tuple[int, int, int], tuple[Effect, Effect, Effect], ToolState]] = [
    # problem, code, tries and effect for read, idempotent, write; state in the end
    (P.UNREACHED, "TOOL_UNAVAILABLE", (4, 4, 4), (NOTHING, NOTHING, NOTHING), ToolState.OFFLINE),
    (P.LOST, "TOOL_UNAVAILABLE", (4, 4, 1), (MAYBE, MAYBE, MAYBE), ToolState.OFFLINE),
    (P.SLOW, "TOOL_TIMEOUT", (4, 4, 1), (MAYBE, MAYBE, MAYBE), ToolState.ONLINE),
    (P.BUSY, "TOOL_UNAVAILABLE", (4, 4, 4), (NOTHING, NOTHING, NOTHING), ToolState.ONLINE),
    (P.UNAUTHORIZED, "TOOL_AUTH", (1, 1, 1), (NOTHING, NOTHING, NOTHING), ToolState.REQUIRES_REAUTH),
    (P.FORBIDDEN, "TOOL_AUTH", (1, 1, 1), (NOTHING, NOTHING, NOTHING), ToolState.ONLINE),
    (P.UNKNOWN_TOOL, "TOOL_UNKNOWN", (1, 1, 1), (NOTHING, NOTHING, NOTHING), ToolState.ONLINE),
    (P.INVALID_ARGUMENTS, "TOOL_INVALID", (1, 1, 1), (NOTHING, NOTHING, NOTHING), ToolState.ONLINE),
    (P.GARBLED, "TOOL_PROTOCOL", (1, 1, 1), (MAYBE, MAYBE, MAYBE), ToolState.ERROR),
]


@pytest.mark.parametrize(("kind", "code", "tries", "effects", "state"), TABLE, ids=str)
@pytest.mark.parametrize("place", [0, 1, 2], ids=EFFECTS)
async def test_each_row_of_the_table(
    kind: ToolProblem, code: str, tries: Any, effects: Any, state: ToolState, place: int
) -> None:
    shop = Shop(HTTP, World(calls=[problem(kind)]))
    box = shop.box()
    found = await called(box, request(EFFECTS[place]))
    assert isinstance(found, Failure)
    assert (found.code, found.effect) == (code, effects[place])
    assert shop.world.count("calls") == tries[place]
    waits = [after - before for before, after in pairwise(shop.world.times("calls"))]
    assert waits == pytest.approx([0.5, 1, 2][: tries[place] - 1], abs=0.01)
    assert shop.server.state is state
    (entry,) = box.calls
    assert (entry.outcome, entry.code, entry.tries) == ("failed", code, tries[place])
    assert entry.retryable == (tries[place] > 1)
    assert not shop.story.of(InvariantBroken)
    await shop.server.close()


@pytest.mark.parametrize("effect", EFFECTS)
async def test_a_server_that_cannot_be_connected_to_is_tried_four_times_for_any_effect(effect: str) -> None:
    shop = Shop(HTTP, World(opens=[problem(P.UNREACHED)]))
    found = await shop.call(effect)
    assert isinstance(found, Failure)
    assert (found.code, found.effect, found.details["tries"]) == ("TOOL_UNAVAILABLE", NOTHING, 4)
    assert shop.world.times("opens") == pytest.approx([0, 0.5, 1.5, 3.5])
    assert shop.world.effects == 0
    assert shop.states == ["connecting", "offline"]
    assert shop.recovered == 3
    await shop.server.close()


@pytest.mark.parametrize("effect", EFFECTS)
async def test_a_server_that_is_back_gets_the_call(effect: str) -> None:
    shop = Shop(HTTP, World(opens=[problem(P.UNREACHED), problem(P.UNREACHED), None]))
    assert isinstance(await shop.call(effect), ToolAnswer)
    assert shop.world.effects == 1
    assert shop.states == ["connecting", "online"]
    await shop.server.close()


@pytest.mark.parametrize(("asked", "waits"), [(7.0, [7.0]), (60.0, [60.0]), (61.0, [])])
async def test_a_busy_server_says_when_to_come_back_60_seconds_at_most(asked: float, waits: list[float]) -> None:
    shop = Shop(HTTP, World(calls=[problem(P.BUSY, retry_after=asked), None]))
    found = await shop.call("write", within=100)
    times = shop.world.times("calls")
    assert [round(after - before, 2) for before, after in pairwise(times)] == waits
    assert isinstance(found, ToolAnswer if waits else Failure)
    if isinstance(found, Failure):
        assert found.code == "TOOL_UNAVAILABLE"
        assert "more than the 60 s allowed" in found.message
    await shop.server.close()


async def test_a_wait_that_would_not_end_within_the_step_is_not_begun() -> None:
    shop = Shop(HTTP, World(calls=[problem(P.UNREACHED)]))
    found = await shop.call("read", within=1.0)
    assert isinstance(found, Failure)
    assert shop.world.count("calls") == 2
    assert "would not end before the deadline" in found.message
    await shop.server.close()


async def test_a_call_has_the_limit_of_its_tool_within_that_of_the_step() -> None:
    table = STDIO.model_copy(update={"timeouts": {"get_order": 2.0}})
    shop = Shop(table, World(calls=[50]))
    found = await shop.call("read", within=5.0)
    assert isinstance(found, Failure)
    assert found.code == "TOOL_TIMEOUT"
    times = shop.world.times("calls")
    assert times == pytest.approx([0, 2.5], abs=0.01)
    await shop.server.close()


async def test_an_answer_with_an_error_is_an_answer() -> None:
    shop = Shop(STDIO, World(calls=[ToolAnswer("no such order", is_error=True)]))
    box = shop.box()
    assert await called(box, request("write")) == ToolAnswer("no such order", is_error=True)
    (entry,) = box.calls
    assert (entry.outcome, entry.code, entry.message) == ("error", "TOOL_FAILED", "no such order")
    await shop.server.close()


async def test_a_tool_that_is_not_listed_is_called_all_the_same() -> None:
    answers: list[Any] = [None, ToolAnswer("Unknown tool: get_oder", is_error=True)]
    shop = Shop(STDIO, World(calls=answers))
    assert isinstance(await called(shop.box(), request("read", "new_tool")), ToolAnswer)
    found = await called(shop.box(), request("read", "get_oder"))
    assert isinstance(found, Failure)
    assert found.code == "TOOL_UNKNOWN"
    assert "did you mean `get_order`?" in found.message
    await shop.server.close()


async def test_arguments_that_do_not_fit_are_not_sent() -> None:
    shop = Shop()
    box = shop.box()
    found = await called(box, request("write", items=[1, "two"]))
    assert isinstance(found, Failure)
    assert found.code == "TOOL_INVALID"
    assert "`items[1]`: 'two' is not of type 'integer'" in found.message
    assert shop.world.count("calls") == 0
    assert box.calls[0].tries == 0
    assert isinstance(await called(box, request("write", items=[1, 2])), ToolAnswer)
    await shop.server.close()


async def test_a_tool_that_is_not_allowed_is_not_called() -> None:
    shop = Shop(STDIO.model_copy(update={"allow": ("get_*",)}))
    found = await shop.call("write")
    assert isinstance(found, Failure)
    assert found.code == "POLICY_TOOL"
    assert "`allow` of [tool.harness.tools.shop] does not name it" in found.message
    assert shop.world.log == []
    assert isinstance(await shop.call("read"), ToolAnswer)
    await shop.server.close()


async def test_a_dead_server_tells_its_exit_code_and_the_end_of_its_log() -> None:
    shop = Shop(STDIO, World(calls=[problem(P.LOST, died=ServerDied(3, "Traceback: boom"))]))
    box = shop.box()
    found = await called(box, request("write"))
    assert isinstance(found, Failure)
    assert (found.effect, found.details["exit_code"], found.details["stderr"]) == (MAYBE, 3, "Traceback: boom")
    assert (box.calls[0].exit_code, box.calls[0].stderr) == (3, "Traceback: boom")
    await shop.server.close()


async def test_a_call_tells_of_itself_and_of_its_tries() -> None:
    events: list[Event] = []
    shop = Shop(HTTP, World(calls=[problem(P.UNREACHED), None]))
    box = shop.box(plan_with(), events.append)
    answer = await called(box, request("read", order=7))
    assert isinstance(answer, ToolAnswer)
    assert answer.structured == {"tool": "get_order", "meta": {"world": "w1"}}
    called_, acted, recovered, ended = events
    assert isinstance(called_, ToolCalled)
    assert isinstance(acted, ResilienceActed)
    assert isinstance(acted.event, Retrying)
    assert (acted.index, acted.event.name, acted.event.delay) == (0, "tool shop.get_order", 0.5)
    assert isinstance(recovered, ResilienceActed)
    assert isinstance(ended, ToolAnswered)
    assert box.calls == (ended.call,)
    entry = ended.call
    assert (entry.id, entry.outcome, entry.tries, entry.arguments) == ("tool-1", "answered", 2, {"order": 7})
    assert entry.seconds == pytest.approx(0.5, abs=0.01)
    await shop.server.close()


async def test_a_cancelled_call_is_in_the_ledger() -> None:
    shop = Shop(STDIO, World(calls=[100]))
    box = shop.box()
    call = asyncio.create_task(called(box, request("write")))
    await asyncio.sleep(1)
    assert [entry.outcome for entry in box.calls] == ["cancelled"]
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (box.calls[0].outcome, box.calls[0].seconds, box.calls[0].tries) == ("cancelled", 1.0, 1)
    await shop.server.close()


async def test_without_resilience_a_call_is_sent_once() -> None:
    shop = Shop(HTTP, World(calls=[problem(P.BUSY), None]))
    terms = BoxTerms(LoopClock(), lambda _: None, again=False)
    box = TaskToolBox(plan_with(), {"shop": shop.settings}, lambda _: shop.server, terms)
    assert isinstance(await called(box, request("read")), Failure)
    assert (shop.world.count("calls"), box.calls[0].retryable) == (1, False)
    await shop.server.close()


PROBLEMS = st.lists(st.sampled_from([*ToolProblem, None]), min_size=1, max_size=12)


@settings(max_examples=examples(150), deadline=None)
@given(PROBLEMS, PROBLEMS, st.sampled_from(EFFECTS), st.sampled_from([HTTP, STDIO]))
def test_a_write_is_never_sent_again_after_it_may_have_taken_effect(
    opens: list[Any], calls: list[Any], effect: str, place: Any
) -> None:
    def script(kinds: list[Any]) -> list[Any]:
        return [None if kind is None else problem(kind) for kind in kinds]

    async def main() -> None:
        shop = Shop(place, World(opens=script(opens), calls=script(calls)))
        for _ in range(3):
            before = shop.world.effects
            found = await shop.call(effect)
            after = shop.world.effects - before
            if effect == "write":
                assert after <= 1
            if isinstance(found, Failure) and found.effect is NOTHING:
                assert after == 0
        await shop.server.close()
        assert shop.server.state is ToolState.STOPPED
        assert not shop.story.of(InvariantBroken)

    play(main())


async def test_effects_come_from_the_step_the_settings_the_hints_and_else_it_is_a_write() -> None:
    from harness.spec.steps import Tool

    table = STDIO.model_copy(update={"effects": {"place_*": "idempotent"}})
    shop = Shop(table)
    box = shop.box()

    async def effect(tool: str, **keys: Any) -> str:
        return await box.effect_of(Tool(server="shop", tool=tool, **keys), 10)

    assert await effect("get_order", effect="write") == "write"
    assert await effect("place_order") == "idempotent"
    assert shop.world.log == []
    assert await effect("get_order") == "read"
    assert await effect("set_order") == "idempotent"
    assert await effect("other") == "write"
    assert shop.world.count("lists") == 1
    await shop.server.close()


async def test_what_agents_are_offered_is_what_is_known_and_allowed() -> None:
    shop = Shop(STDIO.model_copy(update={"agents": True, "allow": ("get_order", "place_order")}))
    box = shop.box()
    assert box.offered() == ()
    await asyncio.sleep(1)
    assert [(each.tool, each.effect) for each in box.offered()] == [(GET, "read"), (PLACE, "write")]
    await shop.server.close()
    silent = Shop()
    assert silent.box().offered() == ()
    await box.learn(1)
    assert silent.server.state is ToolState.UNKNOWN
