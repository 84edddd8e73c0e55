"""A slot starts its first child by itself if its machine is like the driver's, and each child once."""

from __future__ import annotations

import os
import subprocess
import sys
from errno import ENOSPC
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from harness.cluster import slot
from harness.cluster.equality import NodeFacts
from harness.cluster.messages import Died, from_slot
from harness.cluster.slot import ClusterSlot, SlotOrder, own_folder
from harness.values import replace


class SilentChild:
    """A child that says nothing, and ends when it is told to."""

    def __init__(self) -> None:
        self.ends = Event()
        self.heard = BytesIO()
        self.pipes: tuple[Any, Any] = (self.heard, self)

    def __iter__(self) -> SilentChild:
        return self

    def __next__(self) -> bytes:
        self.ends.wait(10)
        raise StopIteration

    async def stop(self, grace: float) -> int:
        self.ends.set()
        return 1

    def tail(self) -> list[str]:
        return []


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[SilentChild]:
    """The children that slots have started."""
    found: list[SilentChild] = []

    def spawn(*_: object) -> SilentChild:
        found.append(SilentChild())
        return found[-1]

    monkeypatch.setattr(slot, "PipedChild", spawn)
    return found


def slot_of(root: Path, like: NodeFacts) -> ClusterSlot:
    return ClusterSlot(SlotOrder("slot1", "run", like, str(root), ".", (), {}, ()))


def test_a_child_starts_with_the_slot_if_its_machine_is_like_the_drivers(
    tmp_path: Path, children: list[SilentChild]
) -> None:
    (tmp_path / "a.task.yaml").write_text("task_id: A\n", "utf-8")
    here = NodeFacts.here(tmp_path)
    slot = slot_of(tmp_path, replace(here, files={}))
    assert slot.begin() == here
    assert len(children) == 1
    slot.start(1)  # the driver asks for it, since it cannot know
    assert len(children) == 1
    slot.close()


def test_a_child_that_has_died_is_started_again_only_by_its_next_number(
    tmp_path: Path, children: list[SilentChild]
) -> None:
    slot = slot_of(tmp_path, NodeFacts.here(tmp_path))
    slot.begin()
    children[0].ends.set()
    _, ((number, (line, _)),) = slot.poll(0, 10.0)
    assert (number, b'"died"' in line) == (1, True)
    assert slot.poll(0, 10.0) == (0, [(1, (line, b""))])  # the answer before was lost
    assert slot.poll(1, 0.0) == (0, [])
    slot.start(1)  # the driver has not heard of the death yet
    assert len(children) == 1
    slot.start(2)
    assert len(children) == 2
    slot.close()


def test_messages_that_come_twice_or_too_early_reach_the_child_once_and_in_order(
    tmp_path: Path, children: list[SilentChild]
) -> None:
    slot = slot_of(tmp_path, replace(NodeFacts.here(tmp_path), project="another"))
    start, first, second = (1, (1, b"")), (2, (1, b"first\n")), (3, (1, b"second\n"))
    for messages in ([second], [start], [start, first], [first, second], [(4, (2, b"for the next child\n"))]):
        slot.tell(messages)
    assert slot.poll(0, 0.0) == (4, [])
    assert (len(children), children[0].heard.getvalue()) == (1, b"first\nsecond\n")
    slot.close()


def test_a_child_whose_process_cannot_start_has_died(
    tmp_path: Path, children: list[SilentChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> SilentChild:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(slot, "PipedChild", full)
    made = slot_of(tmp_path, NodeFacts.here(tmp_path))
    made.tell([(1, (1, b""))])
    _, [(_, (line, _))] = made.poll(0)
    made.close()
    assert from_slot(line) == Died(None, ("its process did not start: [Errno 28] No space left on device",))


def test_no_child_starts_on_a_machine_that_differs(tmp_path: Path, children: list[SilentChild]) -> None:
    slot = slot_of(tmp_path, replace(NodeFacts.here(tmp_path), project="another"))
    slot.begin()
    assert children == []
    slot.close()


def test_the_folders_of_processes_that_were_killed_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f"slot-{ended.pid}-x", f"slot-{os.getpid()}-x", f"other-{ended.pid}-x", "slot-x"):
        (tmp_path / name).mkdir()
    own = own_folder(tmp_path, "slot-")
    kept = {f"slot-{os.getpid()}-x", f"other-{ended.pid}-x", "slot-x", own.name}
    assert {each.name for each in tmp_path.iterdir()} == kept
    assert own.name.startswith(f"slot-{os.getpid()}-")
