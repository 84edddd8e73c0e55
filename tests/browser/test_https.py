"""https of hosts whose services speak plain http."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.browser import Browsers, SessionRequest
from harness.model.browser_settings import BrowserSettings
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.resilience import SystemClock
from tests.browser.shop import BIG, Shop
from tests.browser.stage import DEAD, EVIL, OTHER, SHOP, Stage, failed, passed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shop(run: Any, browsers: Any, site: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A site with Secure cookies, and a session that keeps its browser alive from test to test."""
    shop, stage = Shop(), Stage(browsers, site, tmp_path_factory.mktemp("shop"))
    run(shop.__aenter__())
    holder = run(stage.session(hosts={SHOP: shop.port}))
    yield shop
    run(holder.close())
    run(shop.__aexit__())


async def test_a_page_is_a_real_https_page(stage: Stage, shop: Shop) -> None:
    session = await stage.session(hosts={SHOP: shop.port})
    await passed(session, {"act": "open", "url": f"https://{SHOP}/"})
    await passed(session, {"act": "wait", "selector": "#secure", "value": "https: true"})
    await passed(session, {"act": "wait", "selector": "#said", "value": "ping over https:"})
    [cookie] = await session.tab.context.cookies(f"https://{SHOP}/")
    assert (cookie["name"], cookie["secure"]) == ("safe", True)
    assert await session.tab.context.cookies(f"http://{SHOP}/") == []


async def test_forms_downloads_and_secure_cookies(stage: Stage, shop: Shop) -> None:
    session = await stage.session(hosts={SHOP: shop.port})
    await passed(session, {"act": "open", "url": f"https://{SHOP}/"})
    step = {"act": "download", "selector": "#big", "value": "big.bin"}
    await passed(session, step, within=20)
    assert session.files[-1].read_bytes() == BIG
    await passed(session, {"act": "type", "selector": "#item", "value": "hat"})
    await passed(session, {"act": "submit", "selector": "#form"})
    await passed(session, {"act": "wait", "selector": "#done"})
    assert session.url == f"https://{SHOP}/order"
    assert shop.orders == [("item=hat", "safe=1")]


@pytest.mark.thorough
async def test_http_and_https_of_one_host_in_one_task(stage: Stage, shop: Shop) -> None:
    session = await stage.session(hosts={SHOP: shop.port})
    for scheme in ("https", "http", "https"):
        await passed(session, {"act": "open", "url": f"{scheme}://{SHOP}/"})
        assert session.url == f"{scheme}://{SHOP}/"
        secure = str(scheme == "https").lower()
        await passed(session, {"act": "wait", "selector": "#secure", "value": f"{scheme}: {secure}"})
        await passed(session, {"act": "wait", "selector": "#said", "value": f"ping over {scheme}:"})
    await passed(session, {"act": "click", "selector": "#plain"})
    await passed(session, {"act": "wait", "selector": "#secure", "value": "http: false"})


@pytest.mark.thorough
async def test_redirects_between_http_and_https(stage: Stage) -> None:
    session = await stage.session()
    for here, there in (("http", "https"), ("https", "http")):
        target = f"{there}://{OTHER}/saved"
        outcome = await passed(session, {"act": "open", "url": f"{here}://{SHOP}/redirect?to={target}"})
        assert (session.url, outcome.details["status"]) == (target, 200)
        await passed(session, {"act": "api", "url": f"{here}://{SHOP}/redirect?to={target}", "status": 200})


@pytest.mark.thorough
async def test_api_sends_the_cookies_of_https(stage: Stage) -> None:
    session = await stage.session(base_url=f"https://{SHOP}/")
    cookies = [{"name": "safe", "value": "1", "url": f"https://{SHOP}/", "secure": True}]
    await session.tab.context.add_cookies(cookies)
    seen = {}
    for url in ("/whoami", f"http://{SHOP}/whoami", f"https://{OTHER}/whoami"):
        outcome = await passed(session, {"act": "api", "url": url})
        seen[url] = (outcome.details["body"]["host"], outcome.details["body"]["cookie"])
    assert seen == {
        "/whoami": (SHOP, "safe=1"),
        f"http://{SHOP}/whoami": (SHOP, None),
        f"https://{OTHER}/whoami": (OTHER, None),
    }


@pytest.mark.parametrize("act", ["open", "api"])
@pytest.mark.thorough
async def test_a_host_that_is_down(stage: Stage, act: str) -> None:
    """The browser is connected to the listener before it is known that the host is not there."""
    code = {"open": "NET_CONNECTION_RESET", "api": "NET_CONNECTION_REFUSED"}[act]
    session = await stage.session()
    for _ in range(3):
        failure = await failed(session, {"act": act, "url": f"https://{DEAD}/"}, within=4)
        assert failure.code == code
    await passed(session, {"act": "open", "url": f"https://{SHOP}/saved"})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("path", "code"),
    [("reset", "NET_CONNECTION_RESET"), ("empty", "NET_EMPTY_RESPONSE"), ("hang", "NET_TIMEOUT")],
)
@pytest.mark.sampled(1)
async def test_sites_that_misbehave_do_so_over_https(stage: Stage, path: str, code: str) -> None:
    session = await stage.session()
    for scheme in ("http", "https"):
        failure = await failed(session, {"act": "open", "url": f"{scheme}://{SHOP}/{path}"}, within=1.5)
        assert failure.code == code, scheme


async def test_other_ports_of_a_host_are_refused_at_once(stage: Stage) -> None:
    session = await stage.session()
    for act in ("open", "api"):
        for url in (f"https://{SHOP}:8443/saved", f"http://{SHOP}:443/saved"):
            failure = await failed(session, {"act": act, "url": url}, within=4)
            assert (failure.code, failure.effect) == ("INVALID_INPUT", Effect.NONE)
            assert "serve https on port 443" in failure.message


async def test_only_the_hosts_of_services_are_believed(stage: Stage) -> None:
    """A certificate of anybody else, and https where plain http is spoken, are what they always were."""
    session = await stage.session()
    failure = await failed(session, {"act": "open", "url": f"https://127.0.0.1:{stage.site.port}/"}, within=4)
    assert failure.code == "NET_TLS"
    unknown = await failed(session, {"act": "open", "url": "https://nowhere.invalid/"}, within=4)
    assert unknown.code == "NET_DNS"
    command = psutil.Process(session.chromium.pid).cmdline()
    assert "--ignore-certificate-errors" not in command


@pytest.mark.thorough
async def test_another_key_is_not_believed(stage: Stage) -> None:
    """Another run's listener, with a certificate for the same name."""
    others = Browsers(BrowserSettings(), SystemClock(), temp=stage.folder)
    session = await others.open_session(
        SessionRequest(world="w", folder=stage.folder, uploads=stage.folder, hosts={SHOP: stage.site.port})
    )
    port = session.chromium.front.ports[SHOP]
    failure = await failed(await stage.session(), {"act": "open", "url": f"https://127.0.0.1:{port}/"}, within=4)
    assert (failure.code, failure.details["net_error"]) == ("NET_TLS", "net::ERR_CERT_AUTHORITY_INVALID")
    await session.close()
    await others.close()


async def test_allowed_domains_hold_for_https(stage: Stage) -> None:
    session = await stage.session(allowed_domains=(SHOP,))
    await passed(session, {"act": "open", "url": f"https://{SHOP}/saved"})
    hits = stage.site.hits["/saved"]
    with pytest.raises(Exception, match="Failed to fetch"):
        await session.tab.page.evaluate(f"fetch('https://{EVIL}/saved', {{mode: 'no-cors'}})")
    for act, url in (
        ("open", f"https://{EVIL}/saved"),
        ("api", f"https://{EVIL}/saved"),
        ("open", f"https://{SHOP}/redirect?to=https://{EVIL}/saved"),
    ):
        failure = await failed(session, {"act": act, "url": url}, within=4)
        assert failure.code == "POLICY_DOMAIN", url
    assert stage.site.hits["/saved"] == hits


@pytest.mark.thorough
async def test_a_date_far_from_the_certificates(stage: Stage) -> None:
    session = await stage.session(start=datetime(2031, 5, 1, tzinfo=UTC))
    await passed(session, {"act": "open", "url": f"https://{SHOP}/saved"})
    assert (await session.tab.page.evaluate("new Date().getFullYear()")) == 2031


@pytest.mark.thorough
async def test_a_page_loaded_in_a_restarted_browser(stage: Stage) -> None:
    session = await stage.session(hosts={SHOP: stage.site.port})
    await passed(session, {"act": "open", "url": f"https://{SHOP}/saved"})
    before = session.chromium
    before.kill()
    assert await session.renew(Failure("BROWSER_CRASHED", "it was killed"), 15) is None
    assert session.chromium is not before
    assert session.url == f"https://{SHOP}/saved"
    await passed(session, {"act": "wait", "selector": "#ok"})


@pytest.mark.thorough
async def test_listeners_end_with_their_browser(stage: Stage) -> None:
    """But for the run's own browser, which is the first one."""
    await stage.session()
    session = await stage.session(hosts={SHOP: stage.site.port})
    await passed(session, {"act": "open", "url": f"https://{SHOP}/saved"})
    front = session.chromium.front
    await session.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", front.ports[SHOP])
    assert front.connections == set()


@pytest.mark.thorough
async def test_a_browser_that_does_not_start_leaves_no_listener(stage: Stage) -> None:
    browsers = Browsers(BrowserSettings(executable="/bin/false"), SystemClock(), temp=stage.folder)
    before = listening()
    asked = SessionRequest(world="w", folder=stage.folder, uploads=stage.folder, hosts=stage.hosts)
    with pytest.raises(Failed):
        await browsers.open_session(asked)
    assert listening() <= before
    await browsers.close()


def listening() -> set[int]:
    return {each.laddr.port for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN}


PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from harness.browser import Browsers, SessionRequest
from harness.resilience import SystemClock
from harness.model.browser_settings import BrowserSettings
from tests.browser.shop import Shop

async def main(folder):
    async with Shop() as shop:
        browsers = Browsers(BrowserSettings(), SystemClock(), temp=folder)
        request = SessionRequest(world="w", folder=folder, uploads=folder, hosts={"shop.test": shop.port})
        session = await browsers.open_session(request)
        await session.tab.page.goto("https://shop.test/")
        secure = await session.tab.page.evaluate("isSecureContext")
        await browsers.close()
    print(json.dumps({"secure": secure, "left": len(asyncio.all_tasks()) - 1}))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_nothing_is_left_at_the_end_of_a_process(tmp_path: Path) -> None:
    """The session is still open, and its connections stand, when the browsers are closed."""
    ended = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == {"secure": True, "left": 0}
