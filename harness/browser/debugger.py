"""A way into the browser for programs that speak the DevTools protocol: they see one context, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import psutil
from msgspec import Struct
from playwright.async_api import CDPSession

from harness.resilience import Clock, poll_until
from harness.spec.names import forbidden_scheme

_FILE: Final = "DevToolsActivePort"
_FOUND_WITHIN: Final = 3.0
_WITH_CONTEXT: Final = frozenset({
    "Target.createTarget", "Browser.setDownloadBehavior", "Browser.grantPermissions", "Browser.resetPermissions",
    "Browser.setPermission", "Storage.getCookies", "Storage.setCookies", "Storage.clearCookies",
})  # fmt: skip
"""Commands that are about one context; they are told which."""
_OF_TARGET: Final = frozenset({
    "Target.attachToTarget", "Target.activateTarget", "Target.closeTarget", "Target.getTargetInfo",
    "Browser.getWindowForTarget",
})  # fmt: skip
_AS_THEY_ARE: Final = frozenset({
    "Browser.getVersion", "Browser.getWindowBounds", "Target.attachToBrowserTarget", "Target.detachFromTarget",
    "Target.getTargets",
    "Target.setAutoAttach", "Target.setDiscoverTargets",
})  # fmt: skip
_ATTACHING: Final = ("Target.attachToTarget", "Target.attachToBrowserTarget")
_ACTING: Final = ("Input.", "Page.navigate", "Page.reload")
"""Commands that act on a page."""
_OPENING: Final = frozenset({
    "Page.navigate", "Target.createTarget", "Network.loadNetworkResource", "Fetch.continueRequest",
    "Network.continueInterceptedRequest",
})  # fmt: skip
"""Commands that open the URL that they name."""
_UPLOADING: Final = frozenset({"DOM.setFileInputFiles", "Page.handleFileChooser", "Input.dispatchDragEvent"})
"""Commands that give a page the files that they name."""
_GUARDED: Final = (
    "Target.", "Browser.", "Storage.getCookies", "Storage.setCookies", "Storage.clearCookies", "Tracing.",
    "SystemInfo.", "Extensions.", "Memory.", "Emulation.addScreen", "Emulation.updateScreen", "Emulation.removeScreen",
    "Emulation.setPrimaryScreen", "PWA.", "Tethering.",
)  # fmt: skip
"""Commands that reach beyond a page, and so beyond the context, also from the session of a page."""


class DebuggedContext(Struct, frozen=True):
    """A browser context, and where its browser speaks the DevTools protocol."""

    url: str
    """`ws://127.0.0.1:PORT/devtools/browser/...`"""
    context: str
    """Its `browserContextId`."""


async def debugged(control: CDPSession, pid: int, clock: Clock) -> DebuggedContext:
    """The context of a page. `pid` is the browser's, started with `DEBUGGING_PORT`. Raises OSError without a port."""
    info = await control.send("Target.getTargetInfo")
    words = psutil.Process(pid).cmdline()
    folder = next((word.partition("=")[2] for word in words if word.startswith("--user-data-dir=")), "")
    file = Path(folder, _FILE)
    await poll_until(clock, lambda: bool(_text(file)), 0.02, _FOUND_WITHIN)
    port, path = _text(file).split()
    return DebuggedContext(f"ws://127.0.0.1:{port}{path}", info["targetInfo"]["browserContextId"])


def _text(file: Path) -> str:
    """What the browser has written into the file; empty if nothing yet."""
    with suppress(OSError):
        return file.read_text("utf-8")
    return ""


class ClientFiles(Struct, frozen=True):
    """Where the files may lie that a client names: it reads and writes with the rights of the browser."""

    uploads: Path
    """The task's folder, as for an `upload` step."""
    downloads: tuple[Path, ...]

    def objection(self, method: str, params: dict[str, Any]) -> str:
        """Why a command is refused; empty if it is not. Files that it may give to a page get their real paths."""
        if method in _UPLOADING:
            around = params.get("data") if method == "Input.dispatchDragEvent" else params
            return self._uploads(method, around) if isinstance(around, dict) and around.get("files") else ""
        told = params.get("downloadPath")
        if told and not any(self._real(told).is_relative_to(folder.resolve()) for folder in self.downloads):
            allowed = " or ".join(map(str, self.downloads))
            return f"`{method}`: {str(told)[:200]!r}: downloads may be kept below {allowed} only"
        return ""

    def _uploads(self, method: str, around: dict[str, Any]) -> str:
        names = around["files"] if isinstance(around["files"], list) else [around["files"]]
        found = [self._real(name) for name in names]
        for name, file in zip(names, found, strict=True):
            if not file.is_relative_to(self.uploads.resolve()) or not file.is_file():
                why = f"only files of the task's folder may be given to a page, {self.uploads}"
                return f"`{method}`: {str(name)[:200]!r} is none of them: {why}"
        around["files"] = list(map(str, found))
        return ""

    def _real(self, name: object) -> Path:
        """The file itself, links followed; the root for what is no name. A relative one is in the task's folder."""
        try:
            return (self.uploads / str(name)).resolve()
        except (OSError, ValueError, RuntimeError):
            return Path("/")


_Send = Callable[[str], Awaitable[None]]
_Receive = Callable[[], Awaitable[str | bytes | None]]
"""The next message of the client; None when it is gone."""


async def serve_debugger(
    place: DebuggedContext,
    receive: _Receive,
    send: _Send,
    files: ClientFiles,
    told: Callable[[str], object] = lambda _: None,
    over: asyncio.Event | None = None,
    refused: Callable[[str], object] = lambda _: None,
) -> None:
    """Pass on messages between a client and the browser until one of them is gone, or `over` is set.

    `told` hears the target of each page that the client acts on, `refused` why a command about files is refused.
    Raises OSError without a browser.
    """
    over = over or asyncio.Event()
    if over.is_set():
        return
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    async with connect(place.url, max_size=None, proxy=None, compression=None) as browser:
        gate = ContextGate(place.context, send, browser.send, files, told, refused)

        async def answers() -> None:
            with suppress(ConnectionClosed):
                async for message in browser:
                    await gate.from_browser(json.loads(message))

        async def asks() -> None:
            with suppress(ConnectionClosed):
                while (message := await receive()) is not None:
                    await gate.from_client(message)

        works = {asyncio.create_task(each) for each in (answers(), asks(), over.wait())}
        try:
            await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)


class _Asked(Struct, frozen=True):
    """A command of the client that the browser has not answered."""

    number: int
    """The id that the client has given it."""
    method: str


class ContextGate:
    """Lets through what is about one context: other tasks have theirs in the same browser.

    The browser gets ids of the gate in place of the client's, so that no command is taken for another one.
    """

    def __init__(
        self,
        context: str,
        to_client: _Send,
        to_browser: _Send,
        files: ClientFiles,
        told: Callable[[str], object] = lambda _: None,
        refused: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`told` and `refused` as for `serve_debugger`."""
        self._files, self._told, self._refused = files, told, refused
        self._context, self._to_client, self._to_browser = context, to_client, to_browser
        self._sessions: dict[str, str] = {}
        """The sessions with targets of the context -> the page; empty for workers, frames and the browser."""
        self._targets: set[str | None] = set()
        """The sessions that belong to a target; a session with the browser itself does not."""
        self._known: set[str] = set()
        """Ids of the targets of the context that the client was told of: only their ends concern it."""
        self._asked: dict[int, _Asked] = {}
        self._own: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._numbers = count(1)

    async def from_client(self, text: str | bytes) -> None:
        """Pass a command on, or answer it with an error."""
        try:
            command = json.loads(text)
            number, method, params = int(command["id"]), str(command["method"]), dict(command.get("params") or {})
            session = None if command.get("sessionId") is None else str(command["sessionId"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            await self._to_client(_error(0, "a command is an object with `id`, `method` and `params`"))
            return
        if session is not None and session not in self._sessions:
            await self._to_client(_error(number, f"there is no session {session} here", session))
        elif why := self._files.objection(method, params) or _opens_what_no_task_may(method, params):
            self._refused(why)
            await self._to_client(_error(number, why, session))
        elif refusal := await self._refusal(method, params, of_a_target=session in self._targets):
            await self._to_client(_error(number, refusal, session))
        else:
            self._asked[given := next(self._numbers)] = _Asked(number, method)
            if method.startswith(_ACTING) and (page := self._sessions.get(session or "")):
                self._told(page)
            await self._to_browser(json.dumps({**command, "id": given, "params": params}))

    async def _refusal(self, method: str, params: dict[str, Any], *, of_a_target: bool) -> str:
        """Why the browser is not asked; empty if it is. Parameters that name a context become this one's.

        `of_a_target`: the session is one of a page, a frame or a worker, and not of the browser itself.
        """
        if of_a_target and not method.startswith(_GUARDED):
            return ""
        if of_a_target and method in _WITH_CONTEXT and method.startswith("Storage."):
            params.pop("browserContextId", None)  # the browser refuses it there: the target's context is meant
        elif method in _WITH_CONTEXT:
            params["browserContextId"] = self._context
        elif method in _OF_TARGET:
            target = params.get("targetId")
            if target is not None and not await self._is_ours(str(target)):
                return f"there is no target {target} here"
        elif method not in _AS_THEY_ARE:
            return f"`{method}` is not offered: the browser has contexts of other tasks, too"
        if method == "Target.setAutoAttach":
            params["waitForDebuggerOnStart"] = False  # it would stop the pages of other tasks
        return ""

    async def _is_ours(self, target: str) -> bool:
        number = next(self._numbers)
        self._own[number] = answer = asyncio.get_running_loop().create_future()
        question = {"id": number, "method": "Target.getTargetInfo", "params": {"targetId": target}}
        await self._to_browser(json.dumps(question))
        try:
            found = await answer
        finally:
            del self._own[number]
        return self._shows(found.get("result", {}).get("targetInfo", {}))

    def _shows(self, info: Mapping[str, Any]) -> bool:
        return info.get("browserContextId") == self._context

    async def from_browser(self, message: dict[str, Any]) -> None:
        """Pass an answer or an event on, unless it is about another context."""
        if (number := message.get("id")) is not None:
            await self._answered(number, message)
        elif await self._concerns(message):
            await self._to_client(json.dumps(message))

    async def _answered(self, number: int, message: dict[str, Any]) -> None:
        if (own := self._own.get(number)) is not None:
            if not own.done():
                own.set_result(message)
            return
        asked, result = self._asked.pop(number, None), message.get("result", {})
        if asked is None:
            return
        if asked.method == "Target.getTargets":
            result["targetInfos"] = [each for each in result.get("targetInfos", ()) if self._shows(each)]
        elif asked.method in _ATTACHING and "sessionId" in result:
            self._sessions.setdefault(result["sessionId"], "")
            if asked.method == "Target.attachToTarget":
                self._targets.add(result["sessionId"])
        await self._to_client(json.dumps({**message, "id": asked.number}))

    async def _concerns(self, event: Mapping[str, Any]) -> bool:
        """Whether an event is about the context. A session with a target of another one is given up."""
        session, params = event.get("sessionId"), event.get("params", {})
        if session is not None and session not in self._sessions:
            return False
        match event["method"]:
            case "Target.attachedToTarget":
                if not (attached := self._attaches(params["sessionId"], params["targetInfo"])):
                    inside = {} if session is None else {"sessionId": session}
                    detach = {"id": next(self._numbers), "method": "Target.detachFromTarget", **inside}
                    await self._to_browser(json.dumps({**detach, "params": {"sessionId": params["sessionId"]}}))
                return attached
            case "Target.targetCreated" | "Target.targetInfoChanged":
                return self._tells_of(params["targetInfo"])
            case "Target.targetDestroyed" | "Target.targetCrashed":
                return params["targetId"] in self._known
            case "Target.detachedFromTarget":
                return self._sessions.pop(params.get("sessionId", ""), None) is not None
        return True

    def _attaches(self, session: str, target: Mapping[str, Any]) -> bool:
        """Whether a new session is one of the client, with its context or with the browser."""
        kind = target["type"]
        if kind != "browser" and not self._tells_of(target):
            return False
        self._sessions[session] = target["targetId"] if kind == "page" else ""
        if kind != "browser":
            self._targets.add(session)
        return True

    def _tells_of(self, target: Mapping[str, Any]) -> bool:
        if ours := self._shows(target):
            self._known.add(target["targetId"])
        return ours


def _opens_what_no_task_may(method: str, params: Mapping[str, Any]) -> str:
    """Why the URL of a command is not opened: its scheme is none that a task file may open; empty if it is."""
    scheme = forbidden_scheme(str(params.get("url") or "")) if method in _OPENING else ""
    return scheme and f"URLs of the scheme `{scheme}:` are not opened, as in a task file: use http:// or https://"


def _error(number: int, why: str, session: str | None = None) -> str:
    told: dict[str, Any] = {"id": number, "error": {"code": -32000, "message": why}}
    return json.dumps(told if session is None else {**told, "sessionId": session})
