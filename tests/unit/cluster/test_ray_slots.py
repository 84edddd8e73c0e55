"""What is said when there is no Ray to connect with. The rest needs Ray: tests/acceptance/test_cluster.py."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster import ray_slots
from harness.cluster.driver import Down, News, Up
from harness.cluster.messages import BeatSeen, Idle, ReceiveBuffer, encode
from harness.cluster.place import ClusterPlace
from harness.cluster.ray_slots import AGAIN, BROKEN_FOR, ClusterError, RaySlots, cause, check
from tests.unit.cluster.simulation import Time


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


class Broken(OSError):
    """The connection to a slot that lives has broken."""


class Dead(OSError):
    """A slot has ended."""


class FakeSlot:
    """The far end of one slot. The first message to it is lost; it says something that is kept until it is known."""

    def __init__(self) -> None:
        self.told: ReceiveBuffer[tuple[int, bytes]] = ReceiveBuffer()
        self.heard: list[bytes] = []
        self.lost = 0
        self.begin, self.poll = self.call(lambda: "facts"), self.call(self.answer)
        self.tell = SimpleNamespace(remote=self.take)

    def call(self, answer: Callable[..., object]) -> Any:
        return SimpleNamespace(remote=lambda *given: lambda: answer(*given))

    def answer(self, heard: int) -> object:
        said = [(1, (encode(Idle(1)), b"")), (2, (encode(Idle(2)), b""))]
        return self.told.number, [each for each in said if each[0] > heard]

    def take(self, messages: list[tuple[int, tuple[int, bytes]]]) -> None:
        if self.lost:
            self.heard += [line for _, line in self.told.take(messages)]
        self.lost += 1


class Connection:
    """Stands in for Ray: a call is answered, or raises the next error if that is one."""

    exceptions = SimpleNamespace(RayError=OSError, ActorUnavailableError=Broken)

    def __init__(self, *errors: OSError | None) -> None:
        self.errors = list(errors)
        self.far = FakeSlot()

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def remote(self, **_: object) -> Any:
        options = SimpleNamespace(remote=lambda _: self.far)
        return lambda _: SimpleNamespace(options=lambda **_: options)

    def wait(self, waiting: list[object], **_: object) -> tuple[list[object], list[object]]:
        return waiting, []

    def get(self, called: Callable[[], object]) -> object:
        error = self.errors.pop(0) if self.errors else None
        answer = called()  # it is done in any case
        if error is not None:
            raise error
        return answer


def slots_over(monkeypatch: pytest.MonkeyPatch, connection: Connection, clock: Time) -> RaySlots:
    monkeypatch.setattr(ray_slots, "connected", lambda *_: connection)
    order: Any = str
    slots = RaySlots(ClusterPlace.parse("auto"), order, clock)
    slots.want(1)
    return slots


def news(slots: RaySlots, clock: Time, seconds: float) -> list[News]:
    """What is heard within this time, until the first slot is given up."""
    found: list[News] = []
    until = clock.now() + seconds
    while clock.now() < until and not any(isinstance(each.what, Down) for each in found):
        found += slots.wait(AGAIN / 2)
        clock.seconds += AGAIN / 2
    return found


def test_a_slot_that_has_ended_is_not_heard_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    slots = slots_over(monkeypatch, Connection(Dead("the actor died")), clock)
    assert news(slots, clock, 5) == [News("slot1", Down("the actor died"))]
    assert news(slots, clock, 5) == []
    slots.want(1)
    assert news(slots, clock, 1)[0].slot == "slot2"


def test_a_slot_whose_connection_broke_is_asked_again_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers that were lost with it are given again, and so is what it was told and did not take."""
    clock, error = Time(), Broken("the actor is temporarily unavailable")
    connection = Connection(error, None, error, error)
    slots = slots_over(monkeypatch, connection, clock)
    assert [type(each.what) for each in news(slots, clock, 2.5 * AGAIN)] == [Up]
    slots.start("slot1")
    slots.tell("slot1", BeatSeen(1))
    assert [each.what for each in news(slots, clock, 10 * AGAIN)] == [Idle(1), Idle(2)]
    assert connection.far.heard == [b"", encode(BeatSeen(1))]


def test_a_slot_whose_connection_stays_broken_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    slots = slots_over(monkeypatch, Connection(*[Broken("unavailable")] * 1000), clock)
    assert news(slots, clock, 10 * BROKEN_FOR) == [News("slot1", Down("unavailable"))]
    assert BROKEN_FOR <= clock.now() <= BROKEN_FOR + 2 * AGAIN


def test_nothing_of_ray_is_imported_with_the_module() -> None:
    code = "import sys, harness.cluster.ray_slots; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
