"""The toolbox of a task: the page as a server, what agents wait for, unknown servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from harness.model.ports import Session
from harness.model.tool_settings import ToolServerSettings
from harness.model.tools import PAGE, ToolAnswer, ToolDescription, ToolHints, ToolRequest, ToolState
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Tool
from harness.tools.box import BoxTerms, TaskToolBox
from harness.tools.calls import ToolTry
from harness.tools.exchange import ToolProblem
from tests.unit.resilience.virtual import LoopClock, now, play
from tests.unit.tools.scripted_server import PLAN, STDIO, Shop, World, called, problem

pytestmark = pytest.mark.fake_clock

ADD = ToolDescription(
    "add_to_cart", parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
)
LOOK = ToolDescription("get_cart", hints=ToolHints(read_only=True))
BUY = ToolDescription("checkout", hints=ToolHints(consequential=True))


@dataclass
class FakePage:
    """The part of a session that has tools."""

    tools: Any = (ADD, LOOK, BUY)
    calls: list[Any] = field(default_factory=list)

    def of(self) -> FakePage:
        return self

    async def page_tools(self, within: float, awaited: str | None = None) -> tuple[ToolDescription, ...]:
        if isinstance(self.tools, Failed):
            raise self.tools
        return cast("tuple[ToolDescription, ...]", self.tools)

    async def call_page_tool(self, name: str, arguments: Mapping[str, Any], within: float, effect: str) -> ToolAnswer:
        self.calls.append((name, dict(arguments), within, effect))
        return ToolAnswer("ok")


def box_of(page: FakePage | None = None, /, **settings: ToolServerSettings) -> TaskToolBox:
    box = TaskToolBox(PLAN, settings, lambda _: Shop().server, BoxTerms(LoopClock(), lambda _: None))
    if page is not None:
        box.attach(cast("Session", page))
    return box


def of_page(tool: str, effect: Any = "write", **arguments: Any) -> ToolRequest:
    return ToolRequest(PAGE, tool, arguments, effect, step=0)


@pytest.mark.parametrize(
    ("tool", "declared", "settings", "expected"),
    [
        ("get_cart", None, {}, "write"),
        ("get_cart", None, {"get_*": "read"}, "read"),
        ("get_cart", "read", {}, "read"),
        ("checkout", "read", {"checkout": "idempotent"}, "write"),
        ("other", None, {}, "write"),
        ("other", "idempotent", {}, "idempotent"),
    ],
)
def test_what_a_page_says_of_its_tools_may_only_raise_their_effect(
    tool: str, declared: Any, settings: Any, expected: str
) -> None:
    box = box_of(FakePage(), page=ToolServerSettings(effects=settings))
    assert play(box.effect_of(Tool(server=PAGE, tool=tool, effect=declared), 5)) == expected


def test_a_page_that_cannot_be_asked_leaves_the_effect_as_declared() -> None:
    silent = FakePage(Failed(Failure("WEBMCP_MISSING", "no")))
    assert play(box_of(silent).effect_of(Tool(server=PAGE, tool="x", effect="read"), 5)) == "read"


async def test_a_tool_of_the_page_is_called_and_stands_in_the_ledger() -> None:
    page = FakePage()
    box = box_of(page, page=ToolServerSettings(timeout=7))
    assert await called(box, of_page("add_to_cart", n=2)) == ToolAnswer("ok")
    assert page.calls == [("add_to_cart", {"n": 2}, 7.0, "write")]
    wrong = await called(box, of_page("add_to_cart", n="two"))
    assert isinstance(wrong, Failure)
    assert (wrong.code, len(page.calls)) == ("TOOL_INVALID", 1)
    assert "`n`: 'two' is not of type 'integer'" in wrong.message
    assert [(entry.server, entry.tries, entry.outcome) for entry in box.calls] == [
        (PAGE, 1, "answered"),
        (PAGE, 0, "failed"),
    ]
    not_listed = await called(box, of_page("comes_later"))  # the session waits for it
    assert not_listed == ToolAnswer("ok")


def test_a_fault_strikes_the_page_too() -> None:
    async def lost(sending: ToolTry) -> ToolAnswer:
        await sending.send()
        raise problem(ToolProblem.LOST)

    page = FakePage()
    box = box_of(page)
    box.struck_by(lost)
    found = play(called(box, of_page("add_to_cart", n=1)))
    assert isinstance(found, Failure)
    assert (found.code, found.effect, len(page.calls)) == ("TOOL_UNAVAILABLE", Effect.POSSIBLE, 1)


def test_there_is_no_page_outside_a_task() -> None:
    found = play(called(box_of(), of_page("add_to_cart")))
    assert isinstance(found, Failure)
    assert found.code == "INVALID_INPUT"


def test_an_unknown_server_is_told_with_the_nearest_name() -> None:
    box = box_of(mail=STDIO)
    found = play(called(box, ToolRequest("mial", "get_code", {}, "read")))
    assert isinstance(found, Failure)
    assert found.code == "TOOL_UNKNOWN"
    assert "`mial.get_code` was not called" in found.message
    assert "did you mean `mail`?" in found.message
    assert play(box.effect_of(Tool(server="mial", tool="x"), 5)) == "write"


async def test_agents_wait_once_for_each_server_and_ask_the_page_anew() -> None:
    shop, page = Shop(STDIO.model_copy(update={"agents": True}), World(opens=[3])), FakePage()
    tables = {"shop": shop.settings, "page": ToolServerSettings(agents=True, allow=("get_*",)), "other": STDIO}
    box = TaskToolBox(PLAN, tables, lambda _: shop.server, BoxTerms(LoopClock(), lambda _: None))
    box.attach(cast("Session", page))
    await box.learn(2)
    assert (now(), [each.tool.name for each in box.offered()]) == (2, ["get_cart"])
    await box.learn(2)
    assert now() == 2
    await shop.call()
    page.tools = (BUY,)
    await box.learn(2)
    assert [each.server for each in box.offered()] == ["shop"] * 3
    await shop.server.close()
    assert shop.server.state is ToolState.STOPPED
