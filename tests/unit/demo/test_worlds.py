"""The store of worlds."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.demo.worlds import DEFAULT_WORLD, Worlds


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


def test_the_world_of_those_who_name_none_starts_anew(tmp_path: Path, seed: dict[str, Any]) -> None:
    file = str(tmp_path / "worlds.db")
    first = Worlds(file)
    first.replace(DEFAULT_WORLD, {})
    first.close()
    second = Worlds(file)
    assert second.ids() == []
    assert second.read(DEFAULT_WORLD) == seed
    second.close()


KILLED = """
import os, signal, sys
from harness.demo.worlds import Worlds
worlds = Worlds(sys.argv[1])
with worlds.change("done") as document:
    document["shop"]["cart"]["WM-5521"] = {"qty": 3}
with worlds.change("open") as document:
    document["shop"]["cart"]["WM-5521"] = {"qty": 3}
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_stored_survives_sigkill(tmp_path: Path, seed: dict[str, Any]) -> None:
    file = str(tmp_path / "worlds.db")
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", KILLED, file], cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    worlds = Worlds(file)
    assert worlds.read("done")["shop"]["cart"] == {"WM-5521": {"qty": 3}}
    assert worlds.read("open") == seed
    worlds.close()


def test_a_file_that_is_no_database_is_put_aside(tmp_path: Path) -> None:
    file, text = tmp_path / "notes.txt", "no database, but long enough to look at" * 10
    file.write_text(text)
    worlds = Worlds(str(file))
    assert worlds.read("w1")["shop"]["cart"] == {}
    worlds.close()
    assert (tmp_path / "notes.txt.broken").read_text() == text


def test_a_damaged_database_is_put_aside(tmp_path: Path, seed: dict[str, Any]) -> None:
    file = tmp_path / "worlds.db"
    first = Worlds(str(file))
    first.replace("w1", {})
    first.close()
    content = bytearray(file.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    file.write_bytes(content)
    worlds = Worlds(str(file))
    assert worlds.read("w1") == seed
    worlds.close()
    assert (tmp_path / "worlds.db.broken").read_bytes() == content


def test_a_database_of_another_layout_is_put_aside(tmp_path: Path, seed: dict[str, Any]) -> None:
    file = tmp_path / "worlds.db"
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE worlds (something TEXT)")
    worlds = Worlds(str(file))
    assert worlds.read("w1") == seed
    worlds.close()
    with contextlib.closing(sqlite3.connect(f"{file}.broken")) as kept:
        assert kept.execute("SELECT count(*) FROM worlds").fetchone() == (0,)


def test_a_file_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        Worlds(str(tmp_path / "no" / "such.db"))
