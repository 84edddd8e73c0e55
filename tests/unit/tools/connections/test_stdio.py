"""Tool servers over standard input and output: answers, failures by name, deaths, and the end of the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.model.tools import ToolHints
from harness.tools.connection import ToolConnection
from harness.tools.exchange import Connect, ServerInfo, ToolProblem, ToolServerError
from tests.unit.tools.connections.conftest import Play, Told, eventually

Raw = Callable[..., Connect]
ERAS = {"new": "2026-07-28", "old": "2025-11-25"}


async def call(connection: ToolConnection, tool: str, within: float = 10, **arguments: Any) -> Any:
    return await connection.call(tool, arguments, within, {"pytest-taskspec/world": "w1"})


async def refused(connection: ToolConnection, tool: str, within: float = 10, **arguments: Any) -> ToolServerError:
    """The error of a call; its limit must have held."""
    began = asyncio.get_running_loop().time()
    with pytest.raises(ToolServerError) as caught:
        await call(connection, tool, within, **arguments)
    assert asyncio.get_running_loop().time() - began < within + 0.5
    return caught.value


@pytest.mark.parametrize("era", ERAS)
def test_a_server_of_either_era_is_opened_listed_called_and_looked_at(
    raw: Raw, play: Play, era: str, tmp_path: Path
) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        echo, strict = await connection.list_tools(5)
        assert (echo.name, echo.description, echo.hints) == ("echo", "Says it again.", ToolHints(True, None, True))
        assert strict.parameters == {"type": "object"}
        answer = await call(connection, "echo", to="ann")
        assert answer.text == '{"to": "ann"}'
        assert answer.structured["arguments"] == {"to": "ann"}
        assert answer.structured["meta"]["pytest-taskspec/world"] == "w1"
        assert 0 < answer.seconds < 5
        await connection.look(5)
        assert connection.pid is not None
        assert connection.died is None

    async def opened(connection: ToolConnection, told: Told) -> None:
        assert await connection.open(20) == ServerInfo("raw", "1", ERAS[era])
        await scene(connection, told)

    play(raw(era), opened, opens=False)
    assert "--- started at" in (tmp_path / "logs" / "tool-raw.log").read_text()


def test_parts_that_are_no_text_are_named(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        answer = await call(connection, "parts")
        assert answer.text.splitlines() == [
            "one", "[image/png, 4 bytes]", "[file:///a.txt]", "[file:///b.txt, 4 bytes]"
        ]  # fmt: skip
        assert answer.structured == {"n": 1}

    play(raw(), scene)


ASKED = "it asks for input, which nobody can give here"


def test_answers_that_say_an_error_are_answers(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        for tool, text in {"fails": "no stock", "broken": "division by zero", "input": ASKED}.items():
            answer = await call(connection, tool)
            assert (answer.text, answer.is_error) == (text, True)

    play(raw(), scene)


def test_refusals_and_bad_answers_have_their_names(raw: Raw, play: Play) -> None:
    expected = {
        "missing": (ToolProblem.UNKNOWN_TOOL, "Tool missing not found"),
        "unknown_here": (ToolProblem.UNKNOWN_TOOL, "Unknown tool: unknown_here"),
        "badly": (ToolProblem.INVALID_ARGUMENTS, "n is required"),
        "invalid_here": (ToolProblem.INVALID_ARGUMENTS, "n is required"),
        "nonsense": (ToolProblem.GARBLED, "error -32600: Invalid Request"),
        "wrong": (ToolProblem.GARBLED, "its answer is not what MCP demands"),
        "strict": (ToolProblem.GARBLED, "'n' is a required property"),
    }

    async def scene(connection: ToolConnection, told: Told) -> None:
        await connection.list_tools(5)
        for tool, (problem, words) in expected.items():
            error = await refused(connection, tool)
            assert (error.problem, tool) == (problem, tool)
            assert words in error.message
        assert not told.lost

    play(raw(), scene)


def test_junk_on_standard_output_is_tolerated(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        assert (await call(connection, "junk")).text == "after junk"
        assert (await call(connection, "echo")).text == "{}"

    play(raw(), scene)


def test_a_long_answer_arrives_and_one_that_is_too_long_is_named(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        assert len((await call(connection, "big", size=10_000_000)).text) == 10_000_000
        error = await refused(connection, "big", size=11_000_000)
        assert error.problem is ToolProblem.GARBLED
        assert "too large" in error.message
        assert (await call(connection, "echo")).text == "{}"

    play(raw("new", longest=10_500_000), scene)


@pytest.mark.parametrize(("tool", "code"), [("exit", 3), ("kill", 137)])
def test_a_death_in_a_call_is_told_with_exit_code_and_log(raw: Raw, play: Play, tool: str, code: int) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        others = [asyncio.create_task(refused(connection, "sleep", seconds=30)) for _ in range(3)]
        await asyncio.sleep(0)
        for error in [await refused(connection, tool), *[await other for other in others]]:
            assert error.problem is ToolProblem.LOST
            assert error.died is not None
            assert (error.died.exit_code, error.died.intended) == (code, False)
        assert connection.died is not None
        assert ("out of order" in connection.died.log_end) == (tool == "exit")
        await eventually(lambda: bool(told.lost))
        later = await refused(connection, "echo")
        assert later.problem is ToolProblem.UNREACHED
        assert later.died == connection.died
        assert len(told.lost) == 1

    play(raw(), scene)


def test_a_death_between_two_calls_is_told(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        assert connection.pid is not None
        os.kill(connection.pid, signal.SIGKILL)
        await eventually(lambda: bool(told.lost))
        assert told.lost[0].died is not None
        assert connection.pid is None

    play(raw(), scene)


def test_a_server_that_is_ended_on_purpose_has_not_crashed(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        await connection.close()
        assert connection.died is not None
        assert connection.died.intended
        assert not told.lost
        assert (await refused(connection, "echo")).problem is ToolProblem.UNREACHED

    play(raw(), scene)


def test_a_stopped_server_ends_no_limit_and_no_end(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        assert connection.pid is not None
        os.kill(connection.pid, signal.SIGSTOP)
        error = await refused(connection, "echo", within=0.5)
        assert error.problem is ToolProblem.SLOW
        assert error.message == "it did not answer within 0.5 s"

    play(raw(), scene)


def test_a_server_that_reads_no_more_blocks_nobody(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        assert (await call(connection, "echo")).text == "{}"  # the last thing that it reads
        half = await refused(connection, "echo", within=0.3, text="x" * 1_000_000)
        assert half.problem is ToolProblem.SLOW  # a part of it is in the pipe
        nothing = await refused(connection, "echo", within=0.3)
        assert nothing.problem is ToolProblem.UNREACHED
        assert "did not take the request" in nothing.message
        assert not told.lost

    play(raw("new", "tired"), scene)


def test_a_call_that_is_slow_leaves_the_connection_usable(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        assert (await refused(connection, "sleep", within=0.3, seconds=1)).problem is ToolProblem.SLOW
        assert (await call(connection, "echo")).text == "{}"

    play(raw(), scene)


def test_a_cancelled_caller_is_cancelled_and_nobody_else(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        stays = asyncio.create_task(call(connection, "sleep", seconds=0.5))
        goes = asyncio.create_task(call(connection, "sleep", seconds=30))
        await asyncio.sleep(0.2)
        goes.cancel()
        with pytest.raises(asyncio.CancelledError):
            await goes
        assert (await stays).text == "slept"

    play(raw(), scene)


def test_twenty_calls_at_once_get_their_own_answers(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        answers = await asyncio.gather(*(call(connection, "echo", n=n) for n in range(20)))
        assert [answer.structured["arguments"]["n"] for answer in answers] == list(range(20))

    play(raw(), scene)


def test_changed_tools_are_told(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        await call(connection, "change")
        await eventually(lambda: told.changed == 1)

    play(raw("old"), scene)


def test_a_log_has_no_secret_that_a_server_writes(raw: Raw, play: Play, tmp_path: Path) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        await refused(connection, "exit")
        assert connection.died is not None
        assert connection.died.log_end.splitlines()[-1] == "out of [redacted]"
        log = (tmp_path / "logs" / "tool-raw.log").read_text("utf-8")
        assert log.splitlines()[-1] == "out of [redacted]"

    play(raw("new", clean=lambda text: text.replace("order", "[redacted]")), scene)


async def not_opened(connection: ToolConnection, within: float) -> ToolServerError:
    with pytest.raises(ToolServerError) as caught:
        await connection.open(within)
    return caught.value


def test_a_server_that_dies_at_its_start_is_unreached(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        error = await not_opened(connection, 20)
        assert error.problem is ToolProblem.UNREACHED
        assert error.died is not None
        assert (error.died.exit_code, error.died.log_end.splitlines()[-1]) == (1, "no database")
        assert not told.lost

    play(raw("new", "dies"), scene, opens=False)


@pytest.mark.parametrize(
    ("habit", "words"),
    [pytest.param("deaf", "within 1 s", marks=pytest.mark.thorough), ("talks", "Welcome to the server!")],
)
def test_a_server_that_says_nothing_of_use_is_slow(raw: Raw, play: Play, habit: str, words: str) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        error = await not_opened(connection, 1)
        assert error.problem is ToolProblem.SLOW
        assert words in error.message

    play(raw("new", habit), scene, opens=False)


def test_a_command_that_does_not_exist_is_unreached(play: Play, tmp_path: Path) -> None:
    from harness.resilience import SystemClock
    from harness.resilience.process import Program
    from harness.tools.stdio import over_stdio

    async def scene(connection: ToolConnection, _: Told) -> None:
        error = await not_opened(connection, 20)
        assert error.problem is ToolProblem.UNREACHED
        assert error.died is not None
        assert "cannot start /no/such/program" in error.died.log_end

    program = Program(("/no/such/program",), {}, tmp_path)
    play(over_stdio(program, tmp_path / "tool.log", SystemClock()), scene, opens=False)


@pytest.mark.parametrize("habits", [("ignores_eof",), pytest.param(("stubborn",), marks=pytest.mark.thorough)])
def test_a_server_that_does_not_want_to_end_is_ended(raw: Raw, play: Play, habits: tuple[str, ...]) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        assert (await call(connection, "echo")).text == "{}"

    play(raw("new", *habits), scene)


def test_a_server_that_closes_its_output_is_lost(raw: Raw, play: Play) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        error = await refused(connection, "close")
        assert error.problem is ToolProblem.LOST
        assert "closed its standard output" in error.message
        await eventually(lambda: bool(told.lost))

    play(raw(), scene)
