"""Agents that are processes: how long they run, and what the failure of one says, though it writes more after it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.runner.commands import RunningCommand, telling_line
from tests.unit.resilience.virtual import LoopClock, now, play

PYTHON = """opening the shop
Traceback (most recent call last):
  File "drive.py", line 11, in <module>
    page.goto("http://todo.test/")
playwright._impl._errors.Error: Page.goto: net::ERR_FAILED
Call log:
  - navigating to "http://todo.test/", waiting until "load"

"""
NODE = """file:///bridge.mjs:55
  return new Refused(code);
         ^

ConnectionRefusedForGood: AUTH_INVALID: the token is unknown
    at refusal (file:///bridge.mjs:55:10) {
  code: 'AUTH_INVALID'
}

Node.js v22.1.0
"""
CODED = "TypeError [ERR_INVALID_URL]: Invalid URL\n    at new URL (node:internal/url:797:36)\n\nNode.js v22.1.0"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (PYTHON, "playwright._impl._errors.Error: Page.goto: net::ERR_FAILED"),
        (NODE, "ConnectionRefusedForGood: AUTH_INVALID: the token is unknown"),
        (CODED, "TypeError [ERR_INVALID_URL]: Invalid URL"),
        ("Usage: agent URL\n  no address was given\n\n", "no address was given"),
        ("", ""),
    ],
)
def test_the_line_that_tells_why(output: str, told: str) -> None:
    assert telling_line(output) == told


@pytest.mark.parametrize("paused", [0.0, 100.0])
def test_a_command_has_its_time_without_its_pauses(tmp_path: Path, paused: float) -> None:
    async def stop(_: float) -> int:
        return -15

    async def main() -> float:
        child = SimpleNamespace(has_ended=lambda: False, log=tmp_path / "log", stop=stop)
        made = SimpleNamespace(
            _run=SimpleNamespace(clock=LoopClock()),
            _plan=None,
            over=asyncio.Event(),
            hub=SimpleNamespace(suspended=lambda _: min(paused, now())),
        )
        assert await RunningCommand.watch(cast("RunningCommand", made), cast("Any", child), 20) == -15
        assert made.over.is_set()
        return now()

    assert play(main()) == pytest.approx(20 + paused, abs=2)
