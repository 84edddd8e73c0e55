"""Keeps a browser ready for the next run of a project: `python -m harness.cli.browser_keeper ROOT`.

Each run gets one that nobody has used; when it has ended, the next is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from harness.browser.arguments import host_arguments
from harness.browser.certificate import ThrowAwayKey
from harness.browser.chromium import kill_tree
from harness.browser.driver import own_executable
from harness.browser.sandbox import no_sandbox_reason
from harness.browser.warm import chosen, wanted
from harness.cli.kept_browser import Keeper
from harness.resilience import SystemClock
from harness.services.identity import Identity
from harness.settings import Settings, load_settings
from harness.warm_offer import FOLDER, OFFER, Offer

POLL = 0.25
STARTED_WITHIN = 30.0
MOST_FAILURES = 3
"""So many in a row that end before any run has taken them: then it is given up."""


class Keeping:
    """One browser after the other."""

    def __init__(self, settings: Settings, executable: Path) -> None:
        self._settings = settings
        self._executable = executable
        self._folder = settings.root / FOLDER
        self._keeper = Keeper(self._folder)
        self._mark = ""
        self._clock = SystemClock()

    async def keep(self) -> None:
        """Until the file that names this process is gone, or says another."""
        failures, problem = 0, ""
        while failures < MOST_FAILURES and self._asked():
            server, problem = await self._start()
            while server and _has_browser(server, self._mark) and self._asked():
                await self._clock.sleep(POLL)
            taken = server is not None and not (self._folder / OFFER).exists()
            failures = 0 if taken else failures + 1
            self.withdraw()
        if self._asked():
            self._keeper.say("failed", problem or "the browser ends by itself")

    def _asked(self) -> bool:
        me = Identity.of(os.getpid())
        return me is not None and self._keeper.identity() == me

    async def _start(self) -> tuple[asyncio.subprocess.Process | None, str]:
        """What answers for the browser, once it is offered; or why there is none."""
        hosts = {host: port for service in self._settings.services.values() for host, port in service.hosts.items()}
        key, mark = ThrowAwayKey.new(), f"--harness-warm={secrets.token_hex(16)}"
        self._mark = mark
        ports, traces = _free(hosts), self._folder / f"traces-{secrets.token_hex(4)}"
        fits = wanted(self._settings.browser, hosts, self._executable, os.environ)
        config = {
            "host": "127.0.0.1",
            "wsPath": f"/{secrets.token_hex(16)}",
            "executablePath": str(self._executable),
            "args": [*fits["args"], *host_arguments(hosts, ports, key.spki), mark],
            "headless": not self._settings.browser.headed,
            "chromiumSandbox": no_sandbox_reason() is None,
            "tracesDir": str(traces),
        }
        file = self._folder / "launch.json"
        file.write_text(json.dumps(config), "utf-8")
        command = [sys.executable, "-P", "-m", "playwright", "launch-server", "--browser", "chromium", "--config"]
        server = await asyncio.create_subprocess_exec(
            *command, str(file), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
        said = await _first_line(server)
        file.unlink(missing_ok=True)
        if not said.startswith("ws://"):
            kill_tree(server.pid)
            return None, f"the browser does not start: {said or 'it says nothing'}"
        offer = Offer(said, mark, key.pem.decode("ascii"), ports, str(traces), server.pid, fits)
        offer.write(self._folder)
        self._keeper.say("ready")
        return server, ""

    def withdraw(self) -> None:
        """End what was started, and leave nothing of it."""
        (self._folder / OFFER).unlink(missing_ok=True)
        for child in psutil.Process().children():
            kill_tree(child.pid)
        for traces in self._folder.glob("traces-*"):
            shutil.rmtree(traces, ignore_errors=True)


async def _first_line(server: asyncio.subprocess.Process) -> str:
    assert server.stdout is not None
    try:
        async with asyncio.timeout(STARTED_WITHIN):
            return (await server.stdout.readline()).decode().strip()
    except TimeoutError:
        return ""


def _has_browser(server: asyncio.subprocess.Process, mark: str) -> bool:
    """Whether a browser runs below it; the server itself does not end with it."""
    with contextlib.suppress(psutil.Error):
        below = psutil.Process(server.pid).children(recursive=True)
        return any(mark in child.cmdline() for child in below)
    return False


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
