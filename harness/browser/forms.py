"""What a page shows and holds for the person at it: fields, scroll position, sessionStorage. Read and put back.

Fields are found in open shadow roots and in frames of the same origin too. A field's place is its address: `#id`, else
tag and name (of boxes also the value), else the tag; `:nth(n)` when that says several; `host >> field` inside of one.
Hidden fields are the page's own, and left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import CDPSession

from harness.browser.isolated import ask

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
class Field:
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
    """HTTP status it came with, when the browser knows."""
    scroll: tuple[float, float]
    session: Mapping[str, str] = field(repr=False)
    """sessionStorage of the page's own origin."""
    fields: tuple[Field, ...] = ()


async def read_state(control: CDPSession, room: int) -> tuple[PageState, int]:
    """The state of a control session's page in one call to it.

    `room`: bytes of files that may be kept; returned is what is left.
    """
    answer = await ask(control, _READ, room)
    return state_of_answer(answer), int(answer["room"])


def state_of_answer(answer: Mapping[str, Any]) -> PageState:
    """The page's answer as a value. Pure."""
    x, y = answer["scroll"]
    fields = tuple(Field(*each) for each in answer["fields"])
    return PageState(answer["url"], answer["origin"], answer["status"], (x, y), answer["session"], fields)


async def fill(control: CDPSession, fields: Sequence[Field], scroll: tuple[float, float]) -> list[str]:
    """Put values back, as a person's typing would, and scroll. Returns the places that could be filled.

    Boxes are clicked, those to be checked first: a radio button takes the check from the others.
    """
    ordered = sorted(fields, key=lambda each: each.kind == "check" and not each.value)
    wanted = [[each.place, each.value] for each in ordered]
    filled: list[str] = await ask(control, _FILL, wanted, list(scroll))
    return filled
