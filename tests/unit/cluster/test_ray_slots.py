"""What is said when there is no Ray to connect with. The rest needs Ray: tests/acceptance/test_cluster.py."""

from __future__ import annotations

import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster import ray_slots
from harness.cluster.driver import Down, News
from harness.cluster.place import ClusterPlace
from harness.cluster.ray_slots import ClusterError, RaySlots, cause, check
from tests.unit.fakes import FakeClock


def test_without_ray_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_slots, "find_spec", lambda _: None)
    with pytest.raises(ClusterError, match=r"--task-cluster local:2 needs .* pip install 'pytest-taskspec\[ray\]'"):
        check(ClusterPlace.parse("local:2"))


def test_a_head_that_does_not_answer_is_named_with_what_was_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_slots, "find_spec", lambda _: object())
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=rf"nothing answers at 127.0.0.1:{port} .*ray start --head"):
            check(ClusterPlace.parse(f"127.0.0.1:{port}"))


def test_a_slot_that_could_not_start_says_the_error_and_not_who_had_it() -> None:
    start = "The actor died because of an error raised in its creation task, ray::_RaySlot.__init__()\n  Traceback\n"
    assert cause(RuntimeError(f"{start}ModuleNotFoundError: No module named 'harness'\n")).startswith("ModuleNotFound")
    died = "The actor died unexpectedly before finishing this task.\n\tclass_name: _RaySlot\n"
    assert cause(RuntimeError(died)) == "The actor died unexpectedly before finishing this task."


class Connection:
    """Stands in for Ray, with slots that all answer with an error."""

    exceptions = SimpleNamespace(RayError=OSError)

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def remote(self, **_: object) -> Any:
        called = SimpleNamespace(remote=lambda *_: "answer")
        actor = SimpleNamespace(begin=called, facts=called, poll=called)
        options = SimpleNamespace(remote=lambda _: actor)
        return lambda _: SimpleNamespace(options=lambda **_: options)

    def wait(self, waiting: list[object], **_: object) -> tuple[list[object], list[object]]:
        return waiting, []

    def get(self, _: object) -> object:
        raise OSError("the actor is temporarily unavailable")


def test_a_slot_whose_connection_broke_is_not_heard_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was on the way is lost, for example that it has done its batch; it would be waited for without an end."""
    monkeypatch.setattr(ray_slots, "connected", lambda *_: Connection())
    order: Any = str
    slots = RaySlots(ClusterPlace.parse("auto"), order, FakeClock())
    slots.want(1)
    assert slots.wait(0.1) == [News("slot1", Down("the actor is temporarily unavailable"))]
    assert slots.wait(0.1) == []
    slots.want(1)
    assert [each.slot for each in slots.wait(0.1)] == ["slot2"]


def test_nothing_of_ray_is_imported_with_the_module() -> None:
    code = "import sys, harness.cluster.ray_slots; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
