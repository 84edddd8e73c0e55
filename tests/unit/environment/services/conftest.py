"""Real services on loopback ports."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.environment.services import Services
from harness.model.service_settings import ServiceSettings
from harness.resilience import SystemClock
from tests.ports import free_port, listens

PROGRAM = Path(__file__).with_name("program.py")


@pytest.fixture
def port() -> int:
    return free_port()


def settings(port: int, *arguments: str, **more: Any) -> ServiceSettings:
    given: dict[str, Any] = {
        "command": ("{python}", str(PROGRAM), str(port), *arguments),
        "hosts": {"Shop.local": port},
        "health": "http://shop.local/health",
        "identity": {"service": "site", "version": "2"},
        "ready_timeout": 20,
        "health_interval": 0.05,
        **more,
    }
    return ServiceSettings.model_validate(given)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Services]]:
    """Services named `site`, killed at the end of the test."""
    made: list[Services] = []

    def build(*each: ServiceSettings, **more: Any) -> Services:
        chosen = dict(zip(["site", "other", "third"], each, strict=False))
        services = Services(chosen, root=tmp_path, logs=tmp_path / "logs", clock=SystemClock(), **more)
        made.append(services)
        return services

    yield build
    for services in made:
        services.kill()


@pytest.fixture
def run() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A program that is not the harness's own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, *arguments], **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def programs(port: int) -> list[psutil.Process]:
    """The processes that run the program for this port, and their children."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = process.cmdline()
            if str(PROGRAM) in line and str(port) in line and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def eventually(check: Callable[[], object], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.05)
    return False


def sites(port: int) -> list[psutil.Process]:
    """The program itself; no watchdog, and nobody else who names it."""
    found = []
    for each in programs(port):
        with contextlib.suppress(psutil.Error):
            found += [each] if each.cmdline()[1:2] == [str(PROGRAM)] else []  # it may end while it is looked at
    return found


def site(port: int) -> psutil.Process:
    """The program that runs now. For a moment of a state "up" the next program may have no command line yet."""
    assert eventually(lambda: sites(port)), f"no program runs for port {port}"
    return sites(port)[0]


async def comes(check: Callable[[], object]) -> bool:
    return await asyncio.to_thread(eventually, check)


async def reborn(port: int, before: int) -> bool:
    def there() -> bool:
        found = [each.pid for each in sites(port)]
        return bool(found) and before not in found and listens(port)

    return await comes(there)


def play(services: Services, main: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await services.start()
        try:
            await main()
        finally:
            await services.stop()

    asyncio.run(whole())
