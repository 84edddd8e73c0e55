"""A channel in a SQLite database that belongs to somebody else."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.environment.channels import Channels
from harness.model.channel_settings import ChannelSettings
from harness.recovery.failure import Failed
from tests.unit.conftest import examples

TABLE = """
CREATE TABLE memory_kv (key TEXT PRIMARY KEY, value TEXT, ts TEXT NOT NULL, source TEXT NOT NULL, confidence REAL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, lines TEXT);
INSERT INTO memory_kv VALUES ('orders.last', '{"id": "O-1"}', '2025-01-01', 'site', 1), ('a[b', '7777', '2025', 's', 1);
INSERT INTO orders VALUES (1, 'pen', '[1, 2]'), (2, 'ink', NULL);
"""
KEYED = {"sqlite": "app.db", "table": "memory_kv", "key": "key", "value": "value"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "app.db")) as db:
        db.executescript(TABLE)
    return tmp_path / "app.db"


def use(database: Path, table: dict[str, Any], act: Callable[[Channels], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        channels = Channels({"db": ChannelSettings(**table)}, hosts={}, root=database.parent)
        try:
            return await act(channels)
        finally:
            await channels.close()

    return asyncio.run(main())


def read(channels: Channels) -> Awaitable[Any]:
    return channels.read("db", "w")


def rows(database: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as db:
        return db.execute(query).fetchall()


def test_a_keyed_table_is_an_object_and_the_rows_of_another_a_list(database: Path) -> None:
    assert use(database, KEYED, read) == {"orders.last": {"id": "O-1"}, "a[b": "7777"}
    keyed = {"sqlite": "app.db", "table": "orders", "key": "id"}
    assert use(database, keyed, read)["1"] == {"id": 1, "item": "pen", "lines": [1, 2]}
    listed = use(database, {"sqlite": "app.db", "table": "orders"}, read)
    assert [row["item"] for row in listed] == ["pen", "ink"]
    assert sorted(use(database, {"sqlite": "app.db"}, read)) == ["memory_kv", "orders"]


def test_what_is_written_is_a_row_and_the_others_stay_as_they_are(database: Path) -> None:
    async def act(channels: Channels) -> None:
        await channels.put("db", "w", "new.key[0]", {"x": 1})
        await channels.put("db", "w", "orders.last", "O-2")

    before = rows(database, "SELECT * FROM memory_kv WHERE key = 'a[b'")
    use(database, KEYED, act)
    assert use(database, KEYED, read) == {"orders.last": "O-2", "a[b": "7777", "new.key[0]": {"x": 1}}
    assert rows(database, "SELECT * FROM memory_kv WHERE key = 'a[b'") == before
    assert rows(database, "SELECT source FROM memory_kv WHERE key = 'new.key[0]'") == [("taskspec",)]


def test_columns_that_hold_json_are_read_as_that_and_written_so(database: Path) -> None:
    values = {
        "a": 20.0,
        "b": "20",
        "c": True,
        "d": None,
        "e": "pen",
        "f": "NaN",
        "j": "1e999",
        "g": [1],
        "h": 3,
        "i": '"x"',
    }
    with closing(sqlite3.connect(database)) as db:
        db.execute("INSERT INTO memory_kv VALUES ('n', '300.0', '2025', 's', 1), ('yes', 'true', '2025', 's', 1)")
        db.execute("INSERT INTO memory_kv VALUES ('nan', 'NaN', '2025', 's', 1), ('deep', ?, '', 's', 1)", ["[" * 9999])
        db.commit()
    found = use(database, {**KEYED, "json": True}, read)
    assert (found["a[b"], found["n"], found["yes"], found["nan"]) == (7777, 300, True, "NaN")
    assert found["deep"] == "[" * 9999
    assert use(database, KEYED, read)["n"] == "300.0", "as before without the setting"
    use(database, {**KEYED, "json": True}, lambda channels: channels.restore("db", "w", values))
    assert use(database, {**KEYED, "json": True}, read) == values
    assert rows(database, "SELECT value FROM memory_kv WHERE key IN ('a', 'b', 'c', 'e') ORDER BY key") == [
        ("20.0",), ('"20"',), ("true",), ("pen",)
    ]  # fmt: skip


@settings(max_examples=examples(20), deadline=None)
@example(document={'""': 0, '{"a": 1}': [1]})
@example(document={"a": '""', "b": '{"c": 1}', "d": "[", "e": '"x'})
@given(
    document=st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda key: "\x00" not in key and key.isprintable()),
        st.integers(-5, 5)
        | st.text('"[]{}a', max_size=4)
        | st.lists(st.integers(0, 3), max_size=3)
        | st.dictionaries(st.text("ab", max_size=2), st.none()),
        max_size=5,
    )
)
def test_what_is_put_back_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]) -> None:
    database = tmp_path_factory.mktemp("db") / "app.db"
    with closing(sqlite3.connect(database)) as db:
        db.executescript(TABLE)
        db.execute("DROP TABLE memory_kv")
        db.execute("CREATE TABLE memory_kv (key TEXT PRIMARY KEY, value)")
    use(database, KEYED, lambda channels: channels.restore("db", "w", document))
    assert use(database, KEYED, read) == document


@pytest.mark.parametrize(
    ("table", "said"),
    {
        "no file": ({**KEYED, "sqlite": "none.db"}, "there is no such file"),
        "no table": ({**KEYED, "table": "nothing"}, "no such table"),
        "no column": ({**KEYED, "value": "valeu"}, "no column valeu (its columns: confidence, key, source, ts, value)"),
    }.values(),
)
def test_what_is_not_there_is_said(database: Path, table: dict[str, Any], said: str) -> None:
    with pytest.raises(Failed) as caught:
        use(database, table, read)
    assert said in str(caught.value.failure.message)
    assert not (database.parent / "none.db").exists()


def test_only_a_table_with_a_key_can_be_written(database: Path) -> None:
    table = {"sqlite": "app.db", "table": "orders"}
    assert use(database, table, lambda channels: channels.writable("db")) is False
    with pytest.raises(Failed, match="only a table with a `key` column can be written"):
        use(database, table, lambda channels: channels.restore("db", "w", []))
    with pytest.raises(Failed, match="read-only"):
        use(database, {**KEYED, "readonly": True}, lambda channels: channels.put("db", "w", "a", 1))


def test_a_failure_in_the_middle_writes_nothing(database: Path) -> None:
    before = rows(database, "SELECT * FROM orders")
    keyed = {"sqlite": "app.db", "table": "orders", "key": "id"}
    document = {"1": {"id": 1, "item": "changed", "lines": None}, "2": {"colour": "red"}}
    with pytest.raises(Failed, match="no column colour"):
        use(database, keyed, lambda channels: channels.restore("db", "w", document))
    assert rows(database, "SELECT * FROM orders") == before
