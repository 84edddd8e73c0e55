"""Which circuits a run has, and whose failures they count."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.model.settings import BreakerTable, Settings
from harness.resilience.breaker import CircuitOpen, CircuitState
from harness.resilience.events import discard
from harness.runner.circuits import RunCircuits
from harness.spec.task import Expect
from tests.unit.fakes import FakeClock

SHOP = "http://shop.local/cart"
PLAIN = cast("Any", SimpleNamespace(faults=(), spec=SimpleNamespace(expect=None)))
FAULTED = cast("Any", SimpleNamespace(faults=("one",), spec=SimpleNamespace(expect=None)))
EXPECTING = cast(
    "Any", SimpleNamespace(faults=(), spec=SimpleNamespace(expect=Expect(final_state="failed", code="NET_DNS")))
)
RECOVERING = cast("Any", SimpleNamespace(faults=(), spec=SimpleNamespace(expect=Expect(final_state="completed"))))


def circuits(
    root: Path, clock: FakeClock | None = None, environ: dict[str, str] | None = None, **table: Any
) -> RunCircuits:
    (root / ".harness").mkdir(exist_ok=True)
    settings = Settings(root=root, breaker=BreakerTable(**table))
    return RunCircuits(settings, clock or FakeClock(), discard, environ or {})


def fail(run: RunCircuits, times: int, url: str = SHOP) -> None:
    for _ in range(times):
        breaker = run.of(PLAIN)(url)
        assert breaker is not None
        breaker.admit().failed("gone")


def state(run: RunCircuits, url: str = SHOP) -> CircuitState:
    breaker = run.of(PLAIN)(url)
    assert breaker is not None
    return breaker.state


def test_all_urls_of_an_origin_share_a_circuit_and_others_do_not(tmp_path: Path) -> None:
    run = circuits(tmp_path)
    fail(run, 3)
    fail(run, 2, "http://shop.local:80/orders")
    assert state(run) is CircuitState.OPEN
    assert state(run, "http://bank.local/") is CircuitState.CLOSED
    assert state(run, "https://shop.local/") is CircuitState.CLOSED


def test_every_setting_acts(tmp_path: Path) -> None:
    clock = FakeClock()
    run = circuits(tmp_path, clock, failure_threshold=2, success_threshold=1, reset_seconds=7, volume_threshold=3)
    fail(run, 2)
    assert state(run) is CircuitState.CLOSED
    fail(run, 1)
    assert state(run) is CircuitState.OPEN
    clock.time = 7
    breaker = run.of(PLAIN)(SHOP)
    assert breaker is not None
    breaker.admit().succeeded()
    assert state(run) is CircuitState.CLOSED


@pytest.mark.parametrize(
    ("table", "environ"),
    [({"enabled": False}, {}), ({}, {"RESILIENCE_ENABLED": "false"}), ({}, {"RESILIENCE_ENABLED": "0"})],
)
def test_switched_off_nothing_is_counted(tmp_path: Path, table: dict[str, Any], environ: dict[str, str]) -> None:
    run = circuits(tmp_path, environ=environ, persist=True, **table)
    assert run.of(PLAIN)(SHOP) is None
    assert run.agent("mine") is None
    assert not list((tmp_path / ".harness").iterdir())


def test_without_recovery_there_are_none(tmp_path: Path) -> None:
    run = RunCircuits(Settings(root=tmp_path, recovery=False), FakeClock(), discard, {})
    assert run.of(PLAIN)(SHOP) is None


def test_what_a_task_orders_or_expects_is_no_sites_fault(tmp_path: Path) -> None:
    assert circuits(tmp_path).of(FAULTED)(SHOP) is None
    assert circuits(tmp_path).of(EXPECTING)(SHOP) is None
    assert circuits(tmp_path).of(RECOVERING)(SHOP) is not None


TOOLS = {
    "mail": {"command": ["mail"], "breaker": {"failure_threshold": 2}},
    "shop": {"url": "http://shop.local/mcp"},
}


def tool_circuits(root: Path, **keys: Any) -> RunCircuits:
    settings = Settings.model_validate({"root": root, "tools": TOOLS, **keys})
    return RunCircuits(settings, FakeClock(), discard, {})


def fail_tool(run: RunCircuits, server: str, times: int) -> CircuitState:
    for _ in range(times):
        breaker = run.tool_of(PLAIN)(server)
        assert breaker is not None
        breaker.admit().failed("gone")
    return breaker.state


def test_each_tool_server_has_a_circuit_with_its_own_settings(tmp_path: Path) -> None:
    run = tool_circuits(tmp_path)
    assert fail_tool(run, "mail", 2) is CircuitState.OPEN
    assert fail_tool(run, "shop", 2) is CircuitState.CLOSED
    assert fail_tool(run, "shop", 3) is CircuitState.OPEN
    breaker = run.tool("shop")
    assert breaker is not None
    assert breaker.name == "tool:shop"
    assert run.tool_of(FAULTED)("mail") is None
    assert run.tool_of(EXPECTING)("mail") is None
    assert tool_circuits(tmp_path, breaker={"enabled": False}).tool_of(PLAIN)("mail") is None


def test_the_circuit_of_a_tool_server_closes_when_it_is_mended_or_its_service_is_back(tmp_path: Path) -> None:
    run = tool_circuits(tmp_path)
    run.tool_mended("mail")
    for mend in (lambda: run.tool_mended("shop"), lambda: run.answers_again("shop.local")):
        assert fail_tool(run, "shop", 5) is CircuitState.OPEN
        mend()
        breaker = run.tool("shop")
        assert breaker is not None
        assert breaker.state is CircuitState.CLOSED


def test_a_host_that_answers_again_needs_no_probe(tmp_path: Path) -> None:
    run = circuits(tmp_path)
    run.answers_again("shop.local")
    fail(run, 5)
    run.answers_again("SHOP.local")
    assert state(run) is CircuitState.CLOSED


def test_kept_circuits_are_those_of_other_processes_and_of_the_next_run(tmp_path: Path) -> None:
    clock = FakeClock()
    first, second = circuits(tmp_path, clock, persist=True), circuits(tmp_path, clock, persist=True)
    fail(first, 5)
    breaker = second.of(PLAIN)(SHOP)
    assert breaker is not None
    with pytest.raises(CircuitOpen, match="5 failures in a row"):
        breaker.admit()
    for run in (first, second):
        run.close()
    assert state(circuits(tmp_path, clock, persist=True)) is CircuitState.OPEN
    assert state(circuits(tmp_path, clock)) is CircuitState.CLOSED


def test_a_kept_file_that_is_none_is_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / ".harness").mkdir()
    (tmp_path / ".harness" / "circuits.sqlite3").write_text("not a database, and long enough to be taken for one" * 30)
    with pytest.raises(ValueError, match=r"circuits\.sqlite3"):
        circuits(tmp_path, persist=True)
