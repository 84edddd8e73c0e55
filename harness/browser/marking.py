"""Tints the element of a failed step in the screenshot of the failure, and what covers it.

Playwright lays the tint over the page for the moment of the screenshot, as it does for its own masks.
"""

from __future__ import annotations

from collections.abc import Sequence

from playwright.async_api import Locator

from harness.browser.bounded import bounded
from harness.browser.failures.scene import FailureContext
from harness.browser.isolated import script
from harness.browser.locating import locate

_SECONDS = 0.3
"""Seconds to find out what covers the element."""

_COVER = script(
    "cover",
    """([element]) => {
  if (!element) return null;
  const {x, y, width, height} = element.getBoundingClientRect();
  const top = element.ownerDocument.elementFromPoint(x + width / 2, y + height / 2);
  if (!top || top.contains(element) || element.contains(top)) return null;
  const parts = [];
  for (let e = top; e; e = e.parentElement) {
    const alike = [...(e.parentElement?.children || [e])].filter(other => other.localName === e.localName);
    parts.unshift(`*[local-name()="${e.localName}"][${alike.indexOf(e) + 1}]`);
  }
  return 'xpath=/' + parts.join('/');
}""",
)


async def marks_of(scene: FailureContext, similar: Sequence[str]) -> tuple[Locator, ...]:
    """What to tint: the step's element, else one with a similar name, and what covers it. It never raises."""
    if scene.selector is None:
        return ()
    element = locate(scene.page, scene.selector, scene.frame)
    found = [element, *(locate(scene.page, each, scene.frame) for each in similar[:1])]
    if cover := await bounded(_COVER.of_all(element, None, _SECONDS), _SECONDS, None):
        found.append(locate(scene.page, str(cover), scene.frame))
    return tuple(found)
