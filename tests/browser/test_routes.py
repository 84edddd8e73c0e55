"""`routes:` in a real browser: what pages, popups, frames and `api` steps get in place of a site's answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.browser.routing import Routing
from harness.recovery.failure import Failed, Failure, Passed
from harness.spec.routes import Route
from tests.browser.conftest import Run
from tests.browser.moments import until
from tests.browser.stage import DEAD, EVIL, SHOP, Stage, failed, passed, perform
from tests.browser.striking import strike

ORDERS = {"url": "**/api/orders", "method": "POST"}
ORDER = {"act": "click", "selector": "#order"}
PAGE = f"http://{SHOP}/orders"


async def routed(stage: Stage, *routes: Mapping[str, Any], memory: Mapping[str, Any] | None = None) -> Any:
    routing = await Routing.of([Route.model_validate(each) for each in routes], stage.folder, lambda: memory or {})
    routing.begin_step(0)
    return routing


async def at_orders(stage: Stage, routing: Any, **fields: Any) -> PlaywrightSession:
    session = await stage.session(routing=routing, **fields)
    await passed(session, {"act": "open", "url": PAGE})
    return session


async def shown(session: PlaywrightSession, complete: str) -> str:
    """What the page shows, once it has seen `complete`."""
    await passed(session, {"act": "wait", "selector": "#out", "value": complete})
    found = await session.text("#out", None, 5)
    assert isinstance(found, str)
    return found


async def test_a_route_answers_in_place_of_the_site_and_the_request_is_no_write(stage: Stage) -> None:
    answer = {"id": "${memory.order}", "n": "${memory.count}"}
    memory = {"order": "A-1", "count": 3}
    routing = await routed(stage, {**ORDERS, "status": 201, "json": answer, "delay": 0.05}, memory=memory)
    session = await at_orders(stage, routing)
    session.take_sent()
    await passed(session, ORDER)
    assert await shown(session, "201") == '201 {"id": "A-1", "n": 3};'
    sent = session.take_sent()
    assert [(each.method, each.arrived, each.unsafe) for each in sent] == [("POST", False, False)]
    assert stage.site.hits.get("/api/orders") is None
    met = session.routes[0]
    assert (met.count, met.problem) == (1, "")
    assert met.describe().endswith(f"-> 201: answered once in step 0: POST http://{SHOP}/api/orders")
    assert [each.json["items"][0]["id"] for each in session.exchanged if each.method == "POST"] == ["pen"]


@pytest.mark.thorough
async def test_counts_go_on_in_a_new_context_and_later_requests_pass(stage: Stage) -> None:
    routing = await routed(stage, {**ORDERS, "status": 503, "times": 2}, {**ORDERS, "status": 418, "steps": [1, 2]})
    session = await at_orders(stage, routing)
    await passed(session, ORDER)
    await shown(session, "503")
    assert await session.restore(await session.save(5), 15, restart=False) == ()
    await passed(session, {"act": "click", "selector": "#both"})
    assert await shown(session, "404") == "503 ;404 <p>no such page</p>;"
    assert stage.site.hits["/api/orders"] == 1
    session.begin_step(2, lambda _: None)
    await passed(session, ORDER)
    await shown(session, "418")
    assert [(met.count, met.late) for met in session.routes] == [(2, 0), (1, 1)]
    posts = [each.status for each in session.exchanged if each.method == "POST"]
    assert posts == [503, 503, 404, 418]


async def test_a_host_that_is_not_allowed_may_be_answered_and_what_passes_is_refused(stage: Stage) -> None:
    routing = await routed(
        stage,
        {
            "url": f"http://{EVIL}/api/*",
            "body": "hello",
            "times": 1,
            "headers": {"access-control-allow-origin": "*"},
        },
        {"url": f"http://{EVIL}/page", "body": "<p id=x>page</p>", "headers": {"Content-Type": "text/html"}},
    )
    session = await at_orders(stage, routing, allowed_domains=(SHOP,))
    await passed(session, {"act": "click", "selector": "#elsewhere"})
    await shown(session, "200 hello")
    await passed(session, {"act": "click", "selector": "#elsewhere"})
    await shown(session, "failed")
    await passed(session, {"act": "open", "url": f"http://{EVIL}/page"})
    assert await session.text("#x", None, 5) == "page"
    assert (await failed(session, {"act": "open", "url": f"http://{EVIL}/other"})).code == "POLICY_DOMAIN"
    assert "/api/orders" not in stage.site.hits


@pytest.mark.thorough
async def test_a_popup_and_a_click_to_a_host_that_is_not_allowed_may_be_answered(stage: Stage) -> None:
    links = f"<a id=go href=http://{EVIL}/page>go</a><button id=pop onclick=\"window.open('http://{EVIL}/page')\">pop</button>"
    html = {"headers": {"content-type": "text/html"}}
    routing = await routed(
        stage,
        {"url": "*/orders", "body": links, **html},
        {"url": f"http://{EVIL}/page", "body": "<title>Page</title><p id=x>page</p>", **html},
    )
    session = await at_orders(stage, routing, allowed_domains=(SHOP,))
    await passed(session, {"act": "click", "selector": "#pop"})
    await passed(session, {"act": "click", "selector": "#go"})
    assert await session.text("#x", None, 5) == "page"
    await passed(session, {"act": "switch_page", "value": "Page"})
    assert stage.site.hits == {}


async def test_a_page_that_a_route_answers_or_changes_asks_its_own_host_on_loopback(stage: Stage) -> None:
    page = {"url": "*/orders", "body": "<p>answered</p>", "headers": {"content-type": "text/html"}}
    session = await at_orders(stage, await routed(stage, page, {"url": f"http://{SHOP}/", "patch": {"status": 203}}))
    for place, number in ((PAGE, 0), (f"http://{SHOP}/", 1)):
        await passed(session, {"act": "open", "url": place})
        asked = "fetch('/page').then(answer => answer.status, error => String(error))"
        assert await session.tab.page.evaluate(asked) in (200, 404), place
        assert session.routes[number].count, place


async def test_a_fault_in_the_browser_strikes_before_a_route(stage: Stage) -> None:
    session = await at_orders(stage, await routed(stage, {**ORDERS, "status": 201}))
    struck = await strike(session, lambda url: url.endswith("/api/orders"), kind="abort", url="*")
    await passed(session, ORDER)
    await shown(session, "failed")
    assert (struck.count, session.routes[0].count) == (1, 0)
    await struck.healed()
    await passed(session, ORDER)
    await shown(session, "201")


async def test_a_defect_in_the_handler_never_hangs_a_request(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await at_orders(stage, routing := await routed(stage, {**ORDERS, "status": 201}))
    monkeypatch.setattr(routing, "decide", lambda *_: 1 / 0)
    await perform(session, ORDER)
    await until(lambda: any(each.status is None and each.method == "POST" for each in session.exchanged))
    why = [await perform(session, {"act": "wait", "selector": "#out", "value": "failed"}) for _ in range(2)]
    assert any(isinstance(each, Passed) for each in why), "the page has been told"


@pytest.mark.thorough
async def test_popups_and_frames_are_answered_and_a_file_has_the_type_of_its_suffix(stage: Stage) -> None:
    (stage.folder / "popup.html").write_text("<title>Ours</title><iframe src=/inner></iframe>", "utf-8")
    routing = await routed(
        stage,
        {"url": "*/popup", "file": "popup.html"},
        {"url": "*/inner", "body": "<p id=deep>deep</p>", "headers": {"content-type": "text/html"}},
    )
    session = await at_orders(stage, routing)
    await passed(session, {"act": "click", "selector": "#window"})
    await passed(session, {"act": "switch_page", "value": "Ours"})
    assert await session.text("#deep", "iframe", 5) == "deep"


async def test_an_api_step_is_answered_too(stage: Stage) -> None:
    routing = await routed(
        stage,
        {**ORDERS, "status": 201, "json": {"id": 7}, "headers": {"Set-Cookie": "seen=yes"}, "times": 1},
        {**ORDERS, "status": 503},
    )
    session = await at_orders(stage, routing, allowed_domains=(SHOP,))
    step = {"act": "api", "method": "POST", "url": f"http://{EVIL}/api/orders", "value": {"a": 1}, "status": 201}
    answered = await passed(session, step)
    assert (answered.details["status"], answered.details["body"]) == (201, {"id": 7})
    down = await failed(session, step)
    assert (down.code, down.circumstances.routed, str(down.effect)) == ("HTTP_UNAVAILABLE", True, "none")
    assert "/api/orders" not in stage.site.hits
    step["url"] = f"http://{EVIL}/else"
    assert (await failed(session, step)).code == "POLICY_DOMAIN"


def har(folder: Path, *entries: tuple[str, str, int, dict[str, Any]]) -> str:
    """A HAR file in the folder."""
    found = [
        {
            "request": {"method": method, "url": url},
            "response": {"status": status, "headers": content.pop("headers", []), "content": content},
        }
        for method, url, status, content in entries
    ]
    (folder / "calls.har").write_text(json.dumps({"log": {"entries": found}}), "utf-8")
    return "calls.har"


async def test_a_har_file_answers_and_a_request_that_it_lacks_fails_the_step_or_passes(stage: Stage) -> None:
    moved = {"headers": [{"name": "Location", "value": "/api/made"}]}
    name = har(
        stage.folder,
        ("POST", f"http://{SHOP}/api/orders", 303, moved),
        ("GET", f"http://{SHOP}/api/made", 200, {"text": "bWFkZQ==", "encoding": "base64"}),
    )
    strict = await at_orders(stage, await routed(stage, {"url": "*/api/*", "from_har": name}))
    await passed(strict, ORDER)
    await shown(strict, "200 made")
    missing = {**ORDER, "selector": "#elsewhere"}
    clicked = await perform(strict, missing)
    waited = await perform(strict, {"act": "wait", "selector": "#out", "value": "failed"})
    why = clicked if isinstance(clicked, Failure) else waited  # the click may be over before its request is made
    assert isinstance(why, Failure)
    assert why.code == "ROUTE_UNANSWERED"
    url = f"http://{EVIL}/api/orders?x=1"
    assert why.message == f"route 0 could not answer GET {url}: calls.har has no answer to it"
    lenient = {"url": "*/api/*", "from_har": name, "missing": "pass"}
    session = await at_orders(stage, await routed(stage, lenient))
    await passed(session, missing)
    await shown(session, "failed")  # it passed, to a site that sends no CORS header
    assert stage.site.hits["/api/orders"] == 1
    assert session.routes[0].count == 0


@pytest.mark.thorough
async def test_a_reference_to_nothing_never_hangs_the_request_and_fails_the_step(stage: Stage) -> None:
    routing = await routed(stage, {"url": f"http://{DEAD}/*", "json": "${memory.missing}"})
    session = await at_orders(stage, routing)
    why = await failed(session, {"act": "open", "url": f"http://{DEAD}/"}, 5)
    assert why.code == "ROUTE_UNANSWERED"
    assert "'missing', which was never written" in why.message


def test_a_file_that_is_no_har_file_is_refused_before_the_browser_opens(run: Run[Any], stage: Stage) -> None:
    (stage.folder / "bad.har").write_text("{}", "utf-8")
    with pytest.raises(Failed, match=r"bad.har cannot be used: it is no HAR file \('log'\)"):
        run(routed(stage, {"url": "*", "from_har": "bad.har"}))


# `expect_request` of a step.


async def test_a_step_waits_for_the_request_that_it_must_cause(stage: Stage) -> None:
    session = await at_orders(stage, await routed(stage, {**ORDERS, "status": 201}))
    expected = {"json": {"items[0].id": "pen", "total": 3.5, "items.*": {"count": 2}}, "status": 201}
    outcome = await passed(session, {**ORDER, "selector": "#later", "expect_request": {**ORDERS, **expected}})
    assert outcome.details["expected_request"] == f"POST http://{SHOP}/api/orders (201)"
    form = {"act": "click", "selector": "#pay", "expect_request": {"url": "*/paid", "json": {"card": 1234}}}
    assert (await passed(session, form)).details["expected_request"] == f"POST http://{SHOP}/paid (404)"


@pytest.mark.parametrize(
    ("expected", "difference"),
    [
        ({**ORDERS, "json": {"items[0].id": "pencil"}}, "items[0].id is 'pen', expected 'pencil'"),
        ({**ORDERS, "method": "PUT"}, "method is 'POST', expected 'PUT'"),
        ({**ORDERS, "json": {"total": 3.5}, "status": 500}, "status is 404, expected 500"),
    ],
)
@pytest.mark.thorough
async def test_a_request_that_is_nearly_the_expected_one_is_compared(
    stage: Stage, expected: dict[str, Any], difference: str
) -> None:
    session = await at_orders(stage, None)
    why = await failed(session, {**ORDER, "expect_request": {**expected, "within": 0.3}}, 5)
    assert (why.code, why.act_done) == ("REQUEST_EXPECTED", True)
    assert f"the nearest, POST http://{SHOP}/api/orders (404), differs: {difference}" in why.message
    assert why.details["requests"] == [f"POST http://{SHOP}/api/orders (404)"]
    again = {"act": "wait", "value": 0, "expect_request": ORDERS}
    await passed(session, again)  # it still looks at what the click has caused


async def test_no_request_at_all_is_said(stage: Stage) -> None:
    session = await at_orders(stage, None)
    why = await failed(session, {"act": "hover", "selector": "#order", "expect_request": ORDERS}, 0.6)
    assert why.message.endswith("s after the act; no request was sent at all")
