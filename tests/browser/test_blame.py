"""Who is to blame: a page that floods, poisons, dies or hangs is told as that, and the run goes on."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from pathlib import Path
from typing import Any

import pytest

from harness.browser import Browsers
from harness.browser.context import CLOSE_SECONDS, DROWNED_SECONDS
from harness.browser.flood import Pace
from harness.browser.page_events import CONSOLE_LINES
from harness.browser.queries import page_state
from harness.criteria import PageQuery
from harness.model.browser_settings import BrowserSettings
from harness.recovery import FULL, Capture
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from harness.resilience.events import PagesEnded
from tests.browser import poison
from tests.browser.channels_site import ChannelsSite
from tests.browser.moments import stretched, until
from tests.browser.site import PAGES
from tests.browser.stage import SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")
TEXT = "<p id=x>x</p>"
LINES = 10_000
UNTIL = "const end=Date.now()+3000;"
"""A flood that is over by itself: the machine may be slow to read what it has sent."""
HOSTILE = {
    "/logs-much": f"<title>Much</title>{TEXT}<script>for(let i=0;i<{LINES};i++)console.log('line '+i)</script>",
    "/logs-on": f"<title>On</title>{TEXT}<script>{UNTIL}setInterval(()=>"
    "{for(let i=0;i<300 && Date.now()<end;i++)console.log('line '+i)},50)</script>",
    "/asks-on": f"<title>Asks</title>{TEXT}<script>{UNTIL}setInterval(()=>"
    "{for(let i=0;i<40 && Date.now()<end;i++)fetch('/inner?'+Math.random()).catch(()=>0)},100)</script>",
    "/fails-on": f"<title>Fails</title>{TEXT}<script>{UNTIL}setInterval(()=>"
    "{for(let i=0;i<200 && Date.now()<end;i++)setTimeout(()=>{throw new Error(i)},0)},20)</script>",
    "/moves-on": f"<title>Moves</title>{TEXT}<script>{UNTIL}let n=0;setInterval(()=>"
    "{for(let i=0;i<50 && Date.now()<end;i++)history.pushState({},'','?'+n++)},10)</script>",
    "/logs-for-ever": f"<title>For ever</title>{TEXT}<script>setInterval(()=>"
    "{for(let i=0;i<300;i++)console.log('line '+i)},50)</script>",
    "/logs-little": f"<title>Little</title>{TEXT}<script>setInterval(()=>console.log('line'),50)</script>",
    "/opens-60": f"<title>Opens</title>{TEXT}<script>for(let i=0;i<60;i++)open('/inner?'+i,'w'+i)</script>",
    "/all-kinds": f"<title>All</title>{TEXT}<a id=a href=/report.csv download></a><script>for(let i=0;i<9;i++)"
    "{setTimeout(()=>{throw new Error(i)},0);history.pushState({},'','?'+i);open('about:blank','w'+i);"
    "document.body.append(document.createElement('iframe'));new Worker('data:text/javascript,1');"
    "new WebSocket('ws://'+location.host+'/no')}"
    "document.getElementById('a').click();setTimeout(()=>alert(1),300)</script>",
    "/hoards": f"<title>Hoards</title>{TEXT}<button id=go onclick="
    "'const kept=[];for(;;)kept.push(new Array(1e6).fill(Math.random()))'>go</button>",
    "/poison": poison.PAGE,
    "/spaces": "<title>Spaces</title><p id=price>24,99\u00a0\u20ac\u202fnow</p>",
}
PAGES.update(HOSTILE)


def open_(path: str) -> dict[str, str]:
    return {"act": "open", "url": f"http://{SHOP}{path}"}


@pytest.mark.thorough
async def test_ten_thousand_lines_are_survived_and_what_is_dropped_is_counted(stage: Stage) -> None:
    session = await stage.at("/logs-much")
    await passed(session, {"act": "click", "selector": "#x"})
    evidence = await session.evidence(Capture(logs=True, screenshot=False, dom=False), stage.folder)
    told, *lines = map(str, evidence.console)
    dropped = re.fullmatch(r"\[WARNING\] (\d+) older lines were dropped: the last 1000 are kept", told)
    assert dropped is not None, told
    assert len(lines) == CONSOLE_LINES
    assert int(dropped[1]) == LINES - CONSOLE_LINES
    assert lines[-1].startswith(f"[LOG] line {LINES - 1}")


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["/logs-on", "/asks-on", "/fails-on", "/moves-on", "/opens-60"])
@pytest.mark.sampled(1)
async def test_a_page_that_floods_the_browser_is_to_blame_and_not_the_browser(stage: Stage, path: str) -> None:
    beside, session = await stage.at("/saved"), await stage.at(path)
    pid, codes = session.chromium.pid, set()
    for _ in range(2):  # both codes are right on any machine, so that no more time is needed on a busy one
        failure = await failed(session, {"act": "wait", "selector": "#never"}, within=3.0)
        codes.add(failure.code)
        if failure.code == "PAGE_UNRESPONSIVE":
            assert "the page floods the browser" in failure.message
            assert failure.tainted
    assert codes <= {"PAGE_UNRESPONSIVE", "STEP_TIMEOUT"}
    await session.close()
    await passed(beside, {"act": "click", "selector": "#ok"})
    assert beside.chromium.pid == pid
    assert beside.chromium.alive


async def test_whatever_a_page_makes_the_browser_tell_counts_for_a_flood(stage: Stage) -> None:
    session = await stage.session()
    counted: dict[str, int] = {}

    def all_came() -> bool:
        counted.update({kind: max(count, counted.get(kind, 0)) for kind, count in pace.counts.items()})
        return kinds <= set(counted)

    kinds = {"page errors", "navigations", "new pages", "frames", "workers", "sockets", "dialogs", "downloads"}

    pace = session.tab.watch.pace
    opening = asyncio.ensure_future(passed(session, open_("/all-kinds")))  # what comes while it loads counts too
    await until(all_came)
    await opening


@pytest.mark.thorough
async def test_messages_of_a_socket_count_for_a_flood(stage: Stage) -> None:
    site = ChannelsSite()
    await site.start()
    try:
        session = await stage.session()
        await passed(session, {"act": "open", "url": f"http://127.0.0.1:{site.port}/telling"})
        pace = session.tab.watch.pace
        await until(lambda: pace.heavy and "socket messages" in pace.counts)
    finally:
        await site.stop()


class _Late:
    """A control session whose answers are still behind the events of the browser."""

    def on(self, *_: object) -> None:
        """Nothing comes."""

    async def send(self, *_: object) -> None:
        await asyncio.sleep(60)


async def test_a_browser_that_tells_events_meanwhile_is_not_silent(stage: Stage) -> None:
    """However few of them a busy machine has read."""
    session = await stage.at("/logs-little")
    late: Any = _Late()
    talking = dataclasses.replace(session.chromium, control=late)
    assert await talking.answers(stretched(1.0))
    quiet = dataclasses.replace(session.chromium, control=late, pace=Pace(SystemClock()))
    assert not await quiet.answers(0.1)


@pytest.mark.thorough
async def test_the_end_of_a_task_does_not_wait_until_a_flood_has_been_read(site: Any, tmp_path: Path) -> None:
    """A browser with one session is killed instead; one with other sessions goes on."""
    told: list[Any] = []
    browsers = Browsers(BrowserSettings(), SystemClock(), temp=tmp_path, tell=told.append)
    try:
        stage = Stage(browsers, site, tmp_path)
        for neighbours in (1, 0):
            beside, session = await stage.at("/saved", world="w-2"), await stage.at("/tick")
            if not neighbours:
                await beside.close()
            session.tab.silence = asyncio.get_running_loop().create_future()  # the answer is behind all events
            session.tab.silenced = -DROWNED_SECONDS
            assert not await session.tab.freed(0.01)
            await session.close()
            assert session.chromium.alive is bool(neighbours)
            if neighbours:
                await passed(beside, {"act": "click", "selector": "#ok"})
                await beside.close()
        assert told[-1] == PagesEnded("w-1", CLOSE_SECONDS, "browser")
        await stage.at("/saved")
    finally:
        await browsers.close()


async def test_the_evidence_of_a_flood_begins_with_its_end(stage: Stage) -> None:
    session = await stage.at("/logs-for-ever")
    await failed(session, {"act": "wait", "selector": "#never"}, within=1.0)
    await until(lambda: session.tab.watch.pace.heavy)
    (folder := stage.folder / "evidence").mkdir()
    evidence = await session.evidence(FULL, folder)
    assert any("the page floods the browser" in line.text for line in evidence.console)
    statuses = {item.name: item.status for item in evidence.items}
    assert (statuses["network_logs.har"], statuses["console_logs.txt"]) == ("taken", "taken")
    assert session.tab.silence is not None


@pytest.mark.thorough
async def test_a_no_break_space_is_white_space_to_a_wait(stage: Stage) -> None:
    session = await stage.at("/spaces")
    await passed(session, {"act": "wait", "selector": "#price", "value": "24,99 \u20ac now"})
    failure = await failed(session, {"act": "wait", "selector": "#price", "value": "24,99\u20ac"})
    assert "its text is '24,99 \u20ac now'" in failure.message


READINGS = (
    (("title", None, None), "True"),
    (("exists", "#x", None), True),
    (("exists", "#no", None), False),
    (("count", "p", None), 2),
    (("count", "#no", None), 0),
    (("text", "#x", None), "truth"),
    (("text", "#i", None), "kept"),
    (("value", "#i", None), "kept"),
    (("attr", "#x", "data-k"), "kept"),
    (("visible", "#x", None), True),
    (("visible", "#hid", None), False),
    (("text", "#no", None), None),
)


async def test_a_page_that_poisons_prototypes_is_read_and_acted_on_as_any_other(stage: Stage) -> None:
    (stage.folder / "up.txt").write_text("x")
    session = await stage.at("/poison")
    assert [await session.read(PageQuery(*asked), 5) for asked, _ in READINGS] == [value for _, value in READINGS]
    assert (await session.text("#x", None, 5), await session.text("#i", None, 5)) == ("truth", "kept")
    state = await page_state(session.tab.page, [("#x", None)])
    assert state["title"] == "True"
    assert [(each["text"], each["attributes"]["data-k"]) for each in state["elements"]] == [("truth", "kept")]
    for step in (
        {"act": "type", "selector": "#i", "value": "new"},
        {"act": "select", "selector": "#s", "value": {"value": "b"}},
        {"act": "upload", "selector": "#file", "value": "up.txt"},
        {"act": "scroll"},
        {"act": "wait", "selector": "#x", "value": "truth"},
    ):
        await passed(session, step)
    assert await session.text("#s", None, 5) == "b"
    assert (await failed(session, {"act": "click", "selector": "#nope"})).code == "ELEMENT_NOT_FOUND"
    await passed(session, {"act": "submit", "selector": "#b"})
    assert session.url == f"http://{SHOP}/saved?"


@pytest.mark.thorough
async def test_a_page_that_uses_up_its_memory_has_crashed(site: Any, tmp_path: Path) -> None:
    """With a small heap: the machine is not to be hurt."""
    settings = BrowserSettings(args=("--js-flags=--max-old-space-size=64",))
    browsers = Browsers(settings, SystemClock(), temp=tmp_path)
    try:
        session = await Stage(browsers, site, tmp_path).at("/hoards")
        failure = await failed(session, {"act": "click", "selector": "#go"}, within=20, patience=5)
        assert (failure.code, failure.tainted) == ("PAGE_CRASHED", True)
        with pytest.raises(Failed) as raised:
            await session.read(PageQuery("text", "#x"), 5)
        assert raised.value.failure.code == "PAGE_CRASHED"
    finally:
        await browsers.close()


@pytest.mark.thorough
async def test_the_opener_of_a_page_that_closes_itself_is_judged_in_its_place(stage: Stage) -> None:
    session = await stage.at("/windows")
    await passed(session, {"act": "click", "selector": "#closer"})
    await passed(session, {"act": "switch_page", "url": "*/closer"})
    assert await session.read(PageQuery("title"), 5) == "Closer"
    await session.tab.control.send("Runtime.evaluate", {"expression": "setTimeout(() => window.close(), 0)"})
    await until(session.tab.page.is_closed)
    assert await session.read(PageQuery("title"), 5) == "Windows"
    assert session.closed_pages == ({"closed": f"http://{SHOP}/closer", "went_on_at": f"http://{SHOP}/windows"},)


async def test_a_browser_is_not_more_urgent_than_the_harness_that_must_end_it(stage: Stage) -> None:
    """Chromium raises its main thread to nice -8 where it may, as root."""
    session = await stage.at("/saved")
    assert session.chromium.pid is not None
    assert os.getpriority(os.PRIO_PROCESS, session.chromium.pid) == os.getpriority(os.PRIO_PROCESS, 0)
