"""What an agent sees, and that it can act on it."""

from __future__ import annotations

import re
import time

import pytest

from harness.recovery.failure import Failed
from tests.browser.moments import LOADED
from tests.browser.stage import DEAD, SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")


def ref(aria: str, name: str) -> str:
    """The selector of the element with this accessible name."""
    found = re.search(rf'"{name}"[^\n]*\[ref=(\w+)\]', aria)
    assert found, aria
    return f"aria-ref={found[1]}"


async def test_elements_can_be_used_by_their_ref(stage: Stage) -> None:
    session = await stage.at()
    seen = await session.observe(5, screenshot=False)
    assert (seen.url, seen.title, seen.last, seen.screenshot) == (f"http://{SHOP}/", "Form", None, None)
    await passed(session, {"act": "click", "selector": ref(seen.aria, "Plain")})
    assert await session.text("#out", None, 1) == "clicked"
    await passed(session, {"act": "type", "selector": ref(seen.aria, "Your name"), "value": "Ada"})
    assert await session.text("#name", None, 1) == "Ada"
    inside = ref(seen.aria, "In")
    assert re.fullmatch(r"aria-ref=f\d+e\d+", inside)
    await passed(session, {"act": "click", "selector": inside})
    assert await session.text("#in", "#inner", 1) == "pressed"
    assert "pressed" in (await session.observe(5, screenshot=False)).aria


async def test_pages_dialogs_and_a_picture(stage: Stage) -> None:
    session = await stage.at()
    async with session.tab.context.expect_page() as coming:
        await passed(session, {"act": "click", "selector": "#popup"})
    await (await coming.value).wait_for_load_state()
    await passed(session, {"act": "click", "selector": "#alert"})
    seen = await session.observe(5, screenshot=True)
    assert seen.pages == (f"http://{SHOP}/", f"http://{SHOP}/popup")
    assert seen.page == 0
    assert [(each["type"], each["message"]) for each in seen.dialogs] == [("alert", "really?")]
    assert seen.screenshot is not None
    assert seen.screenshot.startswith(b"\x89PNG")
    assert list((stage.folder / "s0").glob("*.png")) == [], "no file is left"
    assert session.files == ()


@pytest.mark.thorough
async def test_an_empty_page_can_be_seen(stage: Stage) -> None:
    seen = await (await stage.session()).observe(5, screenshot=False)
    assert (seen.url, seen.pages) == ("about:blank", ("about:blank",))


@pytest.mark.thorough
async def test_the_page_that_comes_is_seen(stage: Stage) -> None:
    session = await stage.at()
    await session.tab.page.evaluate("setTimeout(() => { location.href = '/saved' }, 0); undefined")
    await session.tab.page.wait_for_event("request")
    seen = await session.observe(5, screenshot=False)
    assert (seen.url, seen.title) == (f"http://{SHOP}/saved", "Saved")


async def test_what_a_page_fetches_is_seen(stage: Stage) -> None:
    """The data comes later than the page, and must not come after the look."""
    session = await stage.at()
    async with session.tab.page.expect_request("**/saved"):
        await session.tab.page.evaluate("fetch('/saved').then(() => document.title = 'fetched'); undefined")
    assert (await session.observe(5, screenshot=False)).title == "fetched"


@pytest.mark.thorough
async def test_a_page_that_fetches_for_ever_is_seen_all_the_same(stage: Stage) -> None:
    session = await stage.at()
    async with session.tab.page.expect_request("**/hang"):
        await session.tab.page.evaluate("fetch('/hang'); undefined")
    assert (await session.observe(5, screenshot=False)).url == f"http://{SHOP}/"


@pytest.mark.thorough
async def test_the_error_page_of_the_browser_can_be_seen(stage: Stage) -> None:
    session = await stage.at()
    await failed(session, {"act": "open", "url": f"http://{DEAD}/"}, within=3)
    seen = await session.observe(5, screenshot=True)
    assert seen.url.startswith("chrome-error:")
    assert seen.screenshot is not None


async def test_a_server_that_never_answers_ends_the_look_in_time(stage: Stage) -> None:
    session = await stage.at()
    await session.tab.page.evaluate("setTimeout(() => { location.href = '/hang' }, 0); undefined")
    await session.tab.page.wait_for_event("request")
    started = time.monotonic()
    with pytest.raises(Failed) as raised:
        await session.observe(0.5, screenshot=False)
    assert raised.value.failure.type == "timeout_step"
    assert time.monotonic() - started < 0.5 + 0.5 + LOADED


async def test_what_password_fields_contain_is_not_seen(stage: Stage) -> None:
    """An agent may send what it sees to a provider, and recordings keep it."""
    fields = """<input type=password aria-label=Plain value=pw-1111><input type=password placeholder=Held value=pw-2222>
        <input type=password aria-label="In: quotes" value="#pw: &quot;3\\3&quot;"><input aria-label=Shown value=seen>
        <iframe srcdoc="<input type=password aria-label=Inside value=pw-4444>"></iframe>"""
    session = await stage.at()
    await session.tab.page.set_content(fields)
    await session.tab.page.frame_locator("iframe").locator("input").wait_for()
    aria = (await session.observe(5, screenshot=False)).aria
    assert all(each not in aria for each in ("pw-1111", "pw-2222", "#pw", "pw-4444")), aria
    assert aria.count("[redacted]") == 4, aria
    assert ": seen" in aria
