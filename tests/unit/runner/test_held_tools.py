"""A command that only tries tasks calls no tool that writes."""

from __future__ import annotations

import asyncio

import pytest

from harness.model.ports import ToolBox
from harness.model.tools import ToolRequest
from harness.recovery.failure import Failed
from harness.runner.toolbox import ReadingToolBox
from harness.spec.step_base import EffectClass
from harness.spec.steps import Tool
from tests.unit.engine.test_agent_tools import FakeToolBox


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_tools_that_do_not_write_are_called(effect: EffectClass) -> None:
    inner = FakeToolBox()
    tools: ToolBox = ReadingToolBox(inner)
    answer = asyncio.run(tools.call(ToolRequest("shop", "get_order", {}, effect), 5))
    assert (answer.document, inner.called) == ({"status": "confirmed"}, [("shop.get_order", effect)])
    asyncio.run(tools.learn(1))
    assert tools.offered() == inner.offered()
    assert asyncio.run(tools.effect_of(Tool(server="shop", tool="get_order"), 1)) == "read"


def test_one_that_writes_is_not_called() -> None:
    inner = FakeToolBox()
    with pytest.raises(Failed) as told:
        asyncio.run(ReadingToolBox(inner).call(ToolRequest("shop", "place_order", {}, "write"), 5))
    failure = told.value.failure
    assert (failure.code, failure.effect.value, inner.called) == ("POLICY_WRITE", "none", [])
    assert failure.message == "The tool shop.place_order writes, so it was not called"
    assert failure.hint is not None
    assert "`--yes`" in failure.hint
