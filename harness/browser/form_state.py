"""The state of a page: fields, storage, elements; it is read, restored and compared.

A comparison gives the differences between two states, a line each. Values of cookies, storage and secret fields never
appear in it. Order and expiry times of cookies do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import CDPSession, StorageState

from harness.browser.failures.scene import shortened
from harness.browser.isolated import ask

_SCROLL_SLACK = 2.0
"""Pixels by which a scroll position may differ, since the browser rounds it."""
_GONE, _NEW, _OTHER = "was saved, is missing", "was not saved, is present", "differs"


def storage_differences(saved: StorageState, now: StorageState) -> Iterator[str]:
    """The differences in cookies, localStorage and IndexedDB."""
    yield from _compare_values(_cookies(saved), _cookies(now))
    yield from _compare_values(_local(saved), _local(now))
    yield from _compare_values(_databases(saved), _databases(now))


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
    yield from _compare_values(_session(saved), _session(now))
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


def _session(page: PageState) -> dict[str, str]:
    return {f"sessionStorage {name} of {page.origin}": value for name, value in page.session.items()}


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
        return _bare(saved.value) == _bare(now.value)
    return bool(saved.kind == now.kind and saved.value == now.value)


def _bare(files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in file.items() if key != "content"} for file in files]


def _describe_change(saved: FormField, now: FormField) -> str:
    if saved.secret or now.secret:
        return _OTHER
    shown = _SHOWN.get(saved.kind, _text)
    lost = saved.kind == "file" and any(file["content"] is None for file in saved.value)
    return f"was {shown(saved.value)}, is {shown(now.value)}" + (" (too large to keep)" if lost else "")


def _text(value: Any) -> str:
    return repr(shortened(str(value)))


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


async def read_state(control: CDPSession, room: int) -> tuple[PageState, int]:
    """Read the state of a control session's page in one call.

    `room`: bytes of files that may be kept; the rest of it is returned.
    """
    answer = await ask(control, _READ, room)
    return state_of_answer(answer), int(answer["room"])


def state_of_answer(answer: Mapping[str, Any]) -> PageState:
    """Read the page's answer. Pure."""
    x, y = answer["scroll"]
    fields = tuple(FormField(*each) for each in answer["fields"])
    return PageState(answer["url"], answer["origin"], answer["status"], (x, y), answer["session"], fields)


async def fill(control: CDPSession, fields: Sequence[FormField], scroll: tuple[float, float]) -> list[str]:
    """Fill fields as a person's typing would, and scroll. Returns the places that could be filled.

    Boxes are clicked, those to be checked first: a radio button unchecks the others.
    """
    ordered = sorted(fields, key=lambda each: each.kind == "check" and not each.value)
    wanted = [[each.place, each.value] for each in ordered]
    filled: list[str] = await ask(control, _FILL, wanted, list(scroll))
    return filled
