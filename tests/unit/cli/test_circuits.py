"""`harness circuits`: what `persist` keeps, listed and closed by hand."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import harness.runner.circuits
from harness.cli.main import app
from harness.resilience import SystemClock
from harness.resilience.breaker import BreakerSettings
from harness.resilience.circuit_store import CircuitStore
from harness.resilience.circuits import Circuits
from harness.runner.circuits import FILE

SHOP, BANK = "origin:http://shop.local", "origin:http://bank.local"


def ran(root: Path, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["circuits", "--project", str(root), *arguments])
    assert result.exit_code == code, result.output
    return result


def states(root: Path) -> dict[str, tuple[str, int]]:
    rows = json.loads(ran(root, "--json").stdout)["circuits"]
    return {each["circuit"]: (each["state"], each["failures"]) for each in rows}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one circuit that is open and one that has counted a failure."""
    text = "[tool.harness.breaker]\npersist = true\nfailure_threshold = 2\nreset_seconds = 600\n"
    (tmp_path / "pyproject.toml").write_text(text, "utf-8")
    clock = SystemClock()
    store = CircuitStore(tmp_path / FILE, clock)
    kept = Circuits(BreakerSettings(failure_threshold=2, reset_seconds=600), clock=clock, store=store)
    for name in (SHOP, SHOP, BANK):
        kept.breaker(name).admit().failed("NET_TIMEOUT: no\nanswer")
    store.close()
    return tmp_path


def test_each_circuit_has_a_line_with_state_failures_rest_and_last_failure(root: Path) -> None:
    head, bank, shop = ran(root).stdout.splitlines()
    assert head.split() == ["circuit", "state", "failures", "reopens", "in", "failed", "at", "last", "failure"]
    told = bank.split()
    assert told[:3] + told[4:] == [BANK, "closed", "1", "NET_TIMEOUT:", "no", "answer"]
    assert abs(datetime.fromisoformat(told[3]) - datetime.now(UTC)) < timedelta(minutes=5)
    assert shop.split()[:3] == [SHOP, "open", "2"]
    assert 500 < float(shop.split()[3]) <= 600


def test_one_is_reset_and_the_other_stays(root: Path) -> None:
    assert ran(root, "--reset", SHOP).stdout.splitlines()[-1] == f"{SHOP}: open -> closed (manual_reset)"
    assert states(root) == {BANK: ("closed", 1), SHOP: ("closed", 0)}


def test_all_are_reset(root: Path) -> None:
    done = json.loads(ran(root, "--all", "--json").stdout)["reset"]
    assert done == [{"circuit": SHOP, "from": "open", "to": "closed", "reason": "manual_reset"}]
    assert states(root) == {BANK: ("closed", 0), SHOP: ("closed", 0)}
    assert ran(root, "--all").stdout.splitlines()[-1].startswith("no circuit was open")


def test_what_cannot_be_done_is_said(root: Path, tmp_path: Path) -> None:
    wrong = ran(root, "--reset", "origin:http://pub.local", code=1).stderr
    assert "expected a circuit that was used, found none of this name" in wrong
    assert SHOP in wrong
    assert "expected SCOPE:NAME" in ran(root, "--reset", "shop", code=1).stderr
    assert "give only one of the two" in ran(root, "--reset", SHOP, "--all", code=2).stderr
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    (nowhere / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")
    none = ran(nowhere, code=1).stderr
    assert "no circuits are kept" in none
    assert "persist = true" in none
    assert not (nowhere / ".harness").exists(), "to look makes nothing"


def test_a_file_that_is_locked_is_no_reset(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness.runner.circuits, "PATIENCE", 0.05)
    other = sqlite3.connect(root / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert "another process holds its lock" in ran(root, "--all", code=1).stderr
    finally:
        other.close()
    assert states(root)[SHOP] == ("open", 2)


def test_the_circuits_of_models_and_agents_are_shown_and_closed_like_those_of_sites(root: Path) -> None:
    clock = SystemClock()
    store = CircuitStore(root / FILE, clock)
    kept = Circuits(BreakerSettings(failure_threshold=1, reset_seconds=600), clock=clock, store=store)
    for name in ("provider:claude", "agent:builder"):
        kept.breaker(name).admit().failed("MODEL_UNAVAILABLE (503)")
    store.close()

    assert {name: state for name, (state, _) in states(root).items() if ":/" not in name} == {
        "provider:claude": "open",
        "agent:builder": "open",
    }
    ran(root, "--reset", "provider:claude", "--reset", "agent:builder")
    assert {states(root)[name] for name in ("provider:claude", "agent:builder")} == {("closed", 0)}
