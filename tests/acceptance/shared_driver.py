"""One process of Playwright's driver for many runs: starting one costs as much as a whole short run.

Each run is a client of its own, whose browsers end with its connection. A run that is to start the driver as users do,
because its test is about the start, the death or the environment of that process, or looks for browsers among the
processes below the run, is marked `own_driver`.
"""

from __future__ import annotations

import asyncio
import importlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.browser import Browsers
from harness.browser.os_process import runs

PLAYWRIGHT = "playwright._impl"
"""Its inner modules: it has no public way to a driver that runs already."""
DRIVER = importlib.import_module(f"{PLAYWRIGHT}._driver")
SCRIPT = Path(__file__).with_suffix(".js")
ENVIRONMENT: dict[str, str] = DRIVER.get_driver_env()
"""As it was before any test changed it."""
LIMIT = 32_768
"""As many bytes as Playwright itself reads at once."""


class SharedDriver:
    """The process; it ends with the one that has started it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="shared-"))
        self._address = self._folder / "driver"
        self._process: subprocess.Popen[str] | None = None
        self._can = True

    def address(self) -> str:
        """The socket where it listens; empty if this version of Playwright is another one inside, so that it cannot.

        A process that has ended is replaced.
        """
        if self._can and (self._process is None or not runs(self._process.pid)):
            self._end()
            self._process = self._started()
            assert self._process.stdout is not None
            self._can = self._process.stdout.readline() == "listening\n"
        return str(self._address) if self._can else ""

    def _started(self) -> subprocess.Popen[str]:
        node, entry = DRIVER.compute_driver_executable()
        command = [node, str(SCRIPT), str(Path(entry).parent), str(self._address)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)

    def _end(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=10)
        self._address.unlink(missing_ok=True)

    def close(self) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Connected:
    """As much of a process as Playwright's transport asks for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.stdout = reader
        self.stdin = writer

    async def communicate(self) -> None:
        self.stdin.close()


def connect_to(address: str) -> None:
    """From now on this process starts no driver, but connects to the one that listens there."""
    transport = importlib.import_module(f"{PLAYWRIGHT}.transport")

    class Transport(transport.PipeTransport):  # type: ignore[misc, name-defined]
        async def connect(self) -> None:
            self._stopped_future = asyncio.get_running_loop().create_future()
            try:
                connected = _Connected(*await asyncio.open_unix_connection(address, limit=LIMIT))
            except OSError as error:
                self.on_error_future.set_exception(error)
                raise
            self._proc = connected
            self._output = connected.stdin

    vars(importlib.import_module(f"{PLAYWRIGHT}.out_of_process"))["PipeTransport"] = Transport
    Browsers.kill_driver = _refuse  # type: ignore[method-assign]


def _refuse(self: Browsers, by: str) -> None:
    raise AssertionError("a shared driver is not killed: mark the test `own_driver`")
