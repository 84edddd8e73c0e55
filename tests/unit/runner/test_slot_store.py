"""A slot stores the directories of failed tasks, and a store that hangs holds it up once, not for each of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from harness.runner import slot_store
from harness.runner.slot_store import HANGS, RESTS, SlotStore, StoredFolder, do_within
from harness.runner.stored_part import show_attempt
from harness.store import Store, StoreError, StoreUnusable, open_store
from tests.unit.cluster.simulation import Time
from tests.unit.runner.stores import PATIENT, Unwilling

SHORT = 0.1


@pytest.fixture
def under() -> Store:
    store = open_store(f"memory://{uuid4()}/part")
    show_attempt(store, "one")
    return store


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ASKED_WITHIN", "PUT_WITHIN", "TRIED_WITHIN"):
        monkeypatch.setattr(slot_store, name, SHORT)
    (tmp_path / "T-1").mkdir()
    (tmp_path / "T-1" / "error_report.json").write_text("{}")
    return tmp_path / "T-1"


class Hanging(Unwilling):
    """A store that does not answer as long as it hangs."""

    def __init__(self, under: Store) -> None:
        super().__init__(under, answers=threading.Event())
        self.asked = 0

    def get(self, name: str) -> bytes | None:
        self.asked += 1
        assert self.answers is not None
        self.answers.wait(PATIENT)
        return super().get(name)


@pytest.fixture
def hanging(under: Store) -> Iterator[Hanging]:
    store = Hanging(under)
    yield store
    assert store.answers is not None
    store.answers.set()


def test_what_is_done_within_a_time_raises_its_own_errors(under: Store, hanging: Hanging) -> None:
    do_within(PATIENT, lambda: under.put("a", b""))
    with pytest.raises(StoreError, match="b: no answer"):
        do_within(PATIENT, lambda: Unwilling(under, failures=1).put("b", b""))
    with pytest.raises(TimeoutError):
        do_within(SHORT, lambda: hanging.put("c", b""))
    with pytest.raises(ZeroDivisionError):
        do_within(PATIENT, lambda: print(1 / 0))


def test_a_store_that_hangs_is_waited_for_once_and_tried_again_after_a_while(hanging: Hanging, folder: Path) -> None:
    clock = Time()
    slot = SlotStore(hanging, "one", clock)
    assert slot.put(folder, 1) == StoredFolder(trouble=HANGS.format(SHORT))
    assert [slot.put(folder, 1), slot.put(folder, 1), hanging.asked] == [StoredFolder(), StoredFolder(), 1]
    clock.seconds += RESTS
    assert [slot.put(folder, 1), hanging.asked] == [StoredFolder(), 2]  # tried in vain, and told once
    clock.seconds += RESTS
    assert hanging.answers is not None
    hanging.answers.set()
    assert slot.put(folder, 1) == slot.put(folder, 1) == StoredFolder("errors/one.1/T-1")


def test_an_error_that_comes_at_once_keeps_no_later_directory_from_the_store(under: Store, folder: Path) -> None:
    slot = SlotStore(Unwilling(under, failures=1), "one", Time())
    assert [slot.put(folder, 1), slot.put(folder, 2)] == [StoredFolder(), StoredFolder("errors/one.2/T-1")]


def test_a_slot_that_cannot_ask_whether_it_sees_the_right_store_begins_all_the_same(
    under: Store, hanging: Hanging, folder: Path
) -> None:
    SlotStore(hanging, "one", Time()).refuse_other()
    with pytest.raises(StoreUnusable, match="is not the store of the run, seen from this machine"):
        SlotStore(under, "another", Time()).refuse_other()
