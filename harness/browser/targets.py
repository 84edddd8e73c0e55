"""What the shared and service workers of a browser send (docs/design/never-twice.md).

Playwright reports the requests of pages, dedicated workers and service workers. It reports nothing of a shared worker,
and no WebSocket of a service worker. Such workers are found by the browser's own control session, and each is watched
in a session of its own.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urldefrag
from weakref import WeakValueDictionary

from msgspec import Struct, field
from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.browser.net_log import NetLog
from harness.browser.page_events import PageEvents
from harness.model.record import MESSAGE, SAFE_METHODS, Sent

SHARED, SERVICE = "shared_worker", "service_worker"
_ENABLED = 1
"""The id of the command that makes a worker report its requests."""
_TOLD = 3
"""The id of the last command that stops a worker, or lets it go on."""
_UNLIMITED = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
_COMMANDS = ((_ENABLED, "Network.enable"), (0, "Inspector.enable"), (0, "Runtime.runIfWaitingForDebugger"))
_AGAIN = "Inspector.targetReloadedAfterCrash"
"""A worker that had ended begins again, with the same session: it waits until it is told to run."""
_MOST = 500
"""The number of requests and sockets of one worker that are known at the same time."""
UNWATCHED = "a shared worker that began to run before it could be watched"
SOCKET_BEFORE = "a WebSocket that a service worker opened before it could be watched"


class WatchedWorker(Struct):
    """A worker that is watched, or is to be."""

    kind: str
    listener: PageEvents
    """The context that hears what it sends."""
    began: float
    log: NetLog | None = None
    """The log of its browser."""
    doubt: Sent | None = None
    """What a shared worker may have sent unseen; taken back once it is known that it was watched from its start."""
    enabled: bool = False
    session: str = ""
    """Its session, as soon as there is one."""
    offline: bool = False
    """Whether it is to send nothing."""
    gone: bool = False
    told: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it has told what it sent before it was taken off the network."""
    requests: dict[str, Sent] = field(default_factory=dict)
    sockets: dict[str, str] = field(default_factory=dict)
    """The URLs of its WebSockets by their ids."""

    def hear(self, message: dict[str, Any]) -> None:
        """An answer or an event of its session."""
        if message.get("id") == _ENABLED:
            self.enabled = "error" not in message
        elif message.get("id") == _TOLD:
            self.told.set()
        elif handler := _HANDLERS.get(message.get("method", "")):
            handler(self, message["params"])

    def loaded(self, _: dict[str, Any]) -> None:
        """Its script has run. If its requests were reported by then, nothing of it was missed."""
        if self.doubt is None:
            return
        if self.enabled:
            self.doubt.arrived = False
        else:
            self.listener.worker_unwatched(self.doubt)
        self.doubt = None

    def ended(self, _: dict[str, Any]) -> None:
        """No page uses it any more. Its session stays, and hears it from its start if it begins again."""
        self.gone = True
        self.told.set()

    def request(self, event: dict[str, Any]) -> None:
        """A shared worker sends a request; those of a service worker are known from Playwright."""
        asked, number = event["request"], event["requestId"]
        if self.kind != SHARED:
            return
        if self.log is not None and asked["method"] not in SAFE_METHODS:
            self.log.reader.claim(asked["method"], urldefrag(asked["url"]).url)
        if event.get("type") == "CSPViolationReport":
            return
        body = asked.get("postData")
        sent = self.listener.worker_leaves(
            asked["method"], asked["url"], body and body.encode(), self.requests.pop(number, None), self.began
        )
        if sent is not None and len(self.requests) < _MOST:
            self.requests[number] = sent

    def answered(self, event: dict[str, Any]) -> None:
        if sent := self.requests.get(event["requestId"]):
            self.listener.sending.answered(sent)

    def failed(self, event: dict[str, Any]) -> None:
        if sent := self.requests.pop(event["requestId"], None):
            if self.log is not None and sent.unsafe:
                self.log.reader.disclaim(sent.method, sent.url)
            self.listener.sending.failed(sent, event.get("errorText", ""))

    def socket_made(self, event: dict[str, Any]) -> None:
        if len(self.sockets) < _MOST:
            self.sockets[event["requestId"]] = event["url"]

    def socket_heard(self, event: dict[str, Any]) -> None:
        """A WebSocket does something. What one that is not known has sent before was not seen."""
        if self.kind == SERVICE and event["requestId"] not in self.sockets:
            self.socket_made({**event, "url": ""})
            self.listener.worker_unwatched(self.listener.sending.doubt(SOCKET_BEFORE))

    def message(self, event: dict[str, Any]) -> None:
        """A message is sent over a WebSocket."""
        text = event["response"].get("payloadData", "")
        url = self.sockets.get(event["requestId"], "")
        if text:
            self.listener.worker_leaves(MESSAGE, url, text.encode(), None, self.began)


_HANDLERS = {
    "Inspector.targetCrashed": WatchedWorker.ended,
    "Inspector.workerScriptLoaded": WatchedWorker.loaded,
    "Network.requestWillBeSent": WatchedWorker.request,
    "Network.responseReceived": WatchedWorker.answered,
    "Network.loadingFailed": WatchedWorker.failed,
    "Network.webSocketCreated": WatchedWorker.socket_made,
    "Network.webSocketFrameSent": WatchedWorker.message,
    "Network.webSocketFrameReceived": WatchedWorker.socket_heard,
    "Network.webSocketClosed": WatchedWorker.socket_heard,
}


class Workers:
    """The workers of one browser. It costs nothing as long as no page has one."""

    def __init__(self, control: CDPSession, log: NetLog | None = None) -> None:
        self._control, self._log = control, log
        self._listeners: WeakValueDictionary[str, PageEvents] = WeakValueDictionary()
        self._coming: dict[str, WatchedWorker] = {}
        """Workers by their target, until there is a session."""
        self._watched: dict[str, WatchedWorker] = {}
        """Workers by their session."""
        self._saying: set[asyncio.Future[Any]] = set()

    async def start(self) -> None:
        """Look for workers from now on. Raises Playwright's errors."""
        self._control.on("Target.targetCreated", self._on_created)
        self._control.on("Target.attachedToTarget", self._on_attached)
        self._control.on("Target.receivedMessageFromTarget", self._on_message)
        self._control.on("Target.detachedFromTarget", self._on_detached)
        kinds = [{"type": SHARED}, {"type": SERVICE}]
        await self._control.send("Target.setDiscoverTargets", {"discover": True, "filter": kinds})

    def watch(self, context: str, listener: PageEvents) -> None:
        """Tell this listener of the workers of the context with this name, as long as the listener lives."""
        self._listeners[context] = listener

    def forget(self, listener: PageEvents) -> None:
        """Its context is over."""
        for session in [session for session, worker in self._watched.items() if worker.listener is listener]:
            del self._watched[session]
            self._say(self._control.send("Target.detachFromTarget", {"sessionId": session}))

    async def set_offline(self, listener: PageEvents, *, offline: bool) -> None:
        """Take the shared workers of a context off the network and wait until they confirm it, or bring them back.

        Playwright does so for the workers that it knows. The caller limits the time. A socket that was opened before
        the worker was watched goes on, so its scripts are stopped, too.
        """
        workers = (*self._watched.values(), *self._coming.values())
        shared = [each for each in workers if each.listener is listener and each.kind == SHARED and not each.gone]
        for worker in shared:
            worker.told.clear()
            worker.offline = offline
            if worker.session:
                self._stop(worker)
        for worker in shared:
            await worker.told.wait()

    def _stop(self, worker: WatchedWorker) -> None:
        """Stop a worker, or let it go on."""
        conditions = {"offline": worker.offline, **_UNLIMITED}
        last = ("Debugger.enable", "Debugger.pause") if worker.offline else ("Debugger.disable",)
        self._command(worker.session, {"id": 0, "method": "Network.emulateNetworkConditions", "params": conditions})
        for method in last:
            self._command(worker.session, {"id": _TOLD if method == last[-1] else 0, "method": method})

    def _command(self, session: str, command: dict[str, Any]) -> None:
        text = json.dumps(command)
        self._say(self._control.send("Target.sendMessageToTarget", {"sessionId": session, "message": text}))

    def _on_created(self, event: dict[str, Any]) -> None:
        info = event["targetInfo"]
        listener = self._listeners.get(info.get("browserContextId", ""))
        if listener is None:
            return
        worker = WatchedWorker(info["type"], listener, listener.now(), self._log)
        if worker.kind == SHARED:
            worker.doubt = listener.sending.doubt(UNWATCHED)
        self._coming[info["targetId"]] = worker
        self._say(self._attach(info["targetId"]))

    async def _attach(self, target: str) -> None:
        try:
            await self._control.send("Target.attachToTarget", {"targetId": target, "flatten": False})
        except PlaywrightError:  # it is gone, and what it has sent was not seen
            worker = self._coming.pop(target)
            worker.told.set()
            if worker.doubt is not None:
                worker.listener.worker_unwatched(worker.doubt)

    def _on_attached(self, event: dict[str, Any]) -> None:
        worker, session = self._coming.pop(event["targetInfo"]["targetId"], None), event["sessionId"]
        if worker is None:
            return
        worker.session = session
        self._watched[session] = worker
        self._begin(worker)

    def _on_detached(self, event: dict[str, Any]) -> None:
        if worker := self._watched.pop(event["sessionId"], None):
            worker.told.set()  # it is gone

    def _on_message(self, event: dict[str, Any]) -> None:
        if worker := self._watched.get(event["sessionId"]):
            message = json.loads(event["message"])
            worker.hear(message)
            if message.get("method") == _AGAIN:
                worker.gone, worker.began = False, worker.listener.now()
                self._begin(worker)

    def _begin(self, worker: WatchedWorker) -> None:
        """Let a worker report what it sends, and run if it waits for that."""
        for number, method in _COMMANDS:
            self._command(worker.session, {"id": number, "method": method})
        if worker.offline:
            self._stop(worker)

    def _say(self, call: Any) -> None:
        saying = asyncio.ensure_future(call)
        self._saying.add(saying)
        saying.add_done_callback(self._said)

    def _said(self, saying: asyncio.Future[Any]) -> None:
        self._saying.discard(saying)
        if not saying.cancelled():
            saying.exception()  # a worker that is gone hears nothing
