"""The clipboard of a task. A browser has one for all its contexts: what one task copied, another one would paste.

A script in every page tells what is copied. Before a key that pastes, the browser's clipboard gets what the task has
copied, and no other task uses the browser's clipboard until the key was pressed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import BrowserContext, CDPSession
from playwright.async_api import Error as PlaywrightError

NAME = "__taskspecClipboard"
"""The name under which a page finds the function that the harness gives it, and the harness the page's."""
_CONTROL = frozenset({"Control", "ControlOrMeta", "Meta", "ControlLeft", "ControlRight", "MetaLeft", "MetaRight"})
_SHIFT = frozenset({"Shift", "ShiftLeft", "ShiftRight"})
_PASTES, _COPIES = frozenset({"v", "keyv"}), frozenset({"c", "keyc", "x", "keyx"})


def pastes(keys: str) -> bool:
    """Return whether this chord pastes, such as `Control+V`. Pure."""
    held, key = _chord(keys)
    return (bool(held & _CONTROL) and key in _PASTES) or (bool(held & _SHIFT) and key == "insert")


def copies(keys: str) -> bool:
    """Return whether this chord copies or cuts. Pure."""
    held, key = _chord(keys)
    copied = bool(held & _CONTROL) and (key in _COPIES or key == "insert")
    return copied or (bool(held & _SHIFT) and key == "delete")


def _chord(keys: str) -> tuple[frozenset[str], str]:
    *held, key = keys.split("+")
    return frozenset(held), key.lower()


class Clipboard:
    """What a task has copied last: type -> text. It is empty at first, and outlives the task's contexts."""

    def __init__(self) -> None:
        self.items: dict[str, str] = {}

    async def install(self, context: BrowserContext) -> None:
        """Hear what the pages of a context copy. Raises Playwright's errors."""
        await context.expose_binding(NAME, self._called)
        await context.add_init_script(_SCRIPT)

    def _called(self, _: dict[str, Any], copied: dict[str, str] | None = None) -> dict[str, str]:
        if copied is not None:
            self.items = copied
        return self.items

    @asynccontextmanager
    async def used_by(self, keys: str, control: CDPSession, turn: asyncio.Lock) -> AsyncIterator[None]:
        """Inside, a chord may be pressed. `turn` is the browser's: only one task at a time uses its clipboard.

        Raises Playwright's errors.
        """
        if not (pastes(keys) or copies(keys)):
            yield
            return
        async with turn:
            await _settled(control)  # what was copied before is known
            if pastes(keys):
                await _run(control, f"{NAME}({json.dumps(self.items or {'text/plain': ''})})")
            yield
            if copies(keys):
                await _settled(control)


async def _settled(control: CDPSession) -> None:
    """Wait until the page has told what it copied: its messages come in order."""
    await _run(control, "new Promise(done => setTimeout(done))")


async def _run(control: CDPSession, expression: str) -> None:
    """Run a script as if a person had just touched the page: else it may not copy."""
    command = {"expression": expression, "userGesture": True, "awaitPromise": True}
    if "exceptionDetails" in await control.send("Runtime.evaluate", command):
        raise PlaywrightError("the clipboard cannot be used on this page")


_SCRIPT = """
(() => {
  const name = 'NAME', tell = window[name];
  if (!tell) return;
  const execute = Document.prototype.execCommand, later = window.setTimeout;
  let putting = null, scripted = null;
  const short = {text: 'text/plain', url: 'text/uri-list'};
  const typed = type => short[String(type).toLowerCase()] ?? String(type).toLowerCase();
  const focused = root => root.activeElement?.shadowRoot ? focused(root.activeElement.shadowRoot) : root.activeElement;
  const selected = () => {
    const field = focused(document), selection = document.getSelection();
    const has = typeof field?.selectionStart === 'number';
    const inside = has ? field.value.slice(field.selectionStart, field.selectionEnd) : '';
    const text = String(selection ?? '') || inside;
    if (!text) return {};
    if (text === inside) return {'text/plain': text};
    const html = document.createElement('div');
    for (let n = 0; n < selection.rangeCount; n++) html.append(selection.getRangeAt(n).cloneContents());
    return {'text/plain': text, 'text/html': html.innerHTML};
  };
  const follow = event => {
    const data = event.clipboardData, given = {}, before = selected();
    let done = false;
    data.setData = (type, text) => {
      given[typed(type)] = String(text);
      DataTransfer.prototype.setData.call(data, type, text);
    };
    const finish = () => {
      if (done) return;
      done = true;
      const items = event.defaultPrevented ? given : before;
      if (Object.keys(items).length) tell(items);
    };
    const last = () => {
      finish();
      if (!scripted) return;
      scripted.prevented = event.defaultPrevented;
      event.preventDefault();  // a script may copy at any time, also while another task pastes
      data.clearData();
    };
    addEventListener(event.type, last, {once: true});  // added now, it comes after those of the page
    later(() => { finish(); removeEventListener(event.type, last) });
    if (scripted) scripted.finish = finish;
  };
  for (const type of ['copy', 'cut']) addEventListener(type, event => {
    if (!event.isTrusted || !event.clipboardData) return;
    if (!putting) return follow(event);
    event.preventDefault();
    event.stopImmediatePropagation();
    const texts = Object.entries(putting).filter(([type]) => type.startsWith('text/'));
    for (const [type, text] of texts) event.clipboardData.setData(type, text);
  }, true);
  Document.prototype.execCommand = function execCommand(command, ...rest) {
    const wanted = String(command).toLowerCase();
    if (wanted !== 'copy' && wanted !== 'cut') return execute.call(this, command, ...rest);
    scripted = {};
    try {
      const done = execute.call(this, command, ...rest);
      scripted.finish?.();
      if (wanted === 'cut' && scripted.prevented === false) execute.call(this, 'delete');
      return done;
    } finally {
      scripted = null;
    }
  };
  Object.defineProperty(window, name, {configurable: true, enumerable: false, value: items => {
    putting = items;
    try { execute.call(document, 'copy'); } finally { putting = null; }
  }});
  const clipboard = window.Clipboard?.prototype;
  if (!clipboard) return;
  const {readText, writeText, read, write} = clipboard;
  const allowed = async (what, native) => {  // where it is not allowed, the browser itself refuses it
    const state = await navigator.permissions.query({name: what}).then(found => found.state, () => 'denied');
    if (state !== 'granted') await native();
  };
  const encoded = blob => new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });
  const decoded = (type, text) => type.startsWith('text/')
    ? new Blob([text], {type})
    : new Blob([Uint8Array.from(atob(text.slice(text.indexOf(',') + 1)), c => c.charCodeAt(0))], {type});
  Object.assign(clipboard, {
    async writeText(text) {
      await allowed('clipboard-write', () => writeText.call(this, text));
      await tell({'text/plain': String(text)});
    },
    async readText() {
      await allowed('clipboard-read', () => readText.call(this));
      return (await tell())['text/plain'] ?? '';
    },
    async write(list) {
      await allowed('clipboard-write', () => write.call(this, list));
      const items = {};
      for (const item of list) for (const type of item.types) {
        const blob = await item.getType(type);
        items[type] = type.startsWith('text/') ? await blob.text() : await encoded(blob);
      }
      await tell(items);
    },
    async read(...options) {
      await allowed('clipboard-read', () => read.apply(this, options));
      const items = Object.entries(await tell()).map(([type, text]) => [type, decoded(type, text)]);
      return items.length ? [new ClipboardItem(Object.fromEntries(items))] : [];
    },
  });
})();
""".replace("NAME", NAME)
