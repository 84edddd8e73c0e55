"""Memory entries survive the file, and worlds do not see each other."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.environment.memory import MemoryEntry, MemoryStore

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def entry(key: str, value: Any, source: str = "s") -> MemoryEntry:
    return MemoryEntry(key, value, "2025-11-16T09:00:23Z", source)


@given(JSON)
def test_values_come_back_as_they_were(value: Any) -> None:
    store = MemoryStore()
    store.put("w", entry("k", value))
    assert store.entries("w") == {"k": entry("k", value)}
    store.close()


def test_a_file_keeps_worlds_apart_and_the_order_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "memory.sqlite"
    store = MemoryStore(path)
    for key in ("b", "a"):
        store.put("w1", entry(key, 1))
    store.put("w2", entry("a", 2))
    store.put("w1", entry("b", 3, "later"))
    store.close()
    again = MemoryStore(path)
    assert list(again.entries("w1").values()) == [entry("b", 3, "later"), entry("a", 1)]
    again.clear("w1")
    assert again.entries("w1") == {}
    assert again.entries("w2") == {"a": entry("a", 2)}
    again.close()


def test_numbers_that_json_does_not_know_become_null() -> None:
    store = MemoryStore()
    store.put("w", entry("k", {"nan": math.nan, "more": [math.inf, 1.5]}))
    assert store.entries("w")["k"].value == {"nan": None, "more": [None, 1.5]}
    with pytest.raises(TypeError):
        store.put("w", entry("k", object()))
    store.close()


def test_time_is_utc_in_seconds() -> None:
    moment = datetime(2025, 11, 16, 10, 0, 23, 999_999, timezone(timedelta(hours=1)))
    assert MemoryEntry.at("k", 1, moment, "B1").as_json() == {
        "key": "k",
        "value": 1,
        "ts": "2025-11-16T09:00:23Z",
        "source": "B1",
        "confidence": 1.0,
    }


def test_threads_may_write_at_once(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory.sqlite")

    def write(number: int) -> None:
        for count in range(20):
            store.put("w", entry(f"{number}.{count}", count))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.entries("w")) == 80
    store.close()


@given(st.dictionaries(st.text(), JSON), st.dictionaries(st.text(), JSON))
def test_replaced_entries_are_exactly_the_given_ones(saved: dict[str, Any], later: dict[str, Any]) -> None:
    store = MemoryStore()
    store.put("other", entry("k", 1))
    expected = [MemoryEntry(key, value, "2025-11-16T09:00:23Z", "s", 0.5) for key, value in saved.items()]
    for key, value in later.items():
        store.put("w", entry(key, value, "later"))
    store.replace("w", expected)
    assert list(store.entries("w").values()) == expected
    assert store.entries("other") == {"k": entry("k", 1)}
    store.close()


def test_a_replacement_that_fails_changes_nothing() -> None:
    store = MemoryStore()
    store.put("w", entry("a", 1))
    with pytest.raises(TypeError):
        store.replace("w", [entry("b", 2), entry("c", object())])
    with pytest.raises(sqlite3.IntegrityError):
        store.replace("w", [entry("b", 2), MemoryEntry("c", 1, cast("str", None), "s")])
    store.put("w", entry("d", 4))
    assert list(store.entries("w")) == ["a", "d"]
    store.close()


WORKER = """
import sys
from pathlib import Path
from harness.environment.memory import MemoryEntry as Entry, MemoryStore
number = sys.argv[2]
store = MemoryStore(Path(sys.argv[1]))
own = lambda key, value: Entry(key, value, "2025-11-16T09:00:23Z", number)
for count in range(60):
    store.put("shared", own(f"{number}.{count}", count))
    store.put(number, own(f"late.{count}", count))
    if count % 10 == 9:
        store.replace(number, [own(f"kept.{each}", each) for each in range(count + 1)])
store.close()
"""


def test_several_processes_on_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(path), str(number)]) for number in range(4)]
    assert [worker.wait(120) for worker in workers] == [0, 0, 0, 0]
    store = MemoryStore(path)
    shared = {f"{number}.{count}" for number in range(4) for count in range(60)}
    assert set(store.entries("shared")) == shared
    for number in range(4):
        assert list(store.entries(str(number))) == [f"kept.{count}" for count in range(60)]
    store.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    path.write_text("not a database at all, but long enough to be taken for a header" * 20)
    with pytest.raises(sqlite3.DatabaseError):
        MemoryStore(path)
