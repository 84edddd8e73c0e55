"""What is left when page, browser or driver can give nothing more: what was kept; and how long it takes to find out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.browser import Browsers, PlaywrightSession
from harness.model.browser_settings import BrowserSettings
from harness.model.ports import Evidence, Item
from harness.recovery import FULL
from harness.resilience import SystemClock
from tests.browser.moments import until
from tests.browser.processes import signal_tree
from tests.browser.site import Site
from tests.browser.stage import SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")
BOUND = 10.0
"""Seconds of evidence and closing together; about 0.5 to 2 on an idle machine."""


@pytest.fixture
def own(run: Any, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Browsers of this test alone: it kills them. However busy the machine is, each step is looked at."""
    monkeypatch.setattr("harness.browser.evidence.SECONDS", 20)

    async def make() -> Browsers:
        (tmp_path / "temp").mkdir()
        return Browsers(BrowserSettings(), SystemClock(), temp=tmp_path / "temp")

    browsers = run(make())
    yield Stage(browsers, site, tmp_path)
    run(browsers.close())


@pytest.fixture
def patient(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The browsers of all tests: nothing is killed."""
    monkeypatch.setattr("harness.browser.evidence.SECONDS", 20)
    return stage


def kill_browser(session: PlaywrightSession, _: Browsers) -> None:
    os.kill(session.chromium.pid, signal.SIGKILL)


def stop_browser(session: PlaywrightSession, _: Browsers) -> None:
    signal_tree(session, signal.SIGSTOP)


def kill_driver(_: PlaywrightSession, browsers: Browsers) -> None:
    assert browsers.driver is not None
    assert browsers.driver.pid is not None
    os.kill(browsers.driver.pid, signal.SIGKILL)


def stop_driver(_: PlaywrightSession, browsers: Browsers) -> None:
    assert browsers.driver is not None
    assert browsers.driver.pid is not None
    os.kill(browsers.driver.pid, signal.SIGSTOP)


ENDS = [kill_browser, stop_browser, kill_driver, stop_driver]


async def collected(session: PlaywrightSession, folder: Path) -> tuple[Evidence, float]:
    """The evidence, and how long it and the closing took."""
    folder.mkdir()
    began = time.monotonic()
    evidence = await session.evidence(FULL, folder)
    await session.close()
    return evidence, time.monotonic() - began


def items(evidence: Evidence) -> dict[str, Item]:
    return {item.name: item for item in evidence.items}


def events(path: Path) -> list[dict[str, Any]]:
    """Of a trace.zip, as the trace viewer reads it."""
    with zipfile.ZipFile(path) as packed:
        assert packed.testzip() is None
        lines = packed.read("trace.trace") + packed.read("trace.network")
        found = [json.loads(line) for line in lines.splitlines()]
        names = set(packed.namelist())
    assert {event["file"] for event in found if event["type"] == "screencast-frame"} <= names
    return found


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.sampled(1)
async def test_full_recording_keeps_all_until_the_end(own: Stage, end: Any) -> None:
    session = await own.at("/fields", recording="full")
    await session.passed(0)
    await passed(session, {"act": "type", "selector": "#text", "value": "written"})
    await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})
    await session.passed(2)
    end(session, own.browsers)
    await failed(session, {"act": "wait", "selector": "#never"})
    evidence, seconds = await collected(session, own.folder / "evidence")
    assert seconds < BOUND
    found = items(evidence)
    assert {item.status for item in found.values()} == {"taken"}
    for name in ("screenshot.png", "dom_snapshot.html"):
        assert found[name].reason.startswith("last good: after step 2, at 20")
    assert (evidence.folder / "screenshot.png").read_bytes().startswith(b"\x89PNG")
    assert '<p id="ok">saved</p>' in (evidence.folder / "dom_snapshot.html").read_text()
    kinds = events(evidence.folder / "trace.zip")
    fills = [event for event in kinds if event["type"] == "before" and event["method"] == "fill"]
    assert [event["params"]["value"] for event in fills] == ["written"]
    assert {event["type"] for event in kinds} >= {"context-options", "frame-snapshot", "resource-snapshot"}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.sampled(1)
async def test_requests_with_their_status_and_the_console_are_always_kept(own: Stage, end: Any) -> None:
    session = await own.at()
    await passed(session, {"act": "click", "selector": "#shout"})
    await failed(session, {"act": "open", "url": f"http://{SHOP}/status/503"})
    end(session, own.browsers)
    await failed(session, {"act": "wait", "selector": "#never"})
    evidence, seconds = await collected(session, own.folder / "evidence")
    assert seconds < BOUND
    log = json.loads((evidence.folder / "network_logs.har").read_text())["log"]
    statuses = {entry["request"]["url"].rpartition("/")[2]: entry["response"]["status"] for entry in log["entries"]}
    assert (statuses[""], statuses["503"]) == (200, 503)
    if "comment" in log:
        assert "only what was seen" in log["comment"]
        assert items(evidence)["network_logs.har"].reason == log["comment"]
    else:  # the driver has all of it, and the time to write it down
        assert end is stop_browser
    assert any("it broke" in line.text for line in evidence.console)
    assert "missed" in items(evidence)["screenshot.png"].status
    assert items(evidence)["screenshot.png"].reason


@pytest.mark.thorough
async def test_what_was_seen_survives_a_new_browser(own: Stage) -> None:
    session = await own.at()
    await passed(session, {"act": "click", "selector": "#shout"})
    kill_browser(session, own.browsers)
    failure = await failed(session, {"act": "wait", "selector": "#never"})
    assert await session.renew(failure, 10) is None
    await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})
    evidence, _ = await collected(session, own.folder / "evidence")
    entries = json.loads((evidence.folder / "network_logs.har").read_text())["log"]["entries"]
    seen = [(entry["request"]["url"].rpartition("/")[2], entry["response"]["status"]) for entry in entries]
    assert seen[0] == ("", 200)
    assert seen[-1] == ("saved", 200)
    assert "text" in entries[-1]["response"]["content"]
    assert any("it broke" in line.text for line in evidence.console)
    assert items(evidence)["screenshot.png"].reason == ""


LOOP = {"act": "click", "selector": "#loop"}
ALERTS = {"act": "click", "selector": "#go"}


@pytest.mark.parametrize("recording", ["full", pytest.param("auto", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(("path", "step"), [("/", LOOP), ("/alerts", ALERTS)], ids=["loop", "alerts"])
@pytest.mark.sampled(1)
async def test_a_wedged_page_costs_a_bounded_time(
    patient: Stage, path: str, step: dict[str, Any], recording: str
) -> None:
    session = await patient.at(path, recording=recording)
    await session.passed(0)
    began = time.monotonic()
    await failed(session, step, within=1, patience=1)
    await session.record()
    evidence, _ = await collected(session, patient.folder / "evidence")
    assert time.monotonic() - began < 1 + 1 + BOUND
    assert all(item.status == "taken" or item.reason for item in evidence.items)
    if recording == "full":
        assert {item.status for item in evidence.items} == {"taken"}
        assert all(item.at is not None for item in evidence.items)
        assert events(evidence.folder / "trace.zip")[0]["type"] == "context-options"


@pytest.mark.thorough
async def test_only_full_recording_looks_at_each_step(patient: Stage) -> None:
    session = await patient.at()
    await session.passed(0)
    crash = asyncio.ensure_future(session.tab.control.send("Page.crash"))
    await until(lambda: session.tab.watch.frame.crashed)
    crash.cancel()
    evidence, _ = await collected(session, patient.folder / "evidence")
    found = items(evidence)["screenshot.png"]
    assert (found.status, found.reason) == ("missed", "the page's process crashed")


async def test_a_trace_leaves_its_folder_with_its_tab(patient: Stage) -> None:
    session = await patient.at(recording="full")
    raw = session.tab.raw
    assert list(raw.folder.glob(f"{raw.name}.trace"))
    await session.close()
    assert list(raw.folder.glob(f"{raw.name}*")) == []
