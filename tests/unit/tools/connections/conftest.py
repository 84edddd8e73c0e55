"""Connections to real servers, and what must hold after each test: no process is left, no task was harmed."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
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

    def run(connect: Connect, scene: Scene, *, opens: bool = True) -> Any:
        return asyncio.run(_play(connect, scene, opens=opens))

    yield run
    _, left = psutil.wait_procs([child for child in psutil.Process().children(recursive=True) if _is_raw(child)], 5)
    assert not left


def _is_raw(process: psutil.Process) -> bool:
    try:
        return str(RAW) in process.cmdline()
    except psutil.Error:
        return False


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
    """A server of `tool_server.py`."""

    def __init__(self, pid: int, port: int) -> None:
        self.process, self.port = psutil.Process(pid), port

    def end(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self.process.kill()
        psutil.wait_procs([self.process], timeout=5)

    def connections(self, path: str = "/mcp", headers: Mapping[str, str] | None = None, **options: Any) -> Connect:
        """Connections to it under the name `shop.local`."""
        hosts = {"shop.local": self.port}
        return over_http(f"http://shop.local{path}", headers or {}, lambda: hosts, SystemClock(), **options)


class Serve:
    """Starts HTTP servers."""

    def __init__(self, mother: subprocess.Popen[str]) -> None:
        self._mother = mother
        self.started: list[HttpServer] = []

    def __call__(self, era: str, *habits: str, port: int = 0) -> HttpServer:
        assert self._mother.stdin is not None
        assert self._mother.stdout is not None
        print(port, era, *habits, file=self._mother.stdin, flush=True)
        pid, taken = map(int, self._mother.stdout.readline().split())
        self.started.append(HttpServer(pid, taken))
        return self.started[-1]

    def end(self) -> None:
        for server in self.started:
            server.end()


@pytest.fixture(scope="session")
def mother() -> Iterator[subprocess.Popen[str]]:
    """The process of which each HTTP server is a fork."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, SERVER], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as one:
        yield one
        one.kill()


@pytest.fixture
def serve(mother: subprocess.Popen[str]) -> Iterator[Serve]:
    """Start a server that the test may break."""
    servers = Serve(mother)
    yield servers
    servers.end()


@pytest.fixture(scope="session")
def shared_servers(mother: subprocess.Popen[str]) -> Iterator[Callable[[str], HttpServer]]:
    """The server of an era, which all tests share and none breaks."""
    servers = Serve(mother)
    yield cache(servers)
    servers.end()
