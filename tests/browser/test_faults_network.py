"""Faults at the socket, as a real browser meets them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.browser import PlaywrightSession
from harness.faults.injector import FaultInjector, Where
from harness.faults.network import Network, prepare
from harness.model.ports import Injection, Undo
from harness.recovery.failure import Failed, Failure, Passed
from harness.resilience import SystemClock
from harness.spec.faults import Fault
from tests.browser.moments import stretched
from tests.browser.shop import Shop
from tests.browser.stage import OTHER, SHOP, STEP, Stage, passed, perform

FAULT: TypeAdapter[Any] = TypeAdapter(Fault)
SAVED = f"http://{SHOP}/saved"


class NoHands:
    """Nothing but the network is struck here."""

    async def strike(self, strike: Injection) -> Undo | None:
        raise AssertionError(strike.fault.kind)


@dataclass
class Play:
    """A session whose hosts are behind gates."""

    session: PlaywrightSession
    injector: FaultInjector
    network: Network
    stage: Stage

    @property
    def counts(self) -> list[int]:
        return [each.count for each in self.injector.results()]

    @property
    def hits(self) -> int:
        """How often /saved was asked for at the site itself."""
        return self.stage.site.hits.get("/saved", 0)

    async def arm(self, index: int = 0) -> None:
        await self.injector.before_step(index, STEP.validate_python({"act": "open", "url": SAVED}))

    async def do(self, within: float = 4, **step: Any) -> Passed | Failure:
        return await perform(self.session, {"act": "open", "url": SAVED, **step}, within)

    async def code(self, within: float = 4, **step: Any) -> tuple[str, str]:
        """Code and net error of a step that fails; empty for one that passes."""
        outcome = await self.do(within, **step)
        if isinstance(outcome, Passed):
            return "", ""
        return outcome.code, outcome.details.get("net_error", "").removeprefix("net::ERR_")

    async def settled(self) -> None:
        """Chromium's own error page is there: a request that follows at once would be interrupted by it."""
        async with asyncio.timeout(20):
            while not self.session.tab.page.url.startswith("chrome-error:"):
                await asyncio.sleep(0.01)

    async def fetch(self, url: str, count: int = 1) -> list[str]:
        """What became of so many fetches, one after the other.

        Each has an address of its own: the next one may leave before this process has heard that the last one failed,
        and the very same request would be taken for one that the browser repeats.
        """
        script = """async ([url, count]) => { const all = []; for (let n = 0; n < count; n++) all.push(
            await fetch(count > 1 ? `${url}?n=${n}` : url, {mode: 'no-cors'})
                .then(a => a.text()).then(() => 'ok', () => 'failed')); return all }"""
        told: list[str] = await self.session.tab.page.evaluate(script, [url, count])
        return told


@asynccontextmanager
async def play(stage: Stage, *faults: Mapping[str, Any], seed: int = 1, **fields: Any) -> AsyncIterator[Play]:
    parsed, clock = [FAULT.validate_python(fault) for fault in faults], SystemClock()
    network = await prepare(parsed, hosts={**stage.hosts, **fields.pop("hosts", {})}, clock=clock)
    injector = FaultInjector(parsed, Where(network, NoHands(), NoHands()), clock, seed=seed, task="t")
    told, trouble = network.request_failed, network.tls_problem
    session = await stage.session(hosts=network.hosts, on_request_failed=told, tls_problem=trouble, **fields)
    try:
        yield Play(session, injector, network, stage)
    finally:
        await session.close()
        await injector.close()
        assert not any(gate.connections for gate in network.gates.values())


CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"kind": "reset"}, "NET_CONNECTION_RESET", "CONNECTION_RESET"),
    ({"kind": "reset", "commit": True}, "NET_CONNECTION_RESET", "CONNECTION_RESET"),
    ({"kind": "empty"}, "NET_EMPTY_RESPONSE", "EMPTY_RESPONSE"),
    ({"kind": "hang", "seconds": 0.3}, "NET_EMPTY_RESPONSE", "EMPTY_RESPONSE"),
    ({"kind": "status", "status": 503, "body": "down"}, "HTTP_UNAVAILABLE", ""),
    ({"kind": "status", "status": 503}, "HTTP_UNAVAILABLE", ""),
    ({"kind": "status", "status": 500}, "HTTP_SERVER_ERROR", ""),
    ({"kind": "status", "status": 404}, "HTTP_NOT_FOUND", ""),
    ({"kind": "status", "status": 401}, "AUTHENTICATION_FAILED", ""),
]
SCHEMES = ("http", "https")
SITE_SEES = ({"kind": "reset", "commit": True},)


@pytest.mark.parametrize(("fault", "code", "error"), CASES)
@pytest.mark.sampled(1)
def test_a_page_that_is_struck_once(run: Any, stage: Stage, fault: dict[str, Any], code: str, error: str) -> None:
    """Each scheme has its own fault; one browser shows both."""

    async def body() -> None:
        urls = [f"{scheme}://{SHOP}/saved" for scheme in SCHEMES]
        once = {**fault, "times": 1}
        async with play(stage, *({**once, "url": url, "step": number} for number, url in enumerate(urls))) as one:
            for number, (url, counts) in enumerate(zip(urls, ([1, 0], [1, 1]), strict=True)):
                await one.arm(number)
                before = one.hits
                assert (await one.code(url=url))[0] == code
                assert one.hits - before == (fault in SITE_SEES)
                assert one.counts == counts
                if error:
                    await one.settled()
                assert await one.code(url=url) == ("", "")
                assert one.counts == counts

    run(body())


@pytest.mark.thorough
def test_an_answer_that_is_no_http(run: Any, stage: Stage) -> None:
    async def body() -> None:
        async with play(stage, {"kind": "garbage", "url": SAVED}) as one:
            await one.arm()
            for scheme in SCHEMES:
                assert (await one.code(url=f"{scheme}://{SHOP}/saved"))[1] == "INVALID_HTTP_RESPONSE"

    run(body())


@pytest.mark.parametrize(
    ("kind", "most", "error"),
    [
        ("length", 8, "CONTENT_LENGTH_MISMATCH"),
        ("length", 100_000, "CONTENT_LENGTH_MISMATCH"),
        ("chunked", 8, "INCOMPLETE_CHUNKED_ENCODING"),
        ("chunked", 100_000, "INCOMPLETE_CHUNKED_ENCODING"),
        ("endless", 8, "CONNECTION_RESET"),
    ],
)
@pytest.mark.sampled(1)
def test_an_answer_that_breaks_off(run: Any, stage: Stage, kind: str, most: int, error: str) -> None:
    async def body() -> None:
        async with Forms() as forms:
            fault = {"kind": "truncate", "url": f"http://{OTHER}/{kind}", "bytes": most}
            async with play(stage, fault, hosts={OTHER: forms.port}) as one:
                await one.arm()
                for count, scheme in enumerate(SCHEMES, 1):
                    told = await one.code(stretched(1.5), url=f"{scheme}://{OTHER}/{kind}")
                    assert told == ("NET_CONNECTION_RESET", error)
                    assert one.counts == [count]

    run(body())


class Forms:
    """A site whose pages end in different ways."""

    PAGE = b"<!doctype html><title>x</title><p>a page"

    async def __aenter__(self) -> Forms:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = len(self.PAGE)
        answers = {
            b"/length": b"Content-Length: %d\r\n\r\n%s" % (size, self.PAGE),
            b"/chunked": b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (size, self.PAGE),
            b"/endless": b"\r\n" + self.PAGE,
        }
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + answers.get(head.split(b" ")[1], b"\r\n"))
        writer.close()


@pytest.mark.parametrize(("how", "least"), [({"seconds": 0.8}, 0.8), ({"bytes_per_second": 200}, 0.4)])
@pytest.mark.sampled(1)
def test_a_slow_answer_comes_in_the_end(run: Any, stage: Stage, how: dict[str, Any], least: float) -> None:
    async def body() -> None:
        async with play(stage, {"kind": "slow", "url": SAVED, "times": 1, **how}) as one:
            await one.arm()
            clock = asyncio.get_running_loop().time
            begun = clock()
            assert await one.code(20) == ("", "")
            assert clock() - begun >= least
            await perform(one.session, {"act": "wait", "selector": "#ok"})
            assert one.counts == [1]

    run(body())


@pytest.mark.thorough
def test_an_answer_that_is_too_slow_is_a_timeout_of_the_network(run: Any, stage: Stage) -> None:
    async def body() -> None:
        for_ever = {"url": SAVED, "times": 1, "seconds": 3600}
        faults = ({**for_ever, "kind": kind, "step": number} for number, kind in enumerate(("slow", "hang")))
        async with play(stage, *faults) as one:
            for number, counts in enumerate(([1, 0], [1, 1])):
                await one.arm(number)
                assert (await one.code(0.8))[0] == "NET_TIMEOUT"
                assert await one.code() == ("", "")
                assert one.counts == counts

    run(body())


@pytest.mark.parametrize("body_text", ["", "<p>later</p>"])
@pytest.mark.thorough
def test_retry_after_reaches_the_failure(run: Any, stage: Stage, body_text: str) -> None:
    async def body() -> None:
        fault = {"kind": "status", "url": SAVED, "status": 429, "retry_after": 6.2, "body": body_text}
        async with play(stage, fault) as one:
            await one.arm()
            failure = await one.do()
            assert isinstance(failure, Failure)
            assert (failure.code, failure.retry_after) == ("HTTP_RATE_LIMITED", 7)

    run(body())


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"kind": "reset"}, "NET_CONNECTION_RESET"),
        ({"kind": "empty"}, "NET_EMPTY_RESPONSE"),
        ({"kind": "garbage"}, None),
        ({"kind": "truncate", "bytes": 3}, "NET_CONNECTION_RESET"),
        ({"kind": "status", "status": 503, "retry_after": 3}, "HTTP_UNAVAILABLE"),
        ({"kind": "hang", "seconds": 60}, "NET_TIMEOUT"),
    ],
)
@pytest.mark.sampled(1)
def test_api_requests_are_struck_as_well(run: Any, stage: Stage, fault: dict[str, Any], code: str | None) -> None:
    """By a fault that is declared for http: it strikes https too."""

    async def body() -> None:
        for_both = {**fault, "url": f"http://{SHOP}/whoami", "times": 1}
        async with play(stage, {**for_both, "step": 0}, {**for_both, "step": 1}) as one:
            for number, counts in enumerate(([1, 0], [1, 1])):
                await one.arm(number)
                url = f"{SCHEMES[number]}://{SHOP}/whoami"
                failure = await one.do(stretched(1.5), act="api", url=url)
                assert isinstance(failure, Failure)
                assert code is None or failure.code == code
                assert one.counts == counts
                assert isinstance(await one.do(act="api", url=url), Passed)

    run(body())


def test_every_request_is_seen_and_only_the_ones_declared_are_struck(run: Any, stage: Stage) -> None:
    """Chromium keeps connections where it can: behind a gate each request comes on its own."""

    async def body() -> None:
        fault = {"kind": "empty", "url": "*/whoami*", "nth": 3, "times": 2}
        async with play(stage, fault) as one:
            await one.arm()
            await one.do()
            assert await one.fetch("/whoami", 7) == ["ok", "ok", "failed", "failed", "ok", "ok", "ok"]
            assert one.counts == [2]

    run(body())


@pytest.mark.thorough
def test_chances_are_those_of_the_seed(run: Any, stage: Stage) -> None:
    async def struck(seed: int) -> list[str]:
        async with play(stage, {"kind": "reset", "url": "*/whoami*", "probability": 0.4}, seed=seed) as one:
            await one.arm()
            await one.do()
            return await one.fetch("/whoami", 20)

    async def body() -> None:
        first = await struck(7)
        assert first == await struck(7)
        assert first != await struck(8)
        assert set(first) == {"ok", "failed"}

    run(body())


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("kind", ["empty", "reset", "hang"])
@pytest.mark.sampled(1)
def test_what_chromium_sends_again_by_itself_does_not_wear_a_fault_out(
    run: Any, stage: Stage, scheme: str, kind: str
) -> None:
    """A request that is given up may leave a connection behind; the next one goes over that."""
    script = """async url => { const ended = new AbortController();
        const given_up = fetch(url, {mode: 'no-cors', signal: ended.signal}).catch(() => 0);
        ended.abort(); await given_up; await new Promise(then => setTimeout(then, 60));
        return fetch(url + '?second', {mode: 'no-cors'}).then(() => 'ok', () => 'failed') }"""

    async def body() -> None:
        fault = {"kind": kind, "url": "*?second", "times": 4, **({"seconds": 0.05} if kind == "hang" else {})}
        async with play(stage, fault) as one:
            await one.arm()
            await one.do(url=f"{scheme}://{SHOP}/saved")
            page = one.session.tab.page
            told = [await page.evaluate(script, f"{scheme}://{OTHER}/whoami") for _ in range(6)]
            assert told == ["failed"] * 4 + ["ok"] * 2
            assert one.counts == [4]

    run(body())


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.thorough
def test_websockets_are_struck_by_their_own_scheme(run: Any, stage: Stage, scheme: str) -> None:
    async def body() -> None:
        async with Shop() as shop:
            fault = {"kind": "reset", "url": "ws*://*/socket", "times": 1}
            async with play(stage, fault, hosts={SHOP: shop.port}) as one:
                await one.arm()
                for said in ("", f"ping over {scheme}:"):
                    await one.do(url=f"{scheme}://{SHOP}/")
                    page = one.session.tab.page
                    if said:
                        await passed(one.session, {"act": "wait", "selector": "#said", "value": said})
                    else:
                        await page.wait_for_function("socket.readyState === WebSocket.CLOSED")
                    assert await page.text_content("#said") == said
                assert one.counts == [1]

    run(body())


@pytest.mark.parametrize(
    ("problem", "error"), [("untrusted", "CERT_AUTHORITY_INVALID"), ("protocol", "SSL_PROTOCOL_ERROR")]
)
@pytest.mark.thorough
def test_tls_that_is_broken_for_a_while(run: Any, stage: Stage, problem: str, error: str) -> None:
    async def body() -> None:
        secure, fault = f"https://{SHOP}/saved", {"kind": "tls", "host": SHOP, "problem": problem, "seconds": 1.5}
        async with play(stage, {**fault, "step": 1}) as one:
            await one.arm(0)
            assert await one.code(url=secure) == ("", "")
            await one.arm(1)
            assert await one.code(url=secure) == ("NET_TLS", error)
            await one.settled()
            assert await one.code(url=f"https://{OTHER}/saved") == ("", "")
            assert await one.code() == ("", "")  # plain http of the host
            async with asyncio.timeout(20):
                while await one.code(url=secure) != ("", ""):
                    await asyncio.sleep(0.1)
            assert one.counts[0] >= 1
            assert len(one.injector.results()[0].healed) == 1

    run(body())


@pytest.mark.thorough
def test_tls_stays_broken_in_a_browser_that_was_restarted(run: Any, stage: Stage) -> None:
    async def body() -> None:
        async with play(stage, {"kind": "tls", "host": SHOP}) as one:
            await one.arm()
            before = one.session.chromium
            await one.session.restore(None, 20, restart=True)
            assert one.session.chromium is not before
            assert (await one.code(url=f"https://{SHOP}/saved"))[0] == "NET_TLS"

    run(body())


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.thorough
def test_refusals_are_counted_and_end(run: Any, stage: Stage, scheme: str) -> None:
    code = {"http": "NET_CONNECTION_REFUSED", "https": "NET_CONNECTION_RESET"}[scheme]

    async def body() -> None:
        url = f"{scheme}://{SHOP}/saved"
        async with play(stage, {"kind": "refuse", "host": SHOP, "connections": 2, "step": 1}) as one:
            await one.arm(0)
            assert await one.code(url=url) == ("", "")
            await one.arm(1)
            for _ in range(2):
                assert (await one.code(url=url))[0] == code
                await one.settled()
            assert await one.code(url=url) == ("", "")
            assert one.counts == [2]

    run(body())


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.sampled(1)
def test_refused_websockets_are_counted_and_end(run: Any, stage: Stage, scheme: str) -> None:
    script = """url => new Promise(done => { const socket = new WebSocket(url);
        socket.onopen = () => done('open'); socket.onerror = () => done('error') })"""

    async def body() -> None:
        async with Shop() as shop:
            fault = {"kind": "refuse", "host": SHOP, "connections": 2}
            async with play(stage, fault, hosts={SHOP: shop.port}) as one:
                await one.do(url=f"{scheme}://{OTHER}/saved")
                await one.arm()
                url, page = f"{scheme.replace('http', 'ws')}://{SHOP}/socket", one.session.tab.page
                for count in (1, 2):
                    assert await page.evaluate(script, url) == "error"
                    async with asyncio.timeout(20):
                        while one.counts != [count]:
                            await asyncio.sleep(0.01)
                assert await page.evaluate(script, url) == "open"
                assert one.counts == [2]

    run(body())


def test_refusals_by_time_heal(run: Any, stage: Stage) -> None:
    async def body() -> None:
        async with play(stage, {"kind": "refuse", "host": SHOP, "seconds": 1}) as one:
            await one.arm()
            assert (await one.code())[0] == "NET_CONNECTION_REFUSED"
            async with asyncio.timeout(20):
                while await one.code() != ("", ""):
                    await asyncio.sleep(0.1)
            [met] = one.injector.results()
            assert met.count >= 1
            assert len(met.healed) == 1

    run(body())


def test_a_fault_of_an_unknown_host_is_refused_before_anything_runs(run: Any, stage: Stage) -> None:
    async def body() -> None:
        with pytest.raises(Failed, match=r"nowhere\.test"):
            async with play(stage, {"kind": "tls", "host": "nowhere.test"}):
                pass

    run(body())
