"""Opening, reading, renewing and ending a session in real Chromium."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.criteria import PageQuery
from harness.recovery.failure import Failed, Failure
from tests.browser.hosts import Host
from tests.browser.stage import EVIL, OTHER, SHOP, Stage, failed, passed

LOST = Failure("BROWSER_UNRESPONSIVE", "silent", tainted=True)

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.thorough
async def test_open_goes_to_the_mapped_host(stage: Stage) -> None:
    session = await stage.session()
    outcome = await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})
    assert outcome.details["status"] == 200
    assert session.url == f"http://{SHOP}/saved"
    assert await session.read(PageQuery("title"), 1) == "Saved"


async def test_relative_urls_need_a_base(stage: Stage) -> None:
    session = await stage.session(base_url=f"http://{SHOP}/")
    await passed(session, {"act": "open", "url": "/saved"})
    assert session.url == f"http://{SHOP}/saved"
    without = await stage.session()
    assert (await failed(without, {"act": "open", "url": "/saved"})).code == "INVALID_INPUT"


async def test_user_agent_reaches_fetch(stage: Stage) -> None:
    session = await stage.at("/fetch", world="abc-7")
    text = ""
    for _ in range(50):
        text = str(await session.text("#a", None, 1))
        if text:
            break
        await asyncio.sleep(0.02)
    assert session.user_agent.endswith(" harness-world/abc-7")
    assert session.user_agent in text


async def test_date_starts_where_asked_and_timers_run(stage: Stage) -> None:
    session = await stage.at("/tick", start=datetime(2024, 2, 3, 4, 5, tzinfo=UTC))
    await passed(session, {"act": "wait", "value": 0.5})
    assert int(str(await session.text("#n", None, 1))) > 2
    page = session.tab.page
    assert (await page.evaluate("new Date().toISOString()")).startswith("2024-02-03T04:05:0")
    assert await page.evaluate(
        "(async () => {const a = Date.now(); await new Promise(r => setTimeout(r, 60));return Date.now() > a})()"
    )


async def test_page_functions(stage: Stage) -> None:
    session = await stage.at()
    await passed(session, {"act": "type", "selector": "#name", "value": "Ada"})
    cases: list[tuple[str, str | None, str | None, Any]] = [
        ("exists", "#out", None, True),
        ("exists", "#none", None, False),
        ("text", "#out", None, "nothing"),
        ("text", "#none", None, None),
        ("value", "#name", None, "Ada"),
        ("attr", "#name", "aria-label", "Your name"),
        ("attr", "#name", "absent", None),
        ("count", ".dup", None, 2),
        ("count", "#none", None, 0),
        ("visible", "#hidden", None, False),
        ("visible", "#out", None, True),
        ("count", "//p[@class='dup']", None, 2),
        ("exists", "role=button[name='Plain']", None, True),
        ("url", None, None, f"http://{SHOP}/"),
        ("title", None, None, "Form"),
    ]
    for function, selector, name, expected in cases:
        assert await session.read(PageQuery(function, selector, name), 2) == expected, (function, selector)


@pytest.mark.thorough
async def test_a_bad_selector_is_invalid_input_everywhere(stage: Stage) -> None:
    session = await stage.at()
    for selector in ("div[", "//p[", "nosuch=engine"):
        with pytest.raises(Failed) as raised:
            await session.read(PageQuery("exists", selector), 1)
        assert raised.value.failure.code == "INVALID_INPUT", selector
        outcome = await session.text(selector, None, 1)
        assert isinstance(outcome, Failure)
        assert outcome.code == "INVALID_INPUT"
        assert (await failed(session, {"act": "click", "selector": selector})).code == "INVALID_INPUT"


@pytest.mark.thorough
async def test_text_takes_the_first_and_field_values(stage: Stage) -> None:
    session = await stage.at()
    assert await session.text(".dup", None, 1) == "one"
    await passed(session, {"act": "type", "selector": "#name", "value": "Ada"})
    assert await session.text("#name", None, 1) == "Ada"
    assert await session.text("#in", "#inner", 1) == "In"
    missing = await session.text("#nome", None, 0.2)
    assert isinstance(missing, Failure)
    assert (missing.code, missing.selector) == ("ELEMENT_NOT_FOUND", "#nome")
    assert "#name" in missing.details["similar"]


@pytest.mark.thorough
async def test_allowed_domains_hold_for_every_way_out(stage: Stage) -> None:
    session = await stage.at(allowed_domains=(SHOP,))
    before = stage.site.hits.get("/secret", 0)
    direct = await failed(session, {"act": "open", "url": f"http://{EVIL}/secret"})
    assert direct.code == "POLICY_DOMAIN"
    assert EVIL in direct.message
    hop = f"http://{SHOP}/redirect?to=http://{EVIL}/secret"
    redirected = await failed(session, {"act": "open", "url": hop})
    assert redirected.code == "POLICY_DOMAIN"
    assert EVIL in redirected.message
    api = await failed(session, {"act": "api", "url": hop})
    assert api.code == "POLICY_DOMAIN"
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    clicked = await failed(session, {"act": "click", "selector": "#elsewhere"}, within=3)
    assert (clicked.code, clicked.effect) == ("POLICY_DOMAIN", "done")
    assert EVIL in clicked.message
    assert stage.site.hits.get("/secret", 0) == before


@pytest.mark.thorough
async def test_domains_below_an_allowed_one_are_allowed(stage: Stage) -> None:
    hosts = {SHOP: stage.site.port, f"www.{SHOP}": stage.site.port}
    session = await stage.session(hosts=hosts, allowed_domains=(SHOP,))
    await passed(session, {"act": "open", "url": f"http://www.{SHOP}/saved"})


async def test_renew_keeps_cookies_storage_and_place(stage: Stage) -> None:
    session = await stage.at("/login")
    await passed(session, {"act": "open", "url": f"http://{SHOP}/forget"})
    old = session.tab.context
    assert await session.renew(LOST, 5) is None
    assert session.tab.context is not old
    assert session.url == f"http://{SHOP}/forget"
    cookies = {cookie["name"] for cookie in await session.tab.context.cookies()}
    assert cookies == {"sid", "b"}
    assert await session.tab.page.evaluate("localStorage.getItem('kept')") == "yes"


@pytest.mark.thorough
async def test_renew_keeps_the_database_and_the_session_storage(stage: Stage) -> None:
    session = await stage.at("/saved")
    page = session.tab.page
    await page.evaluate("sessionStorage.setItem('token', 'abc')")
    await page.evaluate("new Promise(r => indexedDB.open('kept', 4).onsuccess = r).then(e => e.target.result.close())")
    assert await session.renew(LOST, 5) is None
    page = session.tab.page
    assert await page.evaluate("sessionStorage.getItem('token')") == "abc"
    assert await page.evaluate("indexedDB.databases()") == [{"name": "kept", "version": 4}]
    await page.evaluate("sessionStorage.clear()")
    await page.reload()
    assert await page.evaluate("sessionStorage.length") == 0


@pytest.mark.thorough
async def test_renew_frees_a_hung_page(stage: Stage) -> None:
    session = await stage.at("/login")
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    assert (await failed(session, {"act": "click", "selector": "#loop"})).tainted
    assert await session.renew(LOST, 5) is None
    await passed(session, {"act": "click", "selector": "#plain"})
    who = await passed(session, {"act": "api", "url": f"http://{SHOP}/whoami"})
    assert "sid=s3cret" in who.details["body"]["cookie"]


async def test_renew_says_why_it_could_not(stage: Stage) -> None:
    host = Host()
    await host.start()
    session = await stage.session(hosts={SHOP: host.port})
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    await host.stop()
    failure = await session.renew(LOST, 5)
    assert failure is not None
    assert failure.code == "NET_CONNECTION_REFUSED"


@pytest.mark.thorough
async def test_sessions_do_not_share_cookies(stage: Stage) -> None:
    await stage.at("/login")
    other = await stage.session()
    who = await passed(other, {"act": "api", "url": f"http://{SHOP}/whoami"})
    assert who.details["body"]["cookie"] is None


@pytest.mark.thorough
async def test_screenshots_and_files_in_order(stage: Stage) -> None:
    session = await stage.at()
    one = await session.screenshot("../../shot", 3)
    two = await session.screenshot("../../shot", 3)
    assert one is not None
    assert two is not None
    assert session.files == (one, two)
    assert one.is_relative_to(stage.folder / "s0")
    assert one.read_bytes().startswith(b"\x89PNG")
    assert one != two


async def test_a_failed_request_is_told(stage: Stage) -> None:
    told: list[tuple[str, str]] = []
    session = await stage.session(on_request_failed=lambda url, error: told.append((url, error)))
    await failed(session, {"act": "open", "url": f"http://{OTHER}/empty"})
    assert (f"http://{OTHER}/empty", "net::ERR_EMPTY_RESPONSE") in told
