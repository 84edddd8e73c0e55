"""The browser's side of a checkpoint: read from the open pages, and restored into others (docs/design/checkpoints.md).

It exists in memory only. Not saved are a page's history, its opener, the state of its scripts, and frames of other
origins.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import CDPSession, Page, StorageState
from playwright.async_api import Error as PlaywrightError

from harness.browser.context import Tab
from harness.browser.dialogs import DialogAnswer
from harness.browser.emulation import UNCHANGED, Changes
from harness.browser.failures.scene import shortened
from harness.browser.isolated import ask
from harness.browser.storage import whole_storage
from harness.resilience import Clock

_FILE_BYTES = 20 * 2**20
"""Bytes of chosen files of all pages together; files beyond that are not saved, and named afterwards."""
_FILLS = 2
"""How many times one field is filled: a script may reset it once, not for ever."""
_SETTLE_SECONDS = 1.0
"""Seconds that the pages' scripts may take to reach the saved state."""
_PAUSE_SECONDS = 0.05
_REPLACED = re.compile(
    r"Execution context was destroyed|page is navigating|Cannot find context with specified id"
    r"|Inspected target navigated or closed|No frame for given id"
)


@dataclass(frozen=True, slots=True)
class PageCheckpoint:
    """The state that a session can go back to (ports.Saved)."""

    storage: StorageState = field(repr=False)
    pages: tuple[PageState, ...]
    current: int
    """The position of the current page in `pages`."""
    passwords: frozenset[str] = frozenset()
    """Hosts on which a password had been typed."""
    unsaved: tuple[str, ...] = ()
    """The parts that the browser could not give, a line each."""
    answers: tuple[DialogAnswer, ...] = ()
    """The answers to the next dialogs that steps have set."""
    addresses: tuple[str, ...] = ()
    """The addresses of the pages and of their documents."""
    posted: bool = False
    """Whether the current page was the answer to an unsafe request, which is not sent again."""

    changes: Changes = UNCHANGED
    """What `set` steps had changed."""

    @property
    def url(self) -> str:
        return self.pages[self.current].url

    def differences(self, now: PageCheckpoint) -> tuple[str, ...]:
        """The differences from what was saved, a line each."""
        lines = [*storage_differences(self.storage, now.storage), *page_differences(self.pages, now.pages)]
        if self.current != now.current:
            lines.append(f"current page: was page {self.current + 1}, is page {now.current + 1}")
        return (*self.unsaved, *lines)


async def take(tab: Tab, clock: Clock, room: int = _FILE_BYTES) -> PageCheckpoint:
    """Read the present state once no navigation is under way. The caller limits the time. Raises Playwright errors."""
    await tab.watch.frame.settled()
    pages, current = open_pages(tab)
    storage, states = await asyncio.gather(whole_storage(tab.context), _states(tab, pages, clock, room))
    addresses = tuple(address for page in pages for address in tab.watch.addresses(page))
    answers, passwords = tab.watch.dialog_answers.prepared, frozenset(tab.passwords)
    changes = tab.emulation.changes
    return PageCheckpoint(
        storage.state, states, current, passwords, storage.unsaved, answers, addresses, changes=changes
    )


def open_pages(tab: Tab) -> tuple[list[Page], int]:
    """The open pages, and the position of the current one. Raises Playwright's error if the current one was closed."""
    pages = tab.context.pages
    if tab.page not in pages:
        raise PlaywrightError("the page was closed")
    return pages, pages.index(tab.page)


async def _states(tab: Tab, pages: Sequence[Page], clock: Clock, room: int) -> tuple[PageState, ...]:
    states: list[PageState] = []
    for page in pages:
        state, room = await _state(tab, page, clock, room)
        states.append(state)
    return tuple(states)


async def _state(tab: Tab, page: Page, clock: Clock, room: int) -> tuple[PageState, int]:
    """Read one page, and return the rest of `room`. A page that is just being replaced cannot be read: the new one is.

    `room`: bytes of files that may be kept.
    """
    while True:
        try:
            await page.wait_for_load_state("domcontentloaded", timeout=0)
            answer = await ask(await tab.control_of(page), _READ, room)
            return state_of_answer(answer), int(answer["room"])
        except PlaywrightError as error:
            if not _REPLACED.search(error.message):
                raise
            await clock.sleep(_PAUSE_SECONDS / 2)


async def settle(tab: Tab, saved: PageCheckpoint, clock: Clock, *, fills: bool = True) -> tuple[str, ...]:
    """Fill the fields that differ, and wait a moment for the scripts. Returns the differences that remain.

    Without `fills` it only waits, since filling a field may write. The caller limits the time. Raises Playwright's
    errors.
    """
    filled: Counter[tuple[int, str]] = Counter()
    limit = clock.now() + _SETTLE_SECONDS
    while True:
        now = await take(tab, clock, room=0)
        lines = saved.differences(now)
        if len(lines) == len(saved.unsaved) or clock.now() >= limit:
            return lines
        if not (fills and await _refill(tab, saved, now, filled)):
            await clock.sleep(_PAUSE_SECONDS)


async def differing_places(tab: Tab, saved: PageCheckpoint, clock: Clock) -> tuple[str, ...]:
    """The places of fields that exist and have another value than saved. Raises Playwright's errors."""
    now = await take(tab, clock, room=0)
    pages = zip(saved.pages, now.pages, strict=False)
    return tuple(each.place for wanted, found in pages for each in _differing_fields(wanted, found))


def _differing_fields(wanted: PageState, found: PageState) -> list[FormField]:
    known = {each.place: each for each in found.fields}
    return [each for each in wanted.fields if each.place in known and not is_same_value(each, known[each.place])]


async def _refill(tab: Tab, saved: PageCheckpoint, now: PageCheckpoint, fills: Counter[tuple[int, str]]) -> bool:
    """Fill the fields that differ, page by page. Returns whether there was one that could be filled."""
    done = False
    for number, (page, wanted, found) in enumerate(zip(tab.context.pages, saved.pages, now.pages, strict=False)):
        fields = [each for each in _differing_fields(wanted, found) if fills[number, each.place] < _FILLS]
        if fields or wanted.scroll != found.scroll:
            filled = await _fill(await tab.control_of(page), fields, wanted.scroll)
            fills.update((number, place) for place in filled)
            done = done or bool(filled)
    return done


# The differences between two states, a line each. Values of cookies, storage and secret fields never appear in them.
# Order and expiry times of cookies do not count.

_SCROLL_SLACK = 2.0
"""Pixels by which a scroll position may differ, since the browser rounds it."""
_GONE, _NEW, _OTHER = "was saved, is missing", "was not saved, is present", "differs"


def storage_differences(saved: StorageState, now: StorageState) -> Iterator[str]:
    """The differences in cookies, localStorage and IndexedDB."""
    for named in (_cookies, _local, _databases):
        yield from _compare_values(named(saved), named(now))


def page_differences(saved: Sequence[PageState], now: Sequence[PageState]) -> Iterator[str]:
    """The differences between pages, in their order."""
    for number, page in enumerate(saved, 1):
        before = f"page {number}: " if len(saved) > 1 else ""
        if number > len(now):
            yield f"{before}{page.url} was open, is not"
        else:
            yield from (before + line for line in _page(page, now[number - 1]))
    for number, page in enumerate(now[len(saved) :], len(saved) + 1):
        yield f"page {number}: {page.url} was not open, now is"


def _page(saved: PageState, now: PageState) -> Iterator[str]:
    if saved.url != now.url:
        yield f"URL: was {saved.url}, is {now.url}"
    before, after = (
        {f"sessionStorage {name} of {page.origin}": value for name, value in page.session.items()}
        for page in (saved, now)
    )
    yield from _compare_values(before, after)
    yield from _fields(saved.fields, now.fields)
    if any(abs(a - b) > _SCROLL_SLACK for a, b in zip(saved.scroll, now.scroll, strict=True)):
        yield "scroll position: was {:g},{:g}, is {:g},{:g}".format(*saved.scroll, *now.scroll)


def _compare_values(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for what in [*saved, *(each for each in now if each not in saved)]:
        if what not in now:
            yield f"{what}: {_GONE}"
        elif what not in saved:
            yield f"{what}: {_NEW}"
        elif saved[what] != now[what]:
            yield f"{what}: {_OTHER}"


def _cookies(state: StorageState) -> dict[str, str]:
    named: dict[str, str] = {}
    for cookie in state["cookies"]:
        path = "" if cookie["path"] == "/" else f" (path {cookie['path']})"
        named[f"cookie {cookie['name']} of {cookie['domain']}{path}"] = cookie["value"]
    return named


def _local(state: StorageState) -> dict[str, str]:
    return {
        f"localStorage {entry['name']} of {origin['origin']}": entry["value"]
        for origin in state["origins"]
        for entry in origin["localStorage"]
    }


def _databases(state: StorageState) -> dict[str, Any]:
    """The databases, which Playwright returns although its type does not name them."""
    origins: Sequence[Mapping[str, Any]] = state["origins"]
    return {
        f"IndexedDB {database['name']} of {origin['origin']}": database
        for origin in origins
        for database in origin.get("indexedDB", ())
    }


def _fields(saved: Sequence[FormField], now: Sequence[FormField]) -> Iterator[str]:
    before, after = ({each.place: each for each in fields} for fields in (saved, now))
    for place, entry in before.items():
        other = after.get(place)
        if other is None:
            yield f"{place}: {_GONE}"
        elif not is_same_value(entry, other):
            yield f"{place}: {_describe_change(entry, other)}"
    yield from (f"{place}: {_NEW}" for place in after if place not in before)


def is_same_value(saved: FormField, now: FormField) -> bool:
    """Return whether the values are equal; of files everything but the content is compared."""
    if saved.kind == now.kind == "file":
        before, after = ([{**file, "content": None} for file in files] for files in (saved.value, now.value))
        return before == after
    return bool(saved.kind == now.kind and saved.value == now.value)


def _describe_change(saved: FormField, now: FormField) -> str:
    if saved.secret or now.secret:
        return _OTHER
    shown = _SHOWN.get(saved.kind, lambda value: repr(shortened(str(value))))
    lost = saved.kind == "file" and any(file["content"] is None for file in saved.value)
    return f"was {shown(saved.value)}, is {shown(now.value)}" + (" (too large to keep)" if lost else "")


_SHOWN: dict[str, Callable[[Any], str]] = {
    "check": lambda value: "checked" if value else "not checked",
    "select": lambda value: shortened(", ".join(value)) or "nothing",
    "file": lambda value: shortened(", ".join(file["name"] for file in value)) or "no file",
}


# The state that a page shows and keeps: fields, scroll position, sessionStorage. It is read and restored.

_WALK = """
  const kinds = {file: 'file', checkbox: 'check', radio: 'check', hidden: '', submit: '', button: '', reset: '',
    image: ''};
  const kindOf = e => {
    switch (e.localName) {
      case 'input': return kinds[e.type] ?? 'text';
      case 'textarea': return 'text';
      case 'select': return 'select';
    }
    return e.isContentEditable && !e.parentElement?.isContentEditable ? 'editable' : '';
  };
  const insideOf = e => e.shadowRoot || (['iframe', 'frame'].includes(e.localName) ? e.contentDocument : null);
  const placeOf = (e, kind) => {
    if (e.id) return '#' + e.id;
    const name = e.getAttribute('name');
    const value = kind === 'check' && e.hasAttribute('value') ? `[value="${e.getAttribute('value')}"]` : '';
    return e.localName + (name ? `[name="${name}"]` : kind && e.type ? `[type="${e.type}"]` : '') + value;
  };
  const found = new Map();
  const walk = (root, before) => {
    const counts = new Map();
    for (const e of root.querySelectorAll('*')) {
      const kind = kindOf(e), inside = insideOf(e);
      if (!kind && !inside) continue;
      const bare = placeOf(e, kind), count = (counts.get(bare) || 0) + 1;
      counts.set(bare, count);
      const place = before + bare + (count > 1 ? `:nth(${count})` : '');
      if (kind) found.set(place, [e, kind]);
      if (inside) walk(inside, place + ' >> ');
    }
  };
  walk(document, '');
  const valueOf = (e, kind) => kind === 'check' ? e.checked : kind === 'editable' ? e.innerHTML
    : kind === 'select' ? [...e.selectedOptions].map(o => o.value) : e.value;
"""
_READ = (
    "async room => {"
    + _WALK
    + """
  const encoded = file => new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(',') + 1));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
  const filesOf = async e => {
    const files = [];
    for (const f of e.files) {
      const fits = f.size <= room;
      if (fits) room -= f.size;
      const content = fits ? await encoded(f).catch(() => null) : null;
      files.push({name: f.name, type: f.type, size: f.size, modified: f.lastModified, content});
    }
    return files;
  };
  const fields = [];
  for (const [place, [e, kind]] of found) {
    const secret = e.type === 'password' || /password|one-time-code|\\bcc-/.test(e.getAttribute('autocomplete') || '');
    fields.push([place, kind, secret, kind === 'file' ? await filesOf(e) : valueOf(e, kind)]);
  }
  let session = {};
  try { session = {...sessionStorage}; } catch { /* a page without an origin has none */ }
  const status = performance.getEntriesByType('navigation')[0]?.responseStatus || null;
  return {url: location.href, origin: location.origin, status, scroll: [scrollX, scrollY], session, fields, room};
}
"""
)
_FILL = (
    "(wanted, scroll) => {"
    + _WALK
    + """
  const native = (e, name, value) => {
    let holder = Object.getPrototypeOf(e);
    while (!Object.hasOwn(holder, name)) holder = Object.getPrototypeOf(holder);
    Object.getOwnPropertyDescriptor(holder, name).set.call(e, value);
  };
  const tell = (e, ...types) => {
    const view = e.ownerDocument.defaultView;
    for (const type of types) e.dispatchEvent(new view.Event(type, {bubbles: true, composed: true}));
  };
  const fileOf = f => new File([Uint8Array.from(atob(f.content), c => c.charCodeAt(0))], f.name,
    {type: f.type, lastModified: f.modified});
  const put = {
    text: (e, value) => native(e, 'value', value),
    editable: (e, value) => { e.innerHTML = value; },
    select: (e, value) => {
      if (e.multiple) for (const o of e.options) o.selected = value.includes(o.value);
      else e.selectedIndex = [...e.options].findIndex(o => o.value === value[0]);
    },
    file: (e, value) => {
      const list = new DataTransfer();
      for (const f of value) if (f.content !== null) list.items.add(fileOf(f));
      native(e, 'files', list.files);
    },
  };
  const check = (e, value) => {
    if (e.type === 'checkbox' || value) e.click();
    if (e.checked === value) return;
    native(e, 'checked', value);
    tell(e, 'input', 'change');
  };
  const possible = (e, kind, value) => kind !== 'select' || value.every(v => [...e.options].some(o => o.value === v));
  const filled = [];
  for (const [place, value] of wanted) {
    const [e, kind] = found.get(place) || [];
    if (!e || !possible(e, kind, value)) continue;
    if (kind === 'check' && e.checked === value) continue;
    filled.push(place);
    try {
      if (kind === 'check') { check(e, value); continue; }
      put[kind](e, value);
      tell(e, ...(kind === 'editable' ? ['input'] : ['input', 'change']));
    } catch { /* what could not be put back is found by the comparison */ }
  }
  scrollTo({left: scroll[0], top: scroll[1], behavior: 'instant'});
  return filled;
}
"""
)


@dataclass(frozen=True, slots=True)
class FormField:
    """A field and its value: text, whether it is checked, the selected values, HTML, or files."""

    place: str
    kind: str
    secret: bool
    value: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class PageState:
    """One open page."""

    url: str
    origin: str
    status: int | None
    """The HTTP status of the document, if the browser knows it."""
    scroll: tuple[float, float]
    session: Mapping[str, str] = field(repr=False)
    """The sessionStorage of the page's own origin."""
    fields: tuple[FormField, ...] = ()


def state_of_answer(answer: Mapping[str, Any]) -> PageState:
    """Read the page's answer. Pure."""
    x, y = answer["scroll"]
    fields = tuple(FormField(*each) for each in answer["fields"])
    return PageState(answer["url"], answer["origin"], answer["status"], (x, y), answer["session"], fields)


async def _fill(control: CDPSession, fields: Sequence[FormField], scroll: tuple[float, float]) -> list[str]:
    """Fill fields as a person's typing would, and scroll. Returns the places that could be filled.

    Boxes are clicked, those to be checked first: a radio button unchecks the others.
    """
    ordered = sorted(fields, key=lambda each: each.kind == "check" and not each.value)
    filled: list[str] = await ask(control, _FILL, [[each.place, each.value] for each in ordered], list(scroll))
    return filled
