"""The scripted agent is a function of the history's length."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from harness.agents import ScriptedAgent
from harness.model.plan import Plan
from harness.model.ports import Observe
from harness.model.record import History


def test_plays_back_the_steps_in_order_and_again_after_a_rewind() -> None:
    plan = cast("Plan", SimpleNamespace(steps=("open", "click", "submit")))

    def propose(done: int) -> Any:
        return asyncio.run(ScriptedAgent().propose(plan, cast("History", (None,) * done), cast("Observe", None)))

    assert [propose(done) for done in (0, 1, 2, 1, 3, 4)] == ["open", "click", "submit", "click", None, None]
