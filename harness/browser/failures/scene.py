"""The facts that a failure is judged by."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection
from itertools import islice
from typing import Any

from msgspec import Struct, field
from playwright.async_api import CDPSession, Frame, FrameLocator, Locator, Page
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.bounded import bounded
from harness.browser.failures.near_misses import NAME_CONDITION, nearest_text, prefixes, similar, without_text
from harness.browser.isolated import DISPLAYED, TEXTS, script
from harness.browser.locating import frames_of, in_playwright, locate
from harness.browser.page_events import PageEvents
from harness.browser.process import Chromium
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure
from harness.resilience import Clock, Deadline
from harness.spec.names import ANYWHERE, Domains
from harness.spec.page_steps import HistoryStep, Wait
from harness.spec.step_keys import Point
from harness.spec.steps import Open, Screenshot, Step, Submit, Type
from harness.task_secrets import hidden
from harness.values import replace


class UnseenError(PlaywrightTimeoutError):
    """What was looked for was not seen in time, on a page that has answered lately."""


# Playwright's call log of an act that did not end. Pure.

_TAIL = 12
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PERFORMED = re.compile(r"performing \w[\w ]* action|\bpress\(|setInputFiles\(|keyboard\.")
_INSIDE = re.compile(r"(attempting|retrying) (select option|fill) action")
_CHECKED = "waiting for element to be visible"
_FILES = re.compile(r'locator resolved to <(label\b|input\b.*type="file")')
_OBSTACLES = (
    ("ELEMENT_HIDDEN", re.compile(r"is not visible|outside of the viewport")),
    ("ELEMENT_DISABLED", re.compile(r"is not enabled|is not editable|is inert")),
    ("ELEMENT_COVERED", re.compile(r"intercepts pointer events")),
    ("ELEMENT_UNSTABLE", re.compile(r"is not stable|detached from the DOM")),
)
"""What Playwright says of an element that it cannot act on yet, and the code of the failure if that does not end."""


class CallLog(Struct, frozen=True):
    """The lines after `Call log:` in an error's message."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, message: str) -> CallLog:
        clean = _ANSI.sub("", message).partition("Browser logs:")[0]
        return cls(tuple(line.strip(" -\t") for line in clean.partition("Call log:")[2].splitlines() if line.strip()))

    @property
    def tail(self) -> list[str]:
        return list(self.lines[-_TAIL:])

    def contains(self, pattern: str) -> bool:
        return any(re.search(pattern, line) for line in self.lines)

    @property
    def found(self) -> bool:
        """Whether the element was found at all."""
        return self.contains(r"locator resolved to")

    @property
    def ends_in_silent_call(self) -> bool:
        """Whether the log ends where Playwright fills, chooses or hands over files, in one call inside the page.

        Playwright logs nothing after that. A page whose scripts hold it up may or may not have been changed.
        """
        last = self.lines[-1] if self.lines else ""
        inside = _INSIDE.search(last) or (_CHECKED in last and any(map(_INSIDE.search, self.lines)))
        return bool(inside or _FILES.match(last))

    @property
    def on_the_brink(self) -> bool:
        """Whether the element was ready and the act came next, as the time ended: perhaps it was still performed."""
        return bool(self.lines) and self.lines[-1] == "done scrolling"

    @property
    def dragging(self) -> bool:
        """Whether a drag was begun and not ended: pressed, moved, not released."""
        return self.contains(r"move and down action") and not self.contains(r"performing move and up action")

    @property
    def effect(self) -> Effect:
        """Whether the act was performed. A drag takes effect only with the release."""
        if self.contains(r"action done") and not self.dragging:
            return Effect.DONE
        return Effect.POSSIBLE if self.ends_in_silent_call or any(map(_PERFORMED.search, self.lines)) else Effect.NONE

    @property
    def untouched(self) -> bool:
        """Whether the element was not there yet, or was still being waited for to be ready."""
        waited = self.contains(r"waiting for") and not self.found
        return self.effect is Effect.NONE and (waited or self.contains(r"attempting \w[\w ]* action"))

    @property
    def obstacle(self) -> tuple[str, str] | None:
        """What kept the act from its element at the last check: the code, and the line that says so."""
        for line in reversed(self.lines):
            for code, said in _OBSTACLES:
                if said.search(line):
                    return code, line
        return None

    @property
    def moving(self) -> bool:
        """Whether the element moved at some check."""
        return self.contains(r"is not stable")

    @property
    def covering(self) -> str | None:
        """The element that receives the click instead."""
        for line in reversed(self.lines):
            found = re.search(r"(<.+>.*) intercepts pointer events", line)
            if found:
                return found[1]
        return None


# Queries the page about a selector that failed: how many elements match, are they visible, what covers them.

_TEXT_SHOWN = 80
_PARTS = 6
"""The most parts of a selector that are tried one after the other."""
_NAMES_OF = """
  const names = roots => {
    const found = new Set();
    const all = roots.flatMap(root => [...root.querySelectorAll('[id],[name],[class],[data-testid]')]);
    for (const e of all.slice(0, 500)) {
      if (e.id) found.add('#' + e.id);
      for (const c of e.classList) found.add('.' + c);
      for (const a of ['name', 'data-testid']) if (e.hasAttribute(a)) found.add(`[${a}="${e.getAttribute(a)}"]`);
    }
    return [...found].slice(0, 500);
  };
"""
_NAMES_IN = script(
    "names", "(matches, beside) => {" + _NAMES_OF + "return names(beside ? matches.map(e => e.parentNode) : matches); }"
)
"""The names in what matches, or beside it."""
_ASK = script(
    "ask",
    "matches => {"
    + DISPLAYED
    + _NAMES_OF
    + """
  const short = e => {
    const text = (e.textContent || '').trim().replace(/\\s+/g, ' ').slice(0, 60);
    return e.cloneNode(false).outerHTML.replace(/<\\/[^>]*>$/, '').slice(0, 200) + text;
  };
  const told = e => e.type === 'password' ? '' : fold(textOf(e)).slice(0, 1000);
  matches = matches.filter(e => e.isConnected);  // one that is re-created may be gone by now
  const first = matches[0];
  if (!first) return {count: 0, matches: [], names: names([document])};
  const up = e => e.assignedSlot || e.parentElement || e.getRootNode().host;
  const inertAt = e => { for (; e; e = up(e)) if (e.inert) return e; return null; };
  const named = e => e.tagName.toLowerCase()
    + (e.id ? '#' + e.id : e.tagName === 'DIALOG' ? '' : e.role ? `[role=${e.role}]` : '[aria-modal=true]');
  const box = first.getBoundingClientRect();
  const top = first.getRootNode().elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  const labelled = !!top && [...(first.labels || [])].some(label => label.contains(top));
  const free = !top || first.contains(top) || top.contains(first) || labelled;
  // A page that is not inert is behind a dialog that is modal, that covers the element, or whose backdrop does.
  const cover = free ? null : top.getBoundingClientRect();
  const backdrop = cover && cover.width >= 0.9 * innerWidth && cover.height >= 0.9 * innerHeight;
  const modal = e => e.getAttribute('aria-modal') === 'true' || e.matches(':modal') || backdrop || e.contains(top);
  const kinds = 'dialog[open], [role=dialog], [role=alertdialog], [aria-modal=true]';
  const open = [...document.querySelectorAll(kinds)].filter(
    e => visible(e) && !inertAt(e) && !e.contains(first) && (free || inertAt(first) || modal(e)));
  const moving = [];
  for (let e = first; e; e = e.parentElement) moving.push(...e.getAnimations());
  const endless = moving.find(a => a.playState === 'running' && a.effect?.getComputedTiming().endTime === Infinity);
  const calms = sheet => {
    try {
      const rules = [...sheet.cssRules].filter(rule => /prefers-reduced-motion/.test(rule.media?.mediaText));
      return rules.some(rule => [...rule.cssRules].some(each => each.selectorText && first.closest(each.selectorText)));
    } catch {
      return false;  // a style sheet of another origin
    }
  };
  return {
    count: matches.length,
    matches: matches.slice(0, 5).map(short),
    names: [],
    visible: visible(first),
    visible_count: matches.filter(visible).length,
    text: told(matches.find(displayed) || first),
    disabled: first.matches(':disabled') || !!first.closest('[aria-disabled="true"]') || !!inertAt(first),
    inert: !!inertAt(first),
    dialog: open.length ? named(open.at(-1)) : '',
    read_only: first.matches('input[readonly], textarea[readonly], [aria-readonly="true"]'),
    // The fault `covered` switches the pointer off, too, so that no click comes before its cover.
    untouchable: getComputedStyle(first).pointerEvents === 'none' && !top?.dataset?.fault,
    covered_by: free ? null : short(top),
    labelled: labelled && !first.contains(top),
    box: [box.x, box.y, box.width, box.height],
    endless: endless ? endless.animationName || endless.id || 'an animation' : '',
    calmed: !!endless && [...document.styleSheets].some(calms),
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


class Facts(Struct, frozen=True):
    """The facts about a selector's matches; the flags are those of the first match."""

    count: int
    matches: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    visible: bool = True
    visible_count: int = 0
    text: str = ""
    """The text of the first visible match, else of the first match."""
    disabled: bool = False
    inert: bool = False
    """Whether it is in a part of the page that is `inert`: it counts as disabled too."""
    dialog: str = ""
    """The open dialog that it is not in; empty if there is none."""
    read_only: bool = False
    untouchable: bool = False
    """Whether its style lets the pointer through: `pointer-events: none`."""
    covered_by: str | None = None
    labelled: bool = False
    """What is on top of it belongs to its own label."""
    box: tuple[float, ...] = ()
    """Its place and size on the screen."""
    endless: str = ""
    """The name of an animation without an end that moves it, or what it is in."""
    calmed: bool = False
    """Whether the page has another style for it, or for what it is in, for visitors who want less motion."""
    without_text: str = ""
    """The match that the selector would have without its `:has-text(...)` and the like, if it has none with them."""
    matched: str = ""
    """The longest beginning of the selector that matches something; empty if none does."""
    unmatched: str = ""
    """The part of the selector after which it matches nothing any more; empty if it has only one."""
    in_frame: str = ""
    """The frame in which the selector would match, if the step names no frame and the page has no match."""
    missing_frame: str | None = None
    """The step's frame selector that matches nothing."""
    ambiguous_frame: str | None = None
    """The step's frame selector that matches several frames; `count` and `matches` are about it."""

    @property
    def ready(self) -> bool:
        """Whether nothing that can be seen keeps an act from it, except that it may move."""
        free = self.covered_by is None and not self.untouchable
        return self.count > 0 and self.visible and not self.disabled and free


async def ask(page: Page, selector: str, frame: str | None, within: float = 0.0, *, briefly: bool = False) -> Facts:
    """Ask the page for facts about a selector, without waiting for it. The caller limits the time to `within`.

    `briefly`: without a search for what it matches elsewhere.
    """
    scope: Page | FrameLocator = page
    for part in frames_of(frame):
        frames = scope.locator(in_playwright(page, part))
        count = await frames.count()
        if count == 0:
            return Facts(0, missing_frame=part)
        if count > 1:
            return replace(facts_of(await _ASK.of_all(frames), part), ambiguous_frame=part)
        scope = frames.content_frame
    facts = facts_of(await _ASK.of_all(locate(page, selector, frame)), selector)
    if briefly:
        return facts
    if facts.count == 0 and frame is None and (inside := await other_frame(page, selector, max(SECONDS, within / 2))):
        return replace(facts, similar=(), in_frame=inside)
    return facts if facts.count else await _with_near_misses(page, selector, frame, facts)


async def _with_near_misses(page: Page, selector: str, frame: str | None, facts: Facts) -> Facts:
    """Add what nearly matches a selector that matches nothing."""
    bare = without_text(selector)
    named = NAME_CONDITION.search(selector) is not None
    texts = await TEXTS.of_all(locate(page, bare, frame), named) if bare else []
    if texts:
        return replace(facts, similar=(), without_text=bare, text=nearest_text(selector, texts))
    beginnings, matched = prefixes(selector)[:_PARTS], ""
    for beginning, part in beginnings:
        found = facts_of(await _ASK.of_all(locate(page, beginning, frame)), part)
        if found.count == 0:
            unmatched, near = part if len(beginnings) > 1 else "", found.similar
            if matched:
                near = similar(part, await _NAMES_IN.of_all(locate(page, matched, frame), part.startswith(("+", "~"))))
            return replace(facts, similar=near, matched=matched, unmatched=unmatched)
        matched = beginning
    return facts


def near_miss(facts: Facts) -> str:
    """The frame that has the element, else what the selector would match without its text, else its wrong part.

    It is a part of a sentence; empty if there is nothing of the kind.
    """
    if facts.in_frame:
        return f"the frame {facts.in_frame} has it"
    if facts.without_text:
        return f"{facts.without_text} matches, with the text {hidden(facts.text)[:_TEXT_SHOWN]!r}"
    if facts.unmatched and facts.matched:
        return f"{facts.matched} matches, but with {facts.unmatched} nothing does"
    return f"already {facts.unmatched} matches nothing" if facts.unmatched else ""


def facts_of(answer: dict[str, Any], selector: str) -> Facts:
    """Read the page's answer. Pure."""
    told: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in answer.items()}
    near = similar(selector, told.pop("names"))
    return Facts(**told, similar=near)


async def describe(locator: Locator, seconds: float) -> dict[str, str]:
    """Tag, role and accessible name of the first match, approximately; empty if not available in time."""
    found: dict[str, str] = await bounded(_DESCRIBE.of_one(locator.first, None, seconds), seconds, {})
    return found


# Finds the frame that has an element which the page itself lacks: the step forgot to name it.

SECONDS = 0.3
"""Seconds for all frames together, so that a hanging frame does not hide the other facts. A busy machine gets more if
there is time.
"""
_MOST = 10
"""The number of frames that are searched."""
_NAMES = (("id", "#{}"), ("name", "iframe[name={}]"), ("title", "iframe[title={}]"), ("src", "iframe[src={}]"))


async def other_frame(page: Page, selector: str, seconds: float = SECONDS) -> str:
    """The `frame` in which the selector would match, as a step writes it; empty if there is none, or no time."""
    try:
        async with asyncio.timeout(seconds):
            frames = [*islice((each for each in page.frames if each.parent_frame), _MOST)]
            counts = await asyncio.gather(
                *(each.locator(in_playwright(page, selector)).count() for each in frames), return_exceptions=True
            )
            for frame, count in zip(frames, counts, strict=True):
                if isinstance(count, int) and count:
                    return await _frame_selectors(frame)
    except (TimeoutError, PlaywrightError):
        pass
    return ""


async def _frame_selectors(frame: Frame) -> str:
    """The selectors of its iframes, from the outermost inwards."""
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


TEXT_LENGTH = 80
LOOK_SECONDS = 2.0
"""Seconds for examining the page while the attempt has time left."""
OVERTIME = 0.4
"""Seconds after the attempt's limit at which the last probe ends (docs/design/deadlines.md)."""
SHORTEST_LOOK = 0.05


class Sighting(Struct):
    """What was seen of the element before the limit, while its act waited for it or was held up."""

    log: CallLog = CallLog(())
    """Playwright's log of the last try that said what held it up."""
    facts: Facts | None = None
    lacked: Failure | None = None
    """What the element still lacked at the last look, in an act that awaits more than the element."""


class FailureContext(Struct, frozen=True):
    """All that may be examined to name a failure."""

    page: Page
    watch: PageEvents
    chromium: Chromium
    control: CDPSession
    """The control session of the page."""
    clock: Clock
    until: Deadline
    """The end of the attempt."""
    domains: Domains = ANYWHERE
    """The domains that the task may reach."""
    selector: str | None = None
    frame: str | None = None
    place: Point | None = None
    """The place in the element at which the pointer acts."""
    acts: bool = False
    """Whether the step may change something."""
    opens: bool = False
    """Whether the step is itself a navigation."""
    waits: bool = False
    """Whether the step only waits: then a timeout is all that can go wrong."""
    fills: bool = False
    """Whether the step types into a field."""
    submits: bool = False
    """Whether the step submits a form: a script may do that without a trace in the call log."""
    repeats: bool = False
    """Whether the file declares that the step may be done twice."""
    pictures: bool = False
    """Whether the step takes a screenshot: that waits for the page's fonts."""
    within: float = 0.0
    what: str = ""
    text: str | None = None
    """The text that a `wait` requires."""
    patience: float = 0.0
    answered: bool = False
    """Whether the page has answered lately: then it does not hang, however long it takes now."""
    world: str = ""
    """The world of the task."""
    logins: Collection[str] = ()
    """Where the task has typed a password: hosts, or pages (host and path)."""
    seen: Sighting = field(default_factory=Sighting)
    scale: float = 1.0
    """The factor for the limits of hints (`--task-timeout-scale`)."""

    @property
    def look(self) -> float:
        """Seconds for the next probe of page or browser."""
        now = self.clock.now()
        return max(SHORTEST_LOOK, min(LOOK_SECONDS * self.scale, self.until.at + OVERTIME * self.scale - now))

    def of_step(self, step: Step, patience: float) -> FailureContext:
        """The same context for one step."""
        target = step.target
        return replace(
            self,
            selector=target,
            frame=getattr(step, "frame", None),
            place=getattr(step, "position", None),
            acts=not step.looks_only,
            opens=isinstance(step, Open | HistoryStep),
            waits=isinstance(step, Wait),
            fills=isinstance(step, Type),
            submits=isinstance(step, Submit),
            pictures=isinstance(step, Screenshot),
            repeats=step.repeatable,
            text=wanted_text(step) if isinstance(step, Wait) else None,
            what=_describe_act(step, target),
            patience=min(patience, self.within),
        )


def _describe_act(step: Step, target: str | None) -> str:
    if target is None:
        return step.describe()
    if not isinstance(step, Wait):
        return f"{step.act} {target}"
    text = wanted_text(step)
    return f"wait for {target}" + ("" if text is None else f" with text {shortened(text)!r}")


def wanted_text(step: Wait) -> str | None:
    """The text that the awaited element must have; a whole number is written without a point."""
    return f"{step.value:g}" if isinstance(step.value, float) else step.value


def shortened(text: str) -> str:
    text = hidden(text)
    return text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…"
