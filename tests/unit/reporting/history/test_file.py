"""Files that are no history, newer, damaged or in use: named, and never harmed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.history.file import (
    HISTORY,
    KIND,
    BrokenFileError,
    HistoryError,
    open_writing,
    place_of,
    put_aside,
    reading,
)
from harness.reporting.history.reading import load_run, recent_runs
from harness.reporting.history.writing import save_run
from tests.unit.reporting.history.runs import run


def told(root: Path) -> str:
    """The same to who reads and who writes."""
    with pytest.raises(HistoryError) as read:
        load_run(root)
    with pytest.raises(HistoryError) as written:
        save_run(root, run())
    assert str(read.value) == str(written.value)
    return str(read.value)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".harness").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_its_schema_is_in_the_file(root: Path) -> None:
    save_run(root, run())
    with closing(sqlite3.connect(root / HISTORY)) as database:
        facts = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")]
        assert [*facts, database.execute("PRAGMA journal_mode").fetchone()[0]] == [KIND.schema, KIND.application, "wal"]


def test_no_history_yet(root: Path) -> None:
    with pytest.raises(HistoryError, match=r"^\.harness/history\.sqlite3: no history yet; a run of pytest"):
        recent_runs(root)
    assert not (root / HISTORY).exists()


@pytest.mark.parametrize("version", [KIND.schema - 1, KIND.schema + 1])
def test_another_schema_is_left_as_it_is(root: Path, version: int) -> None:
    save_run(root, run())
    with closing(sqlite3.connect(root / HISTORY)) as database:
        database.execute(f"PRAGMA user_version = {version}")
    before = (root / HISTORY).read_bytes()
    text = told(root)
    assert f"has schema {version}, and this version of pytest-taskspec knows {KIND.schema}. It is left as it is" in text
    assert "move the file away to begin a new history" in text
    assert (root / HISTORY).read_bytes() == before


def test_a_database_of_something_else(root: Path) -> None:
    with closing(sqlite3.connect(root / HISTORY)) as database:
        database.execute("CREATE TABLE cookies (name)")
    assert "expected the history of runs, found a database of something else" in told(root)


def test_no_database_at_all(root: Path) -> None:
    (root / HISTORY).write_text("a diary, not a database" * 100, "utf-8")
    assert "the history is damaged (file is not a database)" in told(root)


def test_cut_off_in_the_middle(root: Path) -> None:
    save_run(root, run())
    data = (root / HISTORY).read_bytes()
    (root / HISTORY).write_bytes(data[: len(data) // 2])
    with pytest.raises(BrokenFileError):
        load_run(root)


def test_the_broken_is_put_aside_and_kept(root: Path) -> None:
    (root / HISTORY).write_bytes(b"x" * 5000)
    (root / ".harness" / "history.sqlite3-wal").write_bytes(b"y")
    line = put_aside(root, "20251116T090000-1")
    away = "history.sqlite3.broken-20251116T090000-1"
    assert line == f".harness/history.sqlite3 was damaged: it is kept as {away}, and a new history begins"
    assert (root / ".harness" / away).read_bytes() == b"x" * 5000
    assert (root / ".harness" / f"{away}-wal").read_bytes() == b"y"
    save_run(root, run())
    assert load_run(root).run == run().run


def test_a_folder_in_its_place(root: Path) -> None:
    (root / HISTORY).mkdir()
    with pytest.raises(HistoryError, match="the history cannot be used: unable to open database file"):
        save_run(root, run())
    with pytest.raises(HistoryError, match="no history yet"):
        load_run(root)


def test_a_file_in_the_place_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / ".harness").write_text("", "utf-8")
    with pytest.raises(HistoryError, match="the history cannot be kept here: "):
        save_run(tmp_path, run())


def test_an_empty_file_is_a_new_one(root: Path) -> None:
    (root / HISTORY).touch()
    save_run(root, run())
    assert load_run(root).run == run().run


def test_read_where_nothing_can_be_written(root: Path) -> None:
    """SQLite wants to make a file beside it; the folder of a CI system's artifact may not allow that."""
    save_run(root, run())
    (root / ".harness" / "history.sqlite3-shm").mkdir()
    assert load_run(root).run == run().run


def test_of_an_artifact_without_its_hidden_folder(root: Path) -> None:
    save_run(root, run())
    (root / HISTORY).rename(root / "history.sqlite3")
    assert place_of(root) == root / "history.sqlite3"
    assert load_run(root).run == run().run


def test_readers_while_a_run_writes(root: Path) -> None:
    save_run(root, run())
    with closing(open_writing(root / HISTORY)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM runs")
        assert load_run(root).run == run().run
        writer.execute("COMMIT")
    assert recent_runs(root) == ()


def test_two_writers(root: Path) -> None:
    with closing(open_writing(root / HISTORY)) as one:
        one.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"), closing(open_writing(root / HISTORY, 0)) as two:
            two.execute("BEGIN IMMEDIATE")
    save_run(root, run())
    assert load_run(root).run == run().run


def test_a_reader_writes_nothing(root: Path) -> None:
    save_run(root, run())
    with pytest.raises(HistoryError, match="readonly"), reading(root / HISTORY) as database:
        database.execute("DELETE FROM runs")
    assert load_run(root).run == run().run


def test_a_document_of_another_version(root: Path) -> None:
    save_run(root, run())
    with closing(sqlite3.connect(root / HISTORY)) as database, database:
        database.execute("UPDATE runs SET document = '{}'")
    with pytest.raises(HistoryError, match="run 20251116T090000-4711: its record in the history cannot be read"):
        load_run(root)


def test_a_disk_that_is_full_while_the_file_is_looked_at_is_what_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite has ended the transaction by itself."""

    class Full(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if "application_id" in sql:
                super().execute("ROLLBACK")
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(sql, *values)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Full))
    with pytest.raises(HistoryError, match="database or disk is full"):
        save_run(root, run())
