"""Whether the process that has written something still lives, whatever the clock says meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from harness.bridge.store import SessionStore, StoredSession
from harness.environment.ownership import Ownership, RunFolder
from harness.model.tools import ToolState
from harness.reporting.live.following import may_go_on
from harness.reporting.telemetry.log import begin, events_of
from harness.reporting.workspace import Workspace, sweep
from harness.resilience import owner
from harness.resilience.owner import Owner, is_abandoned
from harness.serve.address import address_of, keep_address
from harness.tools.statefile import KeptState, StateFile, kept_states
from harness.values import replace


def address(root: Path) -> bool:
    keep_address(root, "127.0.0.1", 9, secure=False)
    return address_of(root) is not None


def session(root: Path) -> bool:
    SessionStore(root).save(StoredSession("sess-1", "active"))
    return SessionStore(root).claim("sess-1") is None


def tool(root: Path) -> bool:
    state = KeptState("mail", "mailbox", True, ToolState.ONLINE, "", "", "run-1", Owner.this())
    StateFile(root, "mail").write(state)
    return kept_states(root)[0].alive


def events(root: Path) -> bool:
    begin(events_of(root, "20251116T090000-1"), datetime(2025, 11, 16, 9, tzinfo=UTC))
    return may_go_on(root, "20251116T090000-1")


def evidence(root: Path) -> bool:
    folder = Workspace(root, "20251116T090000-1").folder("T-1")
    sweep(root / ".tmp")
    return folder.is_dir()


def service(root: Path) -> bool:
    folder = RunFolder(root / "logs")
    held = Ownership(folder.path / "site.owner.json", persisted=True)
    held.record({"state": "up", "since": "", "restarts": 0}, None, {}, None)
    found = RunFolder(root / "logs").path.parent / folder.path.name / "site.owner.json"
    return found.is_file() and Ownership(found).other_owner() is not None


KEEPERS = (address, session, tool, events, evidence, service)


@pytest.fixture
def written_by_another(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Another process, in whose name everything is written: of its own process, each knows without looking."""
    with subprocess.Popen(["sleep", "60"]) as other:
        found = Owner.of(other.pid)
        assert found is not None
        monkeypatch.setattr(Owner, "this", lambda: found)
        yield other
        other.kill()


@pytest.mark.parametrize("keep", KEEPERS)
def test_a_clock_that_is_set_makes_no_process_dead(
    keep: Callable[[Path], bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a step of the clock, psutil tells another start of the same process: the machine's start moved with it."""
    told, step = psutil.Process.create_time, iter(range(3, 3000, 3))
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: told(process) + next(step))
    assert keep(tmp_path)


@pytest.mark.parametrize("keep", KEEPERS)
def test_it_is_dead_once_it_has_ended(
    keep: Callable[[Path], bool], tmp_path: Path, written_by_another: subprocess.Popen[bytes]
) -> None:
    """Also while it is a zombie, as a killed server is until who has started it looks."""
    (tmp_path / "living").mkdir()
    assert keep(tmp_path / "living")
    written_by_another.kill()
    os.waitid(os.P_PID, written_by_another.pid, os.WEXITED | os.WNOWAIT)
    (tmp_path / "dead").mkdir()
    assert not keep(tmp_path / "dead")


def test_a_pid_that_another_process_has_now() -> None:
    this = Owner.this()
    assert (this.alive, this.gone) == (True, False)
    later = replace(this, birth=this.birth - 100)
    assert (later.alive, later.gone) == (False, True)
    assert Owner.of(2**22 + 1) is None


def test_nothing_is_known_of_a_process_that_cannot_be_seen_from_here() -> None:
    for other in (replace(Owner.this(), namespace=1), replace(Owner.this(), host="another machine"), Owner()):
        assert (other.alive, other.gone) == (False, False)


def test_a_process_before_the_last_start_of_the_machine_is_gone() -> None:
    assert replace(Owner.this(), boot="0ld").gone


def test_a_name_tells_its_owner(tmp_path: Path) -> None:
    this = Owner.this()
    assert Owner.labelled(f"{this.label}-run") == replace(this, host="")
    assert Owner.labelled("notes") is None
    assert not is_abandoned(tmp_path / f"{this.label}-run")
    assert is_abandoned(tmp_path / f"{replace(this, birth=1.0).label}-run")
    assert not is_abandoned(tmp_path / f"{replace(this, namespace=1).label}-run"), "a container's, in the same folder"
    assert not is_abandoned(tmp_path / "notes")


def test_it_works_without_files_about_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: `ps` tells what the kernel keeps, whatever the language and the time zone."""
    monkeypatch.setattr(owner, "PROCESSES", tmp_path)
    for kept in (owner.boot_id, owner.pid_namespace):
        kept.cache_clear()
    try:
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
            found = Owner.of(process.pid)
            assert found is not None
            assert (found.alive, found.boot, found.namespace) == (True, "", 0)
            monkeypatch.setenv("TZ", "Asia/Tokyo")
            assert found.alive
            assert Owner.labelled(found.label) == replace(found, host="")
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert (found.alive, found.gone) == (False, True)
    finally:
        for kept in (owner.boot_id, owner.pid_namespace):
            kept.cache_clear()
