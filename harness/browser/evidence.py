"""Takes what a browser can still give after a task has failed: screenshot, DOM, HAR and trace.

What it can no longer give comes from what was kept: the last good view, the observed requests, and the trace as far as
it was written.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from playwright.async_api import CDPSession, Frame, Page
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser import har
from harness.browser.bounded import bounded
from harness.browser.context import Tab
from harness.browser.executable import first_line
from harness.browser.failures.liveness import dead
from harness.browser.failures.scene import FailureContext
from harness.browser.isolated import ask, script
from harness.browser.marking import marks_of
from harness.browser.process import answers
from harness.browser.queries import page_state
from harness.browser.raw_trace import TRACE, RawTrace
from harness.browser.request import SessionRequest
from harness.browser.video import VIDEO, Videos
from harness.criteria.syntax import Selected
from harness.masking import MARK
from harness.model.ports import Item
from harness.recovery import Capture
from harness.resilience import Clock, Deadline
from harness.resilience.replaced import write_whole

# The page after the last step that passed, in case the page does not answer after the failure.

SECONDS = 0.5
"""Seconds for one view; if a page needs longer, the view before is kept."""
LARGEST = 8 * 2**20
"""The largest screenshot (bytes) or DOM (characters) that is kept."""
SCREENSHOT, DOM = "screenshot.png", "dom_snapshot.html"
FOLDER = ".last-good"


class Look(Struct, frozen=True):
    """One file, the step after which it was taken, and the time."""

    path: Path
    step: int
    at: datetime

    def __str__(self) -> str:
        return f"last good: after step {self.step}, at {self.at:%Y-%m-%dT%H:%M:%S.%fZ}"


class LastGood:
    """The newest screenshot and DOM of a session: two files, however many steps it has."""

    def __init__(self, folder: Path, clock: Clock, scale: float = 1.0) -> None:
        self._folder, self._seconds = folder / FOLDER, SECONDS * scale
        self._clock = clock
        self._looks: dict[str, Look] = {}

    async def keep(self, tab: Tab, step: int) -> None:
        """Keep a view of the page, without frames of other origins. Bounded; it never raises: the view before stays.

        It uses the control session: Playwright's own calls would appear as acts in the trace.
        """
        try:
            async with asyncio.timeout(self._seconds):
                await self._write(SCREENSHOT, await _bare_picture(tab.control), step)
                dom = await ask(tab.control, f"hidden => ({_COPY})([], [hidden, true])", MARK)
                await self._write(DOM, str(dom or "").encode("utf-8", "replace"), step)
        except (PlaywrightError, TimeoutError, OSError):
            return

    async def _write(self, name: str, data: bytes, step: int) -> None:
        if not 0 < len(data) <= LARGEST:
            return
        path, at = self._folder / name, self._clock.wall()
        await asyncio.to_thread(write_whole, path, data)
        self._looks[name] = Look(path, step, at)

    async def copy_newest(self, name: str, target: Path) -> Look | None:
        """Copy the newest view; None if there is none. Raises OSError."""
        look = self._looks.get(name)
        if look is not None:
            await asyncio.to_thread(shutil.copyfile, look.path, target)
        return look


async def _bare_picture(control: CDPSession, *, full_page: bool = False) -> bytes:
    """A PNG of what the browser shows now; it waits for nothing. Raises Playwright's errors."""
    options: dict[str, Any] = {"format": "png", "captureBeyondViewport": full_page}
    if full_page:
        size = (await control.send("Page.getLayoutMetrics"))["cssContentSize"]
        options["clip"] = {**size, "scale": 1}
    return base64.b64decode((await control.send("Page.captureScreenshot", options))["data"])


TOTAL_SECONDS = 6.0
_TRACE_SECONDS = 2.5
"""Seconds to end the trace of a page that answers; after that it is taken as far as it is written."""
_LOST_TRACE_SECONDS = 0.5
"""Seconds to end the trace if page or browser do not answer."""
_PAGE_SECONDS = 1.5
CLOSE_SECONDS = 2.5
_PACK_SECONDS = 2.0
"""Seconds to write a file from kept data."""
_PROBE_SECONDS = 0.5
_PATIENCE_SECONDS = 3.5
"""Seconds that all files together wait for a page that does not answer, which may only be slow."""
_LEAST_SECONDS = 0.1
"""Seconds that each file waits for it in any case."""
_SILENCE_SECONDS = 2.0
"""Seconds to stop the scripts of a page that floods the browser, and to read the events that it has sent until then."""
_LOOK_SECONDS = 0.5
VIDEO_SECONDS = 8.0
"""Seconds to encode the videos of all pages."""
HELD = "since the page was stopped from sending, requests of its own have failed"
"""The remark about a page that was held before: it may show that."""
HAR, CONSOLE = "network_logs.har", "console_logs.txt"


def defect(error: Exception) -> str:
    """The reason why a file is missing because of an error that nobody expected."""
    return f"a defect of the harness: {type(error).__name__}: {first_line(error)}"


class EvidenceCollector(Struct):
    """One collection of evidence: its target, the time left, and the results."""

    scene: FailureContext
    tab: Tab
    folder: Path
    deadline: Deadline
    kept: LastGood
    request: SessionRequest
    earlier: Sequence[RawTrace] = ()
    """The traces of the contexts before this one."""
    selectors: Collection[Selected] = ()
    """The elements whose state is kept."""
    aimed: FailureContext | None = None
    """What the step looked for which failed last, if no step after it has passed."""
    similar: Sequence[str] = ()
    """Selectors of elements that it nearly found."""
    items: list[Item] = field(default_factory=list)
    page: dict[str, Any] | str = ""
    """The page as criteria see it, or the reason why that is unknown."""
    _patience: Deadline | None = None
    """How long a page that does not answer is waited for; None: it was not asked yet."""

    def skip(self, name: str, reason: str) -> None:
        self.items.append(Item(name, "skipped", reason))

    async def file(self, name: str, seconds: float, make: Callable[[Path], Awaitable[str]]) -> bool:
        """Make one file within `seconds`; an error is recorded and does not affect the other files.

        `make` returns a remark about the file.
        """
        clock, made = self.scene.clock, False
        at, started = clock.wall(), clock.now()
        limit = self.deadline.clip(seconds * self.request.scale, started)
        reason = late(limit)
        try:
            async with asyncio.timeout(limit):
                reason = await make(self.folder / name)
                made = True
        except TimeoutError:
            pass
        except (PlaywrightError, OSError, ValueError) as error:
            reason = first_line(error)
        except Exception as error:  # noqa: BLE001 - a defect of ours must lose this one file, and not the task's result
            reason = defect(error)
        self.items.append(Item(name, "taken" if made else "missed", reason, round(clock.now() - started, 3), at))
        return made

    @contextlib.asynccontextmanager
    async def losing(self, *names: str) -> AsyncIterator[None]:
        """Inside, an error costs these files, as far as they are not there yet."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - as in `file`: never the task's result
            there = {item.name for item in self.items}
            self.items += [Item(name, "missed", defect(error)) for name in names if name not in there]

    async def problem(self) -> str:
        """The reason why the page gives nothing now; empty if it answers. Each file asks: a slow page answers later."""
        if (lost := dead("", self.scene)) is not None:
            return lost.message
        if self.scene.chromium.process.stopped:
            return "the browser does not answer"
        began = self.scene.clock.now()
        if self._patience is None:
            self._patience = Deadline.after(_PATIENCE_SECONDS * self.request.scale, began)
            probe = _PROBE_SECONDS * self.request.scale
            if self.tab.watch.pace.floods and not await answers(self.tab.control, probe):
                await self.tab.silence_floods(_SILENCE_SECONDS * self.request.scale)
            answered = await self.tab.freed(probe)  # a page in an endless loop keeps its state
        else:
            left = max(_LEAST_SECONDS, self._patience.left(began))
            answered = await answers(self.tab.control, self.deadline.clip(left, began))
        if answered:  # the time in which a slow page was waited for is given to its files
            self.deadline = Deadline.after(self.deadline.left(began), self.scene.clock.now())
            return ""
        browser = await self.scene.chromium.answers(_LEAST_SECONDS * self.request.scale)
        return "the page does not answer" if browser else "the browser does not answer"


async def take(
    collector: EvidenceCollector,
    capture: Capture,
    segments: Sequence[har.HarSegment] | None,
    close: Callable[[float], Awaitable[bool]],
) -> None:
    """Take all that `capture` wants, in the order that loses least. `segments` is None if no requests are kept.

    It never raises: a defect of ours loses what it was about, and nothing else.
    """
    if capture.logs:
        async with collector.losing(TRACE):
            await take_trace(collector)
    else:
        collector.skip(TRACE, capture.why)
    async with collector.losing(SCREENSHOT, DOM):
        await take_page(collector, capture)
    if capture.logs and segments is not None:
        async with collector.losing(HAR):
            await _take_har(collector, segments, close)
    else:
        collector.skip(HAR, "recording is minimal" if capture.logs else capture.why)
    seen = Item(CONSOLE, "taken", at=collector.scene.clock.wall())
    collector.items.append(seen if capture.logs else Item(CONSOLE, "skipped", capture.why))
    if collector.request.videos is not None and capture.logs:
        async with collector.losing(VIDEO):
            await take_video(collector, collector.request.videos)


async def take_trace(collector: EvidenceCollector) -> None:
    """Take the trace first: snapshots of a running trace would delay every other call on a hung page."""
    tab = collector.tab
    if not collector.request.traceable:
        collector.skip(TRACE, "nothing was recorded, because of `--task-tracing off` or `--task-recording minimal`")
        return

    async def make(path: Path) -> str:
        for number, raw in enumerate(collector.earlier, 1):
            await asyncio.to_thread(raw.pack, path.with_name(f"trace-{number}.zip"))
        lost = await collector.problem()
        if not tab.traced:
            raise ValueError(f"without Playwright's own trace: {lost or 'it could not be started'}")
        try:
            async with asyncio.timeout((_LOST_TRACE_SECONDS if lost else _TRACE_SECONDS) * collector.request.scale):
                if not lost:  # one act, so that it has a snapshot of the end even if the last failure started it
                    look = tab.page.evaluate("() => document.readyState")
                    await bounded(look, _LOOK_SECONDS * collector.request.scale, None)
                await tab.context.tracing.stop(path=path)
        except (PlaywrightError, TimeoutError):
            why = lost or f"it did not end within {_TRACE_SECONDS * collector.request.scale:g} s"
            if not await asyncio.to_thread(tab.raw.pack, path):
                raise ValueError(f"{tab.raw.missing_reason}: {why}") from None
            return f"only as far as it was written: {why}"
        return ""

    await collector.file(TRACE, _TRACE_SECONDS + _PACK_SECONDS, make)
    tab.traced = False


async def take_video(collector: EvidenceCollector, videos: Videos) -> None:
    """Encode the videos last, from kept frames: it needs no browser, and has its own time."""
    seconds, now = VIDEO_SECONDS * collector.request.scale, collector.scene.clock.now()
    collector.deadline = Deadline.after(seconds + CLOSE_SECONDS, now)
    page, until = collector.tab.page, Deadline.after(seconds, now)
    await collector.file(VIDEO, VIDEO_SECONDS + CLOSE_SECONDS, lambda path: videos.keep(page, path, until))


async def take_page(collector: EvidenceCollector, capture: Capture) -> None:
    """Take screenshot and DOM of the present page; else those after the last good step."""
    wishes = (
        (SCREENSHOT, capture.screenshot, "`capture_screenshot: false`", _picture),
        (DOM, capture.dom, "`capture_dom: false`", _dom),
    )
    for name, wanted, unwanted, make in wishes:
        if not wanted:
            collector.skip(name, capture.why or unwanted)
        elif problem := await collector.problem():
            await collector.file(name, _PACK_SECONDS, partial(_from_last_good, collector, name, problem))
        elif not await collector.file(name, 2 * _PAGE_SECONDS, partial(make, collector)):
            why = collector.items.pop().reason
            await collector.file(name, _PACK_SECONDS, partial(_from_last_good, collector, name, why))
    collector.page = await _state(collector) if capture.dom else collector.items[-1].reason


async def _state(collector: EvidenceCollector) -> dict[str, Any] | str:
    """The data for judging criteria again, or the reason why the page does not give it."""
    if problem := await collector.problem():
        return problem
    limit = collector.deadline.clip(2 * _PAGE_SECONDS * collector.request.scale, collector.scene.clock.now())
    try:
        async with asyncio.timeout(limit):
            return await page_state(collector.tab.page, collector.selectors)
    except TimeoutError:
        return late(limit)
    except (PlaywrightError, ValueError) as error:
        return first_line(error)


def late(seconds: float) -> str:
    """The reason for what did not come in time. Pure."""
    return f"no answer within {seconds:.2g} s" if seconds else "the time for the evidence was over"


async def _from_last_good(collector: EvidenceCollector, name: str, problem: str, path: Path) -> str:
    look = await collector.kept.copy_newest(name, path)
    if look is None:
        raise ValueError(problem)
    return f"{look}; now {problem}"


async def _picture(collector: EvidenceCollector, path: Path) -> str:
    within = _PAGE_SECONDS * collector.request.scale
    try:
        await _marked_picture(collector, path, within)
        return HELD if collector.tab.held else ""
    except (PlaywrightTimeoutError, TimeoutError):  # it waits for the page's fonts, of which one may never come
        shot = await _bare_picture(collector.tab.control, full_page=collector.request.full_page)
        await asyncio.to_thread(path.write_bytes, shot)
        return f"as it was, since the page was not ready for a picture in {within:g} s: a font may be missing"


async def _marked_picture(collector: EvidenceCollector, path: Path, within: float) -> None:
    """Take the picture, with what failed tinted if that can be done. Raises Playwright's errors and TimeoutError."""
    marks = await marks_of(collector.aimed, collector.similar) if collector.aimed else ()
    shot = partial(collector.tab.picture, path, within, full_page=collector.request.full_page)
    try:
        await shot(marks=marks)
    except PlaywrightTimeoutError:
        raise
    except PlaywrightError:
        if not marks:
            raise
        await shot()


async def _dom(collector: EvidenceCollector, path: Path) -> str:
    content = await _dom_of(collector.tab.page)
    await asyncio.to_thread(path.write_bytes, content.encode("utf-8", "replace"))
    return HELD if collector.tab.held else ""


async def _take_har(
    collector: EvidenceCollector, segments: Sequence[har.HarSegment], close: Callable[[float], Awaitable[bool]]
) -> None:
    """Take the HAR last: the recording is written when the context closes.

    The observed requests need no answer from the browser: they are written even if the time is over.
    """
    await close(collector.deadline.clip(CLOSE_SECONDS * collector.request.scale, collector.scene.clock.now()))
    frozen = [segment.copy() for segment in segments]

    def write(path: Path) -> str:
        document = har.merge_har(frozen)
        path.write_text(json.dumps(document), encoding="utf-8")  # in ASCII: a page may post half a surrogate pair
        return str(document["log"].get("comment", ""))

    collector.deadline = Deadline.after(_PACK_SECONDS * collector.request.scale, collector.scene.clock.now())
    await collector.file(HAR, _PACK_SECONDS, lambda path: asyncio.to_thread(write, path))


# dom_snapshot.html: the page as it is now, with what its HTML alone does not tell. It is a copy, made by a script in a
# world of its own: the page's scripts and observers notice nothing. The copy belongs to a document without a window, in
# which no element of the page comes to life.

_FRAMES = 20
"""Frames of other origins that are copied, of each page the first ones."""
_FRAME_SECONDS = 0.5

_COPY = """(_, [hidden, whole]) => {
  const parent = () => { try { return window.frameElement } catch { return null } };
  if (!whole && parent()) return null;  // the copy of the document around it has it
  const made = document.implementation.createHTMLDocument('');
  const secret = e => e.type === 'password' ||
    /password|one-time-code|\\bcc-/.test(e.getAttribute('autocomplete') || '');
  const told = e => e.value && secret(e) ? hidden : e.value;
  const shadow = (...nodes) => {
    const template = made.createElement('template');
    template.setAttribute('shadowrootmode', 'open');
    template.content.append(...nodes);
    return template;
  };
  const inside = e => { try { return e.contentDocument?.documentElement } catch { return null } };
  const fill = {
    input: (e, to) => {
      if (e.type === 'checkbox' || e.type === 'radio') to.toggleAttribute('checked', e.checked);
      else if (e.type !== 'file' && (e.value || e.hasAttribute('value'))) to.setAttribute('value', told(e));
    },
    textarea: (e, to) => { to.textContent = told(e); },
    option: (e, to) => { to.toggleAttribute('selected', e.selected); },
  };
  const copy = node => {
    const to = made.importNode(node, true);
    if (node.nodeType !== 1) return to;
    const copies = [to, ...to.querySelectorAll('*')];
    [node, ...node.querySelectorAll('*')].forEach((e, number) => {
      const here = copies[number];
      fill[e.localName]?.(e, here);
      if (e.shadowRoot) here.prepend(shadow(...[...e.shadowRoot.childNodes].map(copy)));
      const framed = ['iframe', 'frame'].includes(e.localName) && inside(e);
      if (!framed) return;
      const shown = made.createElement('div');
      shown.setAttribute('data-frame', framed.ownerDocument.URL);
      shown.append(shadow(copy(framed)));
      here.after(shown);
    });
    return to;
  };
  return (document.doctype ? '<!DOCTYPE html>\\n' : '') + copy(document.documentElement).outerHTML;
}"""
_DOM = script("dom", _COPY)


async def _dom_of(page: Page) -> str:
    """The page with its open shadow roots, its frames, and what its fields contain, except passwords.

    Shadow roots and frames are `<template shadowrootmode=open>`: that of a frame is in a `<div data-frame=URL>` behind
    its element, or behind the document if it is of another origin. Raises Playwright's errors.
    """
    whole: str = await _DOM.of_page(page, [MARK, True])
    others = [frame for frame in page.frames if frame is not page.main_frame][:_FRAMES]
    return whole + "".join(await asyncio.gather(*map(_framed, others)))


async def _framed(frame: Frame) -> str:
    """A frame whose origin is not that of the document around it; empty for others, and if it does not answer."""
    try:
        found = await _DOM.of_page(frame, [MARK, False], _FRAME_SECONDS)
    except PlaywrightError:
        return ""
    shown = f'\n<div data-frame="{escape(frame.url)}"><template shadowrootmode="open">{found}</template></div>'
    return shown if found else ""
