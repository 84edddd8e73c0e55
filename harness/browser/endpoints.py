"""The browser endpoints of a run: if one gives no browser, the next one is asked."""

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
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from msgspec import Struct
from playwright.async_api import Browser, CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.browser import executable
from harness.browser.bounded import bounded
from harness.browser.driver import Driver
from harness.browser.process import Chromium
from harness.browser.tls import TlsFront
from harness.model.browser_settings import BrowserSettings, names
from harness.model.settings import Settings
from harness.recovery.failure import Failed, Failure
from harness.resilience.breaker import Breaker, CircuitOpen, Ticket

# A browser on the other end of a connection, with the interface of a local browser process.

_LEAVE_SECONDS = 2.0
_CRASH_SECONDS = 1.0


class RemoteProcess:
    """The connection to a browser on another machine (process.BrowserProcess). No process is ever signalled.

    A run-server ends the browser of a client that leaves; a launch-server keeps its browser, without our contexts.
    """

    pid = None
    stopped = False

    def __init__(self, browser: Browser, control: CDPSession, *, own: bool) -> None:
        """`own`: the browser was launched for this run alone."""
        self._browser, self._control = browser, control
        self._leaving: asyncio.Task[None] | None = None
        self.killable = own

    @property
    def runs(self) -> bool:
        return self._leaving is None

    async def crash(self) -> None:
        await bounded(self._control.send("Browser.crash"), _CRASH_SECONDS, None)  # it never answers

    def kill(self) -> None:
        """Disconnect, without waiting for a server that does not answer."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(_leave(self._browser))

    async def closed(self) -> None:
        if self._leaving is not None:
            await asyncio.gather(self._leaving, return_exceptions=True)


async def _leave(browser: Browser) -> None:
    """Disconnect. If it does not succeed, the driver has ended, and with it the connection, or the server hangs."""
    await bounded(browser.close(), _LEAVE_SECONDS, None)


# One browser endpoint: a Playwright server that gives a browser to each client (docs/decisions/010).

_DIAL_SECONDS = 3.0
_CONNECT_SECONDS = 15.0
"""Seconds for the server to launch a browser and for that browser to answer."""
_MARK = "--harness-run"
"""A flag that Chromium ignores: a browser that has it accepted all our flags and is used by this run alone."""
_PORTS = {"ws": 80, "wss": 443}


class BrowserEndpoint:
    """An address that provides browsers. What is learned of its server is remembered."""

    def __init__(self, url: str, name: str, settings: BrowserSettings) -> None:
        """`name` is the text shown for it, since the URL may contain a secret."""
        self.name = name
        self.lock = asyncio.Lock()
        self.described = ""
        self.far = not on_loopback(url)
        """Whether it cannot reach the hosts of this machine."""
        self._url, self._settings = url, settings
        self._named = settings.executable or os.environ.get(executable.VARIABLE)
        self._tries: list[str | None] = []
        """Executables to try, the best first; None: the server's own. Those that do not exist are removed."""
        self._sandbox = not (executable.no_sandbox_reason() and on_loopback(url))

    async def start(self, driver: Driver, front: TlsFront, kind: executable.BrowserKind) -> Chromium:
        """Start a browser; a sealed one sends no UDP, if the server lets us launch it.

        Raises Failed: BROWSER_ENDPOINT_DOWN or BROWSER_ENDPOINT_UNFIT.
        """
        await self._dial()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await self._connect_marked(driver, front, kind)
        except (PlaywrightError, TimeoutError) as error:
            raise Failed(refusal(self.name, error)) from error

    async def _dial(self) -> None:
        """Check that something listens there, so that a machine that is gone is recognized soon. Raises Failed."""
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                _, writer = await asyncio.open_connection(urlsplit(self._url).hostname, _port_of(self._url))
        except TimeoutError as error:
            raise Failed(down(self.name, f"no connection in {_DIAL_SECONDS:g} s", error)) from error
        except OSError as error:
            raise Failed(down(self.name, f"nothing answers there ({reason(error)})", error)) from error
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _connect_marked(self, driver: Driver, front: TlsFront, kind: executable.BrowserKind) -> Chromium:
        mark = f"{_MARK}={secrets.token_hex(8)}"
        browser = await self.launched(driver, front, kind, mark)
        try:
            control = await browser.new_browser_cdp_session()
            line = str((await control.send("SystemInfo.getInfo"))["commandLine"])
            if lacking := [] if mark in line else list(self._lacking(line, front, kind)):
                raise Failed(not_taken(self.name, lacking))
            if front.hosts and not self.far and not await sees_us(browser):
                self.far = True  # the port is forwarded to another machine or a container
                await browser.close()
                return await self._connect_marked(driver, front, kind)
            own = mark in line
            chromium = await Chromium.of(
                driver, browser, control, RemoteProcess(browser, control, own=own), front, None
            )
            chromium.unreachable = frozenset(front.hosts if self.far else ())
            self.described = f"Chromium {browser.version} (at {self.name}{'' if own else ', shared with others'})"
            return chromium
        except BaseException:
            await _leave(browser)
            raise

    async def launched(self, driver: Driver, front: TlsFront, kind: executable.BrowserKind, mark: str) -> Browser:
        """A browser that the server has started. Raises Playwright's errors.

        It is requested with a sandbox and with the executable that the server should have; if that fails, without a
        sandbox, and with another executable.
        """
        self._tries = self._tries or await self._executables(driver)
        while True:
            try:
                return await driver.playwright.chromium.connect(
                    self._url,
                    headers={
                        "x-playwright-browser": "chromium",
                        "x-playwright-launch-options": json.dumps(self._options(front, kind, mark)),
                    },
                    slow_mo=self._settings.slowmo,
                    timeout=_CONNECT_SECONDS * 1000,
                )
            except PlaywrightError as error:
                if not self._can_relaunch(error):
                    raise

    async def _executables(self, driver: Driver) -> list[str | None]:
        """A server's own browser comes first, unless the server runs on this machine.

        Playwright leaves two folders behind for each launch of an executable that does not exist, so the better guess
        is first.
        """
        if self._named or self._settings.channel or not on_loopback(self._url):
            return [self._named]
        with suppress(Failed):
            here = str(executable.find(self._settings, Path(driver.playwright.chromium.executable_path), os.environ))
            ours_first = await asyncio.to_thread(serves_here, _port_of(self._url))
            return [here, None] if ours_first else [None, here]
        return [None]

    def _can_relaunch(self, error: PlaywrightError) -> bool:
        """Return whether there is another way to launch, not tried yet; the next launch uses it."""
        if self._sandbox and executable.sandboxing_failed(error):
            self._sandbox = False
            return True
        if len(self._tries) == 1 or not _no_browser_there(error):
            return False
        del self._tries[0]
        return True

    def _options(self, front: TlsFront, kind: executable.BrowserKind, mark: str) -> Mapping[str, Any]:
        """The options for the server's own `launch`."""
        here = executable.host_arguments(front.hosts, front.ports, front.spki)
        hosts = executable.unreachable_arguments(front.hosts) if self.far else here
        options = {
            "args": kind.arguments([*executable.BASE, *self._settings.args, *hosts, mark]),
            "headless": not self._settings.headed,
            "chromiumSandbox": self._sandbox,
            "channel": self._settings.channel,
            "executablePath": self._tries[0],
            "timeout": _CONNECT_SECONDS * 1000,
        }
        return {name: value for name, value in options.items() if value is not None}

    def _lacking(self, line: str, front: TlsFront, kind: executable.BrowserKind) -> Iterator[str]:
        """Yield what this run needs and a browser with other launch options lacks."""
        if front.hosts:
            yield "the hosts of [tool.harness.services] (--host-resolver-rules)"
        yield from (f"{flag} (`args` of [tool.harness.browser])" for flag in self._settings.args if flag not in line)
        if kind.webmcp and not executable.has_webmcp(line):
            yield "the tools of pages (--enable-features=WebMCP)"
        if self._settings.headed and "--headless" in line:
            yield "a window (--headed)"
        if self._named:
            yield "--task-browser-executable"
        if self._settings.channel:
            yield "--browser-channel"


def reason(error: OSError) -> str:
    """The error in words. The numbers of name lookup errors are not the system's, and positive on macOS."""
    number = error.errno or 0
    ours = number > 0 and not isinstance(error, socket.gaierror)
    return os.strerror(number) if ours else error.strerror or str(error)


def _port_of(url: str) -> int:
    """The port of a URL, also if the URL leaves it out."""
    parts = urlsplit(url)
    return parts.port or _PORTS[parts.scheme]


def on_loopback(url: str) -> bool:
    """Return whether the host of a URL is an address of this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# Chooses the browser endpoint of a session. Pure.


class Candidate(Struct, frozen=True):
    """What is known of an endpoint before it is asked."""

    sessions: int = 0
    """The number of sessions of this process there now."""
    failed: bool = False
    """Whether the last connection failed."""
    far: bool = False
    """Whether it is known not to reach the hosts of this machine."""


def order(candidates: Sequence[Candidate], turn: int, *, hosts: bool) -> list[int]:
    """The indices of the candidates, the best first: those that work, with the fewest sessions, next in turn.

    `hosts`: the session needs hosts of this machine, so those that cannot reach them come last.
    """
    count = len(candidates)

    def rank(place: int) -> tuple[bool, bool, int, int]:
        it = candidates[place]
        return it.far and hosts, it.failed, it.sessions, (place - turn) % count

    return sorted(range(count), key=rank)


def first_turn(environ: Mapping[str, str]) -> int:
    """The first endpoint in turn: each worker process of xdist (`gw3`) begins at another one."""
    number = environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    return int(number) if number.isdecimal() else 0


# The reason why an endpoint gives no browser, in words and as a code. Pure.

DOWN = "BROWSER_ENDPOINT_DOWN"
UNFIT = "BROWSER_ENDPOINT_UNFIT"
"""Another try would have the same result: the server or the request must be changed."""
_UNSAFE = "start it with `python -m playwright run-server --unsafe`"
_NO_WINDOW = (
    "a browser window needs a display, and the server has none that works: drop --headed, or start the "
    "server where DISPLAY is set, or under xvfb-run"
)
_VERSIONS = re.compile(r"server version: v?([\d.]+).*?client version: v?([\d.]+)", re.DOTALL)
_STATUS = re.compile(r" (4\d\d) [A-Z][\w ]*$")
_NO_BROWSER = re.compile(r"executable doesn't exist", re.IGNORECASE)
_MAYBE_LATER = ("408", "425", "429")
_HEAD = re.compile(r"^BrowserType\.connect: (?:WebSocket error: )?(?:wss?://\S+ )?")


def _no_browser_there(error: Exception) -> bool:
    """Return whether the server found no browser where it looked."""
    return _NO_BROWSER.search(executable.first_line(error)) is not None


def refusal(name: str, error: Exception) -> Failure:
    """The failure of a connection; `name` is the text shown for the endpoint."""
    text = str(error)
    if versions := _VERSIONS.search(text):
        server, client = versions.groups()
        told = (
            f"its Playwright is {server}, the one here is {client}, and they must be the same: "
            f"`pip install playwright=={server}.*` here, or playwright=={client}.* there"
        )
        return endpoint_failure(name, told, error)
    if _no_browser_there(error):
        told = "install one there (`python -m playwright install chromium`), or name one that exists there"
        return endpoint_failure(
            name, f"it has no browser: {told} (--task-browser-executable PATH, and {_UNSAFE})", error
        )
    if executable.no_display(error):
        return endpoint_failure(name, _NO_WINDOW, error)
    head = _HEAD.sub("", executable.first_line(error)).strip()
    status = _STATUS.search(executable.first_line(error))
    if status and status[1] not in _MAYBE_LATER:
        return endpoint_failure(
            name, f"it answers {head}: check the path of the URL, and which program listens there", error
        )
    if isinstance(error, TimeoutError):
        return down(name, "it did not provide a browser in time", error)
    return down(name, _HEAD.sub("", executable.launch_error_text(error)).strip() or "it closed the connection", error)


def not_taken(name: str, lacking: Sequence[str]) -> Failure:
    """The failure for a server whose browser lacks what this run needs."""
    message = (
        f"its browser was started without {', '.join(lacking)}: {_UNSAFE}; the browser of a launch-server is one that "
        "all share, and cannot have it"
    )
    return endpoint_failure(name, message)


def down(name: str, reason: str, error: Exception | None = None) -> Failure:
    """The failure for an endpoint that may work again later."""
    return Failure(DOWN, f"browser endpoint {name}: {reason}", details={"reason": reason}, cause=error)


def endpoint_failure(name: str, reason: str, error: Exception | None = None) -> Failure:
    return Failure(UNFIT, f"browser endpoint {name}: {reason}", details={"reason": reason}, cause=error)


def none_left(failures: Sequence[tuple[str, Failure]]) -> Failure:
    """The failure if no endpoint gives a browser. If one may come back, another try is worth it."""
    code = DOWN if any(failure.code == DOWN for _, failure in failures) else UNFIT
    reasons = {name: str(failure.details.get("reason", failure.message)) for name, failure in failures}
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return Failure(
        code, f"no browser endpoint provides a browser: {told}", details=reasons, cause=failures[-1][1].cause
    )


# Finds out whether a browser elsewhere can reach a port on this machine's loopback address.

_ADDRESS = "127.0.0.1"
_ASK_SECONDS = 3.0
_ELSEWHERE = ("ECONNREFUSED", "Parse Error")
"""Playwright's messages if nothing listens at a port, or something that does not speak HTTP."""


async def sees_us(browser: Browser) -> bool:
    """Ask the browser's own server for a page of ours: behind a forwarded port it may be on another machine.

    False only if nothing, or something else, listens there. Raises Playwright's errors if the answer does not come in
    time, or the browser is gone: then nothing is known.
    """
    word = secrets.token_hex(8).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(word), word))
        writer.close()

    server = await asyncio.start_server(answer, _ADDRESS, 0)
    context = await browser.new_context()
    try:
        port = server.sockets[0].getsockname()[1]
        response = await context.request.get(f"http://{_ADDRESS}:{port}/", timeout=_ASK_SECONDS * 1000)
        return await response.body() == word
    except PlaywrightError as error:
        if not any(words in str(error) for words in _ELSEWHERE):
            raise
        return False
    finally:
        server.close()
        with contextlib.suppress(PlaywrightError):
            await context.close()


# Finds out whether a Playwright server on a loopback port is a program of this machine, or a port of a container.

_COMMAND = "run-server"


def serves_here(port: int) -> bool:
    """Return whether a `run-server` with the same file system listens there; False also if that cannot be determined.

    Blocks for some ten milliseconds.
    """
    return any(_listens(process, port) for process in psutil.process_iter() if _is_server(process))


def _is_server(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return _COMMAND in process.cmdline()
    return False


def _listens(process: psutil.Process, port: int) -> bool:
    with suppress(psutil.Error, OSError):
        there = process.net_connections("tcp")
        return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in there) and _here(process)
    return False


def _here(process: psutil.Process) -> bool:
    """Return whether the process has our root folder: a container that shares our network has another."""
    roots = Path("/proc")
    return not roots.joinpath("self", "root").exists() or roots.joinpath(str(process.pid), "root").samefile("/")


_Lived = Callable[[BrowserEndpoint], Chromium | None]
"""Returns the browser that already runs at an endpoint for these hosts, or None."""
_Start = Callable[[BrowserEndpoint], Awaitable[Chromium]]


class Endpoints:
    """The endpoints of a run, used in turn: working ones with the fewest sessions first; each has a circuit."""

    def __init__(
        self, urls: Sequence[str], settings: BrowserSettings, breaker: Callable[[str], Breaker], turn: int = 0
    ) -> None:
        """`breaker` is called with the name of an endpoint; `turn` is the index of the first one in turn."""
        self._places = tuple(BrowserEndpoint(url, name, settings) for url, name in zip(urls, names(urls), strict=True))
        self._breaker, self._turn = breaker, turn
        self._unfit: dict[str, Failure] = {}

    @classmethod
    def of(cls, settings: Settings, breaker: Callable[[str], Breaker], environ: Mapping[str, str]) -> Endpoints | None:
        """The endpoints of a run; None if its browsers are started locally."""
        urls = settings.browser_endpoint
        return cls(urls, settings.browser, breaker, first_turn(environ)) if urls else None

    async def browser(self, hosts: bool, sessions: Callable[[str], int], lives: _Lived, start: _Start) -> Chromium:
        """The browser of the first endpoint that has or gives one. Raises Failed, with the reason of each."""
        failed = {each.name for each in self._places if self._breaker(each.name).failures > 0} | self._unfit.keys()
        candidates = [Candidate(sessions(each.name), each.name in failed, each.far) for each in self._places]
        places = [self._places[number] for number in order(candidates, self._turn, hosts=hosts)]
        self._turn += 1
        failures: list[tuple[str, Failure]] = []
        for place in places:
            try:
                if there := lives(place):
                    return there
                async with place.lock:  # one at a time, so that waiting callers learn whether there is one
                    return lives(place) or await self._start_counted(place, start)
            except Failed as failed:
                failures.append((place.name, failed.failure))
        raise Failed(none_left(failures))

    async def _start_counted(self, place: BrowserEndpoint, start: _Start) -> Chromium:
        """Start a browser at an endpoint, counted by its circuit. Raises Failed."""
        if place.name in self._unfit:
            raise Failed(self._unfit[place.name])
        ticket = self._admit(place)
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

    def _admit(self, place: BrowserEndpoint) -> Ticket:
        try:
            return self._breaker(place.name).admit()
        except CircuitOpen as error:
            rest = "another task is trying it" if error.probing else f"left alone for {error.reopens_in:.0f} s more"
            raise Failed(down(place.name, f"{rest} ({error.error})")) from error
