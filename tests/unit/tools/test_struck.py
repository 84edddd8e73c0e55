"""What each fault of tools does to one try of a call."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import pytest

from harness.model.tools import ToolAnswer, ToolRequest
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from harness.spec.faults import ToolAnswerLost, ToolErrorAnswer, ToolFault, ToolHangs, ToolKilled, ToolRefused, ToolSlow
from harness.tools.calls import ToolTry
from harness.tools.exchange import ToolProblem, ToolServerError
from harness.tools.struck import StruckWay, send_struck
from tests.unit.fakes import FakeClock

ANSWER = ToolAnswer("done", {"order": 7})


class Server:
    """One that counts its effects, and takes a second for each."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.effects = 0

    async def send(self) -> ToolAnswer:
        await self.clock.sleep(1)
        self.effects += 1
        return ANSWER


def sending(send: Any, pid: int | None = None, deaths: list[str] | None = None, step: int | None = 0) -> ToolTry:
    """A try within 10 s; `deaths` gets an entry when the server's death is announced as intended."""
    request = ToolRequest("mail", "send_mail", {"to": "x"}, "write", step)
    announced = [] if deaths is None else deaths
    return ToolTry(request, send, 10, pid, lambda: announced.append("intended"))


def tried(fault: ToolFault | None) -> tuple[Any, int, float]:
    """The answer or the problem, the effects, and the seconds that it took."""
    server = Server()
    try:
        found: Any = asyncio.run(send_struck(fault, sending(server.send), server.clock))
    except ToolServerError as error:
        found = error.problem
    return found, server.effects, server.clock.time


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, (ANSWER, 1, 1)),
        (ToolErrorAnswer(message="no such mailbox"), (ToolAnswer("no such mailbox", is_error=True), 0, 0)),
        (ToolRefused(), (ToolProblem.UNREACHED, 0, 0)),
        (ToolSlow(seconds=4), (ToolAnswer("done", {"order": 7}, seconds=5), 1, 5)),
        (ToolSlow(seconds=9.5), (ToolProblem.SLOW, 1, 10)),
        (ToolHangs(), (ToolProblem.SLOW, 1, 10)),
        (ToolHangs(seconds=3), (ToolProblem.LOST, 1, 4)),
        (ToolAnswerLost(), (ToolProblem.LOST, 1, 1)),
    ],
)
def test_what_a_fault_does_to_a_call(fault: ToolFault | None, expected: tuple[Any, int, float]) -> None:
    assert tried(fault) == expected


def test_a_failure_of_the_server_itself_is_not_hidden_by_a_fault() -> None:
    async def fails() -> ToolAnswer:
        raise ToolServerError(ToolProblem.GARBLED, "no JSON")

    for fault in (ToolSlow(), ToolHangs(), ToolAnswerLost()):
        with pytest.raises(ToolServerError, match="no JSON"):
            asyncio.run(send_struck(fault, sending(fails), FakeClock()))


def test_each_failure_names_its_fault() -> None:
    for fault in (ToolRefused(id="gone"), ToolAnswerLost(id="gone"), ToolHangs(id="gone"), ToolSlow(id="gone")):
        with pytest.raises(ToolServerError, match="injected by fault gone"):
            asyncio.run(send_struck(fault, sending(Server().send), FakeClock()))


def test_a_connection_that_a_fault_ends_is_no_crash() -> None:
    for fault in (ToolRefused(), ToolAnswerLost(), ToolHangs(seconds=1)):
        deaths: list[str] = []
        with pytest.raises(ToolServerError):
            asyncio.run(send_struck(fault, sending(Server().send, deaths=deaths), FakeClock()))
        assert deaths == ["intended"]


class Strikes:
    """A fault for every call."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int]] = []

    def strike_tool(self, server: str, tool: str, step: int) -> ToolFault | None:
        self.asked.append((server, tool, step))
        return ToolErrorAnswer()


def test_the_calls_of_steps_are_struck_and_those_of_channels_are_not() -> None:
    strikes = Strikes()
    way = StruckWay(strikes, FakeClock())
    answers = [asyncio.run(way(sending(Server().send, step=step))) for step in (3, None)]
    assert [each.is_error for each in answers] == [True, False]
    assert strikes.asked == [("mail", "send_mail", 3)]


ECHO = "import sys\nfor line in sys.stdin: print('did', line, end='', flush=True)"


async def test_a_killed_server_has_got_the_call_and_done_nothing() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ECHO, stdin=-1, stdout=-1, start_new_session=True
    )
    assert process.stdin
    assert process.stdout

    async def send() -> ToolAnswer:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"order\n")
        await process.stdin.drain()
        if not (line := await process.stdout.readline()):
            raise ToolServerError(ToolProblem.LOST, "it is gone")
        return ToolAnswer(line.decode())

    assert await send() == ToolAnswer("did order\n")
    with pytest.raises(ToolServerError, match="it is gone\ninjected by fault tool_killed"):
        await send_struck(ToolKilled(server="mail"), sending(send, process.pid), SystemClock())
    assert await process.wait() == -signal.SIGKILL


def test_a_server_without_a_process_here_cannot_be_killed() -> None:
    with pytest.raises(Failed, match="`shop` has no process that this run could kill"):
        asyncio.run(send_struck(ToolKilled(server="shop"), sending(Server().send), FakeClock()))


async def test_a_cancelled_call_leaves_no_stopped_process_behind() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import time; time.sleep(60)", start_new_session=True
    )

    async def never() -> ToolAnswer:
        await asyncio.Event().wait()
        raise AssertionError

    call = asyncio.ensure_future(send_struck(ToolKilled(server="mail"), sending(never, process.pid), SystemClock()))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await process.wait() == -signal.SIGKILL
