"""The browser endpoints of a run: the next one is asked when one does not give a browser."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from playwright.async_api import Browser, CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.browser.executable import (
    BASE,
    SEALED,
    VARIABLE,
    find,
    first_line,
    host_arguments,
    no_display,
    no_sandbox_reason,
    sandboxing_failed,
    unreachable_arguments,
    why,
)
from harness.browser.process import Chromium, Driver
from harness.browser.tls import TlsFront
from harness.model.settings import BrowserSettings, Settings, names
from harness.recovery.failure import Failed, Failure
from harness.resilience.breaker import Breaker, CircuitOpen, Ticket

# A browser behind a connection: what stands for its process here.

LEAVE_SECONDS = 2.0
CRASH_SECONDS = 1.0


class RemoteProcess:
    """The connection to a browser elsewhere (chromium.Process). No process is ever signalled.

    A run-server ends the browser of who leaves; that of a launch-server stays, without our contexts.
    """

    pid = None
    stopped = False

    def __init__(self, browser: Browser, control: CDPSession, *, own: bool) -> None:
        """`own`: the browser was launched for us alone."""
        self._browser = browser
        self._control = control
        self._leaving: asyncio.Task[None] | None = None
        self.killable = own

    @property
    def runs(self) -> bool:
        return self._leaving is None

    async def crash(self) -> None:
        try:
            async with asyncio.timeout(CRASH_SECONDS):
                await self._control.send("Browser.crash")
        except (TimeoutError, PlaywrightError):
            return  # it is never answered

    def kill(self) -> None:
        """Leave, without waiting for what does not answer."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def closed(self) -> None:
        if self._leaving is not None:
            await asyncio.gather(self._leaving, return_exceptions=True)

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._browser.close()
        except (TimeoutError, PlaywrightError):
            return  # the driver is gone, and the connection with it


# One browser endpoint: a Playwright server that gives a browser to who connects (docs/decisions/010).

DIAL_SECONDS = 3.0
CONNECT_SECONDS = 15.0
"""For the server to launch a browser and for that to answer."""
MARK = "--harness-run"
"""A flag that Chromium does not know: a browser that has it took all our flags, and is ours alone."""
PORTS = {"ws": 80, "wss": 443}


class BrowserEndpoint:
    """Where browsers are to be had. What was learned of its server is remembered."""

    def __init__(self, url: str, name: str, settings: BrowserSettings) -> None:
        """`name` is how it is shown: the URL may hold a secret."""
        self.name = name
        self.lock = asyncio.Lock()
        self.described = ""
        self.far = not on_loopback(url)
        """It cannot reach the hosts of this machine."""
        self._url = url
        self._settings = settings
        self._named = settings.executable or os.environ.get(VARIABLE)
        self._tries: list[str | None] = []
        """Executables, the best first; None: the server's own. Those that are not there are taken away."""
        self._sandbox = not (no_sandbox_reason() and on_loopback(url))

    async def start(self, driver: Driver, front: TlsFront, *, sealed: bool) -> Chromium:
        """A browser of its server; a `sealed` one sends no UDP, if the server lets us launch it.

        Raises Failed: BROWSER_ENDPOINT_DOWN or BROWSER_ENDPOINT_UNFIT.
        """
        await self._dial()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._connected(driver, front, sealed=sealed)
        except (PlaywrightError, TimeoutError) as error:
            raise Failed(refusal(self.name, error)) from error

    async def _dial(self) -> None:
        """Whether anything listens there: of a machine that is gone it is soon known."""
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                _, writer = await asyncio.open_connection(urlsplit(self._url).hostname, port_of(self._url))
        except TimeoutError as error:
            raise Failed(down(self.name, f"no connection in {DIAL_SECONDS:g} s", error)) from error
        except OSError as error:
            raise Failed(down(self.name, f"nothing answers there ({reason(error)})", error)) from error
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _connected(self, driver: Driver, front: TlsFront, *, sealed: bool) -> Chromium:
        mark = f"{MARK}={secrets.token_hex(8)}"
        browser = await self._launched(driver, front, [*(SEALED if sealed else ()), mark])
        try:
            control = await browser.new_browser_cdp_session()
            line = str((await control.send("SystemInfo.getInfo"))["commandLine"])
            if lacking := [] if mark in line else list(self._lacking(line, front)):
                raise Failed(not_taken(self.name, lacking))
            if front.hosts and not self.far and not await sees_us(browser):
                self.far = True  # it is behind a port that another machine, or a container, has here
                await browser.close()
                return await self._connected(driver, front, sealed=sealed)
            return await self._chromium(browser, control, front, own=mark in line)
        except BaseException:
            with suppress(PlaywrightError, TimeoutError):  # a server that hangs must not hold up what ended this
                async with asyncio.timeout(LEAVE_SECONDS):
                    await browser.close()
            raise

    async def _chromium(self, browser: Browser, control: CDPSession, front: TlsFront, *, own: bool) -> Chromium:
        connection = RemoteProcess(browser, control, own=own)
        chromium = await Chromium.of(browser, control, connection, front, None)
        if self.far:
            chromium.unreachable = frozenset(front.hosts)
        shared = "" if own else ", shared with others"
        self.described = f"Chromium {browser.version} (at {self.name}{shared})"
        return chromium

    async def _launched(self, driver: Driver, front: TlsFront, flags: Sequence[str]) -> Browser:
        """Tried with a sandbox, and a browser that it should have; with none, and another, when it has not."""
        self._tries = self._tries or await self._executables(driver)
        while True:
            try:
                return await driver.playwright.chromium.connect(
                    self._url,
                    headers={
                        "x-playwright-browser": "chromium",
                        "x-playwright-launch-options": json.dumps(self._options(front, flags)),
                    },
                    slow_mo=self._settings.slowmo,
                    timeout=CONNECT_SECONDS * 1000,
                )
            except PlaywrightError as error:
                if not self._mended(error):
                    raise

    async def _executables(self, driver: Driver) -> list[str | None]:
        """A server has its own browser first, unless it shares this machine with us.

        Playwright leaves two folders behind for each launch of a browser that is not there, so the better guess is the
        first one.
        """
        if self._named or self._settings.channel or not on_loopback(self._url):
            return [self._named]
        with suppress(Failed):
            here = str(find(self._settings, Path(driver.playwright.chromium.executable_path), os.environ))
            ours_first = await asyncio.to_thread(serves_here, port_of(self._url))
            return [here, None] if ours_first else [None, here]
        return [None]

    def _mended(self, error: PlaywrightError) -> bool:
        """Whether there is another way to launch, not tried yet."""
        if self._sandbox and sandboxing_failed(error):
            self._sandbox = False
            return True
        if len(self._tries) == 1 or not no_browser_there(error):
            return False
        del self._tries[0]
        return True

    def _options(self, front: TlsFront, flags: Sequence[str]) -> Mapping[str, Any]:
        """For the server's own `launch`."""
        here = host_arguments(front.hosts, front.ports, front.spki)
        hosts = unreachable_arguments(front.hosts) if self.far else here
        options = {
            "args": [*BASE, *self._settings.args, *hosts, *flags],
            "headless": not self._settings.headed,
            "chromiumSandbox": self._sandbox,
            "channel": self._settings.channel,
            "executablePath": self._tries[0],
            "timeout": CONNECT_SECONDS * 1000,
        }
        return {name: value for name, value in options.items() if value is not None}

    def _lacking(self, line: str, front: TlsFront) -> Iterator[str]:
        """What this run needs, and a browser that was launched by other rules has not."""
        if front.hosts:
            yield "the hosts of [tool.harness.services] (--host-resolver-rules)"
        yield from (f"{flag} (`args` of [tool.harness.browser])" for flag in self._settings.args if flag not in line)
        if self._settings.headed and "--headless" in line:
            yield "a window (--headed)"
        if self._named:
            yield "--task-browser-executable"
        if self._settings.channel:
            yield "--browser-channel"


def reason(error: OSError) -> str:
    """In words. The numbers of name lookups are none of the system's, and positive on macOS."""
    number = error.errno or 0
    ours = number > 0 and not isinstance(error, socket.gaierror)
    return os.strerror(number) if ours else error.strerror or str(error)


def port_of(url: str) -> int:
    """Also where the URL leaves it out."""
    parts = urlsplit(url)
    return parts.port or PORTS[parts.scheme]


def on_loopback(url: str) -> bool:
    """Whether the host of a URL is this machine by its address."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# Which browser endpoint a session goes to. Pure.


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is known of an endpoint before it is asked."""

    sessions: int = 0
    """How many sessions of this process live there now."""
    failed: bool = False
    """The last connection failed."""
    far: bool = False
    """It is known not to reach the hosts of this machine."""


def order(candidates: Sequence[Candidate], turn: int, *, hosts: bool) -> list[int]:
    """The places of the candidates, the best first: that works, with the fewest sessions, whose turn it is.

    `hosts`: the session is to reach hosts of this machine, so those that cannot come last.
    """
    count = len(candidates)

    def rank(place: int) -> tuple[bool, bool, int, int]:
        it = candidates[place]
        return it.far and hosts, it.failed, it.sessions, (place - turn) % count

    return sorted(range(count), key=rank)


def first_turn(environ: Mapping[str, str]) -> int:
    """Where the round begins: each worker process of xdist (`gw3`) at another endpoint."""
    number = environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    return int(number) if number.isdecimal() else 0


# Why an endpoint gives no browser, in words and as a code. Pure.

DOWN = "BROWSER_ENDPOINT_DOWN"
UNFIT = "BROWSER_ENDPOINT_UNFIT"
"""Another try would find the same: the server, or what is asked of it, has to be changed."""
UNSAFE = "start it with `python -m playwright run-server --unsafe`"
NO_WINDOW = (
    "a browser window needs a display, and there is none at the server that works: drop --headed, or start the server "
    "where DISPLAY is set, or under xvfb-run"
)
_VERSIONS = re.compile(r"server version: v?([\d.]+).*?client version: v?([\d.]+)", re.DOTALL)
_STATUS = re.compile(r" (4\d\d) [A-Z][\w ]*$")
_NO_BROWSER = re.compile(r"executable doesn't exist", re.IGNORECASE)
_MAYBE_LATER = ("408", "425", "429")
_HEAD = re.compile(r"^BrowserType\.connect: (?:WebSocket error: )?(?:wss?://\S+ )?")


def no_browser_there(error: Exception) -> bool:
    """Whether the server has found no browser where it looked, or was told to look."""
    return _NO_BROWSER.search(first_line(error)) is not None


def refusal(name: str, error: Exception) -> Failure:
    """What a connection failed with; `name` is how the endpoint is shown."""
    text = str(error)
    if versions := _VERSIONS.search(text):
        return unfit(name, _versions(*versions.groups()), error)
    if no_browser_there(error):
        told = "install one there (`python -m playwright install chromium`), or name one that is there"
        return unfit(name, f"it has no browser: {told} (--task-browser-executable PATH, and {UNSAFE})", error)
    if no_display(error):
        return unfit(name, NO_WINDOW, error)
    head = _HEAD.sub("", first_line(error)).strip()
    status = _STATUS.search(first_line(error))
    if status and status[1] not in _MAYBE_LATER:
        return unfit(name, f"it answers {head}: look at the path of the URL, and at what listens there", error)
    if isinstance(error, TimeoutError):
        return down(name, "it did not give a browser in time", error)
    return down(name, _HEAD.sub("", why(error)).strip() or "it broke off", error)


def _versions(server: str, client: str) -> str:
    return (
        f"its Playwright is {server}, the one here is {client}, and they must be the same: "
        f"`pip install playwright=={server}.*` here, or playwright=={client}.* there"
    )


def not_taken(name: str, lacking: Sequence[str]) -> Failure:
    """A server that has launched its browser without what is needed."""
    message = (
        f"its browser was started without {', '.join(lacking)}: {UNSAFE}; the browser of a launch-server is one that "
        "all share, and cannot have it"
    )
    return unfit(name, message)


def down(name: str, reason: str, error: Exception | None = None) -> Failure:
    """It may be there again later."""
    return Failure(DOWN, f"browser endpoint {name}: {reason}", details={"reason": reason}, cause=error)


def unfit(name: str, reason: str, error: Exception | None = None) -> Failure:
    return Failure(UNFIT, f"browser endpoint {name}: {reason}", details={"reason": reason}, cause=error)


def none_left(failures: Sequence[tuple[str, Failure]]) -> Failure:
    """No endpoint gives a browser. One that may come back makes it worth trying again."""
    code = DOWN if any(failure.code == DOWN for _, failure in failures) else UNFIT
    reasons = {name: str(failure.details.get("reason", failure.message)) for name, failure in failures}
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return Failure(code, f"no browser endpoint gives a browser: {told}", details=reasons, cause=failures[-1][1].cause)


# Whether a browser elsewhere reaches what listens on this machine's loopback address.

ADDRESS = "127.0.0.1"
ASK_SECONDS = 3.0
ELSEWHERE = ("ECONNREFUSED", "Parse Error")
"""What Playwright says when nothing is at a port, or something that does not speak HTTP."""


async def sees_us(browser: Browser) -> bool:
    """Asked of the browser's own server: behind a forwarded port it may stand on another machine.

    False only when nobody, or somebody else, listens there. Raises what Playwright raises when the answer does not come
    in time, or the browser is gone: nothing is known then.
    """
    word = secrets.token_hex(8).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(word), word))
        writer.close()

    server = await asyncio.start_server(answer, ADDRESS, 0)
    context = await browser.new_context()
    try:
        port = server.sockets[0].getsockname()[1]
        response = await context.request.get(f"http://{ADDRESS}:{port}/", timeout=ASK_SECONDS * 1000)
        return await response.body() == word
    except PlaywrightError as error:
        if not any(words in str(error) for words in ELSEWHERE):
            raise
        return False
    finally:
        server.close()
        with contextlib.suppress(PlaywrightError):
            await context.close()


# Whether a Playwright server on a loopback port is a program of this machine, or only a port of a container.

COMMAND = "run-server"


def serves_here(port: int) -> bool:
    """Whether a `run-server` that has the same files as we listens there. False also where that cannot be seen.

    Blocks for some ten milliseconds.
    """
    return any(_listens(process, port) for process in psutil.process_iter() if _is_server(process))


def _is_server(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return COMMAND in process.cmdline()
    return False


def _listens(process: psutil.Process, port: int) -> bool:
    with suppress(psutil.Error, OSError):
        there = process.net_connections("tcp")
        return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in there) and _here(process)
    return False


def _here(process: psutil.Process) -> bool:
    """A container that shares our network has another root folder."""
    roots = Path("/proc")
    return not roots.joinpath("self", "root").exists() or roots.joinpath(str(process.pid), "root").samefile("/")


Lived = Callable[[BrowserEndpoint], Chromium | None]
"""The browser that already runs at an endpoint for these hosts."""
Start = Callable[[BrowserEndpoint], Awaitable[Chromium]]


class Endpoints:
    """In turn, those first that work and have the fewest sessions; a circuit for each."""

    def __init__(
        self, urls: Sequence[str], settings: BrowserSettings, breaker: Callable[[str], Breaker], turn: int = 0
    ) -> None:
        """`breaker` is asked by the name of an endpoint; `turn` is whose turn is first."""
        self._places = tuple(BrowserEndpoint(url, name, settings) for url, name in zip(urls, names(urls), strict=True))
        self._breaker = breaker
        self._turn = turn
        self._unfit: dict[str, Failure] = {}

    @classmethod
    def of(cls, settings: Settings, breaker: Callable[[str], Breaker], environ: Mapping[str, str]) -> Endpoints | None:
        """The endpoints of a run; None where its browsers are started here."""
        urls = settings.browser_endpoint
        return cls(urls, settings.browser, breaker, first_turn(environ)) if urls else None

    async def browser(self, hosts: bool, sessions: Callable[[str], int], lives: Lived, start: Start) -> Chromium:
        """The browser of the first endpoint that has or gives one. Raises Failed, with the reason of each."""
        candidates = [self._candidate(place, sessions(place.name)) for place in self._places]
        places = [self._places[number] for number in order(candidates, self._turn, hosts=hosts)]
        self._turn += 1
        failures: list[tuple[str, Failure]] = []
        for place in places:
            try:
                return lives(place) or await self._started(place, lives, start)
            except Failed as failed:
                failures.append((place.name, failed.failure))
        raise Failed(none_left(failures))

    def _candidate(self, place: BrowserEndpoint, sessions: int) -> Candidate:
        return Candidate(sessions, self._breaker(place.name).failures > 0 or place.name in self._unfit, place.far)

    async def _started(self, place: BrowserEndpoint, lives: Lived, start: Start) -> Chromium:
        """One at a time, so that those who wait learn of it when there is none. Raises Failed."""
        async with place.lock:
            return lives(place) or await self._asked(place, start)

    async def _asked(self, place: BrowserEndpoint, start: Start) -> Chromium:
        """Raises Failed."""
        if place.name in self._unfit:
            raise Failed(self._unfit[place.name])
        ticket = self._admitted(place)
        try:
            chromium = await start(place)
        except Failed as failed:
            if failed.failure.code == UNFIT:
                self._unfit[place.name] = failed.failure
                ticket.released()
            else:
                ticket.failed(str(failed.failure.details.get("reason", failed.failure.message)))
            raise
        except BaseException:
            ticket.released()
            raise
        ticket.succeeded()
        return chromium

    def _admitted(self, place: BrowserEndpoint) -> Ticket:
        try:
            return self._breaker(place.name).admit()
        except CircuitOpen as error:
            rest = "another task is trying it" if error.probing else f"left alone for {error.reopens_in:.0f} s more"
            reason = f"{rest} ({error.error})"
            raise Failed(down(place.name, reason)) from error
