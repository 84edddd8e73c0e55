"""Servers that come back, stay away, or need a person: what a run does with a real server, without any page.

A server that was killed is discovered once, whoever notices; its answers do not wait for that; its tools are kept.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.model.settings import load_settings
from harness.model.tools import ToolAnswer, ToolRequest, ToolState
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from harness.runner.toolbox import RunTools
from harness.tools.server import ToolServer
from harness.tools.statefile import kept_states, order_restart
from tests.acceptance.tools.counting import books_of, serving, stdio_command, stranger

WITHIN = 30.0
CALLERS = 20


@asynccontextmanager
async def tools_of(folder: Path, table: str) -> AsyncIterator[RunTools]:
    """The tool servers of a run of that project; `shop` is the only one."""
    stranger(folder, f"[tool.harness.tools.shop]\nhealth_interval = 0\n{table}")

    async def recover(slot: int, url: str) -> None:
        """Nothing is behind the address that the harness has started."""

    tools = RunTools(load_settings(folder), "run", SystemClock(), lambda _: None, lambda _: {}, recover)
    try:
        yield tools
    finally:
        await tools.close()


async def call(tools: RunTools, within: float = WITHIN) -> ToolAnswer:
    return await tools.call(0, ToolRequest("shop", "get_order", {"case": "all"}, "read"), within)


async def refused(tools: RunTools, within: float = WITHIN) -> Failed:
    with pytest.raises(Failed) as caught:
        await call(tools, within)
    return caught.value


async def until(met: Callable[[], bool]) -> None:
    """Wait until it is so; bounded."""
    async with asyncio.timeout(WITHIN):
        while not met():
            await asyncio.sleep(0.02)


async def _back_after_a_kill(
    tools: RunTools, folder: Path, kill: Callable[[ToolServer], Awaitable[None]], list_habit: str
) -> None:
    books = books_of(folder)
    await call(tools)
    server = tools.server("shop")
    before = server.catalogue.tools
    assert (books.count("listed", "all"), len(before)) == (1, 4)
    if list_habit:
        books.order(list_habit)
    await kill(server)
    answers = await asyncio.gather(*(call(tools) for _ in range(CALLERS)))
    assert {answer.document["status"] for answer in answers} == {"confirmed"}
    if list_habit:
        assert books.count("listed", "all") == 1, "no answer waits for the new list"
    await until(lambda: books.count("list", "all") == 2)
    await until(lambda: not server.catalogue.stale or bool(server.discovery.problem))
    assert server.catalogue.tools == before
    await call(tools)
    told = (server.catalogue.stale, server.state, books.count("list", "all"))
    assert told == (list_habit == "no_list", ToolState.ONLINE, 2)


@pytest.mark.parametrize(
    "habit",
    [
        "",
        pytest.param("slow_list", marks=pytest.mark.thorough),
        pytest.param("no_list", marks=pytest.mark.thorough),
    ],
)
def test_a_process_that_was_killed_is_listed_once(tmp_path: Path, habit: str) -> None:
    async def kill(server: ToolServer) -> None:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        await until(lambda: server.crashes == 1)

    async def scene() -> None:
        async with tools_of(tmp_path, f"command = {list(stdio_command(tmp_path))}") as tools:
            await _back_after_a_kill(tools, tmp_path, kill, habit)
            assert tools.server("shop").crashes == 1

    asyncio.run(scene())


@pytest.mark.thorough
@pytest.mark.parametrize("habit", ["slow_list", "no_list"])
async def test_an_address_that_was_away_is_listed_once(tmp_path: Path, habit: str) -> None:
    with serving(tmp_path) as (address, process):
        async with tools_of(tmp_path, f'url = "{address}/new/all"') as tools:
            port = int(address.rpartition(":")[2])
            with_new: list[Any] = []

            async def kill(server: ToolServer) -> None:
                process.kill()
                process.wait()
                assert (await refused(tools, 0.2)).failure.code == "TOOL_UNAVAILABLE"
                assert server.state is ToolState.OFFLINE
                again = serving(tmp_path, port)
                again.__enter__()
                with_new.append(again)

            try:
                await _back_after_a_kill(tools, tmp_path, kill, habit)
            finally:
                for again in with_new:
                    again.__exit__(None, None, None)


@pytest.mark.thorough
async def test_the_third_crash_is_permanent_until_a_person_orders_a_restart(tmp_path: Path) -> None:
    books = books_of(tmp_path)
    books.order("dies")
    async with tools_of(tmp_path, f"command = {list(stdio_command(tmp_path))}") as tools:
        failure = (await refused(tools)).failure
        assert failure.code == "TOOL_UNAVAILABLE"
        assert "no database" in failure.details["stderr"]
        assert (books.count("start", "all"), failure.details["exit_code"]) == (3, 1)
        assert "harness tools restart shop" in (await refused(tools)).failure.advice
        assert books.count("start", "all") == 3, "a call starts it no more"
        (kept,) = kept_states(tmp_path)
        assert (kept.state, kept.crashes) == (ToolState.PERMANENTLY_FAILED, 3)
        books.order("dies", wanted=False)
        order_restart(tmp_path, "shop")
        await until(lambda: tools.server("shop").state is ToolState.ONLINE)
        assert (await call(tools)).document["status"] == "confirmed"
        assert tools.server("shop").crashes == 0


async def test_refused_credentials_stay_refused_until_there_are_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "expired")
    books = books_of(tmp_path)
    with serving(tmp_path) as (address, _):
        table = f'url = "{address}/new/all/guarded"\nheaders = {{Authorization = "Bearer ${{env:SHOP_TOKEN}}"}}'
        async with tools_of(tmp_path, table) as tools:
            assert (await refused(tools)).failure.code == "TOOL_AUTH"
            assert tools.server("shop").state is ToolState.REQUIRES_REAUTH
            asked = books.count("request", "all")
            assert "harness tools restart shop" in (await refused(tools)).failure.advice
            assert books.count("request", "all") == asked, "nothing is sent any more"
            monkeypatch.setenv("SHOP_TOKEN", "secret")
            order_restart(tmp_path, "shop")
            await until(lambda: tools.server("shop").state is ToolState.ONLINE)
            assert (await call(tools)).document["status"] == "confirmed"


@pytest.mark.thorough
async def test_a_call_that_is_not_allowed_leaves_the_others(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, _):
        async with tools_of(tmp_path, f'url = "{address}/new/all"') as tools:
            forbidden = ToolRequest("shop", "get_order", {"case": "all", "does": "forbidden"}, "read")
            with pytest.raises(Failed) as caught:
                await tools.call(0, forbidden, WITHIN)
            assert caught.value.failure.code == "TOOL_AUTH"
            assert "they do not allow this call" in caught.value.failure.hint
            assert tools.server("shop").state is ToolState.ONLINE
            assert (await call(tools)).document["status"] == "confirmed"
