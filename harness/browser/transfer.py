"""Files in and out: `upload` and `download`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from playwright.async_api import Download as BrowserDownload
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.attempt import Attempt
from harness.failure import Effect, Failed, Failure
from harness.spec.steps import Download, Upload

DOWNLOADS = "downloads"


async def upload(attempt: Attempt, step: Upload) -> Mapping[str, Any]:
    values = step.value if isinstance(step.value, list) else [step.value]
    files = [confined(attempt.request.uploads, value) for value in values]
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(lambda ms: target.set_input_files(files, timeout=ms))
    return {"files": [file.name for file in files]}


def confined(folder: Path, value: str) -> Path:
    """The file to upload; raises Failed when it is not there, or not inside `folder` once links are followed."""
    path = (folder / value).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise Failed(Failure("INVALID_INPUT", f"upload {value}: the file is outside of the task's folder"))
    if not path.is_file():
        raise Failed(Failure("INVALID_INPUT", f"upload {value}: there is no such file"))
    return path


async def download(attempt: Attempt, step: Download) -> Mapping[str, Any]:
    """Click, and keep the file that comes."""
    target = attempt.locator(step.selector, step.frame)
    clicked = False
    try:
        async with attempt.page.expect_download(timeout=attempt.ms()) as coming:
            await attempt.act(lambda ms: target.click(timeout=ms, force=step.force))
            clicked = True
    except PlaywrightTimeoutError as error:
        if not clicked:
            raise
        message = f"no download came after a click on {step.selector}"
        raise Failed(Failure("DOWNLOAD_FAILED", message, effect=Effect.DONE)) from error
    return await _keep(attempt, step, await coming.value)


async def _keep(attempt: Attempt, step: Download, coming: BrowserDownload) -> Mapping[str, Any]:
    name = coming.suggested_filename
    broken = await coming.failure()
    if broken:
        raise Failed(Failure("DOWNLOAD_FAILED", f"{name}: the download broke off ({broken})", effect=Effect.DONE))
    if step.value is not None and name != step.value and not fnmatchcase(name, step.value):
        message = f"the file that came is {name}, not {step.value}"
        raise Failed(Failure("DOWNLOAD_FAILED", message, details={"file": name}, effect=Effect.DONE))
    path = free_path(attempt.request.folder / DOWNLOADS, name)
    await coming.save_as(path)
    return {"file": path.name, "bytes": path.stat().st_size, "path": str(path)}


def free_path(folder: Path, name: str) -> Path:
    """A path in `folder` that is safe as a file name and not taken yet."""
    safe = re.sub(r"[^\w.\- ]", "_", Path(name).name).strip(". ")[:100] or "file"
    stem, suffix = Path(safe).stem, Path(safe).suffix
    path, number = folder / safe, 2
    while path.exists():
        path, number = folder / f"{stem}-{number}{suffix}", number + 1
    return path
