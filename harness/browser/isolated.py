"""Scripts of the harness that run in a world of their own, where the page's scripts have replaced nothing.

Playwright evaluates in the page's own world, with the page's prototypes. Its selector engines run in an isolated world,
so an engine of ours answers each question with an element whose text is the answer. A value too large or too secret for
a selector, which traces and error messages show, is asked through the DevTools protocol (`ask`).
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from playwright.async_api import CDPSession, Frame, Locator, Page, Playwright
from playwright.async_api import Error as PlaywrightError

ENGINE = "taskspec"
_MARK = f'internal:or="{ENGINE}=mark"'
"""An element of ours that comes after all matches of a selector, also if there are none."""
_scripts: dict[str, str] = {}
_HALF = re.compile(r"(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}")
"""Half of a surrogate pair, which `JSON.stringify` escapes; a whole pair it writes as it is."""


class Script(Struct, frozen=True):
    """A function `(elements, argument) => value`, by its name; the value is JSON.

    All calls raise Playwright's errors, also if the function itself does not end.
    """

    name: str

    async def of_all(self, locator: Locator, argument: Any = None, seconds: float | None = None) -> Any:
        """Call it with all elements that match now, without waiting."""
        return await self._answer("all", locator.locator(_MARK), argument, seconds)

    async def of_one(self, locator: Locator, argument: Any = None, seconds: float | None = None) -> Any:
        """Call it with the single element that matches, waiting for it."""
        return await self._answer("one", locator, argument, seconds)

    async def of_page(self, page: Page | Frame, argument: Any = None, seconds: float | None = None) -> Any:
        """Call it without an element, for the document of a page or a frame."""
        return await self._answer("all", page.locator(f"{ENGINE}=mark"), argument, seconds)

    async def _answer(self, whom: str, locator: Locator, argument: Any, seconds: float | None) -> Any:
        asked = quote(json.dumps(argument), safe="")
        carrier = locator.locator(f"{ENGINE}={whom}.{self.name}.{asked}")
        text = await carrier.text_content(timeout=None if seconds is None else 1000 * seconds)
        answer = json.loads(_HALF.sub(r"\1\\ufffd", text or "{}"))  # U+FFFD, as the page shows it
        if "error" in answer:
            raise PlaywrightError(f"the page cannot be read: {answer['error']}")
        return answer.get("value")


def script(name: str, source: str) -> Script:
    """Register a script for every browser that is started after this."""
    _scripts[name] = source
    return Script(name)


async def ask(control: CDPSession, source: str, *arguments: Any) -> Any:
    """Call a function in the page of a control session, and await the promise if it returns one.

    Arguments and value are JSON. It does not wait for the page. Raises Playwright's errors, also for exceptions of the
    function.
    """
    return await ask_frame(control, (await frames_of(control))[0], source, *arguments)


async def frames_of(control: CDPSession) -> list[str]:
    """The ids of the page's frames that its own process shows, the page itself first. Raises Playwright's errors."""
    tree = await control.send("Page.getFrameTree")
    found, rest = [], [tree["frameTree"]]
    while rest:
        here = rest.pop(0)
        found.append(here["frame"]["id"])
        rest += here.get("childFrames", ())
    return found


async def ask_frame(control: CDPSession, frame: str, source: str, *arguments: Any) -> Any:
    """Like `ask`, in the frame of that id."""
    world = await control.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": ENGINE})
    call = {
        "functionDeclaration": source,
        "executionContextId": world["executionContextId"],
        "arguments": [{"value": each} for each in arguments],
        "awaitPromise": True,
        "returnByValue": True,
    }
    answer = await control.send("Runtime.callFunctionOn", call)
    if "exceptionDetails" in answer:
        thrown = answer["exceptionDetails"].get("exception", {}).get("description", "the script failed")
        raise PlaywrightError(f"the page cannot be read: {thrown.splitlines()[0]}")
    return answer["result"].get("value")


async def register(playwright: Playwright) -> None:
    """Register all scripts with a driver that was just started."""
    functions = ",".join(f"{json.dumps(name)}: ({source.strip()})" for name, source in _scripts.items())
    await playwright.selectors.register(ENGINE, script=_ENGINE % functions, content_script=True)


_ENGINE = """
(() => {
  const functions = {%s};
  const marks = new WeakSet();
  let gathered = [], of = null;
  const carrier = text => {
    const element = document.createElement('span');
    element.textContent = text;
    return element;
  };
  const answered = (name, elements, argument) => {
    try {
      return carrier(JSON.stringify({value: functions[name](elements, argument)}));
    } catch (error) {
      return carrier(JSON.stringify({error: String(error)}));
    }
  };
  const queryAll = (root, body) => {
    if (body === 'mark') {
      const mark = carrier('');
      marks.add(mark);
      gathered = [];
      return [mark];
    }
    const [whom, name, ...rest] = body.split('.');
    const argument = JSON.parse(decodeURIComponent(rest.join('.')));
    if (whom === 'one') return [answered(name, [root], argument)];
    if (!marks.has(root)) {
      gathered.push(root);
      return [];
    }
    const elements = gathered;
    gathered = [];
    return [answered(name, elements, argument)];
  };
  return {queryAll, query: (root, body) => queryAll(root, body)[0]};
})()
"""

# What a page displays: one definition for the scripts of criteria, acts and failures.

DISPLAYED = """
  const field = e => ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.tagName);
  const boxed = e => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  };
  const visible = e => boxed(e) && e.checkVisibility({visibilityProperty: true});
  const textOf = e => field(e) ? e.value : e.innerText ?? e.textContent;
  const contentBoxed = e => {
    const range = document.createRange();
    range.selectNodeContents(e);
    return [...range.getClientRects()].some(box => box.width > 0 && box.height > 0);
  };
  const displayed = e => {
    const of = ['OPTION', 'OPTGROUP'].includes(e.tagName) && e.closest('select') || e;
    const style = getComputedStyle(of);
    if (style.display === 'contents') return contentBoxed(of);
    if (!of.checkVisibility({visibilityProperty: true})) return false;
    return boxed(of) || !textOf(of).trim() || style.overflow === 'visible' && contentBoxed(of);
  };
  const fold = text => text.replace(/[\\u200b\\u00ad]/g, '').trim().replace(/\\s+/g, ' ');
"""
"""`visible` as Playwright has it; `displayed` also holds for an element without any text that takes no room, and for
one without a box of its own whose content has one: a person sees what there is to see of it."""


TEXTS = script(
    "texts",
    """
(matches, named) => {
  const text = e => (e?.textContent || '').trim();
  const told = e => (e.getAttribute('aria-labelledby') || '').split(/\\s+/).filter(Boolean)
    .map(id => text(e.getRootNode().getElementById?.(id))).join(' ');
  const pressed = e => e.tagName === 'INPUT' && ['button', 'submit', 'reset'].includes(e.type) ? e.value : '';
  const nameOf = e => told(e) || e.getAttribute('aria-label') || text(e.labels?.[0]) || text(e) || pressed(e)
    || e.alt || e.querySelector('[alt]:not([alt=""])')?.alt || e.title || e.placeholder || '';
  return matches.slice(0, 200).map(e => (named ? nameOf(e) : text(e)).replace(/\\s+/g, ' ').slice(0, 80));
}
""",
)
"""The texts of the matches, or their accessible names, approximately."""
