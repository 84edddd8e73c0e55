"""Nothing is written in a store that has lost the notes of the run, and no part begins in one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from harness.runner.stored_part import (
    ATTEMPTS,
    NotedStore,
    WriteMemory,
    join_run,
    lost_attempts,
    refuse_lost,
    show_attempt,
    wrote_name,
)
from harness.runner.stored_part import CommonRun as Common
from harness.store import Store, StoreError, open_store


@pytest.fixture(params=["folder", "memory"])
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    store = open_store(str(tmp_path / "store") if request.param == "folder" else f"memory://{uuid4()}/store")
    join_run(store, Common(""))
    return store


def memory(tmp_path: Path) -> WriteMemory:
    return WriteMemory(tmp_path / "stores", "s3://store", "whole")


def begun(whole: Store, tmp_path: Path, attempt: str = "one") -> NotedStore:
    show_attempt(whole.at("whole"), attempt)
    return NotedStore(whole, "whole", attempt, memory(tmp_path))


def drop(whole: Store, name: str) -> None:
    """What a cleaner does to a file."""
    if whole.local is not None:
        (whole.local / name).unlink()
    else:
        MemoryFileSystem().rm(f"{whole.shown.removeprefix('memory:/')}/{name}")


def first_line(whole: Store) -> str:
    return whole.names("whole/journal")[0]


LOSSES: dict[str, Callable[[Store], None]] = {
    "attempt": lambda whole: drop(whole, f"whole/{ATTEMPTS}/one"),
    "journal": lambda whole: drop(whole, first_line(whole)),
    "shorter": lambda whole: whole.put(first_line(whole), b"x"),
    "write": lambda whole: drop(whole, f"whole/{wrote_name('T-1')}"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_is_written_while_a_note_is_gone(whole: Store, tmp_path: Path, loss: str) -> None:
    store = begun(whole, tmp_path)
    store.append("journal/one", ["begun"])
    assert store.put_new(wrote_name("T-1"), b"one")
    LOSSES[loss](whole)
    before = whole.sizes()
    with pytest.raises(StoreError, match=r"the notes of this run are gone from there"):
        store.append("journal/one", ["ended"])
    with pytest.raises(StoreError, match=r"the notes of this run are gone from there"):
        store.put_new(wrote_name("T-2"), b"one")
    assert whole.sizes() == before


def test_a_worker_does_not_write_while_the_journal_that_its_controller_began_is_gone(
    whole: Store, tmp_path: Path
) -> None:
    begun(whole, tmp_path).append("journal/one", ["begun"])
    worker = begun(whole, tmp_path)
    assert worker.put_new(wrote_name("T-1"), b"one")
    drop(whole, first_line(whole))
    with pytest.raises(StoreError, match=r"gone from there \(journal/one\)"):
        worker.put_new(wrote_name("T-2"), b"one")


def test_a_root_that_has_vanished_is_not_made_again(tmp_path: Path) -> None:
    whole = open_store(str(tmp_path / "store"))
    join_run(whole, Common(""))
    part = whole.at("whole")
    (tmp_path / "store" / "run.json").unlink()
    (tmp_path / "store").rmdir()
    with pytest.raises(StoreError, match="store is gone"):
        part.put("x", b"")
    assert not (tmp_path / "store").exists()


def test_a_part_that_has_lost_the_journal_of_an_attempt_does_not_begin(whole: Store, tmp_path: Path) -> None:
    begun(whole, tmp_path).append("journal/one", ["begun"])
    refuse_lost(whole, "whole", memory(tmp_path))
    assert lost_attempts(whole, "whole") == []
    drop(whole, first_line(whole))
    assert lost_attempts(whole, "whole") == ["one"]
    with pytest.raises(StoreError, match=r"what one of it told or wrote .* delete begun/whole in the store"):
        refuse_lost(whole, "whole", memory(tmp_path))


def test_this_machine_remembers_who_wrote_in_a_store_that_is_gone(whole: Store, tmp_path: Path) -> None:
    begun(whole, tmp_path).append("journal/one", ["begun"])
    elsewhere = open_store(f"memory://{uuid4()}/empty")
    refuse_lost(elsewhere, "whole", memory(tmp_path))  # it has written nothing
    begun(whole, tmp_path, "two").put_new(wrote_name("T-1"), b"two")
    refuse_lost(whole, "whole", memory(tmp_path))  # the store knows
    with pytest.raises(StoreError, match=r"what two of it told or wrote .* Nothing runs\."):
        refuse_lost(elsewhere, "whole", memory(tmp_path))
    memory(tmp_path).path.unlink()
    refuse_lost(elsewhere, "whole", memory(tmp_path))
