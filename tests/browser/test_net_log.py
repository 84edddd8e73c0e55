"""Chromium's net log tells which requests the browser has sent again; what it does not tell in time is not known."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harness.browser import net_log
from harness.browser.net_log import BrokenRequest, LogReader, NetLog, Repetition
from harness.model.record import Sent
from tests.browser.moments import until
from tests.browser.stage import SHOP, Stage, failed, passed
from tests.browser.striking import strike

FORM = "<form method=post action=%s><button id=pay>Pay</button></form>"
URL = f"http://{SHOP}/reset"
TYPES = {
    "URL_REQUEST_START_JOB": 1,
    "HTTP_TRANSACTION_RESTART_AFTER_ERROR": 2,
    "HTTP_TRANSACTION_SEND_REQUEST_HEADERS": 3,
    "HTTP_TRANSACTION_HTTP2_SEND_REQUEST_HEADERS": 4,
    "FAILED": 5,
    "REQUEST_ALIVE": 6,
    "HTTP_TRANSACTION_QUIC_SEND_REQUEST_HEADERS": 7,
}


@pytest.mark.parametrize("step", [{"act": "submit"}, {"act": "click"}], ids=["declared", "seen"])
@pytest.mark.sampled(1)
def test_a_post_on_a_connection_that_breaks_is_sent_twice_and_known(
    run: Any, stage: Stage, step: dict[str, Any]
) -> None:
    async def body() -> tuple[list[Sent], int]:
        session = await stage.at("/saved")
        before = stage.site.hits.get("/reset", 0)
        await session.tab.page.set_content(FORM % URL)
        await session.take_settled()
        await failed(session, {**step, "selector": "#pay"}, 10, 5)
        taken = await session.take_settled()
        return [each for each in taken if each.method == "POST"], stage.site.hits["/reset"] - before

    (sent,), hits = run(body())
    assert hits == 2  # what Chromium does; when it no longer does, this module is not needed
    assert (sent.url, sent.again) == (URL, 1)


POSTS = {
    "worker": "onmessage=m=>fetch(m.data,{method:'POST',mode:'no-cors'})",
    "shared worker": "onconnect=e=>e.ports[0].onmessage=m=>fetch(m.data,{method:'POST',mode:'no-cors'})",
}


@pytest.mark.parametrize("kind", POSTS)
@pytest.mark.sampled(1)
def test_what_the_browser_repeats_long_after_it_was_asked_about_is_known_too(
    run: Any, stage: Stage, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The log is asked again as long as a request has no answer, also one that bears no world."""
    begin = """([shared, script]) => {
        const address = URL.createObjectURL(new Blob([script]));
        const port = shared ? new SharedWorker(address).port : new Worker(address);
        pay.onclick = () => port.postMessage(%r);
    }"""

    async def body() -> list[int | None]:
        session = await stage.at("/saved")
        before = stage.site.hits.get("/late-reset", 0)
        await session.tab.page.set_content("<button id=pay>Pay</button>")
        late = URL.replace("/reset", "/late-reset")
        await session.tab.page.evaluate(begin % late, ["shared" in kind, POSTS[kind]])
        session.begin_step(0, lambda _: None)
        await passed(session, {"act": "click", "selector": "#pay"})
        await until(lambda: stage.site.hits.get("/late-reset", 0) > before)
        taken: list[Sent] = []
        await until(lambda: bool(taken.extend(session.take_sent()) or [each for each in taken if each.unsafe]))
        await session.take_settled()  # nothing has been repeated yet
        feed, held, comes = LogReader.feed, list[bytes](), asyncio.Event()

        def late(reader: LogReader, data: bytes) -> None:
            held.append(data)
            if comes.is_set():
                feed(reader, b"".join(held))
                held.clear()

        monkeypatch.setattr(LogReader, "feed", late)  # the log comes late, as on a busy machine
        await until(lambda: stage.site.hits["/late-reset"] == before + 2)
        asyncio.get_running_loop().call_later(0.3, comes.set)
        await session.take_settled()
        return [each.again for each in taken if each.method == "POST"]

    assert run(body()) == [1]


@pytest.mark.parametrize(("path", "again"), [("/hang", None), ("/saved", 0)], ids=["open", "answered"])
@pytest.mark.sampled(1)
def test_of_what_had_no_answer_when_its_browser_was_killed_nothing_is_known(
    run: Any, stage: Stage, path: str, again: int | None
) -> None:
    """Chromium may have repeated it: what the log has not told by then, it never tells."""

    async def body() -> list[int | None]:
        session = await stage.at("/saved")
        before = stage.site.hits.get(path, 0)
        await session.tab.page.set_content(
            f"<button id=pay onclick=\"fetch('{path}', {{method: 'POST'}})\">Pay</button>"
        )
        session.begin_step(0, lambda _: None)
        await passed(session, {"act": "click", "selector": "#pay"})
        await until(
            lambda: stage.site.hits.get(path, 0) > before and (again is None or not session.tab.watch.undecided())
        )
        log = session.chromium.net_log
        assert log is not None
        await log.complete(session.chromium.control)
        taken = list(session.take_sent())
        await strike(session, kind="browser_kill")
        taken += await session.take_settled()
        return [each.again for each in taken if each.method == "POST"]

    assert run(body()) == [again]


def test_of_a_log_that_does_not_come_in_time_nothing_is_known(
    run: Any, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body() -> list[int | None]:
        session = await stage.at("/saved")
        await session.tab.page.set_content(FORM % f"http://{SHOP}/saved")
        log = session.chromium.net_log
        assert log is not None
        monkeypatch.setattr(net_log, "SECONDS", 0.2)
        monkeypatch.setattr(LogReader, "feed", lambda _self, _data: None)
        await passed(session, {"act": "submit", "selector": "#pay"}, 10, 5)
        taken = await session.take_settled()
        return [each.again for each in taken if each.method == "POST"]

    assert run(body()) == [None]


def test_a_project_that_wants_the_log_itself_gets_it(tmp_path: Path) -> None:
    assert NetLog.open(tmp_path, ["--log-net-log=/tmp/own.json"]) is None
    assert list(tmp_path.iterdir()) == []


def line(name: str, source: int, phase: int = 1, **params: Any) -> bytes:
    event = {"params": params, "phase": phase, "source": {"id": source, "type": 1}, "time": "7", "type": TYPES[name]}
    return json.dumps(event, separators=(",", ":")).encode() + b",\n"


def test_the_log_is_read_by_request_and_in_any_pieces() -> None:
    start, again, headers, http2, *_ = TYPES
    known = {"logEventTypes": TYPES, "netError": {"ERR_CONNECTION_CLOSED": -100}}
    constants = '{"constants":' + json.dumps(known)  # the object is closed at the end of the log
    page = {"initiator": "http://x", "request_type": "main frame"}
    own = {"initiator": "not an origin", "request_type": "main frame"}
    in_a = ["Host: x", "User-Agent: Mozilla/5.0 harness-world/a"]
    lines = [
        constants.encode() + b",\n",
        b'"events": [\n',
        line(start, 1, url="http://x/order#a", method="POST", **page),
        line(headers, 1, 0, headers=in_a),
        line(again, 1, 0, net_error=-100),
        line(start, 1, 2),
        line(start, 1, url="http://x/thanks", method="GET", **page),
        line(headers, 1, 0, headers=in_a),
        line(again, 1, 0, net_error=-100),  # of the GET to which the answer led
        line("FAILED", 1, 0, net_error=-100),
        line("REQUEST_ALIVE", 1, 2, net_error=-100),
        line(again, 7, 0),  # of a request that had begun before
        line(start, 2, url="http://x/pay", method="PUT", **page),
        line(http2, 2, 0, headers=["user-agent: Mozilla/5.0 harness-world/b"]),
        line(start, 3, url="http://x/file", method="GET", **own),
        line(headers, 3, 0, headers=["User-Agent: Mozilla/5.0"]),
        line(start, 4, url="http://x/opened", method="GET", **own),
        line(headers, 4, 0, headers=in_a),
    ]
    text = b"".join(lines)
    for size in (len(text), 7):
        reader = LogReader()
        for at in range(0, len(text), size):
            reader.feed(text[at : at + size])
        assert list(reader.repeated) == [
            Repetition("POST", "http://x/order", "a"),
            Repetition("GET", "http://x/thanks", "a"),
            Repetition("GET", "http://x/file", None),
        ]
        assert ([each.world for each in reader.requests.values()], reader.newest) == (["b", None, "a"], 7)
        assert list(reader.broken) == [BrokenRequest(1, "GET", "http://x/thanks", "a", "ERR_CONNECTION_CLOSED")]


def test_what_bears_no_world_is_only_of_a_context_that_may_have_sent_it(run: Any, tmp_path: Path) -> None:
    """The last request of a document may be of each context with that origin; what a shared worker has told is not."""
    start, _, headers, _, _, _, quic = TYPES
    known = {"logEventTypes": TYPES, "netError": {}}
    bare = ["User-Agent: Mozilla/5.0"]

    def leaves(number: int, url: str, initiator: str) -> bytes:
        begun = line(start, number, url=url, method="POST", initiator=initiator)
        return begun + line(headers, number, 0, headers=bare)

    lines = [
        b'{"constants":' + json.dumps(known).encode() + b",\n",
        leaves(1, "http://x/bye", "http://x"),
        leaves(2, "http://y/bye", "http://y"),
        leaves(3, "http://x/sandboxed", "null [internally: (B2) anonymous]"),
        leaves(4, "http://update/", "not an origin"),
        leaves(5, "http://x/worker", "http://x"),
        leaves(6, "http://x/worker", "http://x"),
        leaves(7, "http://x/worker", "http://x"),
        line(start, 8, url="http://x/h3", method="POST", initiator="http://x"),
        line(quic, 8, 0, headers=["user-agent: Mozilla/5.0 harness-world/a"]),
        b'{"time":"9"}\n',
    ]

    async def body() -> list[str]:
        log = NetLog.open(tmp_path, [])
        assert log is not None
        try:
            for _ in range(3):
                log.reader.claim("POST", "http://x/worker")
            log.reader.disclaim("POST", "http://x/worker")  # the third was refused
            with Path(log.argument.removeprefix(net_log.ARGUMENT)).open("wb") as pipe:
                pipe.write(b"".join(lines))
            await until(lambda: len([*log.departed("a", 0, 10, [(7, False)], {"http://x"})]) > 3)
            log.reader.claim("POST", "http://x/later")
            return [url for _, url, _ in log.departed("a", 0, 10, [(7, False)], {"http://x"})]
        finally:
            log.close()

    assert run(body()) == ["http://x/h3", "http://x/bye", "http://x/sandboxed", "http://x/worker"]


def test_a_repetition_counts_at_the_newest_request_of_its_world() -> None:
    first, second = Sent("POST", "http://x/order"), Sent("POST", "http://x/order")
    repetition = Repetition("POST", "http://x/order", "a")
    assert (repetition.is_of(first, "a"), repetition.is_of(first, "b")) == (True, False)
    assert not net_log.counted_at(repetition, "b", [first, second])
    assert net_log.counted_at(repetition, "a", [first, second])
    assert (first.again, second.again) == (0, 1)
