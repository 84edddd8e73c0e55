"""The video of a task's pages, also when page or browser no longer answer."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.browser import Browsers, PlaywrightSession
from harness.browser.video import NO_FFMPEG, Videos, find_ffmpeg
from harness.model.browser_settings import BrowserSettings
from harness.recovery import FULL
from harness.resilience import SystemClock
from tests.browser.processes import signal_tree
from tests.browser.site import Site
from tests.browser.stage import Stage, failed, passed

_PLAY = """async data => {
  const video = document.createElement('video');
  video.muted = true;
  const soon = (name, begin) => new Promise((done, fail) => {
    video.addEventListener(name, done, {once: true});
    video.addEventListener('error', () => fail(video.error.message), {once: true});
    begin();
  });
  await soon('loadeddata', () => { video.src = 'data:video/webm;base64,' + data; });
  const picture = document.createElement('canvas').getContext('2d'), colours = [];
  for (let at = 0; at < video.duration; at += video.duration / 40) {
    await soon('seeked', () => { video.currentTime = at; });
    picture.drawImage(video, 0, 0);
    const [red, , blue] = picture.getImageData(200, 100, 1, 1).data;
    const seen = red > 200 && blue > 200 ? 'white' : red > 200 ? 'red' : blue > 200 ? 'blue' : 'other';
    if (colours.at(-1) !== seen) colours.push(seen);
  }
  return {width: video.videoWidth, height: video.videoHeight, seconds: video.duration, colours};
}"""

_PAINT = """colour => new Promise(done => {
  const sheet = document.body.appendChild(document.createElement('div'));
  sheet.style = `position: fixed; inset: 0; pointer-events: none; background: ${colour}`;
  requestAnimationFrame(() => requestAnimationFrame(done));
})"""


@pytest.fixture
def own(run: Any, site: Site, tmp_path: Path) -> Iterator[Stage]:
    """Browsers of this test alone: it kills them."""

    async def make() -> Browsers:
        (tmp_path / "temp").mkdir()
        return Browsers(BrowserSettings(), SystemClock(), temp=tmp_path / "temp")

    browsers = run(make())
    yield Stage(browsers, site, tmp_path)
    run(browsers.close())


def folder_of(stage: Stage) -> Path:
    folder = stage.folder / "evidence"
    folder.mkdir()
    return folder


async def played(stage: Stage, video: Path) -> dict[str, Any]:
    """Play the file in Chromium; returns its size, its length, and the colours that it shows one after the other."""
    viewer = await stage.session()
    shown: dict[str, Any] = await viewer.tab.page.evaluate(_PLAY, base64.b64encode(video.read_bytes()).decode())
    return shown


async def filmed(stage: Stage, *, always: bool = False, **fields: Any) -> PlaywrightSession:
    return await stage.at(videos=Videos(stage.folder, always=always), **fields)


async def paint(session: PlaywrightSession, colour: str) -> None:
    """Paint the page, and leave the browser the time to show it."""
    await session.tab.page.evaluate(_PAINT, colour)
    await asyncio.sleep(0.6)


async def test_a_video_shows_what_each_page_showed_and_plays_in_a_browser(stage: Stage) -> None:
    session = await filmed(stage)
    await paint(session, "red")
    await passed(session, {"act": "click", "selector": "#popup"})
    await session.tab.reopen()  # as recovery replaces a page
    await paint(session, "blue")
    folder = folder_of(stage)
    evidence = await session.evidence(FULL, folder)
    assert {item.status for item in evidence.items} == {"taken"}
    assert sorted(path.name for path in folder.glob("*.webm")) == ["video-1.webm", "video-2.webm", "video.webm"]
    first, last = await played(stage, folder / "video-1.webm"), await played(stage, folder / "video.webm")
    assert (first["colours"][-1], last["colours"][-1]) == ("red", "blue")
    assert "red" not in last["colours"]
    assert (first["width"], first["height"]) == (800, 450)
    assert 0.5 < last["seconds"] < first["seconds"]


async def test_without_the_option_no_page_is_filmed(stage: Stage) -> None:
    session = await stage.at()
    evidence = await session.evidence(FULL, folder_of(stage))
    assert "video.webm" not in {item.name for item in evidence.items}
    assert session.files == ()


@pytest.mark.thorough
async def test_a_video_that_is_always_kept_is_made_when_the_session_closes(stage: Stage) -> None:
    session = await filmed(stage, always=True, recording="minimal")
    await paint(session, "red")
    await session.close()
    assert session.files == (stage.folder / "s0" / "video.webm",)
    assert (await played(stage, session.files[0]))["colours"][-1] == "red"


@pytest.mark.thorough
async def test_a_page_in_an_endless_loop_has_its_video(stage: Stage) -> None:
    session = await filmed(stage)
    await failed(session, {"act": "click", "selector": "#loop"})
    started, folder = time.monotonic(), folder_of(stage)
    evidence = await session.evidence(FULL, folder)
    assert time.monotonic() - started < 20
    assert {item.name: item.status for item in evidence.items}["video.webm"] == "taken"
    assert (await played(stage, folder / "video.webm"))["colours"] == ["white"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.sampled(1)
async def test_the_video_outlives_its_browser(own: Stage, number: int) -> None:
    session = await filmed(own)
    await paint(session, "red")
    if number == signal.SIGKILL:
        os.kill(session.chromium.pid or 0, number)
    else:
        signal_tree(session, number)
    started, folder = time.monotonic(), folder_of(own)
    evidence = await session.evidence(FULL, folder)
    assert time.monotonic() - started < 25
    assert {item.name: item.status for item in evidence.items}["video.webm"] == "taken"
    assert (await played(own, folder / "video.webm"))["colours"][-1] == "red"


async def test_of_a_long_video_the_newest_part_is_kept_and_encoding_ends_in_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.browser.video.LARGEST_PART", 9000)
    session = await filmed(stage)
    for colour in ("red", "white") * 3:
        await paint(session, colour)
    await paint(session, "blue")
    folder = folder_of(stage)
    evidence = await session.evidence(FULL, folder)
    [remark] = [item.reason for item in evidence.items if item.name == "video.webm"]
    assert "its newest part" in remark
    assert (await played(stage, folder / "video.webm"))["colours"][-1] == "blue"
    assert len(list(stage.folder.glob("film-1.*"))) == 2


async def test_without_ffmpeg_only_the_video_is_missing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.browser.video.find_ffmpeg", lambda: None)
    session = await filmed(stage)
    evidence = await session.evidence(FULL, folder_of(stage))
    assert {item.name: item.reason for item in evidence.items if item.status == "missed"} == {"video.webm": NO_FFMPEG}


@pytest.mark.thorough
async def test_an_ffmpeg_that_hangs_ends_in_time(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = tmp_path / "ffmpeg"
    hanging.write_text("#!/bin/sh\ntrap '' TERM\nexec sleep 60\n", "utf-8")
    hanging.chmod(0o755)
    monkeypatch.setattr("harness.browser.video.find_ffmpeg", lambda: str(hanging))
    monkeypatch.setattr("harness.browser.evidence.VIDEO_SECONDS", 0.5)
    session = await filmed(stage)
    started = time.monotonic()
    evidence = await session.evidence(FULL, folder_of(stage))
    assert time.monotonic() - started < 15
    assert {item.name: item.status for item in evidence.items}["video.webm"] == "missed"


def test_the_ffmpeg_of_playwright_comes_first(tmp_path: Path) -> None:
    own = tmp_path / "ffmpeg-1011" / "ffmpeg-linux"
    own.parent.mkdir()
    assert find_ffmpeg({"PLAYWRIGHT_BROWSERS_PATH": str(tmp_path), "PATH": ""}) not in (None, str(own))
    own.write_text("", "utf-8")
    own.chmod(0o755)
    assert find_ffmpeg({"PLAYWRIGHT_BROWSERS_PATH": str(tmp_path), "PATH": ""}) == str(own)
