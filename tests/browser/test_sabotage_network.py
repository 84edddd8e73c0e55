"""Faults of the network that the browser itself makes: names that do not resolve, broken requests, no network."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from harness.browser import PlaywrightSession
from harness.recovery.failure import Failure
from harness.spec.faults.network import NetError
from tests.browser.shop import Shop
from tests.browser.stage import OTHER, SHOP, Stage, failed, passed
from tests.browser.striking import strike

pytestmark = pytest.mark.filterwarnings("default")
OPEN = {"act": "open", "url": f"http://{SHOP}/saved"}
LOST = Failure("BROWSER_UNRESPONSIVE", "silent")
OPENS = """url => new Promise(done => { const socket = new WebSocket(url);
    socket.onopen = () => done('open'); socket.onerror = () => done('error') })"""
FALLS_UNDER = {
    "address_unreachable": "NET_UNREACHABLE",
    "connection_closed": "NET_CONNECTION_RESET",
    "connection_refused": "NET_CONNECTION_REFUSED",
    "connection_reset": "NET_CONNECTION_RESET",
    "timed_out": "NET_TIMEOUT",
}


@pytest.mark.parametrize(("fault", "code"), [({"kind": "dns"}, "NET_DNS"), ({"kind": "offline"}, "NET_OFFLINE")])
@pytest.mark.sampled(1)
async def test_what_a_step_meets(stage: Stage, fault: dict[str, Any], code: str) -> None:
    session = await stage.at()
    struck = await strike(session, **fault, **({"url": "*"} if code == "NET_DNS" else {}))
    assert (await failed(session, OPEN, within=2)).code == code
    assert await session.renew(LOST, 10) is not None, "the page could not be opened again"
    assert (await failed(session, OPEN, within=2)).code == code
    assert struck.count >= 1
    await struck.healed()
    await passed(session, OPEN)
    assert await session.renew(LOST, 10) is None
    await passed(session, OPEN)


@pytest.mark.parametrize("error", get_args(NetError))
@pytest.mark.thorough
async def test_every_network_error(stage: Stage, error: str) -> None:
    session = await stage.at()
    await strike(session, kind="abort", url="*", error=error)
    failure = await failed(session, OPEN, within=2)
    assert failure.code == FALLS_UNDER.get(error, failure.code)
    assert failure.code.startswith("NET_") or error == "blocked_by_client"


@pytest.mark.parametrize("fault", [{"kind": "dns"}, {"kind": "abort"}])
@pytest.mark.sampled(1)
async def test_what_is_not_touched(stage: Stage, fault: dict[str, Any]) -> None:
    """As docs/faults.md says."""
    async with Shop() as shop:
        session = await stage.session(hosts={SHOP: shop.port, OTHER: stage.site.port})
        page = session.tab.page
        struck = await strike(session, lambda url: not url.endswith(("to=/saved", "/other")), url="*", **fault)
        await passed(session, {"act": "open", "url": f"http://{OTHER}/redirect?to=/saved"})
        await passed(session, {"act": "api", "url": f"http://{OTHER}/whoami"})
        assert await page.evaluate(OPENS, f"ws://{SHOP}/socket") == "open"
        assert struck.count == 0
        assert await page.evaluate("fetch('/whoami').then(() => 'ok', () => 'failed')") == "failed"
        assert struck.count == 1


@pytest.mark.thorough
async def test_the_fault_decides_for_each_request(stage: Stage) -> None:
    session = await stage.session()
    struck = await strike(session, lambda url: url.endswith("/inner"), kind="abort", url=f"http://{SHOP}/inner")
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    assert (await failed(session, {"act": "click", "selector": "#in", "frame": "#inner"})).code == "ELEMENT_NOT_FOUND"
    assert struck.count == 1
    assert f"http://{SHOP}/" in struck.asked


@pytest.mark.thorough
async def test_two_faults_each_take_their_own(stage: Stage) -> None:
    session = await stage.session()
    names = await strike(session, lambda url: "/saved" in url, kind="dns", url="*/saved")
    resets = await strike(session, lambda url: "/fields" in url, kind="abort", url="*/fields", error="connection_reset")
    assert (await failed(session, OPEN, within=2)).code == "NET_DNS"
    fields = {"act": "open", "url": f"http://{SHOP}/fields"}
    assert (await failed(session, fields, within=2)).code == "NET_CONNECTION_RESET"
    await names.healed()
    await passed(session, OPEN)
    assert (await failed(session, fields, within=2)).code == "NET_CONNECTION_RESET"
    await resets.healed()
    await passed(session, fields)


def test_the_har_and_the_policy_go_on(run: Any, stage: Stage) -> None:
    async def urls(session: PlaywrightSession) -> set[str]:
        har = session.tab.har
        assert har is not None
        await session.close()
        return {each["request"]["url"] for each in json.loads(har.read_text("utf-8"))["log"]["entries"]}

    async def body() -> None:
        session = await stage.session(allowed_domains=(SHOP,))
        struck = await strike(session, lambda url: "/inner" in url, kind="dns", url="*/inner")
        await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
        hits = dict(stage.site.hits)
        failure = await failed(session, {"act": "click", "selector": "#elsewhere"}, within=2)
        assert failure.code == "POLICY_DOMAIN"
        assert stage.site.hits == hits
        await passed(session, OPEN)
        assert struck.count == 1
        assert {f"http://{SHOP}/", f"http://{SHOP}/saved"} <= await urls(session)

    run(body())
