"""What is known of a worker, by the messages of its session in each order."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.browser.sending import Announcer, Sending
from harness.browser.targets import SERVICE, SHARED, SOCKET_BEFORE, UNWATCHED, WatchedWorker
from harness.model.record import MESSAGE, Sent
from tests.unit.fakes import FakeClock

ENABLED = {"id": 1, "result": {}}
REFUSED = {"id": 1, "error": {"message": "no such domain"}}


def event(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": params}


LOADED = event("Inspector.workerScriptLoaded")
POSTED = event("Network.requestWillBeSent", requestId="1", request={"method": "POST", "url": "http://a.test/order"})
LED_ON = event("Network.requestWillBeSent", requestId="1", request={"method": "GET", "url": "http://a.test/done"})
FETCHED = event("Network.requestWillBeSent", requestId="1", request={"method": "GET", "url": "http://a.test/list"})
REFUSED_CONNECTION = event("Network.loadingFailed", requestId="1", errorText="net::ERR_CONNECTION_REFUSED")
REPORT = event(
    "Network.requestWillBeSent",
    requestId="1",
    type="CSPViolationReport",
    request={"method": "POST", "url": "http://a.test/report"},
)
OPENED = event("Network.webSocketCreated", requestId="2", url="ws://a.test/socket")
MESSAGE_SENT = event("Network.webSocketFrameSent", requestId="2", response={"payloadData": "order"})
MESSAGE_CAME = event("Network.webSocketFrameReceived", requestId="2", response={"payloadData": "done"})


class Listener:
    """A context, as targets.py knows it."""

    def __init__(self) -> None:
        self.told: list[Sent] = []
        announcer = Announcer()
        announcer.heard = self.told.append
        self.sending = Sending(FakeClock().now, announcer)
        self.sending.begin(looks=False)
        self.worker_unwatched = self.sending.announce
        self.now = FakeClock().now

    def worker_leaves(self, method: str, url: str, body: bytes | None, after: Sent | None, began: float) -> Sent | None:
        return self.sending.leaves(method, url, page=False, after=after, body=body)

    def hears(self, kind: str, *messages: dict[str, Any]) -> list[tuple[str, str]]:
        """What is told of a worker that sends these messages."""
        worker = WatchedWorker(kind, cast("Any", self), 0.0)
        worker.doubt = self.sending.doubt(UNWATCHED) if kind == SHARED else None
        for message in messages:
            worker.hear(message)
        return [(each.method, each.unseen or each.url) for each in self.sending.take() if each.unsafe]


ORDERED = ("POST", "http://a.test/order")
DOUBT = ("", UNWATCHED)


@pytest.mark.parametrize(
    ("messages", "known"),
    [
        ((ENABLED, LOADED), []),
        ((ENABLED, POSTED, LOADED), [ORDERED]),
        ((LOADED, ENABLED), [DOUBT]),
        ((LOADED, ENABLED, LOADED, POSTED), [DOUBT, ORDERED]),
        ((REFUSED, LOADED), [DOUBT]),
        ((), [DOUBT]),
        ((ENABLED, LOADED, POSTED, REFUSED_CONNECTION), []),
        ((ENABLED, LOADED, POSTED, LED_ON), [ORDERED]),
        ((ENABLED, LOADED, FETCHED, REPORT), []),
        ((ENABLED, LOADED, OPENED, MESSAGE_SENT), [(MESSAGE, "ws://a.test/socket")]),
        ((LOADED, ENABLED, MESSAGE_SENT), [DOUBT, (MESSAGE, "")]),
    ],
)
def test_what_a_shared_worker_may_have_sent_unseen(messages: tuple[Any, ...], known: list[tuple[str, str]]) -> None:
    assert Listener().hears(SHARED, *messages) == known


@pytest.mark.parametrize(
    ("messages", "known"),
    [
        ((LOADED, ENABLED, POSTED), []),  # its requests are known from Playwright
        ((ENABLED, OPENED, MESSAGE_CAME, MESSAGE_SENT), [(MESSAGE, "ws://a.test/socket")]),
        ((ENABLED, MESSAGE_CAME, MESSAGE_CAME), [("", SOCKET_BEFORE)]),
    ],
)
def test_what_a_service_worker_sends_over_sockets(messages: tuple[Any, ...], known: list[tuple[str, str]]) -> None:
    assert Listener().hears(SERVICE, *messages) == known


def test_it_is_told_at_once_that_a_worker_was_not_watched() -> None:
    listener = Listener()
    listener.hears(SHARED, LOADED, ENABLED)
    assert [each.unseen for each in listener.told] == [UNWATCHED]
