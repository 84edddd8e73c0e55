"""`--task-store` in the processes of a run: who stores what, and which store is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin import stored
from harness.pytest_plugin.role import ROLE, Role
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.stored import StoredJournal, StoredRun, begin_store
from harness.pytest_plugin.stored_workers import StorePlace, WorkerOfStore, WorkersOfStore
from harness.resilience import SystemClock
from harness.runner.slot_store import SlotStore, StoredFolder
from harness.runner.store_writer import StoreWriter
from harness.runner.stored_part import Earlier, show_attempt
from harness.store import Store
from tests.unit.reporting.history.runs import execution, failed, run
from tests.unit.runner.stores import Unwilling

# In a cluster, the process that runs a task stores its directory, and the driver its end.


def config(tmp_path: Path, *arguments: str, slot: bool = False, **options: Any) -> Any:
    """What a store asks of pytest's config: of a driver, or of the process of a slot."""
    made = SimpleNamespace(
        stash={ROLE: Role.SLOT} if slot else {},
        rootpath=tmp_path,
        invocation_params=SimpleNamespace(dir=tmp_path, args=arguments),
        getoption=lambda name, default=None: options.get(name, default),
    )
    if slot:
        made.workerinput = {}
    return made


def a_place() -> StorePlace:
    return StorePlace(f"memory://{uuid4()}", "whole", "one")


def slot_of(place: StorePlace) -> SlotStore:
    return SlotStore(place.open(), place.attempt, SystemClock())


def slot_in(stored: StoredRun) -> SlotStore:
    """What the process of a slot has of a store, and no other."""
    assert (stored.slot is not None, stored.journal) == (True, None)
    return stored.slot


def journal_of(tmp_path: Path, place: StorePlace, store: Store | None = None) -> StoredJournal:
    writer = StoreWriter(store or place.open(), place.attempt, SystemClock())
    return StoredJournal(config(tmp_path), SessionState(Settings(root=tmp_path)), writer, place.attempt, Earlier())


def test_a_directory_that_a_slot_has_stored_is_not_stored_again(tmp_path: Path) -> None:
    place = a_place()
    part = place.open()
    folder = tmp_path / "errors" / "T-1"
    folder.mkdir(parents=True)
    (folder / "error_report.json").write_text("{}")
    show_attempt(part, "one")
    name = slot_of(place).put(folder, 2).name
    assert part.names("errors") == [f"{name}/error_report.json"]
    assert name == "errors/one.2/T-1"
    driver, ended = journal_of(tmp_path, place), execution(failed("T-1", "CRITERIA_UNMET", artifacts="errors/T-1"))
    driver.has(ended.nodeid, name)
    driver.add(ended)
    driver.add(execution(failed("T-2", "CRITERIA_UNMET", artifacts="errors/T-1")))  # no slot has stored it
    assert driver.finish(run()) == []
    assert part.names("errors") == ["errors/one.2/T-1/error_report.json", "errors/one/T-1/error_report.json"]
    lines = "".join(part.lines("journal/one"))
    assert ('"artifacts":"errors/one.2/T-1"' in lines, '"artifacts":"errors/one/T-1"' in lines) == (True, True)


def test_a_slot_that_may_see_another_store_leaves_the_directory_to_its_driver(tmp_path: Path) -> None:
    place = a_place()
    (tmp_path / "T-1").mkdir()
    (tmp_path / "T-1" / "error_report.json").write_text("{}")
    assert slot_of(place).put(tmp_path / "T-1", 1) == StoredFolder()
    assert place.open().names() == []


def test_a_slot_that_sees_another_store_is_refused_and_one_that_cannot_ask_goes_on(tmp_path: Path) -> None:
    there, given = config(tmp_path, slot=True), StorePlace(str(tmp_path / "store"), "whole", "one")
    there.workerinput = given.given()
    state = SessionState(Settings(root=tmp_path))
    with pytest.raises(pytest.UsageError, match="is not the store of the run, seen from this machine"):
        begin_store(there, state)
    there.workerinput["taskspec_store"] = str(tmp_path / ("x" * 300))  # no name of a file, so nothing can be asked
    assert slot_in(begin_store(there, state)).put(tmp_path, 1) == StoredFolder()
    there.workerinput["taskspec_store"] = given.url
    (tmp_path / "store").mkdir()
    show_attempt(given.open(), "one")
    assert begin_store(there, state).place.attempt == "one"


def test_a_run_that_its_machines_have_left_is_to_be_repeated(tmp_path: Path) -> None:
    found = journal_of(tmp_path, a_place())
    assert found.status(2) == 2
    found.deserted = True
    assert (found.status(2), found.status(4)) == (75, 4)


@pytest.mark.parametrize("unseen", [False, True], ids=["declared", "seen"])
def test_no_repetition_is_asked_for_that_would_do_a_write_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unseen: bool
) -> None:
    """A worker saw that its task writes, could not tell the store, and its controller cannot either."""
    monkeypatch.setattr(stored, "LAST", 0.1)
    place = a_place()
    store = Unwilling(place.open(), failures=10**6)
    own, journal = StoreWriter(store, place.attempt, SystemClock()), journal_of(tmp_path, place, store)
    if unseen:
        own.note_write("T-1", "one")
    worker: Any = SimpleNamespace(config=SimpleNamespace(workeroutput={}))
    WorkerOfStore(own).pytest_sessionfinish(worker)
    WorkersOfStore(place, Earlier(), journal.note_writes).pytest_testnodedown(worker.config)
    (line,) = journal.finish(run())
    assert (journal.status(1), "status 1" in line, "what these tasks have done: T-1" in line) == (
        (1, True, True) if unseen else (75, False, False)
    )


@pytest.mark.parametrize(
    ("root", "arguments", "store", "misled"),
    [
        (".", ("--task-store", "store"), "store", True),
        (".", ("--task-store=store",), "store", False),
        ("project", ("--task-store", "store"), "store", False),
        (".", ("--task-store", "project/store"), "project/store", False),
    ],
)
def test_a_store_that_pytest_takes_for_a_path_of_tests_is_refused(
    tmp_path: Path, root: str, arguments: tuple[str, ...], store: str, misled: bool
) -> None:
    """The second run of a command finds another root than the first, because the folder exists now."""
    (tmp_path / "project").mkdir()
    (tmp_path / store).mkdir(exist_ok=True)
    url = str(tmp_path / store)
    given = config(tmp_path, *(each.replace(store, url) for each in arguments), task_store=url, collectonly=True)
    given.rootpath, given.invocation_params.dir = tmp_path / root, tmp_path / "project"
    if misled:
        with pytest.raises(pytest.UsageError, match="Expected: --task-store="):
            begin_store(given, SessionState(Settings(root=tmp_path)))
    else:
        assert begin_store(given, SessionState(Settings(root=tmp_path))).selection.earlier == Earlier()


def test_a_store_may_be_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    begin_store(config(tmp_path, task_store="~/run"), SessionState(Settings(root=tmp_path)))
    assert (tmp_path / "home/run/run.json").is_file()
