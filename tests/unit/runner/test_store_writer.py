"""What writes to the store: in order, again until it works. No task begins to write that the store does not know."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from harness.model.events import TaskStarted, WriteSeen
from harness.model.record import Sent
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from harness.runner.store_writer import StoreLedger, StoreWriter
from harness.runner.stored_part import wrote_name
from harness.store import Store, StoreError, open_store
from tests.unit.fakes import FakeClock, Theatre
from tests.unit.runner.stores import PATIENT, Unwilling


@pytest.fixture
def under() -> Store:
    return open_store(f"memory://{uuid4()}/part")


def write_all(store: Store, folder: Path) -> StoreWriter:
    folder.mkdir()
    (folder / "report.json").write_text("{}")
    writer = StoreWriter(store, "one", SystemClock())
    writer.tell("first")
    writer.put_folder(folder, "errors/one/T-1")
    writer.tell("second", "errors/one/T-1")
    return writer


def test_the_directory_is_there_before_the_end_that_names_it(under: Store, tmp_path: Path) -> None:
    store = Unwilling(under)
    writer = write_all(store, tmp_path / "T-1")
    assert writer.flush(PATIENT)
    assert store.done == ["journal", "errors", "journal"]
    assert under.lines("journal/one") == ["first", "second"]
    assert (writer.problem, writer.waiting) == ("", 0)


def test_a_store_that_fails_for_a_while_gets_everything_in_order(under: Store, tmp_path: Path) -> None:
    writer = write_all(Unwilling(under, failures=2), tmp_path / "T-1")
    stored = any(writer.flush(0.5) for _ in range(40))
    assert stored
    assert under.lines("journal/one") == ["first", "second"]
    assert under.get("errors/one/T-1/report.json") == b"{}"
    assert writer.problem.endswith("no answer")


def test_a_store_that_fails_for_ever_holds_nobody_up(under: Store, tmp_path: Path) -> None:
    writer = write_all(Unwilling(under, failures=10**6), tmp_path / "T-1")
    assert not writer.flush(0.2)
    assert writer.waiting >= 1
    assert under.names() == []


def test_a_directory_that_vanished_is_no_error(under: Store, tmp_path: Path) -> None:
    writer = StoreWriter(under, "one", SystemClock())
    writer.put_folder(tmp_path / "gone", "errors/one/T-1")
    writer.tell("end")
    assert writer.flush(PATIENT)
    assert under.names("errors") == []


def test_each_allure_result_is_stored_once(under: Store, tmp_path: Path) -> None:
    store, results = Unwilling(under), tmp_path / "allure-results"
    writer = StoreWriter(store, "one", SystemClock(), results)
    writer.put_results()
    for name in ("a-result.json", "b-result.json"):
        results.mkdir(exist_ok=True)
        (results / name).write_text("{}")
        writer.put_results()
        assert writer.flush(PATIENT)  # else the next one is seen half written, and is stored again
    assert store.done == ["allure-results", "allure-results"]


def test_an_allure_result_that_was_half_written_is_stored_again(under: Store, tmp_path: Path) -> None:
    writer = StoreWriter(under, "one", SystemClock(), tmp_path)
    for text in ('{"uuid":', '{"uuid": "a"}'):
        (tmp_path / "a-result.json").write_text(text)
        writer.put_results()
        assert writer.flush(PATIENT)
    assert under.get("allure-results/a-result.json") == b'{"uuid": "a"}'


def test_what_vanishes_while_it_is_read_does_not_keep_the_rest(
    under: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanished(folder: Path, pattern: str) -> list[Path]:
        raise FileNotFoundError(2, "No such file or directory", f"{folder}/{pattern}")

    monkeypatch.setattr(Path, "rglob", vanished)
    writer = write_all(under, tmp_path / "T-1")
    assert writer.flush(PATIENT)
    assert under.lines("journal/one") == ["first", "second"]
    assert [each.partition("'")[0] for each in writer.left_out] == ["[Errno 2] No such file or directory: "]


def test_lines_and_notes_are_stored_before_folders(under: Store, tmp_path: Path) -> None:
    answers = threading.Event()
    store = Unwilling(under, answers=answers)
    writer = write_all(store, tmp_path / "T-1")
    writer.tell("third")
    writer.note_write("T-1", "one")
    answers.set()
    assert writer.flush(PATIENT)
    assert set(store.done[:-2]) == {"journal", "wrote"}
    assert store.done[-2:] == ["errors", "journal"]


def test_a_folder_that_the_store_does_not_take_holds_up_no_other_task(under: Store, tmp_path: Path) -> None:
    class Full(Unwilling):
        def put(self, name: str, data: bytes) -> None:
            if name.startswith("errors"):
                raise StoreError(f"{name}: no space left")
            super().put(name, data)

    writer = write_all(Full(under), tmp_path / "T-1")
    writer.tell("third")
    assert not writer.flush(0.3)
    writer.tell("fourth")
    assert not writer.flush(0.3)
    assert under.lines("journal/one") == ["first", "third", "fourth"]  # not the end that names the folder
    assert writer.problem == "errors/one/T-1/report.json: no space left"


def ledger(store: Store, attempt: str, clock: Any = None, patience: float = 5.0) -> StoreLedger:
    clock = clock or SystemClock()
    writer = StoreWriter(store, attempt, clock)
    return StoreLedger(store, attempt, clock, writer, patience)


def plan() -> Any:
    return Theatre().plan(task_id="T-1")


def test_the_store_knows_who_writes(under: Store) -> None:
    own = ledger(under, "one")
    asyncio.run(own.before_write(plan()))
    assert under.get(wrote_name("T-1")) == b"one"
    asyncio.run(own.before_write(plan()))  # the same task, again
    asyncio.run(ledger(under, "one").before_write(plan()))  # another process of the same attempt


def test_a_second_process_does_not_write_in_the_same_task(under: Store) -> None:
    asyncio.run(ledger(under, "one").before_write(plan()))
    with pytest.raises(Failed, match=r"in another process of this part \(one\) this task had begun to write") as error:
        asyncio.run(ledger(under, "two").before_write(plan()))
    assert error.value.failure.code == "WORKER_CUT_OFF"


def test_a_store_that_fails_is_asked_again(under: Store) -> None:
    asyncio.run(ledger(Unwilling(under, failures=3), "one", FakeClock()).before_write(plan()))
    assert under.get(wrote_name("T-1")) == b"one"


def test_without_the_store_nothing_is_written(under: Store) -> None:
    with pytest.raises(Failed, match=r"did not take within 5 s .* \(wrote/T-1: no answer\): nothing was sent") as error:
        asyncio.run(ledger(Unwilling(under, failures=10**6), "one", FakeClock()).before_write(plan()))
    assert error.value.failure.code == "WORKER_CUT_OFF"


def test_a_store_that_does_not_answer_holds_a_task_up_for_a_bounded_time(under: Store) -> None:
    answers = threading.Event()
    with pytest.raises(Failed, match=r"it did not answer"):
        asyncio.run(ledger(Unwilling(under, answers=answers), "one", patience=0.2).before_write(plan()))
    answers.set()


def test_a_write_that_was_only_seen_is_noted(under: Store) -> None:
    theatre, clock = Theatre(), SystemClock()
    writer = StoreWriter(under, "one", clock)
    own = StoreLedger(under, "one", clock, writer)
    asyncio.run(theatre.play(task_id="T-2"))
    for event in theatre.events:
        own.on_event(event)
    assert any(isinstance(event, TaskStarted) for event in theatre.events)
    assert (writer.flush(PATIENT), under.names("wrote")) == (True, [])
    left: Any = WriteSeen(theatre.plan(task_id="T-2"), 0, Sent("POST", "http://shop.local/order"))
    own.on_event(left)
    assert writer.flush(PATIENT)
    assert (under.get(wrote_name("T-2")), writer.unnoted) == (b"one", ())


def test_it_is_known_of_which_writes_the_store_does_not_know(under: Store) -> None:
    store = Unwilling(under, failures=10**6)
    writer = StoreWriter(store, "one", SystemClock())
    writer.note_write("T-1", "one")
    assert not writer.flush(0.2)
    assert writer.unnoted == ("T-1",)
    store.failures = 0
    assert writer.flush(PATIENT)
    assert (under.get(wrote_name("T-1")), writer.unnoted) == (b"one", ())


def test_what_was_seen_does_not_let_a_task_write(under: Store) -> None:
    """A step that begins is heard of before it asks whether it may write."""
    asyncio.run(ledger(under, "one").before_write(plan()))
    theatre, own = Theatre(), ledger(under, "two")
    asyncio.run(theatre.play(task_id="T-1"))
    for event in theatre.events:
        own.on_event(event)
    own.on_event(WriteSeen(plan(), 0, Sent("POST", "http://shop.local/order")))
    with pytest.raises(Failed, match="another process"):
        asyncio.run(own.before_write(plan()))
