"""Channels in what a service keeps: each slot reads its own, wherever its service is at that moment."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.environment.channel import SlotPlaceholders
from harness.environment.channels import Channels
from harness.model.channel_settings import ChannelSettings

CODE = """
import json

class State:
    def read(self, world, **told):
        return {"world": world, **told}

    async def write(self, world, document, where, **told):
        with open(f"{where['folder']}/written.json", "w") as file:
            json.dump([world, document, told], file)
"""
TABLE = {
    "file": ChannelSettings(file="{folder}/state.json"),
    "named": ChannelSettings(file="{folder:Lib}/state-{slot}.json"),
    "db": ChannelSettings(sqlite="{folder:lib}/app.db", table="t"),
    "code": ChannelSettings(
        python="placeholders_under_test:State",
        arguments={"where": {"folder": "{folder}"}, "port": "{port:Lib.test}", "slots": ["{slot}", "{{slot}}"]},
    ),
}


async def test_each_slot_reads_its_own_and_a_service_may_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "placeholders_under_test.py").write_text(CODE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in "abc":
        (tmp_path / name).mkdir()
        for file in ("state.json", "state-0.json", "state-1.json"):
            (tmp_path / name / file).write_text(json.dumps(f"{name} {file}"), "utf-8")
        with closing(sqlite3.connect(tmp_path / name / "app.db")) as db:
            db.executescript(f"CREATE TABLE t (x); INSERT INTO t VALUES ('{name}')")
    now = [tmp_path / "a", tmp_path / "b"]

    def channels(slot: int) -> Channels:
        places = SlotPlaceholders(slot, {"lib.test": 8000 + slot}, {"Lib": lambda: now[slot]})
        return Channels(TABLE, hosts={}, root=tmp_path, places=places)

    zero, one = channels(0), channels(1)
    found = [await each.read(name, "w") for each in (zero, one) for name in ("file", "named", "db")]
    assert found == ["a state.json", "a state-0.json", [{"x": "a"}], "b state.json", "b state-1.json", [{"x": "b"}]]
    told: dict[str, Any] = {"where": {"folder": str(now[1])}, "port": "8001", "slots": ["1", "{slot}"]}
    assert await one.read("code", "w1") == {"world": "w1", **told}
    now[1] = tmp_path / "c"
    assert await one.read("file", "w") == "c state.json"
    await one.restore("code", "w1", {"a": 1})
    assert json.loads((tmp_path / "c" / "written.json").read_text()) == [
        "w1", {"a": 1}, {"port": "8001", "slots": ["1", "{slot}"]},
    ]  # fmt: skip
    rest = one.without({"file", "code"})
    assert rest.names == ("named", "db")
    assert one.names == tuple(TABLE)
    await asyncio.gather(zero.close(), one.close())
