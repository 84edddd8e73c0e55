"""The acts with files: `upload` and `download`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from playwright.async_api import Download as BrowserDownload
from playwright.async_api import FileChooser, Locator
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.acts.attempt import ActContext
from harness.browser.isolated import script
from harness.browser.whole_files import WholeFiles, whole_files
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Download, Upload

_DOWNLOADS = "downloads"
_TAKES_FILES = script("takes_files", "([e]) => (e.matches('label') ? e.control : e)?.type === 'file'")


async def upload(attempt: ActContext, step: Upload) -> Mapping[str, Any]:
    """Upload into a file field (or its label); for any other element, into the file chooser that its click opens."""
    values = step.value if isinstance(step.value, list) else [step.value]
    files = [resolve_upload(attempt.request.uploads, value) for value in values]
    target = attempt.locator(step.selector, step.frame)
    if await attempt.answer(_TAKES_FILES, target):
        await attempt.act(target, lambda ms: target.set_input_files(files, timeout=ms))
    else:
        chooser = await _chooser(attempt, step, target)
        if len(files) > 1 and not chooser.is_multiple():
            message = f"the file chooser of {step.selector} takes one file, not {len(files)}"
            raise Failed(Failure("INVALID_INPUT", message))
        await chooser.set_files(files, timeout=attempt.ms())
    return {"files": [file.name for file in files]}


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
    async with whole_files(browser, attempt.net_log, world, all_=all_) as files:
        try:
            return await _download(attempt, step, files)
        except (PlaywrightTimeoutError, Failed) as error:
            if files is None or files.reading is None:
                raise
            raise _not_ended(step, files.reading) from error


async def _download(attempt: ActContext, step: Download, files: WholeFiles | None) -> Mapping[str, Any]:
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
    path = free_path(attempt.request.folder / _DOWNLOADS, name)
    await coming.save_as(path)
    return {"file": path.name, "bytes": path.stat().st_size, "path": str(path)}


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
