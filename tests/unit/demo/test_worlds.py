"""The store of worlds."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from harness.demo.worlds import Worlds


def test_a_world_starts_as_the_seed(worlds: Worlds, seed: dict[str, Any]) -> None:
    assert worlds.read("w1") == seed


def test_a_change_is_seen_in_its_world_only(worlds: Worlds) -> None:
    with worlds.change("w1") as document:
        document["shop"]["cart"]["WM-5521"] = {"qty": 2}
        del document["shop"]["orders"]["O-09871"]
    changed, other = worlds.read("w1"), worlds.read("w2")
    assert changed["shop"]["cart"] == {"WM-5521": {"qty": 2}}
    assert changed["shop"]["orders"] == {}
    assert other["shop"]["cart"] == {}
    assert "O-09871" in other["shop"]["orders"]


def test_an_exception_inside_a_change_stores_nothing(worlds: Worlds, seed: dict[str, Any]) -> None:
    with pytest.raises(LookupError), worlds.change("w1") as document:
        document["shop"]["cart"]["WM-5521"] = {"qty": 2}
        raise LookupError
    assert worlds.read("w1") == seed


def test_replace_and_reset(worlds: Worlds, seed: dict[str, Any]) -> None:
    worlds.replace("w1", {"anything": {"at": {"all": [1, None]}}})
    assert worlds.read("w1") == {"anything": {"at": {"all": [1, None]}}}
    worlds.reset("w1")
    assert worlds.read("w1") == seed


def test_a_replaced_document_keeps_its_own_order(worlds: Worlds) -> None:
    first = {"site": {"list": {"a": 1, "b": {"x": 1, "y": 2}, "c": 3}, "empty": {}, "plain": 0}}
    worlds.replace("w1", first)
    with worlds.change("w1") as document:
        del document["site"]["list"]["a"]
        document["site"]["empty"]["no longer"] = True
        document["site"]["list"]["d"] = 4
    worlds.replace("w1", first)
    assert json.dumps(worlds.read("w1")) == json.dumps(first)


def test_the_least_recently_used_world_is_dropped() -> None:
    worlds = Worlds(kept=2, seed={"a": {"b": {"c": 1}}})
    for world in ("w1", "w2"):
        with worlds.change(world) as document:
            document["a"]["b"]["c"] = world
    worlds.read("w1")
    worlds.read("w3")
    assert worlds.ids() == ["w1", "w3"]
    assert worlds.read("w1")["a"]["b"]["c"] == "w1"
    assert worlds.read("w2")["a"]["b"]["c"] == 1
    worlds.close()


def test_a_state_file_outlives_the_process(tmp_path: Path) -> None:
    file = str(tmp_path / "worlds.db")
    first = Worlds(file)
    with first.change("w1") as document:
        document["shop"]["cart"]["WM-5521"] = {"qty": 1}
    first.close()
    second = Worlds(file)
    assert second.read("w1")["shop"]["cart"] == {"WM-5521": {"qty": 1}}
    second.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no database, but long enough to look at" * 10)
    with pytest.raises(sqlite3.DatabaseError):
        Worlds(str(file))
