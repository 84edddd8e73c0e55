"""What a page still sends while an `open` leaves it is told from what the page that is opened sends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.stage import SHOP, Stage, failed, passed

NO_NAME = (
    "document.head.append(Object.assign(document.createElement('meta'), {name: 'referrer', content: 'no-referrer'}))"
)
LATE = "setTimeout(() => fetch('/status/204?parting', {method: 'POST'}), 300)"
LOADS = "onload = () => fetch('/status/204?loading', {method: 'POST'})"


@pytest.mark.parametrize("named", [True, False], ids=["named", "not-named"])
@pytest.mark.sampled(1)
def test_what_the_page_that_is_left_still_sends_is_of_the_act_before(run: Any, stage: Stage, named: bool) -> None:
    async def body() -> dict[str, bool]:
        session = await stage.at("/saved")
        page = session.tab.page
        await page.add_init_script(LOADS)
        await session.take_settled()
        await page.set_content(f'<button onclick="{"" if named else NO_NAME};{LATE}">Go</button>')
        await passed(session, {"act": "click", "selector": "button"})
        await failed(session, {"act": "open", "url": f"http://{SHOP}/hang"})
        parting = await session.take_settled()
        await passed(session, {"act": "open", "url": f"http://{SHOP}/status/200"})
        await passed(session, {"act": "wait", "value": 0.5})
        sent = [*parting, *await session.take_settled()]
        return {each.url.partition("?")[2]: each.before for each in sent if each.method == "POST"}

    assert run(body()) == {"parting": True, "loading": False}


def test_what_a_click_sends_is_its_own(run: Any, stage: Stage) -> None:
    async def body() -> list[bool]:
        session = await stage.at("/saved")
        await session.tab.page.set_content(f'<button onclick="{LATE}">Go</button>')
        await session.take_settled()
        await passed(session, {"act": "click", "selector": "button"})
        await passed(session, {"act": "wait", "value": 0.5})
        return [each.before for each in await session.take_settled() if each.method == "POST"]

    assert run(body()) == [False]
