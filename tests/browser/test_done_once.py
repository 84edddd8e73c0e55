"""An act that was done is not done again: its state is looked for, and a failure says that it was done."""

from __future__ import annotations

from typing import Any

import pytest

from harness.criteria import PageQuery
from harness.recovery.catalog import Effect
from tests.browser.stage import Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")
BOX = """(late) => {
  const box = document.createElement('div');
  Object.assign(box, {id: 'box', role: 'checkbox', textContent: 'Box', ariaChecked: 'false', clicks: 0});
  const tick = () => { box.ariaChecked = 'true' };
  box.onclick = () => { box.dataset.clicks = ++box.clicks; if (late >= 0) setTimeout(tick, late) };
  document.body.prepend(box);
}"""


def test_a_box_that_a_script_ticks_later_is_clicked_once(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        await session.tab.page.evaluate(BOX, 400)
        await passed(session, {"act": "check", "selector": "#box"})
        await passed(session, {"act": "check", "selector": "#box"})
        assert await session.read(PageQuery("attr", "#box", "data-clicks"), 5) == "1"

    run(body())


def test_a_box_that_does_not_change_was_clicked(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        await session.tab.page.evaluate(BOX, -1)
        failure = await failed(session, {"act": "check", "selector": "#box"}, within=8, patience=0.5)
        assert (failure.code, failure.effect) == ("ACTION_FAILED", Effect.DONE)
        assert failure.message == "#box was clicked, and is still unchecked"
        assert await session.read(PageQuery("attr", "#box", "data-clicks"), 5) == "1"

    run(body())
