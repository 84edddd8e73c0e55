"""Reading a page while it changes: what is read was so on one of its pages."""

from __future__ import annotations

import time

import pytest

from harness.criteria import PageQuery
from tests.browser.stage import SHOP, Stage
from tests.conftest import FULL

pytestmark = pytest.mark.filterwarnings("default")
SECONDS = 3.0 if FULL else 1.5


async def test_what_every_page_has_is_there_while_they_replace_each_other(stage: Stage) -> None:
    session = await stage.at("/reloading")
    began, answers = time.monotonic(), set()
    while time.monotonic() - began < SECONDS:
        answers.add(
            (await session.read(PageQuery("exists", "#x"), 20), await session.read(PageQuery("count", "#x"), 20))
        )
    assert answers == {(True, 1)}


@pytest.mark.parametrize(("path", "selector", "text"), [("/parts", "#rest", "rest"), ("/half", "#x", "half")])
@pytest.mark.sampled(1)
async def test_a_document_that_still_arrives_is_read_once_it_is_whole(
    stage: Stage, path: str, selector: str, text: str
) -> None:
    """A click is over as soon as its page begins to come; one that never ends is read as it is."""
    session = await stage.at("/late")
    await session.tab.page.goto(f"http://{SHOP}{path}", wait_until="commit")
    assert await session.read(PageQuery("text", selector), 5) == text


@pytest.mark.thorough
async def test_what_is_not_there(stage: Stage) -> None:
    session = await stage.at("/late")
    assert await session.read(PageQuery("exists", "#never"), 5) is False
    assert await session.read(PageQuery("count", "#never"), 5) == 0


@pytest.mark.parametrize(("selector", "text"), [("#town", "Lyon"), ("#plain", "told")])
@pytest.mark.sampled(1)
async def test_what_comes_late_is_read_for_what_it_is(stage: Stage, selector: str, text: str) -> None:
    session = await stage.at("/late")
    assert await session.text(selector, None, 10) == text
