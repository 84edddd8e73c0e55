"""Tasks that run ahead: what becomes of their output and their outcome when their turn comes."""

from __future__ import annotations

import io
import sys
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import lookahead
from harness.engine.schedule import Job
from harness.lookahead import Lookahead
from harness.output import keep
from harness.sync import LoopThread
from harness.wiring import SyncHarness


def test_output_that_cannot_be_said_takes_no_outcome_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `print("\\ud83d")` with `--capture=sys`."""
    said: list[str] = []
    result = SimpleNamespace(failure=None)

    def broken() -> None:
        "\ud83d".encode()

    async def play(plan: Any, *_: Any) -> Any:
        if plan.spec == "B":
            for say in (partial(said.append, "before"), broken, partial(said.append, "after")):
                assert keep(say)
            spoken.set()
        return result

    loop, stderr, spoken = LoopThread(), io.StringIO(), threading.Event()
    monkeypatch.setattr(lookahead, "reached", lambda _spec, _result: True)
    monkeypatch.setattr(sys, "stderr", stderr)
    tasks = Lookahead(cast("SyncHarness", SimpleNamespace(begin=loop.begin, play=play)), 2)
    tasks.add((Job(name), partial(cast("Any", SimpleNamespace), spec=name)) for name in "AB")
    tasks.run("A", lambda _event: None)
    assert spoken.wait(30)
    assert cast("Any", tasks.run("B", lambda _event: None).result) is result
    assert said == ["before", "after"]
    assert stderr.getvalue().startswith("taskspec: some output of this task is missing here: UnicodeEncodeError: ")
    assert stderr.getvalue().isascii()
    loop.close()
