"""The server as a whole: its health, and its address while it lives."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette

from harness.resilience import SystemClock
from harness.serve.address import ADDRESS, AlreadyServedError, address_of, only_server
from harness.serve.server import LOOPBACK, ProjectServer, ServerHealth, bind
from harness.serve.tokens import Tokens


def test_health_says_503_until_it_is_ready_and_while_it_stops(tmp_path: Path) -> None:
    health = ServerHealth(tmp_path)

    async def asked() -> list[int]:
        transport = httpx2.ASGITransport(app=Starlette(routes=[health.route()]))
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as http:
            found = []
            for health.state in ("starting", "ready", "stopping"):
                found.append((await http.get("/health")).status_code)
            return found

    assert asyncio.run(asked()) == [503, 200, 503]


def test_the_address_is_kept_again_when_somebody_deletes_it_and_forgotten_at_the_end(tmp_path: Path) -> None:
    async def served() -> None:
        ready, ends = asyncio.Event(), asyncio.Event()
        server = ProjectServer(tmp_path, [], SystemClock(), Tokens.of(tmp_path))
        running = server.run(bind(LOOPBACK, 0), ready.set, lambda: not ends.is_set(), inside=True)
        task = asyncio.create_task(running)
        await ready.wait()
        (tmp_path / ADDRESS).unlink()
        while address_of(tmp_path) is None:
            await asyncio.sleep(0.05)
        ends.set()
        await task

    asyncio.run(asyncio.wait_for(served(), 20))
    assert address_of(tmp_path) is None


@pytest.mark.parametrize("why", ["the project is gone", "nobody can say whether it is needed"])
def test_a_server_that_nobody_can_need_ends(tmp_path: Path, why: str) -> None:
    root = tmp_path / "project"
    root.mkdir()

    def needed() -> bool:
        if why.startswith("nobody"):
            raise OSError(why)
        return True

    async def served() -> None:
        server = ProjectServer(root, [], SystemClock(), Tokens.of(root))

        def ready() -> None:
            shutil.rmtree(root)

        with contextlib.suppress(OSError):
            await server.run(bind(LOOPBACK, 0), ready, needed, inside=True)

    asyncio.run(asyncio.wait_for(served(), 20))
    assert not root.exists()


def test_one_process_at_a_time_serves_a_project(tmp_path: Path) -> None:
    with only_server(tmp_path):
        try:
            with only_server(tmp_path):
                raise AssertionError
        except AlreadyServedError:
            pass
    with only_server(tmp_path):
        pass
