"""The next endpoint is asked when one gives no browser; a circuit spares those that are down."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from playwright.async_api import Error as PlaywrightError

from harness.browser.endpoints import (
    DOWN,
    UNFIT,
    BrowserEndpoint,
    Endpoints,
    down,
    endpoint_failure,
    on_loopback,
    reason,
)
from harness.browser.executable import BrowserKind
from harness.model.browser_settings import BrowserSettings
from harness.recovery.failure import Failed
from harness.resilience.breaker import Breaker, BreakerSettings

ONE, TWO = "ws://127.0.0.1:1001", "ws://127.0.0.1:1002"


class Server:
    """A Playwright server with some executables; stands for the driver, too."""

    def __init__(self, *has: str | None) -> None:
        self.has = has
        self.asked: list[str | None] = []
        self.playwright = SimpleNamespace(chromium=self)
        self.executable_path = "/nowhere/chromium"

    async def connect(self, _: str, *, headers: dict[str, str], **__: object) -> str:
        path = json.loads(headers["x-playwright-launch-options"]).get("executablePath")
        self.asked.append(path)
        if path not in self.has:
            raise PlaywrightError(f"BrowserType.connect: Failed to launch: executable doesn't exist at {path}")
        return "browser"


@pytest.mark.parametrize(
    ("here", "has", "asked"),
    [
        (True, ["/ours", None], ["/ours"]),
        (True, [None], ["/ours", None]),
        (False, ["/ours", None], [None]),
        (False, ["/ours"], [None, "/ours"]),
    ],
)
async def test_the_executable_that_is_likely_there_comes_first(
    monkeypatch: pytest.MonkeyPatch, here: bool, has: list[str | None], asked: list[str | None]
) -> None:
    """Each launch of one that is not there costs the server two folders that Playwright never removes."""
    monkeypatch.setattr("harness.browser.endpoints.serves_here", lambda port: here and port == 1001)
    monkeypatch.setattr("harness.browser.executable.find", lambda *_: "/ours")
    monkeypatch.delenv("HARNESS_BROWSER_EXECUTABLE", raising=False)
    endpoint, server = BrowserEndpoint(f"{ONE}/x", ONE, BrowserSettings()), Server(*has)
    front = SimpleNamespace(hosts={}, ports={}, spki="")
    for _ in range(2):
        browser = await endpoint.launched(cast("Any", server), cast("Any", front), BrowserKind(sealed=False), "--mark")
        assert browser == cast("Any", "browser")
    assert server.asked == [*asked, asked[-1]], "it is remembered"


@dataclass
class World:
    """Endpoints whose servers are these."""

    turn: int = 0
    down: set[str] = field(default_factory=set)
    unfit: set[str] = field(default_factory=set)
    running: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    now: float = 0.0
    breakers: dict[str, Breaker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.endpoints = Endpoints([f"{ONE}/x", f"{TWO}/y"], BrowserSettings(), self.breaker, self.turn)

    def breaker(self, name: str) -> Breaker:
        made = Breaker(name, BreakerSettings(2, 1, 5.0), now=lambda: self.now)
        return self.breakers.setdefault(name, made)

    async def start(self, place: BrowserEndpoint) -> Any:
        self.asked.append(place.name)
        if place.name in self.down:
            raise Failed(down(place.name, "silent"))
        if place.name in self.unfit:
            raise Failed(endpoint_failure(place.name, "too old"))
        return f"browser of {place.name}"

    def get(self, **sessions: int) -> Any:
        counts = {ONE: sessions.get("one", 0), TWO: sessions.get("two", 0)}
        lives = lambda place: self.running.get(place.name)  # noqa: E731
        return asyncio.run(self.endpoints.browser(True, counts.__getitem__, lives, self.start))

    def failure(self) -> Any:
        with pytest.raises(Failed) as raised:
            self.get()
        return raised.value.failure


def test_in_turn() -> None:
    world = World(turn=1)
    assert [world.get(), world.get(), world.get()] == [f"browser of {name}" for name in (TWO, ONE, TWO)]


def test_a_browser_that_runs_is_taken_without_asking() -> None:
    world = World(running={ONE: "living"}, down={ONE})
    world.breaker(ONE).admit().failed("silent")
    world.breaker(ONE).admit().failed("silent")
    assert world.get(two=1) == "browser of " + TWO, "the other works, and this one has failed"
    world.down.add(TWO)
    assert world.get(two=1) == "living", "an open circuit does not end what lives"


def test_the_next_one_serves_at_once() -> None:
    world = World(down={ONE})
    assert world.get() == f"browser of {TWO}"
    assert world.asked == [ONE, TWO]


def test_an_endpoint_that_fails_is_left_alone_and_tried_again_later() -> None:
    world = World(down={ONE, TWO})
    assert world.failure().code == DOWN
    assert world.failure().message.count("silent") == 2
    world.asked.clear()
    refused = world.failure()
    assert (refused.code, world.asked) == (DOWN, [])
    assert f"{ONE}: left alone for 5 s more (silent)" in refused.message
    world.down.clear()
    world.now = 6.0
    assert world.get() in (f"browser of {ONE}", f"browser of {TWO}")


def test_what_cannot_change_is_asked_once_and_feeds_no_circuit() -> None:
    world = World(unfit={ONE, TWO})
    first, second = world.failure(), world.failure()
    assert (first.code, second.code, sorted(world.asked)) == (UNFIT, UNFIT, [ONE, TWO])
    assert second.message == "no browser endpoint provides a browser: " + "; ".join(
        f"{name}: too old" for name in sorted((ONE, TWO), key=second.message.index)
    )
    assert not any(breaker.failures for breaker in world.breakers.values())


def test_many_at_once_learn_from_the_first_that_an_endpoint_is_down() -> None:
    world = World(down={ONE}, unfit={TWO})

    async def slow(place: BrowserEndpoint) -> Any:
        await asyncio.sleep(0)
        return await World.start(world, place)

    async def many() -> list[Any]:
        found = (world.endpoints.browser(True, lambda _: 0, lambda _: None, slow) for _ in range(8))
        return await asyncio.gather(*found, return_exceptions=True)

    assert all(isinstance(each, Failed) for each in asyncio.run(many()))
    assert (world.asked.count(ONE), world.asked.count(TWO)) == (2, 1)


def test_those_who_waited_take_the_one_that_was_started() -> None:
    world = World()

    async def kept(place: BrowserEndpoint) -> Any:
        await asyncio.sleep(0)
        world.running[place.name] = await World.start(world, place)
        return world.running[place.name]

    async def many() -> list[Any]:
        lives = lambda place: world.running.get(place.name)  # noqa: E731
        found = (world.endpoints.browser(True, lambda _: 0, lives, kept) for _ in range(8))
        return await asyncio.gather(*found)

    assert len(asyncio.run(many())) == 8
    assert sorted(world.asked) == [ONE, TWO]


def test_a_call_that_was_cancelled_says_nothing_of_the_endpoint() -> None:
    world = World()

    async def cancelled(_: BrowserEndpoint) -> Any:
        raise asyncio.CancelledError

    world.start = cancelled  # type: ignore[method-assign]
    for _ in range(3):
        with pytest.raises(asyncio.CancelledError):
            world.get()
    assert not any(breaker.failures for breaker in world.breakers.values())


def test_why_nothing_answers_in_words() -> None:
    assert reason(socket.gaierror(8, "nodename nor servname provided")) == "nodename nor servname provided"
    assert reason(ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")) == os.strerror(errno.ECONNREFUSED)
    assert reason(OSError("Multiple exceptions")) == "Multiple exceptions"


@pytest.mark.parametrize(
    ("url", "near"),
    [
        ("ws://127.0.0.1:1/", True), ("ws://127.9.9.9:1/", True), ("ws://[::1]:1/", True), ("ws://localhost:1/", True),
        ("ws://10.0.0.1:1/", False), ("ws://browsers:1/", False), ("ws://localhost.example:1/", False),
    ],
)  # fmt: skip
def test_whose_address_is_this_machine(url: str, near: bool) -> None:
    assert on_loopback(url) is near
