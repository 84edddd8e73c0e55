"""What is left of a failed task, also when page or browser no longer answer."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from harness.model.ports import Evidence
from harness.recovery import FULL, NOTHING
from harness.recovery.failure import Failure
from harness.reporting.redact_files import inert
from tests.browser.moments import until
from tests.browser.processes import signal_renderers, signal_tree
from tests.browser.stage import SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")
SHOUTED = ("it broke", "boom")
NAMES = {"screenshot.png", "dom_snapshot.html", "console_logs.txt", "network_logs.har", "trace.zip"}


def folder_of(stage: Stage) -> Path:
    folder = stage.folder / "evidence"
    folder.mkdir()
    return folder


def status(evidence: Evidence) -> dict[str, str]:
    return {item.name: item.status for item in evidence.items}


@pytest.mark.thorough
def test_the_screenshot_shows_the_whole_page_if_asked(run: Any, stage: Stage) -> None:
    async def height(**fields: Any) -> int:
        session = await stage.at(**fields)
        folder = stage.folder / f"evidence-{len(fields)}"
        folder.mkdir()
        await session.evidence(FULL, folder)
        return int.from_bytes((folder / "screenshot.png").read_bytes()[20:24])  # of the header of a PNG

    async def body() -> None:
        assert await height() == 720
        assert await height(full_page=True) > 3000

    run(body())


async def test_everything_of_a_live_page(stage: Stage) -> None:
    session = await stage.at()
    await session.record()
    await session.record()
    await passed(session, {"act": "click", "selector": "#shout"})
    await passed(session, {"act": "click", "selector": "#popup"})
    await until(
        lambda: all(any(said in line for line in map(str, session.tab.watch.console_lines())) for said in SHOUTED)
    )
    folder = folder_of(stage)
    evidence = await session.evidence(FULL, folder)
    assert status(evidence) == dict.fromkeys(NAMES, "taken")
    assert evidence.url == f"http://{SHOP}/"
    assert (folder / "screenshot.png").read_bytes().startswith(b"\x89PNG")
    assert 'id="overlay"' in (folder / "dom_snapshot.html").read_text()
    har = json.loads((folder / "network_logs.har").read_text())["log"]
    first = next(entry for entry in har["entries"] if entry["request"]["url"] == f"http://{SHOP}/")
    assert "<title>Form</title>" in first["response"]["content"]["text"]
    assert any(name.endswith(".trace") for name in zipfile.ZipFile(folder / "trace.zip").namelist())
    assert any(str(line).startswith("[ERROR] it broke (http://") for line in evidence.console)
    assert any("boom" in line.text for line in evidence.console)


async def test_a_failed_request_is_one_console_line(stage: Stage) -> None:
    session = await stage.session()
    await failed(session, {"act": "open", "url": f"http://{SHOP}/empty"})
    await until(lambda: any("ERR_EMPTY_RESPONSE" in line for line in map(str, session.tab.watch.console_lines())))
    evidence = await session.evidence(FULL, folder_of(stage))
    lines = [str(line) for line in evidence.console if "ERR_EMPTY_RESPONSE" in line.text]
    assert len(lines) == 1
    assert f"http://{SHOP}/empty" in lines[0]
    assert lines[0].startswith("[ERROR] Failed to load resource: net::ERR_EMPTY_RESPONSE")


async def test_nothing_when_the_strategy_wants_nothing(stage: Stage) -> None:
    session = await stage.at()
    folder = folder_of(stage)
    evidence = await session.evidence(NOTHING, folder)
    assert {(item.status, item.reason) for item in evidence.items} == {("skipped", "`capture: none`")}
    assert {item.name for item in evidence.items} == NAMES
    assert list(folder.iterdir()) == []
    assert evidence.console == ()


@pytest.mark.thorough
async def test_minimal_recording_has_neither_har_nor_trace(stage: Stage) -> None:
    session = await stage.at(recording="minimal")
    await session.record()
    evidence = await session.evidence(FULL, folder_of(stage))
    found = status(evidence)
    assert (found["network_logs.har"], found["trace.zip"], found["screenshot.png"]) == (
        "skipped",
        "skipped",
        "taken",
    )


async def test_a_trace_from_the_start_is_kept_at_close(stage: Stage) -> None:
    session = await stage.at(tracing="on", recording="minimal")
    await session.close()
    assert session.files == (stage.folder / "s0" / "trace.zip",)
    assert zipfile.is_zipfile(session.files[0])


@pytest.mark.thorough
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.sampled(1)
async def test_a_page_in_an_endless_loop_is_freed_for_its_picture(stage: Stage, traced: bool) -> None:
    session = await stage.at()
    if traced:
        await session.record()
    await failed(session, {"act": "click", "selector": "#loop"})
    started = time.monotonic()
    evidence = await session.evidence(FULL, folder_of(stage))
    assert time.monotonic() - started < 15
    assert status(evidence) == dict.fromkeys(NAMES, "taken")


@pytest.mark.parametrize("after", [2.0, None], ids=["slow", "hung"])
@pytest.mark.sampled(1)
async def test_a_slow_page_still_gives_its_evidence_and_a_hung_one_ends_in_bound(
    stage: Stage, after: float | None
) -> None:
    """Its process stands still, as on a machine that is starved, so the first question gets no answer."""
    session = await stage.at()
    signal_renderers(session, signal.SIGSTOP)
    if after:
        asyncio.get_running_loop().call_later(after, signal_renderers, session, signal.SIGCONT)
    started = time.monotonic()
    evidence = await session.evidence(FULL, folder_of(stage))
    assert time.monotonic() - started < 15
    signal_renderers(session, signal.SIGCONT)
    found = status(evidence)
    wanted = "taken" if after else "missed"
    assert (found["screenshot.png"], found["dom_snapshot.html"]) == (wanted, wanted)
    assert isinstance(evidence.page, dict if after else str)


async def test_a_stopped_browser_still_leaves_what_was_seen(stage: Stage) -> None:
    session = await stage.at(hosts={SHOP: stage.site.port})
    await session.record()
    signal_tree(session, signal.SIGSTOP)
    started = time.monotonic()
    folder = folder_of(stage)
    evidence = await session.evidence(FULL, folder)
    assert time.monotonic() - started < 15
    found = status(evidence)
    assert found["network_logs.har"] == "taken"
    assert found["screenshot.png"] == "missed"
    assert all(item.reason for item in evidence.items if item.status == "missed")
    har = json.loads((folder / "network_logs.har").read_text())["log"]
    assert har["entries"][0]["request"]["url"] == f"http://{SHOP}/"


@pytest.mark.thorough
async def test_a_crashed_page(stage: Stage) -> None:
    session = await stage.at()
    crash = asyncio.ensure_future(session.tab.control.send("Page.crash"))
    await until(lambda: session.tab.watch.frame.crashed)
    crash.cancel()
    evidence = await session.evidence(FULL, folder_of(stage))
    found = status(evidence)
    assert (found["screenshot.png"], found["dom_snapshot.html"]) == ("missed", "missed")
    assert found["network_logs.har"] == "taken"


@pytest.mark.thorough
async def test_the_har_goes_on_after_a_renewal(stage: Stage) -> None:
    session = await stage.at("/saved")
    assert await session.renew(Failure("BROWSER_CRASHED", "gone", tainted=True), 5) is None
    await passed(session, {"act": "open", "url": f"http://{SHOP}/inner"})
    folder = folder_of(stage)
    await session.evidence(FULL, folder)
    entries = json.loads((folder / "network_logs.har").read_text())["log"]["entries"]
    assert [entry["request"]["url"].rpartition("/")[2] for entry in entries] == ["saved", "saved", "inner"]


async def test_the_dom_snapshot_has_shadow_roots_frames_and_what_was_typed_but_no_password(stage: Stage) -> None:
    session = await stage.at("/frames")
    for frame, selector, value in (
        ("#outer >>> #own", "#text", "TYPED-TEXT"),
        ("#outer >>> #own", "#area", "TYPED-AREA"),
        ("#outer >>> #own", "#secret", "TYPED-PASSWORD"),
        ("#outer >>> #foreign", "#keys", "TYPED-ELSEWHERE"),
        ("#outer >>> #foreign", "#deep-secret", "TYPED-DEEP"),
    ):
        await passed(session, {"act": "type", "frame": frame, "selector": selector, "value": value})
    await passed(session, {"act": "select", "frame": "#outer >>> #foreign", "selector": "#colour", "value": "Green"})
    await passed(session, {"act": "uncheck", "frame": "#outer >>> #foreign", "selector": "#ticked"})
    await session.evidence(FULL, folder := folder_of(stage))
    document = inert((folder / "dom_snapshot.html").read_text())
    assert "TYPED-PASSWORD" not in document
    assert "TYPED-DEEP" not in document
    shown = await session.chromium.browser.new_page()
    await shown.set_content(document)
    assert await shown.locator("#area").text_content() == "TYPED-AREA"
    assert await shown.locator("#text").input_value() == "TYPED-TEXT"
    assert await shown.locator("#keys").input_value() == "TYPED-ELSEWHERE"
    assert await shown.locator("select#colour").input_value() == "g"
    assert not await shown.locator("#ticked").is_checked()
    assert await shown.locator("#deep-button").is_visible()
    assert await shown.locator("#in").count() == 2
    assert await shown.locator("[data-frame]").count() == 5
    await shown.close()


async def test_a_page_whose_font_never_comes_has_a_picture_and_a_screenshot_step_says_what_it_waits_for(
    stage: Stage,
) -> None:
    session = await stage.at("/fonts", full_page=True)
    await until(lambda: stage.site.hits.get("/hang"))
    failure = await failed(session, {"act": "screenshot", "screenshot_id": "x"}, patience=5)
    assert failure.code == "STEP_TIMEOUT"
    assert f"it waits for the page's fonts, and http://{SHOP}/hang did not end" in failure.message
    evidence = await session.evidence(FULL, folder := folder_of(stage))
    assert status(evidence) == dict.fromkeys(NAMES, "taken")
    assert (folder / "screenshot.png").read_bytes().startswith(b"\x89PNG")


async def test_texts_that_were_shown_for_a_moment_after_the_last_act_are_kept(stage: Stage) -> None:
    session = await stage.at("/toasts")
    await passed(session, {"act": "click", "selector": "#order"})
    await passed(session, {"act": "wait", "selector": "#done"})
    await failed(session, {"act": "wait", "selector": "#never"})
    evidence = await session.evidence(FULL, folder_of(stage))
    assert {"Card declined", "Try another card", "Basket locked"} <= set(evidence.vanished)
    assert sum(text.startswith("tick ") for text in evidence.vanished) <= 1, "a clock is one text"
    assert len(evidence.vanished) <= 4, "what is still there has not vanished"


@pytest.mark.thorough
async def test_an_act_ends_what_was_shown_before_it(stage: Stage) -> None:
    session = await stage.at("/toasts")
    await passed(session, {"act": "click", "selector": "#order"})
    await passed(session, {"act": "wait", "selector": "#done"})
    await passed(session, {"act": "hover", "selector": "h1"})
    await failed(session, {"act": "wait", "selector": "#never"})
    evidence = await session.evidence(FULL, folder_of(stage))
    assert all(text.startswith("tick ") for text in evidence.vanished)
