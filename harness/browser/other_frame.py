"""In which frame of a page an element is that the page itself does not have: what a step forgot to name."""

from __future__ import annotations

import asyncio
import json
from itertools import islice

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Frame, Page

SECONDS = 0.3
"""For all frames together: one that hangs answers nothing, and what is known of the page is told all the same. More
where there is time: a busy machine needs it.
"""
MOST = 10
"""Frames that are looked into."""
_NAMES = (("id", "#{}"), ("name", "iframe[name={}]"), ("title", "iframe[title={}]"), ("src", "iframe[src={}]"))


async def other_frame(page: Page, selector: str, seconds: float = SECONDS) -> str:
    """The `frame` with which the selector would match, as a step writes it; empty when there is none, or no time."""
    try:
        async with asyncio.timeout(seconds):
            frames = [*islice((each for each in page.frames if each.parent_frame), MOST)]
            counts = await asyncio.gather(*(each.locator(selector).count() for each in frames), return_exceptions=True)
            for frame, count in zip(frames, counts, strict=True):
                if isinstance(count, int) and count:
                    return await _named(frame)
    except (TimeoutError, PlaywrightError):
        pass
    return ""


async def _named(frame: Frame) -> str:
    """The selectors of its iframe, from the outermost on."""
    path: list[Frame] = []
    inner: Frame | None = frame
    while inner is not None and inner.parent_frame is not None:
        path.insert(0, inner)
        inner = inner.parent_frame
    return " >>> ".join(await asyncio.gather(*map(_selector, path)))


async def _selector(frame: Frame) -> str:
    element = await frame.frame_element()
    values = await asyncio.gather(*(element.get_attribute(attribute) for attribute, _ in _NAMES))
    for (attribute, form), value in zip(_NAMES, values, strict=True):
        if value and (attribute != "id" or value.replace("-", "_").isidentifier()):
            return form.format(value if attribute == "id" else json.dumps(value, ensure_ascii=False))
    return "iframe"
