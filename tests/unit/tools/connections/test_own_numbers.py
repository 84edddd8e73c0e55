"""The numbers of a server's own errors: they are its answer, also those that the client uses for a lost connection."""

from __future__ import annotations

from typing import Any

import pytest

from harness.tools.connection import ToolConnection
from harness.tools.exchange import ToolProblem
from tests.unit.tools.connections.conftest import Play, Told
from tests.unit.tools.connections.test_http import ERAS, Shared, call, refused
from tests.unit.tools.connections.test_stdio import Raw

OWN: list[tuple[int, str]] = [
    *((number, "no stock") for number in (*range(-32000, -32010, -1), -32022, -32050, -32099, -32603, -1, 0, 1, 4711)),
    *((-32000, "Connection closed"), (-32001, "Request timed out"), (-32001, "Request 'tools/call' timed out")),
    *((-32020, "the header of the parcel does not fit"), (-32000, "SSE stream ended without a response")),
]
WAYS = ("json", "events", "status")


@pytest.mark.parametrize("era", ERAS)
def test_over_stdio_each_is_an_answer_and_the_process_is_well(raw: Raw, play: Play, era: str, tmp_path: Any) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        pid = connection.pid
        for code, message in OWN:
            answer = await call(connection, "refuses", code=code, message=message)
            assert (answer.is_error, answer.text) == (True, message), code
        assert (connection.pid, connection.died, told.lost) == (pid, None, [])
        assert not (await call(connection, "echo", n=1)).is_error

    play(raw(era), scene)
    log = (tmp_path / "logs" / "tool-raw.log").read_text("utf-8")
    assert log.count("refused") == len(OWN), "each was called once"


@pytest.mark.parametrize("era", ERAS)
def test_over_http_each_is_an_answer_and_the_connection_is_well(shared_servers: Shared, play: Play, era: str) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        for code, message in OWN:
            for how in WAYS:
                answer = await call(connection, "refuses", code=code, text=message, how=how)
                assert (answer.is_error, answer.text) == (True, message), (code, how)
        assert not told.lost
        assert (await call(connection, "echo", n=1)).text == "1"

    play(shared_servers(era).connections(), scene)


@pytest.mark.parametrize("era", ERAS)
def test_an_answer_that_never_came_is_none_of_the_server(shared_servers: Shared, play: Play, era: str) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        error = await refused(connection, "refuses", code=1, text="never", how="cut")
        assert error.problem is ToolProblem.LOST
        assert (await call(connection, "echo", n=1)).text == "1"

    play(shared_servers(era).connections(), scene)
