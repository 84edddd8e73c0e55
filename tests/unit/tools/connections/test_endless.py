"""Answers of tool servers without end: the limit of the call holds, and nothing is read after it."""

from __future__ import annotations

import asyncio
import time

import pytest

from harness.tools.connection import ToolConnection
from harness.tools.exchange import ToolProblem, ToolServerError
from tests.unit.tools.connections.conftest import Play, Told, eventually
from tests.unit.tools.connections.test_http import ERAS, Shared, call
from tests.unit.tools.connections.test_stdio import Raw

KINDS = ("comments", "line", "news", "spaces")


async def ends(connection: ToolConnection, kind: str, pause: float) -> ToolProblem:
    with pytest.raises(ToolServerError) as caught:
        await connection.call("endless", {"kind": kind, "pause": pause}, 2.0, {})
    return caught.value.problem


@pytest.mark.parametrize("pause", [0.1, 0.0], ids=["slow", "fast"])
@pytest.mark.parametrize("era", ERAS)
def test_over_http(shared_servers: Shared, play: Play, era: str, pause: float) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        before = int((await call(connection, "gone")).text)
        began = time.monotonic()
        if pause:
            found = await asyncio.gather(*(ends(connection, kind, pause) for kind in KINDS))
        else:  # one after the other: a flood may keep the next request from being sent in its time
            found = [await ends(connection, kind, pause) for kind in KINDS]
        assert time.monotonic() - began < 30
        assert set(found) <= {ToolProblem.SLOW, ToolProblem.GARBLED}
        assert not told.lost
        left = 0
        for _ in range(100):
            left = int((await call(connection, "gone")).text) - before
            if left >= len(KINDS):
                break
            await asyncio.sleep(0.1)
        assert left >= len(KINDS), "nobody reads on"

    play(shared_servers(era).connections(longest=2_000_000), scene)


@pytest.mark.parametrize("kind", ["line", "lines", "news"])
def test_over_stdio(raw: Raw, play: Play, kind: str) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        began = time.monotonic()
        assert await ends(connection, kind, 0) is ToolProblem.SLOW
        assert time.monotonic() - began < 20
        ended = await asyncio.gather(connection.close(), asyncio.sleep(0))
        assert ended
        await eventually(lambda: connection.died is not None)

    play(raw(longest=2_000_000), scene)
