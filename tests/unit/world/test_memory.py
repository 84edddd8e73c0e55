"""Memory entries survive the file, and worlds do not see each other."""

from __future__ import annotations

import math
import sqlite3
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.world import Entry, MemoryStore

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def entry(key: str, value: Any, source: str = "s") -> Entry:
    return Entry(key, value, "2025-11-16T09:00:23Z", source)


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
    assert Entry.at("k", 1, moment, "B1").as_json() == {
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


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    path.write_text("not a database at all, but long enough to be taken for a header" * 20)
    with pytest.raises(sqlite3.DatabaseError):
        MemoryStore(path)
