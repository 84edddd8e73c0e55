"""Browsers of real Playwright servers: all that a session does, and what becomes of it when a server goes."""

from __future__ import annotations

import asyncio
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.browser import Browsers, Endpoints
from harness.browser.executable import find
from harness.model.browser_settings import BrowserSettings
from harness.model.ports import Evidence
from harness.recovery import Capture
from harness.recovery.failure import Failed, Failure
from harness.resilience import SystemClock
from harness.resilience.breaker import Breaker, BreakerSettings
from tests.browser.moments import until
from tests.browser.playwright_server import PlaywrightServer, closed_port
from tests.browser.site import Site
from tests.browser.stage import EVIL, SHOP, Stage, failed, passed
from tests.browser.striking import strike

pytestmark = pytest.mark.filterwarnings("default")
CLICK = {"act": "click", "selector": "#plain"}
Make = Callable[..., Stage]


@pytest.fixture(scope="module")
def server() -> Iterator[PlaywrightServer]:
    it = PlaywrightServer.run("--unsafe")
    yield it
    it.kill()


@pytest.fixture
def elsewhere(run: Any, site: Site, tmp_path: Path) -> Iterator[Make]:
    """Makes a stage whose browsers are those of these endpoints."""
    stages = list[Stage]()
    (tmp_path / "temp").mkdir()

    async def make(urls: tuple[str, ...], settings: BrowserSettings) -> Browsers:
        clock, breakers = SystemClock(), dict[str, Breaker]()

        def breaker(name: str) -> Breaker:
            return breakers.setdefault(name, Breaker(name, BreakerSettings(2, 1, 60), now=clock.now))

        return Browsers(settings, clock, temp=tmp_path / "temp", endpoints=Endpoints(urls, settings, breaker))

    def stage(*urls: str, **settings: Any) -> Stage:
        folder = tmp_path / str(len(stages))
        folder.mkdir()
        stages.append(Stage(run(make(urls, BrowserSettings(**settings))), site, folder))
        return stages[-1]

    yield stage
    for each in stages:
        for session in each.sessions:
            run(session.close())
        run(each.browsers.close())


def refused(run: Any, stage: Stage, **fields: Any) -> Failure:
    with pytest.raises(Failed) as raised:
        run(stage.session(**fields))
    return raised.value.failure


async def evidence_of(session: Any, folder: Path) -> Evidence:
    folder.mkdir()
    found: Evidence = await session.evidence(Capture(screenshot=True, dom=True, logs=True), folder)
    return found


@pytest.mark.thorough
def test_a_session_does_all_that_it_does_here(run: Any, server: PlaywrightServer, elsewhere: Make) -> None:
    stage = elsewhere(server.url)
    (stage.folder / "note.txt").write_text("mine")

    async def body() -> None:
        session = await stage.at("/", recording="full", allowed_domains=(SHOP,))
        assert session.chromium.pid is None
        assert len(server.browsers()) == 1
        await passed(session, {"act": "open", "url": f"https://{SHOP}/"})
        loaded = await passed(session, {"act": "download", "selector": "#file-link"})
        assert loaded.details["bytes"] == session.files[0].stat().st_size > 0
        strayed = await failed(session, {"act": "open", "url": f"http://{EVIL}/"})
        assert strayed.code == "POLICY_DOMAIN"
        evidence = await evidence_of(session, stage.folder / "evidence")
        assert {item.name: item.status for item in evidence.items} == dict.fromkeys(
            ("trace.zip", "screenshot.png", "dom_snapshot.html", "network_logs.har", "console_logs.txt"), "taken"
        )
        assert "trace.trace" in zipfile.ZipFile(evidence.folder / "trace.zip").namelist()
        assert "/report.csv" in (evidence.folder / "network_logs.har").read_text()
        await session.close()
        await stage.browsers.close()
        await until(lambda: not server.browsers() and not server.left())

    run(body())
    assert stage.browsers.described.endswith(f"(at {server.url.removesuffix('/browsers')})")


@pytest.mark.thorough
def test_pages_offer_tools_there_too(run: Any, server: PlaywrightServer, elsewhere: Make) -> None:
    stage = elsewhere(server.url)

    async def body() -> None:
        session = await stage.session(webmcp=True)
        await passed(session, {"act": "open", "url": f"https://{SHOP}/"})
        assert await session.page_tools(10) == ()

    run(body())


@pytest.mark.thorough
def test_the_next_endpoint_serves_when_the_first_is_dead(run: Any, server: PlaywrightServer, elsewhere: Make) -> None:
    with closed_port() as port:
        stage = elsewhere(f"ws://127.0.0.1:{port}/", server.url)
        session = run(stage.at())
    assert session.url.endswith("/")
    assert server.url.removesuffix("/browsers") in stage.browsers.described


@pytest.mark.thorough
def test_all_dead(run: Any, elsewhere: Make) -> None:
    with closed_port() as one, closed_port() as two:
        failure = refused(run, elsewhere(f"ws://127.0.0.1:{one}/", f"ws://127.0.0.1:{two}/"))
    assert (failure.code, failure.retryable) == ("BROWSER_ENDPOINT_DOWN", True)
    assert f"ws://127.0.0.1:{one}: nothing answers there" in failure.message
    assert f"ws://127.0.0.1:{two}: nothing answers there" in failure.message


@pytest.mark.thorough
def test_sessions_go_to_the_endpoint_with_the_fewest(run: Any, server: PlaywrightServer, elsewhere: Make) -> None:
    stage = elsewhere(server.url, f"{server.url}?second")

    async def body() -> None:
        sessions = await asyncio.gather(*(stage.session(world=f"w{number}") for number in range(4)))
        shared = [session.chromium.sessions for session in sessions]
        assert shared == [2, 2, 2, 2], "two browsers, two sessions in each"

    run(body())


@pytest.mark.parametrize("kind", ["browser_kill", "driver_kill"])
@pytest.mark.sampled(1)
def test_faults_that_end_it(run: Any, server: PlaywrightServer, elsewhere: Make, kind: str) -> None:
    stage = elsewhere(server.url)

    async def body() -> None:
        session = await stage.at()
        assert (await strike(session, kind=kind)).count == 1
        outcome = await failed(session, CLICK)
        assert outcome.code == {"browser_kill": "BROWSER_CRASHED", "driver_kill": "DRIVER_GONE"}[kind]
        assert await session.renew(outcome, 15) is None
        await passed(session, CLICK)
        await until(lambda: len(server.browsers()) == 1)

    run(body())


@pytest.mark.thorough
def test_a_fault_that_needs_the_process_is_refused(run: Any, server: PlaywrightServer, elsewhere: Make) -> None:
    stage = elsewhere(server.url)

    async def body() -> None:
        session = await stage.at()
        with pytest.raises(Failed, match="its process cannot be stopped"):
            await strike(session, kind="browser_stop")
        await passed(session, CLICK)

    run(body())


def test_an_endpoint_that_goes_in_mid_task(run: Any, server: PlaywrightServer, elsewhere: Make) -> None:
    mortal = PlaywrightServer.run("--unsafe")
    stage = elsewhere(mortal.url, server.url)

    async def body() -> None:
        session, other = await stage.at(recording="full"), await stage.at(world="w-2")
        assert session.chromium is not other.chromium
        mortal.kill()
        await until(lambda: not session.chromium.alive)
        outcome = await failed(session, CLICK)
        assert outcome.code == "BROWSER_CRASHED"
        evidence = await evidence_of(session, stage.folder / "evidence")
        trace = next(item for item in evidence.items if item.name == "trace.zip")
        assert (trace.status, trace.reason) == (
            "missed",
            "what was written stays at the browser's endpoint: the browser is gone",
        )
        assert await session.renew(outcome, 15) is None
        await passed(session, CLICK)
        assert session.chromium is other.chromium

    try:
        run(body())
    finally:
        mortal.kill()


def test_a_server_that_takes_no_flags_says_how_to_start_it(run: Any, elsewhere: Make) -> None:
    plain = PlaywrightServer.run()
    try:
        failure = refused(run, elsewhere(plain.url))
    finally:
        plain.kill()
    assert (failure.code, failure.retryable) == ("BROWSER_ENDPOINT_UNFIT", False)
    assert "run-server --unsafe" in failure.message


@pytest.mark.thorough
def test_a_browser_that_all_share(run: Any, elsewhere: Make, tmp_path: Path) -> None:
    shared = PlaywrightServer.launch(find(BrowserSettings(), Path("/nowhere"), os.environ), tmp_path, "--lang=de")
    try:
        run(with_others(elsewhere(shared.url), shared))
        hosts = refused(run, elsewhere(shared.url))
        assert "without the hosts of [tool.harness.services] (--host-resolver-rules): start it with" in hosts.message
        window = refused(run, elsewhere(shared.url, headed=True, args=("--lang=de", "--disable-speech-api")), hosts={})
        assert "--disable-speech-api (`args` of [tool.harness.browser]), a window (--headed)" in window.message
        assert "--lang" not in window.message
    finally:
        shared.kill()


async def with_others(stage: Stage, shared: PlaywrightServer) -> None:
    session = await stage.session(hosts={})
    await passed(session, {"act": "open", "url": f"http://127.0.0.1:{stage.site.port}/"})
    with pytest.raises(Failed, match="other runs share the browser"):
        await strike(session, kind="browser_kill")
    await session.close()
    await stage.browsers.close()
    assert shared.browsers(), "it is not ours to end"


@pytest.mark.thorough
def test_a_browser_that_cannot_reach_this_machine(
    run: Any, server: PlaywrightServer, elsewhere: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blind(_: Any) -> bool:
        return False

    monkeypatch.setattr("harness.browser.endpoints.sees_us", blind)
    stage = elsewhere(server.url)

    async def body() -> None:
        session = await stage.session()
        refusal = await failed(session, {"act": "open", "url": f"http://{SHOP}/"})
        assert refusal.code == "BROWSER_ENDPOINT_UNFIT"
        assert f"{SHOP} is served on 127.0.0.1 of the machine that runs the task" in refusal.message
        await passed(session, {"act": "open", "url": "about:blank"})
        assert len(server.browsers()) == 1, "the one that was tried first is gone"

    run(body())
