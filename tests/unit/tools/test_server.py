"""The supervision of a tool server: one connect for all, crashes, looks, recovery and discovery, a restart by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.tools import ToolAnswer, ToolDescription, ToolState
from harness.recovery.failure import Failed, Failure
from harness.resilience.events import InvariantBroken, ToolServerChanged
from harness.tools.exchange import ServerDied, ToolProblem
from harness.tools.server import PERMANENT, TRANSITIONS, Sign
from tests.unit.conftest import examples
from tests.unit.resilience.virtual import now, play
from tests.unit.tools.scripted_server import GET, HTTP, PLACE, STDIO, TOOLS, Shop, World, problem

pytestmark = pytest.mark.fake_clock

P = ToolProblem
NEW = ToolDescription("new_tool")


def died(kind: ToolProblem = P.UNREACHED) -> Any:
    return problem(kind, died=ServerDied(1, "no module named mail"))


def names(shop: Shop) -> list[str]:
    return [tool.name for tool in shop.server.catalogue.tools]


# Connecting.


async def test_nothing_is_connected_before_the_first_use_and_then_once_for_all() -> None:
    shop = Shop(STDIO, World(opens=[3]))
    await asyncio.sleep(1000)
    assert shop.world.log == []
    answers = await asyncio.gather(*(shop.call() for _ in range(20)))
    assert all(isinstance(each, ToolAnswer) for each in answers)
    assert (shop.world.count("opens"), shop.world.count("lists"), shop.world.count("calls")) == (1, 1, 20)
    await shop.server.close()


async def test_a_server_that_is_not_ready_in_time_for_the_step_is_so_for_the_next() -> None:
    shop = Shop(STDIO, World(opens=[3]))
    found = await shop.call("write", within=2)
    assert isinstance(found, Failure)
    assert found.code == "TOOL_UNAVAILABLE"
    assert "it was not ready within 2 s" in found.message
    assert isinstance(await shop.call("write", within=2), ToolAnswer)
    assert shop.world.count("opens") == 1
    await shop.server.close()


async def test_what_cannot_be_connected_to_here_is_said_at_once_and_not_tried_again() -> None:
    shop = Shop(STDIO, World(opens=[Failed(Failure("TOOL_AUTH", "the variable TOKEN is not set"))]))
    found = await shop.call("read")
    assert isinstance(found, Failure)
    assert found.code == "TOOL_AUTH"
    assert (now(), shop.world.count("opens"), shop.server.state) == (0, 1, ToolState.OFFLINE)
    await shop.server.close()


# Crashes.


async def test_the_third_crash_within_five_minutes_is_permanent_until_a_restart_by_hand() -> None:
    shop = Shop(STDIO, World(opens=[died(), died(), died(), None]))
    found = await shop.call("read")
    assert isinstance(found, Failure)
    assert found.code == "TOOL_UNAVAILABLE"
    assert "crashed three times within five minutes" in found.message
    assert "harness tools restart shop" in found.hint
    assert not found.retryable
    assert (found.details["exit_code"], found.details["stderr"]) == (1, "no module named mail")
    assert shop.world.times("opens") == [0, 0, 0]
    assert shop.states == ["connecting", "restarting", "permanently_failed"]
    assert shop.story.of(ToolServerChanged)[-1].reason == "crash_3"
    again = await shop.call("read")
    assert isinstance(again, Failure)
    assert (now(), shop.world.count("opens"), again.details["tries"]) == (0, 3, 0)
    shop.server.restart()
    assert isinstance(await shop.call("read"), ToolAnswer)
    assert shop.states[-2:] == ["connecting", "online"]
    assert shop.server.crashes == 0
    await shop.server.close()


async def test_a_process_that_dies_unasked_is_started_at_once_and_counted() -> None:
    shop = Shop()
    await shop.call()
    for crash in (1, 2):
        shop.world.connections[-1].die()
        await asyncio.sleep(1)
        assert (shop.server.state, shop.server.crashes) == (ToolState.ONLINE, crash)
    shop.world.connections[-1].die()
    await asyncio.sleep(1)
    assert shop.server.state is ToolState.PERMANENTLY_FAILED
    assert shop.world.count("opens") == 3
    await shop.server.close()


async def test_crashes_are_forgotten_after_five_minutes_and_intended_ones_do_not_count() -> None:
    shop = Shop(STDIO.model_copy(update={"health_interval": 0}))
    await shop.call()
    for _ in range(5):
        shop.world.connections[-1].die()
        await asyncio.sleep(200)
    for _ in range(5):
        shop.world.connections[-1].die(intended=True)
        await asyncio.sleep(1)
    for _ in range(5):
        shop.server.intend_death()
        shop.world.connections[-1].die()
        await asyncio.sleep(1)
    assert shop.server.state is ToolState.ONLINE
    await shop.server.close()


async def test_the_end_of_a_dead_process_delays_no_call() -> None:
    shop = Shop(STDIO, World(calls=[problem(P.LOST, died=ServerDied(3, "")), None]))
    assert isinstance(await shop.call(), ToolAnswer)
    assert now() == pytest.approx(0.5, abs=0.01)  # closing takes 4 s
    await shop.server.close()
    assert shop.world.closed == 2


# Recovery and discovery.


async def test_20_calls_after_a_kill_are_answered_and_their_server_lists_its_tools_once() -> None:
    shop = Shop()
    await shop.call()
    shop.world.calls, shop.world.lists = [*[50] * 20, None], [(*TOOLS, NEW)]
    calls = [asyncio.create_task(shop.call()) for _ in range(20)]
    await asyncio.sleep(1)
    shop.world.connections[-1].die()
    assert all(isinstance(each, ToolAnswer) for each in await asyncio.gather(*calls))
    await asyncio.sleep(1)
    assert (shop.world.count("opens"), shop.world.count("lists")) == (2, 2)
    assert "new_tool" in names(shop)
    assert shop.server.crashes == 1
    await shop.server.close()


@pytest.mark.parametrize("why", [P.BUSY, P.GARBLED, P.UNKNOWN_TOOL])
async def test_a_discovery_that_fails_leaves_the_old_tools_and_is_tried_again_at_the_next_look(why: P) -> None:
    shop = Shop(HTTP, World(lists=[TOOLS, problem(why), (*TOOLS, NEW)]))
    await shop.call()
    shop.world.calls = [problem(P.LOST), None]
    assert isinstance(await shop.call(), ToolAnswer)
    await asyncio.sleep(1)
    assert shop.server.catalogue.stale
    assert names(shop) == [tool.name for tool in TOOLS]
    assert isinstance(await shop.call(), ToolAnswer)
    await asyncio.sleep(1)
    assert shop.world.count("lists") == 2
    await asyncio.sleep(10)
    assert not shop.server.catalogue.stale
    assert "new_tool" in names(shop)
    await shop.server.close()


async def test_a_slow_discovery_delays_no_answer_and_ends_after_five_seconds() -> None:
    shop = Shop(HTTP, World(lists=[TOOLS, 60]))
    await shop.call()
    shop.world.calls = [problem(P.UNREACHED), None]
    began = now()
    assert isinstance(await shop.call("write"), ToolAnswer)
    assert now() - began == pytest.approx(0.5, abs=0.01)
    await asyncio.sleep(0.1)
    began = now()
    await asyncio.gather(*(shop.call() for _ in range(5)))
    assert now() - began < 0.1
    await asyncio.sleep(5.1)
    assert shop.server.discovery.problem == "no answer within 5 s"
    assert shop.server.catalogue.tools == TOOLS
    assert shop.world.count("lists") == 2
    await shop.server.close()


async def test_an_empty_list_empties_no_catalogue() -> None:
    shop = Shop(HTTP, World(lists=[TOOLS, ()]))
    await shop.call()
    shop.world.connections[-1].events.tools_changed()
    await asyncio.sleep(2)
    assert shop.world.count("lists") == 2
    assert shop.server.catalogue.tools == TOOLS
    await shop.server.close()


async def test_changes_of_the_list_are_collected_for_half_a_second() -> None:
    shop = Shop(HTTP, World(lists=[TOOLS, (GET, NEW), (NEW,)]))
    await shop.call()
    for _ in range(10):
        shop.world.connections[-1].events.tools_changed()
        await asyncio.sleep(0.01)
    await asyncio.sleep(1)
    assert names(shop) == ["get_order", "new_tool"]
    assert shop.world.times("lists") == pytest.approx([0, 0.5], abs=0.01)
    shop.world.connections[-1].events.tools_changed()
    await asyncio.sleep(1)
    assert names(shop) == ["new_tool"]
    assert isinstance(await shop.call("read"), ToolAnswer)  # it is gone, and called all the same
    await shop.server.close()


async def test_arguments_are_not_refused_by_a_list_that_is_stale() -> None:
    shop = Shop(HTTP, World(lists=[TOOLS, problem(P.BUSY)]))
    assert isinstance(await shop.call("write", items=["two"]), Failure)
    shop.world.calls = [problem(P.LOST), None]
    await shop.call("read")
    await asyncio.sleep(0.1)
    assert isinstance(await shop.call("write", items=["two"]), ToolAnswer)
    await shop.server.close()


# Looks.


async def test_it_is_looked_at_only_while_nothing_was_called() -> None:
    shop = Shop(HTTP.model_copy(update={"health_interval": 10}))
    for _ in range(10):
        await shop.call()
        await asyncio.sleep(9)
    assert shop.world.count("looks") == 0
    shop.world.calls = [50]
    await shop.call()
    assert shop.world.count("looks") == 0
    await asyncio.sleep(35)
    assert shop.world.count("looks") == 3
    await shop.server.close()


async def test_with_an_interval_of_0_it_is_not_looked_at() -> None:
    shop = Shop(HTTP.model_copy(update={"health_interval": 0}))
    await shop.call()
    await asyncio.sleep(1000)
    assert shop.world.count("looks") == 0
    await shop.server.close()


async def test_a_look_finds_that_it_is_gone_and_that_it_is_back() -> None:
    shop = Shop(HTTP, World(lists=[TOOLS, (*TOOLS, NEW)]))
    await shop.call()
    shop.world.looks, shop.world.opens = [problem(P.UNREACHED)], [problem(P.UNREACHED), problem(P.UNREACHED), None]
    await asyncio.sleep(25)
    assert shop.server.state is ToolState.OFFLINE
    assert shop.states == ["connecting", "online", "offline"]
    await asyncio.sleep(20)
    assert shop.states == ["connecting", "online", "offline", "online"]
    assert "new_tool" in names(shop)
    await shop.server.close()


@pytest.mark.parametrize(("table", "after"), [(STDIO, ["restarting", "online"]), (HTTP, ["offline"])])
async def test_a_server_that_answers_no_look_three_times_hangs(table: Any, after: list[str]) -> None:
    shop = Shop(table, World(looks=[100]))
    await shop.call()
    await asyncio.sleep(29)
    assert shop.server.state is ToolState.ONLINE
    await asyncio.sleep(18)
    assert shop.states == ["connecting", "online", *after]
    await shop.server.close()


# Refusals and orders.


async def test_refused_credentials_are_told_at_once_until_a_restart() -> None:
    shop = Shop(HTTP, World(opens=[problem(P.UNAUTHORIZED), None]))
    for _ in range(2):
        found = await shop.call("read")
        assert isinstance(found, Failure)
        assert found.code == "TOOL_AUTH"
        assert "harness tools restart shop" in found.hint
    await asyncio.sleep(100)
    assert (shop.world.count("opens"), shop.states) == (1, ["connecting", "requires_reauth"])
    shop.ordered.append(True)
    await asyncio.sleep(1)
    assert isinstance(await shop.call("read"), ToolAnswer)
    await shop.server.close()


async def test_an_order_is_heard_while_a_look_waits_for_a_server_that_hangs() -> None:
    shop = Shop(HTTP, World(looks=[problem(P.UNREACHED), None], opens=[None, 30, None]))
    await shop.call()
    await asyncio.sleep(22)  # the second look connects, for half a minute
    assert shop.world.count("opens") == 2
    shop.ordered.append(True)
    await asyncio.sleep(6)
    assert (shop.world.count("opens"), shop.server.state) == (3, ToolState.ONLINE)
    await shop.server.close()


async def test_a_process_that_was_starting_is_ended_before_a_restart_starts_another() -> None:
    shop = Shop(STDIO, World(opens=[30, None]))
    calling = asyncio.create_task(shop.call())
    await asyncio.sleep(2)
    shop.ordered.append(True)
    assert isinstance(await calling, ToolAnswer)
    first, second = shop.world.times("opens")
    assert second - first >= 2 + 4  # the end of the first takes 4 s
    await shop.server.close()
    assert shop.world.closed == 2


async def test_a_garbled_answer_is_an_error_until_a_good_one() -> None:
    shop = Shop(HTTP, World(calls=[problem(P.GARBLED), None]))
    assert isinstance(await shop.call("read"), Failure)
    assert shop.server.state is ToolState.ERROR
    assert isinstance(await shop.call("read"), ToolAnswer)
    await asyncio.sleep(1)
    assert shop.states == ["connecting", "online", "error", "online"]
    assert shop.world.count("lists") == 2
    await shop.server.close()


async def test_one_lost_request_over_http_ends_no_other_call() -> None:
    shop = Shop(HTTP, World(calls=[None, 5, problem(P.LOST), None]))
    await shop.call()
    long = asyncio.create_task(shop.call("write"))
    await asyncio.sleep(1)
    assert isinstance(await shop.call("read"), ToolAnswer)
    assert isinstance(await long, ToolAnswer)
    await asyncio.sleep(5)
    assert (shop.world.count("opens"), shop.world.closed) == (2, 1)
    await shop.server.close()


async def test_a_closed_server_refuses_calls_and_leaves_nothing() -> None:
    shop = Shop()
    await shop.call()
    shop.world.calls = [100]
    under_way = asyncio.create_task(shop.call("write"))
    await asyncio.sleep(1)
    await shop.server.close()
    assert shop.world.closed == 1
    assert isinstance(await under_way, Failure)
    assert isinstance(await shop.call(), Failure)
    assert shop.states[-1] == "stopped"
    assert not shop.story.of(InvariantBroken)


def test_every_state_knows_what_it_must() -> None:
    for state, ways in TRANSITIONS.items():
        assert Sign.CLOSED in ways
        assert state in PERMANENT or Sign.SOUGHT in ways or state is ToolState.ONLINE
    assert set(TRANSITIONS) == set(ToolState)
    assert {after for ways in TRANSITIONS.values() for after in ways.values()} == set(ToolState)


ACTS = st.lists(
    st.sampled_from(["call", "write", "die", "wait", "restart", "change", "lose", "calls", "look"]), max_size=15
)
PROBLEMS = st.lists(st.sampled_from([None, *ToolProblem]), min_size=1, max_size=6)


@settings(max_examples=examples(150), deadline=None)
@given(ACTS, PROBLEMS, PROBLEMS, PROBLEMS, PROBLEMS, st.sampled_from([STDIO, HTTP]))
def test_no_sequence_of_events_leads_to_a_sign_that_its_state_does_not_know(
    acts: list[str], opens: Any, calls: Any, lists: Any, looks: Any, table: Any
) -> None:
    def script(kinds: list[Any], well: Any = None) -> list[Any]:
        return [well if kind is None else problem(kind) for kind in kinds]

    async def act(shop: Shop, name: str) -> None:
        line = shop.world.connections[-1] if shop.world.connections else None
        match name:
            case "call" | "write":
                await shop.call("read" if name == "call" else "write", within=3)
            case "calls":
                await asyncio.gather(*(shop.call("read", within=3) for _ in range(4)))
            case "die" if line is not None and table is STDIO and not line.died:
                line.die()
            case "lose" if line is not None:
                line.events.lost(problem(P.LOST))
            case "change" if line is not None:
                line.events.tools_changed()
            case "restart":
                shop.server.restart()
            case "wait":
                await asyncio.sleep(0.3)
            case "look":
                await asyncio.sleep(12)

    async def main() -> None:
        world = World(opens=script(opens), calls=script(calls), lists=script(lists, TOOLS), looks=script(looks))
        shop = Shop(table, world)
        known = 0
        for name in acts:
            await act(shop, name)
            assert len(shop.server.catalogue.tools) >= known
            known = len(shop.server.catalogue.tools)
        await shop.server.close()
        assert shop.server.state is ToolState.STOPPED
        assert shop.story.of(InvariantBroken) == []
        assert shop.world.closed == len(shop.world.connections)

    play(main())


def test_the_tools_of_the_shop_have_the_effects_that_the_tests_say() -> None:
    assert (GET.hints.read_only, PLACE.hints.read_only) == (True, None)
