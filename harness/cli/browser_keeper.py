"""Keeps a browser ready for the next run of a project: `python -m harness.cli.browser_keeper ROOT`.

Each run gets one that nobody has used; when it has ended, the next is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.browser.arguments import host_arguments
from harness.browser.certificate import ThrowAwayKey
from harness.browser.chromium import end_tree
from harness.browser.driver import own_executable
from harness.browser.launch_failure import last_words, sandboxing_failed
from harness.browser.sandbox import no_sandbox_reason
from harness.browser.warm import chosen, wanted
from harness.cli.kept_browser import Keeper
from harness.resilience import SystemClock
from harness.services.identity import Identity
from harness.services.places import LOGS
from harness.services.survey import kept_hosts
from harness.settings import Settings, load_settings
from harness.warm_offer import FOLDER, OFFER, TEMP, Offer, write_private

POLL = 0.25
STARTED_WITHIN = 30.0
LONGEST_LINE = 2**20
"""Bytes."""
LONGEST_REASON = 200
MOST_FAILURES = 3
"""So many in a row that end before any run has taken them: then it is given up."""


@dataclass(slots=True)
class Started:
    """A server with its browser, and what lies about for it."""

    mark: str
    key: ThrowAwayKey
    ports: Mapping[str, int]
    traces: Path
    temp: Path
    fits: Mapping[str, Any]
    server: int = 0
    offered: bool = False
    family: Sequence[psutil.Process] = ()
    """Those below the server, once the browser runs: they are not below it any more when it was killed."""
    telling: asyncio.Task[None] | None = None


class Keeping:
    """One browser after the other."""

    def __init__(self, settings: Settings, executable: Path) -> None:
        self._settings = settings
        self._executable = executable
        self._folder = settings.root / FOLDER
        self._keeper = Keeper(self._folder)
        self._clock = SystemClock()
        self._unsandboxed = no_sandbox_reason()
        self._started: Started | None = None

    async def keep(self) -> None:
        """Until the file that names this process is gone, or says another."""
        failures, problem = 0, ""
        while failures < MOST_FAILURES and self._asked():
            browser, problem = await self._start()
            while browser and browser.alive and self._asked():
                await self._clock.sleep(POLL)
            taken = browser is not None and not (self._folder / OFFER).exists()
            failures = 0 if taken else failures + 1
            self.withdraw()
        if self._asked():
            self._keeper.say("failed", problem or "the browser ends by itself")

    def _asked(self) -> bool:
        me = Identity.of(os.getpid())
        return me is not None and self._keeper.identity() == me

    async def _start(self) -> tuple[Identity | None, str]:
        """The browser's process, once it is offered; or why there is none."""
        said = await self._launched()
        if sandboxing_failed(Exception(said)) and not self._unsandboxed:
            self.withdraw()
            self._unsandboxed = "it cannot work here"
            said = await self._launched()
        started = self._started
        if started is None or not said.startswith("ws://"):
            return None, f"the browser does not start: {_reason(said)}"
        sandbox = f"sandbox off ({self._unsandboxed})" if self._unsandboxed else "sandbox on"
        started.family = _below(started.server)
        browser = next((process for process in started.family if started.mark in _command(process)), None)
        if browser is None:
            return None, "the browser ended at once"
        key, traces, temp = started.key.pem.decode("ascii"), str(started.traces), str(started.temp)
        offer = Offer(said, started.mark, key, started.ports, traces, temp, started.server, started.fits, sandbox)
        offer.write(self._folder)
        started.offered = True
        self._say("ready", started)
        return Identity.of(browser.pid), ""

    def _say(self, state: str, started: Started) -> None:
        self._keeper.say(state, server=Identity.of(started.server), temp=str(started.temp))

    async def _launched(self) -> str:
        """The address at which the browser obeys, or what was said instead."""
        hosts = kept_hosts(self._settings.services, self._settings.root / LOGS)
        key, mark = ThrowAwayKey.new(), f"--harness-warm={secrets.token_hex(16)}"
        ports, traces = _free(hosts), self._folder / f"traces-{secrets.token_hex(4)}"
        fits = wanted(self._settings.browser, hosts, self._executable, os.environ)
        config = {
            "host": "127.0.0.1",
            "wsPath": f"/{secrets.token_hex(16)}",
            "executablePath": str(self._executable),
            "args": [*fits["args"], *host_arguments(hosts, ports, key.spki), mark],
            "headless": not self._settings.browser.headed,
            "chromiumSandbox": self._unsandboxed is None,
            "tracesDir": str(traces),
        }
        file, temp = self._folder / "launch.json", Path(tempfile.mkdtemp(prefix=TEMP))
        write_private(file, config)
        try:
            self._started = Started(mark, key, ports, traces, temp, fits)
            server = await _server(file, temp)
            self._started.server = server.pid
            self._say("starting", self._started)  # from here on it can be ended by others, too
            said = await _address(server)
            self._started.telling = asyncio.create_task(_told(server))
            return said
        finally:
            file.unlink(missing_ok=True)

    def withdraw(self) -> None:
        """End what was started, and leave nothing of it; but the traces of one that was taken are the run's."""
        started, self._started = self._started, None
        if started is None:
            return
        offer = Offer.read(self._folder / OFFER)
        if own := offer is not None and offer.mark == started.mark:
            (self._folder / OFFER).unlink(missing_ok=True)
        for process in [*_children(), *started.family]:
            if process.is_running():
                end_tree(process.pid)
        shutil.rmtree(started.temp, ignore_errors=True)
        if own or not started.offered:
            shutil.rmtree(started.traces, ignore_errors=True)


async def _server(config: Path, temp: Path) -> asyncio.subprocess.Process:
    command = [sys.executable, "-P", "-m", "playwright", "launch-server", "--browser", "chromium", "--config"]
    return await asyncio.create_subprocess_exec(
        *command,
        str(config),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(temp)},
        limit=LONGEST_LINE,
    )


async def _address(server: asyncio.subprocess.Process) -> str:
    """What the server says up to its address; all of it when there comes none. It is logged, but for the address."""
    assert server.stdout is not None
    said = list[str]()
    with contextlib.suppress(TimeoutError, ValueError):
        async with asyncio.timeout(STARTED_WITHIN):
            while line := (await server.stdout.readline()).decode(errors="replace"):
                if line.startswith("ws://"):
                    return line.strip()
                said.append(line)
                sys.stderr.write(line)
    return "".join(said)


async def _told(server: asyncio.subprocess.Process) -> None:
    """What it says later goes to the log, too: nobody else reads it, and a full pipe would stop the server."""
    assert server.stdout is not None
    while said := await server.stdout.read(LONGEST_LINE):
        sys.stderr.write(said.decode(errors="replace"))
        sys.stderr.flush()


def _reason(said: str) -> str:
    """In one line."""
    errors = [line.strip() for line in said.splitlines() if "Error: " in line]
    return "; ".join(last_words(said)) or (errors[0][:LONGEST_REASON] if errors else "it says nothing")


def _children() -> list[psutil.Process]:
    return psutil.Process().children()


def _below(server: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(server).children(recursive=True)
    return []


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def _free(hosts: Mapping[str, int]) -> dict[str, int]:
    """A port for each that nobody has now."""
    sockets = {host: socket.socket() for host in hosts}
    try:
        for each in sockets.values():
            each.bind(("127.0.0.1", 0))
        return {host: each.getsockname()[1] for host, each in sockets.items()}
    finally:
        for each in sockets.values():
            each.close()


async def main(root: Path) -> None:
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    loop.add_signal_handler(signal.SIGTERM, this.cancel)
    settings, keeper = load_settings(root), Keeper(root / FOLDER)
    keeper.say("starting")
    executable = chosen(settings.browser, await own_executable(), os.environ)
    if executable is None:
        keeper.say("failed", "there is no browser to start (or one is named by its channel)")
        return
    keeping = Keeping(settings, executable)
    try:
        with contextlib.suppress(asyncio.CancelledError):  # by SIGTERM
            await keeping.keep()
    finally:
        keeping.withdraw()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
