"""What is written of circuits: no secret that a URL holds; and when those of a service close."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.environment.ownership import ServiceState as Service
from harness.environment.ownership import is_back
from harness.model.settings import BreakerTable, Settings
from harness.resilience.breaker import CircuitState
from harness.resilience.events import ServiceChanged, discard
from harness.runner.circuits import FILE, RunCircuits, origin_of
from tests.unit.fakes import FakeClock

PLAIN = cast("Any", SimpleNamespace(faults=(), spec=SimpleNamespace(expect=None)))


def kept(root: Path) -> RunCircuits:
    (root / ".harness").mkdir(exist_ok=True)
    return RunCircuits(Settings(root=root, breaker=BreakerTable(persist=True)), FakeClock(), discard, {})


@pytest.mark.parametrize(
    "url",
    ["http://carol:hunter2@shop.local/cart", "http://carol%40a:hunter2@shop.local:80/?token=hunter2#hunter2"],
)
def test_what_a_url_says_of_a_person_is_in_no_file(tmp_path: Path, url: str) -> None:
    assert origin_of(url, None) == "http://shop.local"
    assert origin_of("/cart", "http://carol:hunter2@shop.local/") == "http://shop.local"
    run = kept(tmp_path)
    breaker = run.of(PLAIN)(url)
    assert breaker is not None
    breaker.admit().failed("NET_TIMEOUT: gone")
    run.close()
    with sqlite3.connect(tmp_path / FILE) as database:
        rows = database.execute("SELECT * FROM circuits").fetchall()
    assert [row[0] for row in rows] == ["origin:http://shop.local"]
    written = b"".join(file.read_bytes() for file in (tmp_path / ".harness").iterdir())
    assert b"shop.local" in written
    assert b"hunter2" not in written
    assert b"carol" not in written


def test_the_circuits_of_a_host_close_however_it_is_spelled(tmp_path: Path) -> None:
    run = RunCircuits(Settings(root=tmp_path), FakeClock(), discard, {})
    breaker = run.of(PLAIN)("https://b\u00fccher.local/")
    assert breaker is not None
    for _ in range(5):
        breaker.admit().failed("gone")
    run.answers_again("B\u00fccher.local.")
    assert breaker.state is CircuitState.CLOSED


@pytest.mark.parametrize(
    ("before", "after", "back"),
    [
        (Service.RESTARTING, Service.UP, True),
        (Service.DOWN, Service.UP, True),
        (Service.BOOTING, Service.UP, True),
        (Service.UNHEALTHY, Service.UP, False),
        (Service.UP, Service.DOWN, False),
    ],
)
def test_who_is_back(before: Service, after: Service, back: bool) -> None:
    assert is_back(ServiceChanged("demo", before, after, "why")) is back
