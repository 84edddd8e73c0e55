"""The acts with files: `upload` and `download`."""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

from playwright.async_api import Browser, CDPSession, FileChooser, Locator
from playwright.async_api import Download as BrowserDownload
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.acts.attempt import ActContext
from harness.browser.isolated import script
from harness.browser.net_log import NetLog
from harness.model.record import SAFE_METHODS
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Download, Upload

_TAKES_FILES = script("takes_files", "([e]) => (e.matches('label') ? e.control : e)?.type === 'file'")
_REFUSED = re.compile(r"Node is not (an HTMLInputElement|a file input element)|Non-multiple file input")
"""The words of Playwright, and of Chromium for an `input` of another type, for files that an element did not take."""
_DROPPED_BYTES = 50 * 2**20
_DROP = """
(e, files) => {
  const box = e.getBoundingClientRect(), carried = new DataTransfer();
  for (const [name, type, text] of files)
    carried.items.add(new File([Uint8Array.from(atob(text), c => c.charCodeAt(0))], name, {type}));
  const at = {clientX: box.x + box.width / 2, clientY: box.y + box.height / 2};
  const tell = type => {
    const how = {bubbles: true, cancelable: true, composed: true, dataTransfer: carried, ...at};
    return !e.dispatchEvent(new DragEvent(type, how));
  };
  const entered = tell('dragenter'), taken = tell('dragover') || entered;
  if (taken) tell('drop');
  else tell('dragleave');
  return taken;
}
"""


async def upload(attempt: ActContext, step: Upload) -> Mapping[str, Any]:
    """Upload into a file field (or its label); for any other element, into the file chooser that its click opens."""
    values = step.value if isinstance(step.value, list) else [step.value]
    files = [resolve_upload(attempt.request.uploads, value) for value in values]
    target = attempt.locator(step.selector, step.frame)
    if step.drop:
        await _drop(attempt, step, target, files)
    elif not await _filled(attempt, target, files):
        chooser = await _chooser(attempt, step, target)
        if len(files) > 1 and not chooser.is_multiple():
            message = f"the file chooser of {step.selector} takes one file, not {len(files)}"
            raise Failed(Failure("INVALID_INPUT", message))
        await chooser.set_files(files, timeout=attempt.ms())
    return {"files": [file.name for file in files]}


async def _filled(attempt: ActContext, target: Locator, files: Sequence[Path]) -> bool:
    """Put the files into a file field; return False, and do nothing, if the element is none."""
    try:
        await attempt.act(target, lambda ms: target.set_input_files(files, timeout=ms))
    except PlaywrightError as error:
        if not _REFUSED.search(error.message) or await attempt.answer(_TAKES_FILES, target):
            raise
        return False
    return True


async def _drop(attempt: ActContext, step: Upload, target: Locator, files: Sequence[Path]) -> None:
    """Drop the files onto an element. Like a browser, it drops nothing where no script takes what is dragged."""
    if sum(file.stat().st_size for file in files) > _DROPPED_BYTES:
        message = f"upload {step.selector}: only {_DROPPED_BYTES // 2**20} MiB of files can be dropped"
        raise Failed(Failure("INVALID_INPUT", f"{message}; choose them in the file field"))
    await attempt.act(target, lambda ms: target.scroll_into_view_if_needed(timeout=ms))
    dropped = [
        [file.name, mimetypes.guess_type(file.name)[0] or "", b64encode(file.read_bytes()).decode()] for file in files
    ]
    if not await target.evaluate(_DROP, dropped, timeout=attempt.ms()):
        message = f"nothing takes files that are dragged onto {step.selector}: no `dragover` of it was prevented"
        raise Failed(Failure("ACTION_FAILED", message, details={"selector": step.selector}, effect=Effect.NONE))


async def _chooser(attempt: ActContext, step: Upload, target: Locator) -> FileChooser:
    clicked = False
    try:
        async with attempt.page.expect_file_chooser(timeout=attempt.ms()) as coming:
            await attempt.act(target, lambda ms: target.click(timeout=ms))
            clicked = True
        return await coming.value
    except PlaywrightTimeoutError as error:
        if not clicked:
            raise
        message = f"{step.selector} is not a file field, and a click on it opened no file chooser"
        raise Failed(Failure("ACTION_FAILED", message, effect=Effect.DONE)) from error


def resolve_upload(folder: Path, value: str) -> Path:
    """The file to upload; raises Failed if it does not exist, or lies outside `folder` once links are followed."""
    path = (folder / value).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise Failed(Failure("INVALID_INPUT", f"upload {value}: the file is outside of the task's folder"))
    if not path.is_file():
        raise Failed(Failure("INVALID_INPUT", f"upload {value}: there is no such file"))
    return path


async def download(attempt: ActContext, step: Download) -> Mapping[str, Any]:
    """Click, and keep the file that is downloaded, in this page or in one that the click opens."""
    browser, world, all_ = attempt.tab.context.browser, attempt.request.world, step.effect_class == "write"
    async with _whole_files(browser, attempt.net_log, world, all_=all_) as files:
        try:
            return await _download(attempt, step, files)
        except (PlaywrightTimeoutError, Failed) as error:
            if files is None or files.reading is None:
                raise
            raise _not_ended(step, files.reading) from error


async def _download(attempt: ActContext, step: Download, files: _WholeFiles | None) -> Mapping[str, Any]:
    target = attempt.locator(step.selector, step.frame)
    clicked = False
    try:
        async with attempt.tab.context.expect_event("download", timeout=attempt.ms()) as coming:
            await attempt.act(target, lambda ms: target.click(timeout=ms, force=step.force))
            clicked = True
    except PlaywrightTimeoutError as error:
        if not clicked:
            raise
        message = f"a click on {step.selector} started no download"
        raise Failed(Failure("DOWNLOAD_FAILED", message, effect=Effect.DONE)) from error
    return await _keep(attempt, step, await coming.value, files.broken if files else None)


def _not_ended(step: Download, name: str) -> Failed:
    message = f"Step timeout: download {step.selector}: {name} began, but did not end in time"
    return Failed(Failure("STEP_TIMEOUT", message, details={"file": name}, effect=Effect.DONE))


async def _keep(attempt: ActContext, step: Download, coming: BrowserDownload, broken: str | None) -> Mapping[str, Any]:
    name = coming.suggested_filename
    if step.value is not None and name != step.value and not fnmatchcase(name, step.value):
        message = f"the downloaded file is {name}, not {step.value}"
        raise Failed(Failure("DOWNLOAD_FAILED", message, details={"file": name}, effect=Effect.DONE))
    broken = broken or await _end_of(attempt, step, coming)
    if broken:
        message = f"{name}: the download broke off ({broken})"
        raise Failed(Failure("DOWNLOAD_FAILED", message, effect=Effect.POSSIBLE))  # the file may be asked for again
    path = free_path(attempt.request.folder / "downloads", name)
    await coming.save_as(path)
    return {"file": path.name, "bytes": path.stat().st_size, "path": str(path), "url": coming.url}


async def _end_of(attempt: ActContext, step: Download, coming: BrowserDownload) -> str | None:
    """Wait for the whole file; returns the reason why it broke off, or None."""
    try:
        async with asyncio.timeout(attempt.left()):
            return await coming.failure()
    except TimeoutError as error:
        raise _not_ended(step, coming.suggested_filename) from error


def free_path(folder: Path, name: str) -> Path:
    """A path in `folder` that is safe as a file name and not taken yet."""
    safe = re.sub(r"[^\w.\- ]", "_", Path(name).name).strip(". ")[:100] or "file"
    stem, suffix = Path(safe).stem, Path(safe).suffix
    path, number = folder / safe, 2
    while path.exists():
        path, number = folder / f"{stem}-{number}{suffix}", number + 1
    return path


# Files that answer a request which must not be repeated are read to their end before Chromium sees them: it asks again
# for a download that breaks off, up to five times and by GET, even if it was an answer to a POST. No switch and no call
# of the protocol prevents that. A file that it gets at once, from here, does not break off.

_ANSWERS = {"patterns": [{"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"}]}
_LARGEST = 64_000_000
"""Bytes; a larger file is left to Chromium, which does not keep it in memory."""
_OF_BYTES = ("content-length", "content-encoding", "transfer-encoding")
"""Headers about how the bytes came, which hold no longer."""
_EMPTY = (204, 205)


class _WholeFiles:
    """The answers of the documents of one world, while it downloads."""

    def __init__(self, control: CDPSession, log: NetLog, world: str, *, all_: bool) -> None:
        """`all_`: GETs must not be repeated either."""
        self.broken: str | None = None
        """The error by which a file has broken off."""
        self.reading: str | None = None
        """The URL of the file that is being read."""
        self._control, self._log, self._world, self._all = control, log, world, all_
        self._before = list(log.reader.broken)
        self._led_on: set[str] = set()
        """The requests that an unsafe one was redirected to."""
        self._paused = ""
        self._tasks: set[asyncio.Task[None]] = set()

    def on_answer(self, event: dict[str, Any]) -> None:
        """An answer has come, whose body is still to come."""
        task = asyncio.ensure_future(self._answered(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Let go of all answers; a file that has not come to its end is given up."""
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(PlaywrightError):
            if self.reading:
                await self._control.send("Fetch.failRequest", {"requestId": self._paused, "errorReason": "Aborted"})
            await self._control.detach()

    async def _answered(self, event: Mapping[str, Any]) -> None:
        with contextlib.suppress(PlaywrightError):  # the page is gone
            if self._must_be_whole(event):
                await self._read(event)
            else:
                await self._control.send("Fetch.continueResponse", {"requestId": event["requestId"]})

    def _must_be_whole(self, event: Mapping[str, Any]) -> bool:
        request, number, status = event["request"], event.get("networkId", ""), event.get("responseStatusCode", 0)
        agent = next((value for name, value in request["headers"].items() if name.lower() == "user-agent"), "")
        if not agent.endswith(f"harness-world/{self._world}"):
            return False
        unsafe = self._all or request["method"] not in SAFE_METHODS or number in self._led_on
        if unsafe and number:
            self._led_on.add(number)
        headers = {each["name"].lower(): str(each["value"]) for each in reversed(event.get("responseHeaders", ()))}
        length = headers.get("content-length", "")
        small = not length.isdecimal() or int(length) <= _LARGEST
        return unsafe and 200 <= status < 300 and status not in _EMPTY and small

    async def _read(self, event: Mapping[str, Any]) -> None:
        """Hand over the body when it is there, as far as it came."""
        self.reading, self._paused = event["request"]["url"], event["requestId"]
        body = (await self._control.send("Fetch.getResponseBody", {"requestId": self._paused}))["body"]
        complete = await self._log.complete(self._control)  # the body does not tell whether it is whole
        of = event["request"]["method"], urldefrag(event["request"]["url"]).url, self._world
        new = (each for each in self._log.reader.broken if each not in self._before)  # since the act began
        error = next((each.error for each in new if (each.method, each.url, each.world) == of), None)
        self.broken = self.broken or (error if complete else "ERR_FAILED")
        headers = [each for each in event.get("responseHeaders", ()) if each["name"].lower() not in _OF_BYTES]
        answer = {"responseCode": event["responseStatusCode"], "responseHeaders": headers, "body": body}
        await self._control.send("Fetch.fulfillRequest", {"requestId": self._paused, **answer})
        self.reading = None


@contextlib.asynccontextmanager
async def _whole_files(
    browser: Browser | None, log: NetLog | None, world: str, *, all_: bool
) -> AsyncIterator[_WholeFiles | None]:
    """Read files to their end meanwhile; None where the browser has no log that tells whether they are whole."""
    if browser is None or log is None:
        yield None
        return
    control = await browser.new_browser_cdp_session()
    files = _WholeFiles(control, log, world, all_=all_)
    control.on("Fetch.requestPaused", files.on_answer)
    try:
        await control.send("Fetch.enable", _ANSWERS)
        yield files
    finally:
        await files.end()
