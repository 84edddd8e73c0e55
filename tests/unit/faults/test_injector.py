"""Faults strike at their steps and requests, each by its own schedule, and are healed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.faults.injector import FaultInjector, Where
from harness.faults.network import Network, prepare
from harness.model.ports import Injection, Undo
from harness.recovery.failure import Failed, Failure
from harness.spec.faults import Fault
from harness.spec.steps import Step
from tests.unit.faults.conftest import FakeSite, ManualClock, refuses, site, talk, until

REFUSED = "net::ERR_CONNECTION_REFUSED"
FAULT: TypeAdapter[Any] = TypeAdapter(Fault)
STEP: TypeAdapter[Any] = TypeAdapter(Step)
CLICK = STEP.validate_python({"act": "click", "selector": "#a"})
WAIT = STEP.validate_python({"act": "wait", "selector": "#a"})


@dataclass
class Recorder:
    """Hands that only write down; what they do is undone by another line."""

    did: list[str] = field(default_factory=list)
    broken: bool = False
    strikes: list[Injection] = field(default_factory=list)
    places: set[str] = field(default_factory=set)

    async def strike(self, strike: Injection) -> Undo | None:
        self.do(f"strike {strike.fault.kind}")
        self.strikes.append(strike)
        strike.met()

        async def heal() -> None:
            self.do(f"heal {strike.fault.kind}")

        return heal

    async def has(self, fault: Any) -> bool:
        return fault.path in self.places

    def do(self, what: str) -> None:
        if self.broken:
            raise Failed(Failure("CHANNEL_UNREADABLE", "it is down"))
        self.did.append(what)


@dataclass
class Play:
    injector: FaultInjector
    network: Network
    site: FakeSite
    clock: ManualClock
    hands: Recorder

    @property
    def port(self) -> int:
        return self.network.hosts["shop.local"]

    @property
    def counts(self) -> list[int]:
        return [each.count for each in self.injector.results()]

    async def step(self, index: int, step: Any = CLICK) -> None:
        await self.injector.before_step(index, step)

    async def get(self, path: str = "/") -> bytes:
        """The answer; what is broken off is none."""
        request = f"GET {path} HTTP/1.1\r\nHost: shop.local\r\nConnection: close\r\n\r\n".encode()
        try:
            return await talk(self.port, request)
        except ConnectionResetError:
            return b"reset"


@asynccontextmanager
async def play(*faults: Mapping[str, Any], seed: int = 1, state: Recorder | None = None) -> AsyncIterator[Play]:
    """`state`: the hands that alter the state, if they are not those of the browser."""
    clock, hands = ManualClock(), Recorder()
    async with site() as fake:
        parsed = [FAULT.validate_python(fault) for fault in faults]
        network = await prepare(parsed, hosts={"Shop.local": fake.port, "bank.local": 9}, clock=clock)
        injector = FaultInjector(parsed, Where(network, state or hands, state or hands), clock, seed=seed, task="t")
        injector.attach(hands)
        try:
            yield Play(injector, network, fake, clock, hands)
        finally:
            await injector.close()


async def test_a_pattern_matches_https_requests_that_the_browser_names_as_they_are() -> None:
    fault = FAULT.validate_python({"kind": "abort", "url": "https://shop.local/*"})
    network = await prepare([fault], hosts={"shop.local": 1}, clock=ManualClock())
    assert [network.matches(fault, (f"{scheme}://shop.local/a",)) for scheme in ("https", "http")] == [True, True]


def test_only_hosts_with_faults_get_a_gate() -> None:
    async def main() -> None:
        async with play() as quiet:
            assert quiet.network.hosts == {"shop.local": quiet.site.port, "bank.local": 9}
        async with play({"kind": "refuse", "host": "SHOP.local", "seconds": 1, "step": 5}) as one:
            assert one.network.hosts["bank.local"] == 9
            assert one.port != one.site.port
            assert b"200 OK" in await one.get()
        async with play({"kind": "empty", "url": "*/pay"}) as every:
            assert every.network.hosts["bank.local"] != 9

    asyncio.run(main())


def test_refuse_for_a_number_of_connections() -> None:
    async def main() -> None:
        async with play({"kind": "refuse", "host": "shop.local", "connections": 2, "step": 1}) as one:
            failed = one.network.request_failed
            await one.step(0)
            assert not await refuses(one.port)
            await one.step(1)
            assert await refuses(one.port)
            failed("http://bank.local/", REFUSED)
            failed("http://shop.local/", "net::ERR_ABORTED")
            failed("http://shop.local:80/a", REFUSED)
            assert await refuses(one.port)
            failed("http://SHOP.local/b", f"Page.goto: {REFUSED} at http://shop.local/b")
            assert b"200 OK" in await one.get()
            failed("http://shop.local/", REFUSED)
            await one.step(1)  # rewound
            await one.step(2)
            assert b"200 OK" in await one.get()
            assert one.counts == [2]

    asyncio.run(main())


def test_refuse_for_some_seconds() -> None:
    async def main() -> None:
        async with play({"kind": "refuse", "host": "shop.local", "seconds": 5}) as one:
            await one.step(0)
            await one.clock.sleeper()
            one.network.request_failed("http://shop.local/", REFUSED)
            await one.clock.advance(4.9)
            assert await refuses(one.port)
            await one.clock.advance(0.2)
            assert b"200 OK" in await one.get()
            [met] = one.injector.results()
            assert (met.count, met.strikes, met.healed) == (1, (0.0,), (5.1,))

    asyncio.run(main())


def test_two_refusals_must_both_end() -> None:
    async def main() -> None:
        by_time = {"kind": "refuse", "host": "shop.local", "seconds": 5}
        async with play(by_time, {"kind": "refuse", "host": "shop.local", "connections": 1}) as one:
            await one.step(0)
            await one.clock.sleeper()
            one.network.request_failed("http://shop.local/", REFUSED)
            assert await refuses(one.port)
            await one.clock.advance(5)
            assert not await refuses(one.port)

    asyncio.run(main())


def test_requests_are_struck_from_their_step_on_as_often_as_declared() -> None:
    async def main() -> None:
        fault = {"kind": "empty", "url": "http://shop.local/api/*?slow=1", "nth": 2, "times": 2, "step": 1}
        async with play(fault) as one:
            await one.step(0)
            assert b"200 OK" in await one.get("/api/a?slow=1")
            await one.step(1)
            assert b"200 OK" in await one.get("/api/a?slow=2")
            answers = [await one.get(f"/api/{number}?slow=1") for number in range(4)]
            assert [b"200 OK" in each for each in answers] == [True, False, False, True]
            await one.step(0)  # rewound: what was armed stays so
            assert b"200 OK" in await one.get("/api/c?slow=1")
            assert one.counts == [2]

    asyncio.run(main())


def test_no_fault_shifts_the_occasions_of_another() -> None:
    """Every request is an occasion of all faults that match it; the first in the file strikes."""

    async def main() -> None:
        first = {"kind": "empty", "url": "*", "times": 1}
        second = {"kind": "status", "url": "*", "status": 503, "nth": 2, "times": 1}
        third = {"kind": "reset", "url": "*", "times": 1}
        async with play(first, second, third) as one:
            await one.step(0)
            answers = [(await one.get())[:12] for _ in range(4)]
            assert answers == [b"", b"HTTP/1.1 503", b"reset", b"HTTP/1.1 200"]
            assert one.counts == [1, 1, 1]

    asyncio.run(main())


def test_a_window_of_time() -> None:
    async def main() -> None:
        async with play({"kind": "empty", "url": "*", "after": 10, "until": 20}) as one:
            await one.step(0)
            seen = []
            for _ in range(4):
                seen.append(await one.get() == b"")
                await one.clock.advance(7)
            assert seen == [False, False, True, False]  # at 0, 7, 14 and 21 seconds

    asyncio.run(main())


def test_the_same_seed_strikes_the_same_requests() -> None:
    async def struck(seed: int, *others: Mapping[str, Any]) -> list[bool]:
        async with play({"kind": "empty", "url": "*/a", "probability": 0.5, "id": "x"}, *others, seed=seed) as one:
            await one.step(0)
            return [await one.get("/a") == b"" for _ in range(30)]

    async def main() -> None:
        once = await struck(1)
        assert once == await struck(1, {"kind": "reset", "url": "*/b", "probability": 0.5})
        assert once != await struck(2)
        assert True in once
        assert False in once

    asyncio.run(main())


def test_a_websocket_goes_by_ws() -> None:
    async def main() -> None:
        async with play({"kind": "status", "url": "ws://shop.local/*", "status": 500}) as one:
            await one.step(0)
            assert b"200 OK" in await one.get("/live")
            head = b"GET /live HTTP/1.1\r\nHost: shop.local\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            assert (await talk(one.port, head)).startswith(b"HTTP/1.1 500")
            assert one.counts == [1]

    asyncio.run(main())


def test_faults_of_steps_strike_steps_that_begin_once_unless_told_otherwise() -> None:
    async def main() -> None:
        once = {"kind": "missing", "selector": "#a", "step": 1, "act": "click"}
        second = {"kind": "covered", "selector": "#a", "nth": 2}
        thrice = {"kind": "popup", "times": 3, "after": 5}
        async with play(once, second, thrice) as one:
            await one.step(0)
            await one.step(1, WAIT)
            assert one.hands.did == ["strike covered"]
            await one.clock.advance(5)
            for index in (1, 1, 2, 3):
                await one.step(index)
            assert one.hands.did[1:] == ["strike missing", "strike popup", "strike popup", "strike popup"]
            assert one.counts == [1, 1, 3]

    asyncio.run(main())


def test_a_late_value_may_wait_for_its_place() -> None:
    late = {"kind": "delayed_state", "path": "shop.returns.R-1.state", "value": "approved", "seconds": 3}

    async def main() -> None:
        async with play({**late, "when_there": True}, {**late, "step": 1}) as one:
            await one.step(0)
            await one.step(1)
            assert one.counts == [0, 1]
            assert "shop.returns.R-1.state did not exist before any of the steps" in one.injector.results()[0].why
            one.hands.places.add("shop.returns.R-1.state")
            await one.step(2)
            await one.step(3)
            assert [each.steps for each in one.injector.results()] == [(2,), (1,)]

    asyncio.run(main())


def test_a_strike_in_the_middle_of_a_step() -> None:
    async def main() -> None:
        async with play({"kind": "page_crash", "delay": 2}) as one:
            await one.step(0)
            await one.clock.sleeper()
            assert (one.hands.did, one.injector.claim_loss()) == ([], False)
            await one.clock.advance(2)
            assert one.hands.did == ["strike page_crash"]
            assert [one.injector.claim_loss(), one.injector.claim_loss()] == [True, False]

    asyncio.run(main())


def test_healing_after_some_seconds_or_at_the_end_and_only_once() -> None:
    async def main() -> None:
        soon = {"kind": "missing", "selector": "#a", "seconds": 5}
        async with play(soon, {"kind": "covered", "selector": "#b"}) as one:
            await one.step(0)
            await one.clock.sleeper()
            await one.clock.advance(5)
            assert one.hands.did[2:] == ["heal missing"]
            await one.clock.advance(1)
            await one.injector.close()
            await one.injector.close()
            assert one.hands.did[2:] == ["heal missing", "heal covered"]
            assert [each.healed for each in one.injector.results()] == [(5.0,), (6.0,)]

    asyncio.run(main())


def test_a_healing_that_the_end_interrupts_is_done_all_the_same() -> None:
    async def main() -> None:
        waiting, healed = asyncio.Event(), []

        class Slow(Recorder):
            async def strike(self, strike: Injection) -> Undo | None:
                async def heal() -> None:
                    if not waiting.is_set():
                        waiting.set()
                        await asyncio.Event().wait()
                    healed.append("healed")

                return heal

        async with play({"kind": "missing", "selector": "#a", "seconds": 5}) as one:
            one.injector.attach(Slow())
            await one.step(0)
            await one.clock.sleeper()
            await one.clock.advance(5)
            await waiting.wait()
            await one.injector.close()
            assert healed == ["healed"]

    asyncio.run(main())


class Halting(Recorder):
    """Hands that alter something at once, and can undo it only when they `go` on; with `broken`, they fail then."""

    def __init__(self) -> None:
        super().__init__()
        self.half, self.go = asyncio.Event(), asyncio.Event()

    async def strike(self, strike: Injection) -> Undo | None:
        self.did.append("altered")
        self.half.set()
        await self.go.wait()
        return await super().strike(strike)


@asynccontextmanager
async def halfway(*faults: Mapping[str, Any]) -> AsyncIterator[tuple[Play, Halting]]:
    """The last fault is half-way with its strike."""
    hands = Halting()
    altered = {"kind": "environment_altered", "path": "a", "value": 1, "delay": 1}
    async with play(*faults, altered, state=hands) as one:
        await one.step(0)
        await one.clock.sleeper()
        await one.clock.advance(1)
        await hands.half.wait()
        yield one, hands


async def test_a_strike_that_the_end_interrupts_is_done_to_its_end_and_healed() -> None:
    async with halfway() as (one, hands):
        closing = asyncio.create_task(one.injector.close())
        await one.clock.advance(0)
        assert not closing.done()
        hands.go.set()
        await closing
        assert hands.did == ["altered", "strike environment_altered", "heal environment_altered"]
        [met] = one.injector.results()
        assert (met.count, len(met.healed), met.problem) == (1, 1, "")


def test_a_strike_whose_step_is_interrupted_is_done_to_its_end_and_healed() -> None:
    async def main() -> None:
        hands = Halting()
        async with play({"kind": "environment_altered", "path": "a", "value": 1, "seconds": 5}, state=hands) as one:
            step = asyncio.create_task(one.step(0))
            await hands.half.wait()
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
            hands.go.set()
            await one.injector.close()
            assert hands.did == ["altered", "strike environment_altered", "heal environment_altered"]
            assert one.clock.sleepers == []

    asyncio.run(main())


async def test_a_strike_that_fails_at_the_end_of_the_task_is_told() -> None:
    async with halfway() as (one, hands):
        hands.broken = True
        asyncio.get_running_loop().call_later(0.01, hands.go.set)
        await one.injector.close()
        assert [each.problem for each in one.injector.results()] == ["it is down"]


async def test_a_strike_that_does_not_end_keeps_no_other_from_healing_and_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.faults.injector.STRIKE_SECONDS", 0.05)
    async with halfway({"kind": "missing", "selector": "#a"}) as (one, _):
        await one.injector.close()
        assert one.hands.did == ["strike missing", "heal missing"]
        assert [each.problem for each in one.injector.results()] == ["", "the strike did not end within 0.05 s"]


def test_what_cannot_strike_is_raised_and_what_cannot_heal_is_kept() -> None:
    async def main() -> None:
        async with play({"kind": "missing", "selector": "#a"}) as one:
            one.hands.broken = True
            with pytest.raises(Failed, match="it is down"):
                await one.step(0)
        async with play(
            {"kind": "missing", "selector": "#a"}, {"kind": "covered", "selector": "#a", "delay": 1}
        ) as one:
            await one.step(0)
            await one.clock.sleeper()
            one.hands.broken = True
            await one.clock.advance(1)
            await one.injector.close()
            assert [each.problem for each in one.injector.results()] == ["it is down", "it is down"]

    asyncio.run(main())


def test_faults_of_routes_are_laid_once_and_take_requests_by_their_schedule() -> None:
    async def main() -> None:
        async with play({"kind": "dns", "url": "http://else.example/*", "step": 1, "nth": 2, "times": 1}) as one:
            await one.step(0)
            assert one.hands.did == []
            await one.step(1)
            await one.step(2)
            [strike] = one.hands.strikes
            taken = [strike.takes((url,)) for url in ("http://x/", *["http://else.example/a"] * 3)]
            assert taken == [False, False, True, False]

    asyncio.run(main())


def test_tls_trouble_lasts_as_long_as_it_says() -> None:
    async def main() -> None:
        fault = {"kind": "tls", "host": "Shop.local", "problem": "protocol", "seconds": 5, "step": 1}
        async with play(fault) as one:
            await one.step(0)
            assert one.network.tls_problem("shop.local") is None
            await one.step(1)
            assert one.network.tls_problem("bank.local") is None
            assert one.network.tls_problem("SHOP.local") == "protocol"
            await one.clock.sleeper()
            await one.clock.advance(5)
            assert one.network.tls_problem("shop.local") is None
            [met] = one.injector.results()
            assert (met.count, met.healed) == (1, (5.0,))
            assert b"200 OK" in await one.get()

    asyncio.run(main())


def test_close_ends_what_is_pending_and_leaves_nothing() -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        refuse = {"kind": "refuse", "host": "shop.local", "seconds": 50}
        async with play(refuse, {"kind": "missing", "selector": "#a", "delay": 5}) as one:
            await one.step(0)
            await one.clock.sleeper(2)
            port = one.port
            await one.injector.close()
            await one.clock.advance(100)
            one.network.request_failed("http://shop.local/", REFUSED)
            assert one.hands.did == []
            assert await refuses(port)
        await until(lambda: asyncio.all_tasks() == before)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"kind": "refuse", "host": "shop.example", "seconds": 1}, ("'shop.example'", "bank.local, shop.local")),
        ({"kind": "tls", "host": "shop.example"}, ("'shop.example'", "bank.local, shop.local")),
        ({"kind": "hang", "url": "http://shop.example/*"}, ("'http://shop.example/*'", "bank.local, shop.local")),
    ],
)
def test_a_fault_that_cannot_happen_is_refused(fault: dict[str, Any], words: tuple[str, ...]) -> None:
    async def main() -> None:
        with pytest.raises(Failed) as caught:
            async with play(fault):
                pass
        assert caught.value.failure.code == "INVALID_INPUT"
        for word in words:
            assert word in caught.value.failure.message

    asyncio.run(main())


def test_a_healing_that_breaks_keeps_no_other_from_it_and_is_told() -> None:
    async def main() -> None:
        async with play({"kind": "missing", "selector": "#a"}, {"kind": "covered", "selector": "#b"}) as one:
            await one.step(0)
            before = one.hands.do

            def breaks(what: str) -> None:
                if what == "heal covered":
                    raise ValueError("not there")
                before(what)

            one.hands.do = breaks  # type: ignore[method-assign]
            await one.injector.close()
            assert one.hands.did[-1] == "heal missing"
            assert [each.problem for each in one.injector.results()] == ["", "ValueError: not there"]

    asyncio.run(main())


def test_a_strike_that_nobody_noticed_is_claimed_by_no_later_loss() -> None:
    async def main() -> None:
        async with play({"kind": "browser_kill"}, {"kind": "page_crash", "step": 1}) as one:
            await one.step(0)
            await one.step(1)
            assert [one.injector.claim_loss() for _ in range(3)] == [True, True, False]
        async with play({"kind": "browser_kill"}) as one:
            for index in range(3):
                await one.step(index)
            assert not one.injector.claim_loss()

    asyncio.run(main())


def test_each_strike_knows_its_step_and_one_that_never_came_says_why() -> None:
    async def main() -> None:
        reset = {"kind": "reset", "url": "http://shop.local/*"}
        later = {"kind": "page_crash", "step": 9}
        waits = {"kind": "page_crash", "delay": 90}
        async with play(reset, later, waits) as one:
            await one.step(0)
            await one.step(1)
            assert await one.get() == b"reset"
            await one.clock.sleeper()
            met = one.injector.results()
        assert (met[0].steps, met[0].why) == ((1,), "")
        assert met[1].why == "step 9 was never reached"
        assert met[2].why == "the task ended before its `delay` of 90 s was over"

    asyncio.run(main())


def test_a_fault_of_models_strikes_the_requests_that_choose_a_step() -> None:
    async def main() -> None:
        cut = {"kind": "model_cut", "model": "claude", "nth": 2, "times": 1}
        async with play(cut, {"kind": "model_empty", "step": 1}) as one:
            strike = one.injector.strike_model
            struck = [strike("claude", 0), strike("gpt", 0), strike("claude", 0), strike("claude", 1), strike("gpt", 1)]
            assert [each and each.kind for each in struck] == [None, None, "model_cut", "model_empty", "model_empty"]
            assert [each.steps for each in one.injector.results()] == [(0,), (1, 1)]

    asyncio.run(main())


def test_a_fault_of_tools_strikes_the_tries_of_the_calls_that_fit() -> None:
    async def main() -> None:
        refused = {"kind": "tool_refused", "server": "mail", "tool": "get_*", "nth": 2, "times": 1}
        async with play(refused, {"kind": "tool_error", "step": 1}) as one:
            strike = one.injector.strike_tool
            tries = [("mail", "get_code"), ("shop", "get_code"), ("mail", "send"), ("mail", "get_code")]
            struck = [*(strike(*each, 0) for each in tries), strike("mail", "get_code", 1), strike("shop", "buy", 1)]
            kinds = [each and each.kind for each in struck]
            assert kinds == [None, None, None, "tool_refused", "tool_error", "tool_error"]
            assert [each.steps for each in one.injector.results()] == [(0,), (1, 1)]

    asyncio.run(main())


def test_a_fault_of_the_network_strikes_the_choice_of_its_step() -> None:
    async def main() -> None:
        async with play({"kind": "status", "url": "http://shop.local/*", "status": 503, "times": 1}) as one:
            urls = ("http://shop.local/v1/messages",)
            assert one.injector.broken(urls) == 0
            assert one.injector.strike_model("claude", 0) is None
            assert b"503" in await one.get("/v1/messages")
            assert (one.injector.broken(urls), one.injector.broken(("http://bank.local/",))) == (1, 0)

    asyncio.run(main())
