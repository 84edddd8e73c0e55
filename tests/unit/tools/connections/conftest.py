"""Connections to real servers, and what must hold after each test: no process is left, no task was harmed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.resilience import SystemClock
from harness.resilience.process import Program
from harness.tools.connection import ToolConnection
from harness.tools.exchange import Connect, ConnectionEvents, ToolServerError
from harness.tools.http import over_http
from harness.tools.stdio import over_stdio

HERE = Path(__file__).parent
RAW, SERVER = HERE / "raw_server.py", HERE / "tool_server.py"


class Told:
    """What a connection has told by itself."""

    def __init__(self) -> None:
        self.lost: list[ToolServerError] = []
        self.changed = 0

    def events(self) -> ConnectionEvents:
        return ConnectionEvents(self.lost.append, self._change)

    def _change(self) -> None:
        self.changed += 1


Scene = Callable[[ToolConnection, Told], Awaitable[Any]]
Play = Callable[..., Any]


@pytest.fixture
def raw(tmp_path: Path) -> Callable[..., Connect]:
    """Connections to the raw server, in an era, with habits."""

    def connect(era: str = "new", *habits: str, **options: Any) -> Connect:
        command = (sys.executable, "-I", "-S", str(RAW), era, *habits)
        return over_stdio(Program(command, {}, tmp_path), tmp_path / "logs" / "tool-raw.log", SystemClock(), **options)

    return connect


@pytest.fixture
def play() -> Iterator[Play]:
    """Play a scene with an open connection, beside a task that must not be disturbed; then close it."""
    before: set[psutil.Process] = set()

    def run(connect: Connect, scene: Scene, *, opens: bool = True) -> Any:
        before.update(psutil.Process().children(recursive=True))
        return asyncio.run(_play(connect, scene, opens=opens))

    yield run
    _, left = psutil.wait_procs(set(psutil.Process().children(recursive=True)) - before, timeout=5)
    assert not left


async def _play(connect: Connect, scene: Scene, *, opens: bool) -> Any:
    told = Told()
    connection = connect(told.events())
    assert isinstance(connection, ToolConnection)
    bystander = asyncio.create_task(asyncio.Event().wait())
    try:
        async with asyncio.timeout(40):
            if opens:
                await connection.open(20)
            return await scene(connection, told)
    finally:
        began = asyncio.get_running_loop().time()
        await connection.close()
        assert asyncio.get_running_loop().time() - began < 8
        assert not bystander.done()
        bystander.cancel()
        await asyncio.wait((bystander,))
        current = asyncio.current_task()
        assert {task.get_name() for task in asyncio.all_tasks() if task is not current} == set()


async def eventually(holds: Callable[[], bool], within: float = 10.0) -> None:
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.02)


class HttpServer:
    """`tool_server.py`, running."""

    def __init__(self, era: str, *habits: str, port: int = 0) -> None:
        command = [sys.executable, str(SERVER), str(port), era, *habits]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.wait(5)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def connections(self, path: str = "/mcp", headers: Mapping[str, str] | None = None, **options: Any) -> Connect:
        """Connections to it under the name `shop.local`."""
        hosts = {"shop.local": self.port}
        return over_http(f"http://shop.local{path}", headers or {}, lambda: hosts, SystemClock(), **options)


Serve = Callable[..., HttpServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server that the test may break."""
    servers: list[HttpServer] = []

    def start(era: str = "new", *habits: str, port: int = 0) -> HttpServer:
        servers.append(HttpServer(era, *habits, port=port))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[Callable[[str], HttpServer]]:
    """The server of an era, which all tests share and none breaks."""
    servers: dict[str, HttpServer] = {}

    def of(era: str) -> HttpServer:
        if era not in servers:
            servers[era] = HttpServer(era)
        return servers[era]

    yield of
    for server in servers.values():
        server.end()
