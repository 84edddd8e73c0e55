"""The files in which processes keep the states of their tool servers."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from harness.model.tools import ToolState
from harness.resilience.owner import Owner
from harness.tools.statefile import FOLDER, KeptState, ListedTool, StateFile, as_json, kept_states, order_restart


def state(server: str = "mail", owner: Owner | None = None, **facts: object) -> KeptState:
    told = {
        "place": "python -m mail", "stdio": True, "state": ToolState.ONLINE, "reason": "connected",
        "since": "2025-11-16T09:00:00+00:00", "run": "r1", **facts,
    }  # fmt: skip
    return msgspec.convert({"server": server, "owner": asdict(owner or Owner.this()), **told}, KeptState)


def test_what_a_process_has_written_is_read(tmp_path: Path) -> None:
    assert kept_states(tmp_path) == ()
    told = state(tools=[{"name": "get_code", "effect": "read"}])
    StateFile(tmp_path, "mail").write(told)
    assert kept_states(tmp_path) == (told,)
    assert kept_states(tmp_path)[0].tools == (ListedTool("get_code", "read"),)
    assert as_json(told)["alive"] is True
    assert [file.name for file in (tmp_path / FOLDER).iterdir()] == [f"mail.{os.getpid()}.state.json"]


def test_the_state_of_a_past_run_stays_until_the_next_one_uses_the_server(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    for server in ("mail", "shop"):
        past = state(server, owner=Owner(os.getpid(), 1.0))
        (folder / f"{server}.1.state.json").write_bytes(msgspec.json.encode(past))
    (folder / "mail.2.state.json").write_text("{", "utf-8")
    assert [(each.server, each.alive) for each in kept_states(tmp_path)] == [("mail", False), ("shop", False)]
    StateFile(tmp_path, "mail").write(state())
    assert [(each.server, each.alive) for each in kept_states(tmp_path)] == [("mail", True), ("shop", False)]


def test_an_order_to_restart_is_seen_once_by_each_who_was_there(tmp_path: Path) -> None:
    mine, others = StateFile(tmp_path, "mail"), StateFile(tmp_path, "mail")
    mine.write(state())
    assert not mine.restart_ordered()
    assert [each.owner.pid for each in order_restart(tmp_path, "mail")] == [os.getpid()]
    assert order_restart(tmp_path, "shop") == ()
    assert mine.restart_ordered()
    assert not mine.restart_ordered()
    assert others.restart_ordered()
    assert not StateFile(tmp_path, "mail").restart_ordered()
    order_restart(tmp_path, "mail")
    assert mine.restart_ordered()


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / ".harness").write_text("a file")
    StateFile(tmp_path, "mail").write(state())
    assert kept_states(tmp_path) == ()
