"""Faults are armed before their steps, once, and healed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.failure import Failed, Failure
from harness.faults import FaultInjector, prepare
from harness.spec.faults import Fault
from tests.unit.faults.conftest import FakeSite, ManualClock, refuses, site, talk

REFUSED = "net::ERR_CONNECTION_REFUSED"
FAULT: TypeAdapter[Any] = TypeAdapter(Fault)


class Environment:
    """Where delayed values go."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, Any]] = []
        self.broken = False

    async def write(self, channel: str, path: str, value: Any) -> None:
        if self.broken:
            raise Failed(Failure("CHANNEL_UNREADABLE", "it is down"))
        self.written.append((channel, path, value))


class Stage:
    def __init__(self, injector: FaultInjector, fake: FakeSite, clock: ManualClock, environment: Environment) -> None:
        self.injector, self.site, self.clock, self.environment = injector, fake, clock, environment

    @property
    def port(self) -> int:
        return self.injector.hosts["shop.local"]


@asynccontextmanager
async def stage(*faults: Mapping[str, Any]) -> AsyncIterator[Stage]:
    clock, environment = ManualClock(), Environment()
    async with site() as fake:
        hosts = {"Shop.local": fake.port, "bank.local": 9}
        parsed = [FAULT.validate_python(fault) for fault in faults]
        injector = await prepare(parsed, hosts=hosts, write=environment.write, clock=clock)
        try:
            yield Stage(injector, fake, clock, environment)
        finally:
            await injector.close()


def get(path: str = "/") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: shop.local\r\nConnection: close\r\n\r\n".encode()


def test_only_hosts_with_faults_get_a_gate() -> None:
    async def main() -> None:
        async with stage() as quiet:
            assert quiet.injector.hosts == {"shop.local": quiet.site.port, "bank.local": 9}
        refuse = {"kind": "refuse", "host": "SHOP.local", "seconds": 1, "step": 5}
        async with stage(refuse) as play:
            assert play.injector.hosts["bank.local"] == 9
            assert play.port != play.site.port
            assert b"200 OK" in await talk(play.port, get())

    asyncio.run(main())


def test_refuse_for_a_number_of_connections() -> None:
    async def main() -> None:
        async with stage({"kind": "refuse", "host": "shop.local", "connections": 2, "step": 1}) as play:
            await play.injector.before_step(0)
            assert not await refuses(play.port)
            await play.injector.before_step(1)
            assert await refuses(play.port)
            play.injector.request_failed("http://bank.local/", REFUSED)
            play.injector.request_failed("http://shop.local/", "net::ERR_ABORTED")
            play.injector.request_failed("http://shop.local:80/a", REFUSED)
            assert await refuses(play.port)
            play.injector.request_failed("http://SHOP.local/b", f"Page.goto: {REFUSED} at http://shop.local/b")
            assert b"200 OK" in await talk(play.port, get())
            play.injector.request_failed("http://shop.local/", REFUSED)
            await play.injector.before_step(1)  # rewound
            await play.injector.before_step(2)
            assert b"200 OK" in await talk(play.port, get())

    asyncio.run(main())


def test_refuse_for_some_seconds() -> None:
    async def main() -> None:
        async with stage({"kind": "refuse", "host": "shop.local", "seconds": 5}) as play:
            await play.injector.before_step(0)
            await play.clock.sleeper()
            play.injector.request_failed("http://shop.local/", REFUSED)
            await play.clock.advance(4.9)
            assert await refuses(play.port)
            await play.clock.advance(0.2)
            assert b"200 OK" in await talk(play.port, get())

    asyncio.run(main())


def test_two_refusals_must_both_end() -> None:
    async def main() -> None:
        by_time = {"kind": "refuse", "host": "shop.local", "seconds": 5}
        async with stage(by_time, {"kind": "refuse", "host": "shop.local", "connections": 1}) as play:
            await play.injector.before_step(0)
            await play.clock.sleeper()
            play.injector.request_failed("http://shop.local/", REFUSED)
            assert await refuses(play.port)
            await play.clock.advance(5)
            assert not await refuses(play.port)

    asyncio.run(main())


def test_hang_takes_matching_requests_as_often_as_it_says() -> None:
    async def main() -> None:
        hang = {"kind": "hang", "url": "http://shop.local/api/*?slow=1", "seconds": 30, "times": 2, "step": 1}
        async with stage(hang) as play:
            await play.injector.before_step(0)
            assert b"200 OK" in await talk(play.port, get("/api/a?slow=1"))
            await play.injector.before_step(1)
            assert b"200 OK" in await talk(play.port, get("/api/a?slow=2"))
            asking = [asyncio.create_task(talk(play.port, get(f"/api/{n}?slow=1"))) for n in range(2)]
            await play.clock.sleeper(2)
            assert b"200 OK" in await talk(play.port, get("/api/c?slow=1"))
            assert not any(each.done() for each in asking)
            await play.clock.advance(30)
            assert await asyncio.gather(*asking) == [b"", b""]
            assert len(play.site.heads) == 3

    asyncio.run(main())


def test_hang_for_zero_seconds_drops_at_once() -> None:
    async def main() -> None:
        async with stage({"kind": "hang", "url": "*/pay", "seconds": 0}) as play:
            await play.injector.before_step(0)
            asking = asyncio.create_task(talk(play.port, get("/pay")))
            await play.clock.sleeper()
            await play.clock.advance(0)
            assert await asking == b""
            assert play.injector.hosts["bank.local"] != 9

    asyncio.run(main())


def test_a_late_value_and_what_stands_meanwhile() -> None:
    async def main() -> None:
        late = {"kind": "delayed_state", "path": "a.b", "value": 1, "meanwhile": 0, "seconds": 5, "step": 2}
        now = {"kind": "delayed_state", "channel": "other", "path": "c", "value": None, "seconds": 0, "meanwhile": 7}
        async with stage(late, now) as play:
            await play.injector.before_step(0)
            assert play.environment.written == [("other", "c", None)]
            await play.injector.before_step(2)
            assert play.environment.written[1:] == [("env", "a.b", 0)]
            await play.injector.before_step(2)
            await play.clock.sleeper()
            await play.clock.advance(5)
            assert play.environment.written[2:] == [("env", "a.b", 1)]
            assert play.injector.problems == []

    asyncio.run(main())


def test_a_late_value_that_cannot_be_written_is_kept_as_a_problem() -> None:
    async def main() -> None:
        async with stage({"kind": "delayed_state", "path": "a", "value": 1, "seconds": 5}) as play:
            await play.injector.before_step(0)
            await play.clock.sleeper()
            play.environment.broken = True
            await play.clock.advance(5)
            await play.injector.close()
            assert [problem.message for problem in play.injector.problems] == ["it is down"]
        async with stage({"kind": "delayed_state", "path": "a", "value": 1, "seconds": 0}) as play:
            play.environment.broken = True
            with pytest.raises(Failed, match="it is down"):
                await play.injector.before_step(0)

    asyncio.run(main())


def test_close_ends_what_is_pending_and_may_be_repeated() -> None:
    async def main() -> None:
        refuse = {"kind": "refuse", "host": "shop.local", "seconds": 50}
        async with stage(refuse, {"kind": "delayed_state", "path": "a", "value": 1, "seconds": 5}) as play:
            await play.injector.before_step(0)
            await play.clock.sleeper(2)
            port = play.port
            await play.injector.close()
            await play.injector.close()
            await play.clock.advance(100)
            await play.injector.before_step(0)
            play.injector.request_failed("http://shop.local/", REFUSED)
            assert play.environment.written == []
            assert await refuses(port)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"kind": "refuse", "host": "shop.example", "seconds": 1}, ("'shop.example'", "bank.local, shop.local")),
        ({"kind": "hang", "url": "http://shop.example/*"}, ("'http://shop.example/*'", "bank.local, shop.local")),
    ],
)
def test_a_fault_that_cannot_happen_is_refused(fault: dict[str, Any], words: tuple[str, ...]) -> None:
    async def main() -> None:
        with pytest.raises(Failed) as caught:
            async with stage(fault):
                pass
        assert caught.value.failure.code == "INVALID_INPUT"
        for word in words:
            assert word in caught.value.failure.message

    asyncio.run(main())
