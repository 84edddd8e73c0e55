"""Asks the page about a selector that failed: how many match, are they visible, covered by what (DESIGN 3)."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from playwright.async_api import CDPSession, FrameLocator, Locator, Page
from playwright.async_api import Error as PlaywrightError

from harness.browser.isolated import script
from harness.browser.other_frame import SECONDS, other_frame

TEXT_SHOWN = 80
_TEXT_CONDITION = re.compile(
    r""":(?:has-text|text|text-is|text-matches)\((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^()"'])*\)"""
)
_COMBINATORS = (">", "+", "~", ",", ">>")
INSIDE = ">>>"
"""Stands between the selectors of nested frames."""
_ASK = script(
    "ask",
    """
matches => {
  const short = e => {
    const text = (e.textContent || '').trim().replace(/\\s+/g, ' ').slice(0, 60);
    return e.cloneNode(false).outerHTML.replace(/<\\/[^>]*>$/, '').slice(0, 200) + text;
  };
  const shown = e => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && e.checkVisibility({visibilityProperty: true});
  };
  const textOf = e => {
    const copy = e.cloneNode(true);
    for (const part of copy.querySelectorAll('script, style, noscript')) part.remove();
    return (copy.textContent || '').trim().replace(/\\s+/g, ' ').slice(0, 1000);
  };
  matches = matches.filter(e => e.isConnected);  // one that is re-created may be gone by now
  const first = matches[0];
  if (!first) {
    const names = new Set();
    for (const e of [...document.querySelectorAll('[id],[name],[class],[data-testid]')].slice(0, 500)) {
      if (e.id) names.add('#' + e.id);
      for (const c of e.classList) names.add('.' + c);
      for (const a of ['name', 'data-testid']) if (e.hasAttribute(a)) names.add(`[${a}="${e.getAttribute(a)}"]`);
    }
    return {count: 0, matches: [], names: [...names].slice(0, 500)};
  }
  const box = first.getBoundingClientRect();
  const top = first.getRootNode().elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  const free = !top || first.contains(top) || top.contains(first) || first.labels && [...first.labels].includes(top);
  return {
    count: matches.length,
    matches: matches.slice(0, 5).map(short),
    names: [],
    visible: shown(first),
    visible_count: matches.filter(shown).length,
    text: textOf(matches.find(shown) || first),
    disabled: first.matches(':disabled, :read-only:is(input, textarea)') || !!first.closest('[aria-disabled="true"]'),
    covered_by: free ? null : short(top),
  };
}
""",
)
_DESCRIBE = script(
    "describe",
    """
([e]) => ({
  tag: e.tagName.toLowerCase(),
  role: e.getAttribute('role') || {A: 'link', BUTTON: 'button', SELECT: 'combobox', TEXTAREA: 'textbox'}[e.tagName]
    || (e.tagName === 'INPUT' ? {checkbox: 'checkbox', radio: 'radio', submit: 'button'}[e.type] || 'textbox' : ''),
  name: (e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || e.getAttribute('placeholder')
    || e.getAttribute('name') || '').trim().slice(0, 80),
})
""",
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the page says of a selector's matches; the flags are the first match's."""

    count: int
    matches: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    visible: bool = True
    visible_count: int = 0
    text: str = ""
    """Of the first match that is visible, else of the first."""
    disabled: bool = False
    covered_by: str | None = None
    without_text: str = ""
    """Nothing matches; without its `:has-text(...)` and the like the selector would: what it is then."""
    in_frame: str = ""
    """Nothing matches, and something would in this frame, which the step does not name."""
    missing_frame: str | None = None
    """Which of the step's frames matches nothing."""
    ambiguous_frame: str | None = None
    """Which of them matches several; `count` and `matches` are its."""

    @property
    def frame_missing(self) -> bool:
        return self.missing_frame is not None


async def ask(page: Page, selector: str, frame: str | None, within: float = 0.0) -> Facts:
    """Facts of a selector, now. Never waits for it; the caller bounds the time, and says how much of it there is."""
    scope: Page | FrameLocator = page
    for part in frames_of(frame):
        count = await scope.locator(part).count()
        if count == 0:
            return Facts(0, missing_frame=part)
        if count > 1:
            frames = await _ASK.of_all(scope.locator(part))
            return replace(facts_of(frames, part), ambiguous_frame=part)
        scope = scope.frame_locator(part)
    facts = facts_of(await _ASK.of_all(locate(page, selector, frame)), selector)
    if facts.count == 0 and frame is None and (inside := await other_frame(page, selector, max(SECONDS, within / 2))):
        return replace(facts, similar=(), in_frame=inside)
    bare = "" if facts.count else without_text(selector)
    if not bare:
        return facts
    others = facts_of(await _ASK.of_all(locate(page, bare, frame)), bare)
    return replace(facts, similar=(), without_text=bare, text=others.text) if others.count else facts


def without_text(selector: str) -> str:
    """The selector without its conditions on text; empty when it has none, or nothing else that could match. Pure."""
    bare = _TEXT_CONDITION.sub("", selector)
    parts = bare.split() if bare != selector else []
    return bare if parts and parts[0] not in _COMBINATORS and parts[-1] not in _COMBINATORS else ""


def elsewhere(facts: Facts) -> str:
    """In which frame the element is, as a part of a sentence; empty when it is in none."""
    return f"the frame {facts.in_frame} has it" if facts.in_frame else ""


def textless(facts: Facts) -> str:
    """What a selector would match but for the text it asks for, as a part of a sentence; empty when it would not."""
    if not facts.without_text:
        return ""
    return f"{facts.without_text} matches, with the text {facts.text[:TEXT_SHOWN]!r}"


def facts_of(answer: dict[str, Any], selector: str) -> Facts:
    """The page's answer as Facts. Pure."""
    return Facts(
        count=answer["count"],
        matches=tuple(answer["matches"]),
        similar=similar(selector, answer["names"]),
        visible=answer.get("visible", True),
        visible_count=answer.get("visible_count", 0),
        text=answer.get("text", ""),
        disabled=answer.get("disabled", False),
        covered_by=answer.get("covered_by"),
    )


def similar(selector: str, names: list[str]) -> tuple[str, ...]:
    """Selectors of the page that look like the last simple one of `selector`."""
    parts = re.findall(r"[#.][\w-]+|\[[\w-]+=[^\]]+\]", selector)
    return tuple(get_close_matches(parts[-1], names, n=3, cutoff=0.6)) if parts else ()


def locate(page: Page, selector: str, frame: str | None) -> Locator:
    """The locator of a selector, in a frame when one is named."""
    scope: Page | FrameLocator = page
    for part in frames_of(frame):
        scope = scope.frame_locator(part)
    return scope.locator(selector)


def frames_of(frame: str | None) -> list[str]:
    """The selectors from the outermost iframe to the one meant; `#outer >>> #inner` is one inside the other."""
    return [] if frame is None else [part.strip() for part in frame.split(INSIDE)]


async def describe(locator: Locator, seconds: float) -> dict[str, str]:
    """Tag, role and accessible name of the first match, roughly; empty when it cannot be had in time."""
    try:
        async with asyncio.timeout(seconds):
            found: dict[str, str] = await _DESCRIBE.of_one(locator.first, None, seconds)
    except (PlaywrightError, TimeoutError):
        return {}
    return found


async def answers(control: CDPSession, seconds: float) -> bool:
    """Whether the page's own process still answers. Unlike `page.evaluate`, this does not wait for a navigation."""
    try:
        async with asyncio.timeout(seconds):
            await control.send("Runtime.evaluate", {"expression": "1"})
    except TimeoutError:
        return False
    except PlaywrightError:  # an answer too: it is gone, and that is told apart elsewhere
        return True
    return True
