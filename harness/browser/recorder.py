"""Records what a person does in a context, with Playwright's own recorder (docs/decisions/026-recorder.md)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import CDPSession, Download, Frame, Page, Request
from playwright.async_api import Error as PlaywrightError

from harness.browser.context import Tab
from harness.browser.main_frame import listen
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.spec.names import host_of
from harness.spec.recorded.actions import GivenAnswer, Recording
from harness.spec.recorded.recording import Effects, RecordedEvent, action_of

_CAUSE_SECONDS = 3.0
"""Seconds after an action in which a request, a dialog or a download counts as its effect."""
_BINDING = "__taskspecRecorded"
_UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_ASKING = frozenset({"document", "fetch", "xhr"})
"""The kinds of requests that a page sends for a person; it also sends some for itself, such as beacons."""
_FAKE_PATH = "C:\\fakepath\\"
_WATCH = (
    """
(() => {
  const tell = event => window."""
    + _BINDING
    + """?.(event);
  const passwords = new WeakSet();
  const at = event => event.composedPath()[0];
  const type = field => field?.nodeName === 'INPUT' ? field.type : '';
  const own = ['checkbox', 'radio', 'range', 'file', 'color', 'date', 'datetime-local', 'month', 'time', 'week'];
  document.addEventListener('click', event => {
    const field = at(event);
    if (!event.isTrusted || event.detail === 0 || own.includes(type(field))) return;
    if (['SELECT', 'OPTION'].includes(field.nodeName) || String(field.nodeName).startsWith('X-PW-')) return;
    tell({kind: 'click'});
  }, true);
  document.addEventListener('input', event => {
    const field = at(event);
    const secret = type(field) === 'password' || /password|one-time-code/.test(field.autocomplete || '');
    if (secret) passwords.add(field);
    const name = passwords.has(field) ? field.name || field.id || 'password' : null;
    if (typeof field.value === 'string') tell({kind: 'input', value: field.value, secret: name});
    if (type(field) === 'file') tell({kind: 'files', names: [...field.files].map(file => file.name)});
  }, true);
})();
"""
)


class Recorder:
    """Listens to a context until its last page is closed, or `stop` is called. It keeps everything in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._over = asyncio.Event()
        self.events: list[RecordedEvent] = []
        """What the recorder has told, in order."""
        self._pages: list[Page] = []
        self._by_hand: dict[Page, int] = {}
        """Pages that a person has opened -> the page in which their actions are written."""
        self._controls: dict[Page, CDPSession] = {}
        self._clicks: list[float] = []
        """The moments of the clicks that the recorder has not told yet: it waits whether they become double clicks."""
        self._upcoming = Effects()
        """What has followed from them."""
        self._files: tuple[str, ...] = ()
        self._inputs: dict[str, list[tuple[float, str | None]]] = {}
        """What has stood in a field, also half typed -> when, and the name of the field if it is for a password."""
        self._visited: dict[str, None] = {}
        self._loaded: dict[str, None] = {}
        self._address = ""
        self._question: str | None = None
        """The text of the last dialog; None for the question whether a page may be left."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.heard: Callable[[str], None] = lambda _: None
        """Called with the name of each action."""

    async def attach(self, tab: Tab) -> None:
        """Begin to record a context, before anything is opened in it. Raises Failed, and Playwright's errors."""
        context = tab.context
        start = getattr(_inner(context), "_start_recording", None)
        if start is None:
            message = (
                f"the installed Playwright {version('playwright')} has no recorder for programs: update playwright"
            )
            raise Failed(Failure("INVALID_INPUT", message))
        tab.watch.dialog_answers.leave_open(context)
        await context.expose_binding(_BINDING, self._on_mark)
        await context.add_init_script(_WATCH)
        for page in context.pages:
            await self._follow(page)
        listen(context, "page", self._on_page)
        listen(context, "request", self._on_request)
        context.on("close", lambda _: self.stop())
        await start({"language": "jsonl"}, self)

    def stop(self) -> None:
        """End the recording."""
        self._over.set()

    async def wait(self) -> None:
        """Wait until the person has closed the last page, or the recording is ended otherwise."""
        await self._over.wait()

    # What the recorder tells: the methods that Playwright calls.

    def action_added(self, page: Any, data: dict[str, Any], code: str) -> None:
        name = data["name"]
        if name in ("openPage", "closePage") or (name == "click" and not data.get("clickCount")):
            return  # a click that a key has caused
        described = json.loads(code.splitlines()[0]).get("locator") if code else None
        number, newest = self._number(page)
        entry = RecordedEvent(data, described, number, newest, self._clock.now())
        self._settle(entry)
        if name == "fill" and str(data.get("text", "")).startswith(_FAKE_PATH):
            entry.files, self._files = self._files or (data["text"].removeprefix(_FAKE_PATH),), ()
        self.events.append(entry)
        self.heard(name)

    def action_updated(self, page: Any, data: dict[str, Any], code: str) -> None:
        """The last action is replaced: typing went on."""
        del page, code
        self.events[-1].data = data
        self.events[-1].at = self._clock.now()

    def signal_added(self, page: Any, data: dict[str, Any], code: str) -> None:
        """Popups, downloads and dialogs are heard from the context itself."""

    def _settle(self, entry: RecordedEvent) -> None:
        """Give a click what has followed from it; before any other action, the recorder has told all clicks."""
        if entry.data["name"] != "click":
            self._clicks.clear()
            self._upcoming = Effects()  # of a click that was none: it only chose what to check
            return
        del self._clicks[: max(1, entry.data["clickCount"])]
        entry.effects, self._upcoming = self._upcoming, Effects()

    def _cause(self) -> Effects | None:
        """What the last action has caused; None if it was too long ago."""
        now = self._clock.now()
        if self._clicks and now - self._clicks[-1] < _CAUSE_SECONDS:
            return self._upcoming
        if self.events and now - self.events[-1].at < _CAUSE_SECONDS:
            return self.events[-1].effects
        return None

    def _number(self, page: Any) -> tuple[int, bool]:
        """The number of a page as a task counts, and whether it is the newest one."""
        found = next((each for each in self._pages if _inner(each) is _inner(page)), None)
        counted = [each for each in self._pages if each not in self._by_hand]
        if found is None or found not in counted:
            return (self._by_hand[found], False) if found is not None else (0, False)
        return counted.index(found), found is counted[-1]

    # What the pages tell.

    def _on_mark(self, _: Any, event: dict[str, Any]) -> None:
        match event.get("kind"):
            case "click":
                self._clicks.append(self._clock.now())
            case "input":
                self._inputs.setdefault(str(event["value"]), []).append((self._clock.now(), event["secret"]))
            case "files":
                self._files = tuple(map(str, event["names"]))

    def _on_request(self, request: Request) -> None:
        host = host_of(request.url)
        if host:
            known = self._visited if request.is_navigation_request() else self._loaded
            known.setdefault(host)
        if request.method in _UNSAFE and request.resource_type in _ASKING and (cause := self._cause()):
            said = f"{request.method} {urlsplit(request.url).path}"
            if said not in cause.sent:
                cause.sent.append(said)

    def _on_page(self, page: Page) -> None:
        following = asyncio.ensure_future(self._follow(page, new=True))
        self._tasks.add(following)
        following.add_done_callback(self._tasks.discard)

    async def _follow(self, page: Page, *, new: bool = False) -> None:
        self._pages.append(page)
        page.on("close", self._on_close)
        listen(page, "download", self._on_download)
        listen(page, "framenavigated", lambda frame: self._on_navigated(page, frame))
        try:
            if new and await page.opener() is None:
                number = self._by_hand[page] = self._number(self._pages[0])[0]
                self.events.append(RecordedEvent({"name": "openPage"}, None, number, False, self._clock.now()))
            control = self._controls[page] = await page.context.new_cdp_session(page)
            control.on("Page.javascriptDialogOpening", self._on_dialog)
            control.on("Page.javascriptDialogClosed", self._on_answer)
            await control.send("Page.enable")
        except PlaywrightError:
            return  # the page has been closed again

    def _on_close(self, _: Page) -> None:
        if all(each.is_closed() for each in self._pages):
            self.stop()

    def _on_dialog(self, event: dict[str, Any]) -> None:
        self._question = None if event["type"] == "beforeunload" else str(event["message"])

    def _on_answer(self, event: dict[str, Any]) -> None:
        cause, accepted = self._cause(), bool(event["result"])
        if cause and not (accepted and self._question is None):  # a page may be left anyway
            cause.dialogs.append(GivenAnswer(accepted, event.get("userInput") or None, self._question))

    def _on_download(self, download: Download) -> None:
        if cause := self._cause():
            cause.download = download.suggested_filename

    def _on_navigated(self, page: Page, frame: Frame) -> None:
        if frame is not page.main_frame or frame.url == "about:blank":
            return
        self._address = frame.url
        if cause := self._cause():
            cause.reached = frame.url

    # What was recorded.

    def recording(self) -> Recording:
        """What has been recorded so far."""
        loaded = tuple(host for host in self._loaded if host not in self._visited)
        actions = tuple(map(action_of, self.events))
        return Recording(actions, self._passwords(), tuple(self._visited), loaded, self._address)

    def _passwords(self) -> dict[str, str]:
        """What was typed into password fields in the end -> the field's name."""
        found: dict[str, str] = {}
        for event in self.events:
            text = str(event.data.get("text") or "") if event.data["name"] == "fill" else ""
            if text and (told := self._inputs.get(text)):
                nearest = min((abs(moment - event.at), number) for number, (moment, _) in enumerate(told))[1]
                name = told[nearest][1]
                found |= {text: name} if name else {}
        return found


def _inner(wrapper: Any) -> Any:
    """Playwright's own object behind one of its API; the recorder has no other interface yet."""
    return getattr(wrapper, "_impl_obj", wrapper)
