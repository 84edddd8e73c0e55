"""Texts that were shown and are gone when a failure is looked at, such as "Card declined" in a toast.

A script in a world of its own compares the lines that the page shows, after it has changed and at most a few times in a
second. It is put into the page only while a step or a check already waits, so a task that need not wait pays nothing.
The page's scripts cannot notice it, and it changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from playwright.async_api import CDPSession

from harness.browser.bounded import bounded
from harness.browser.isolated import ask
from harness.resilience import Clock

_WAITING_SECONDS = 0.2
"""Seconds after which a step or a check is taken to wait for something."""
_AGAIN_SECONDS = 1.0
"""Seconds after which the script is put into the page again: it may be another document by now."""
_ASK_SECONDS = 1.0
_COLLECT_SECONDS = 0.5

_WATCH = """act => {
  const now = Date.now(), known = globalThis.taskspecVanished;
  if (known) {
    known.ends = now + 60000;
    if (known.act !== act) known.begin(act);
    return;
  }
  const self = globalThis.taskspecVanished = {ends: now + 60000, gone: new Map()};
  const roots = new Set([document]);
  const shown = () => {
    const found = new Set();
    const add = part => (part.innerText || '').split('\\n').map(line => line.trim()).forEach(line => {
      if (line && line.length <= 300) found.add(line);
    });
    if (document.body) add(document.body);
    for (const root of roots) for (const e of root.querySelectorAll('*')) {
      if (!e.shadowRoot) continue;
      watch(e.shadowRoot);
      [...e.shadowRoot.children].forEach(add);
    }
    return found;
  };
  let last = new Set(), timer = 0, pause = 150;
  self.look = () => {
    const began = performance.now(), present = shown(), lost = [...last].filter(line => !present.has(line));
    if (lost.length <= 10) for (const line of lost) {  // more of them: the page shows something else
      const kind = line.replace(/\\d+/g, '0');  // a clock is one text
      self.gone.delete(kind);
      self.gone.set(kind, line);
      if (self.gone.size > 20) self.gone.delete(self.gone.keys().next().value);
    }
    last = present;
    const cost = performance.now() - began;
    pause = Math.max(150, 20 * cost);
    if (cost > 100) observer.disconnect();
    return [...self.gone.values()].filter(line => !present.has(line));
  };
  const observer = new MutationObserver(() => {
    if (Date.now() > self.ends) observer.disconnect();
    else timer ||= setTimeout(() => { timer = 0; self.look(); }, pause);
  });
  const kinds = {subtree: true, childList: true, characterData: true, attributes: true,
    attributeFilter: ['class', 'style', 'hidden', 'open']};
  const watch = root => { if (roots.size < 200) { roots.add(root); observer.observe(root, kinds); } };
  self.begin = act => {
    self.act = act;
    last = shown();
    self.gone.clear();
    observer.disconnect();
    roots.forEach(watch);
  };
  self.begin(act);
}"""
_COLLECT = "() => globalThis.taskspecVanished?.look() ?? []"


class VanishedTexts:
    """What the pages of a session have shown since its last act, as far as something was waited for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._acts = 0
        self._since = clock.now()
        """When the last act was done."""
        self._put = -_AGAIN_SECONDS
        """When the script was put into the page last."""
        self._putting: asyncio.Task[None] | None = None

    def acted(self) -> None:
        """An act was done that may have changed the page."""
        self._acts += 1
        self._since = self._clock.now()
        self._put = -_AGAIN_SECONDS  # what follows from it begins now

    @contextlib.contextmanager
    def during(self, control: CDPSession) -> Iterator[None]:
        """Inside, an act is done: it waits if it takes long."""
        self._later(control, _WAITING_SECONDS)
        try:
            yield
        finally:
            self._timer.cancel()

    def _later(self, control: CDPSession, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._still_waits, control)

    def _still_waits(self, control: CDPSession) -> None:
        self._watch(control)
        self._later(control, _AGAIN_SECONDS)

    def looked(self, control: CDPSession) -> None:
        """The page is looked at, perhaps again and again."""
        if self._clock.now() - self._since >= _WAITING_SECONDS:
            self._watch(control)

    def _watch(self, control: CDPSession) -> None:
        now, putting = self._clock.now(), self._putting
        if now - self._put >= _AGAIN_SECONDS and (putting is None or putting.done()):
            self._put = now
            # A page that is gone, or busy, records nothing.
        asking = bounded(ask(control, _WATCH, self._acts), _ASK_SECONDS, None)
        self._putting = asyncio.get_running_loop().create_task(asking)

    async def collect(self, control: CDPSession) -> tuple[str, ...]:
        """The texts that were shown after the last act and are not shown now, the oldest first. Never raises."""
        if self._putting is None:
            return ()
        return tuple(map(str, await bounded(ask(control, _COLLECT), _COLLECT_SECONDS, ())))
