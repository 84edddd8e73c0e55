"""The slots of a Ray cluster: an actor for each, which Ray never restarts and whose calls it never repeats.

A connection may break, and what was under way is lost then. So messages are numbered and acknowledged, and what was not
is sent again, by calls that may come twice.

This is the only module that imports Ray, and only a run with `--task-cluster` imports it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.cluster.driver import Down, News, Up
from harness.cluster.lease import LEASE
from harness.cluster.messages import ReceiveBuffer, SendBuffer, ToChild, encode, from_slot
from harness.cluster.place import ClusterPlace
from harness.cluster.slot import ClusterSlot, SlotOrder, hears_sigterm, own_folder
from harness.resilience import Clock

_INSTALL = "pip install 'pytest-taskspec[ray]'"
_CONNECTS = 5.0
"""Seconds for a TCP connection to the head of a cluster."""
_NICENESS = "RAY_worker_niceness"
"""What Ray adds to the niceness of its workers, and so of a slot, its child and its browser: 15 by default."""
_EXPECTED = (
    "the address that `ray start --head` has printed, by default HOST:6379 (8265 and 10001 serve other purposes)"
)
_TRIES = "2"
"""How often Ray tries to speak with what answers at an address; one try takes 40 seconds."""
SHORT, PREFIX = "/tmp", "taskspec-ray-"  # noqa: S108 - mkdtemp makes the folder
"""Where a Ray that is started for a run has its files: it has sockets there, whose paths must be short."""
_RESOURCE = "browser"
"""The custom resource that limits the slots of a node, where a node declares it."""
_THREADS = 4
"""Calls that an actor answers at once: a poll waits, and must not hold up the others."""
AGAIN = 1.0
"""Seconds after which a slot whose connection broke is asked again."""
BROKEN_FOR = LEASE
"""Seconds for which that is tried: after these its lease is over."""


class ClusterError(Exception):
    """The cluster cannot be used; the message says why, and what to do."""


class _RaySlot(ClusterSlot):
    """A slot inside a Ray actor."""

    def __init__(self, order: SlotOrder) -> None:
        super().__init__(order)
        hears_sigterm(self)


class _Actor:
    """The driver's end of one slot."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.up = False
        self.told: SendBuffer[tuple[int, bytes]] = SendBuffer()
        self.heard: ReceiveBuffer[tuple[bytes, bytes]] = ReceiveBuffer()
        self.broken_since: float | None = None
        """When its connection broke; None: it works."""
        self.due = 0.0
        """When it is asked again after that."""
        self.expected = 0
        """The number of the last message that was told before it was asked."""
        self.children = 0
        """How many children it was told to start: what is meant for one must not reach the next."""
        self.silent = False
        """Whether it is dead for Ray."""
        self.waits: Any = None
        """The call whose answer is awaited: the facts first, then polls. None: it is asked again when it is due."""
        self.ask()

    def ask(self) -> None:
        """Ask for what is to be known next."""
        self.expected = self.told.number
        self.waits = self.handle.poll.remote(self.heard.number) if self.up else self.handle.begin.remote()

    def tell(self, line: bytes) -> None:
        """Tell its present child something, or nothing to start it."""
        self.handle.tell.remote([self.told.put((self.children, line))])

    def answers(self, taken: int) -> None:
        """It has taken all messages up to this one. If one from before the question is missing, it was lost."""
        self.broken_since = None
        self.told.acknowledged(taken)
        if taken < self.expected:
            self.handle.tell.remote(self.told.kept)

    def breaks(self, now: float) -> bool:
        """Its connection has broken; returns whether it is asked again."""
        self.broken_since = now if self.broken_since is None else self.broken_since
        self.waits, self.due = None, now + AGAIN
        return now - self.broken_since < BROKEN_FOR


class RaySlots:
    """The slots of one run. Its methods are called by one thread at a time, and it is made by one that outlives it.

    Linux ends the processes of Ray with the thread that has started them.
    """

    def __init__(self, place: ClusterPlace, order: Callable[[str], SlotOrder], clock: Clock) -> None:
        """Connect to the cluster, or start one on this machine. `order`: slot -> what it needs. Raises ClusterError."""
        self._order = order
        self._clock = clock
        self._actors: dict[str, _Actor] = {}
        self._made = 0
        self._folder = own_folder(Path(os.environ.get("RAY_TMPDIR", SHORT)), PREFIX) if place.local else None
        self._ray = connected(place, self._folder)
        self._kind = self._ray.remote(max_restarts=0, max_task_retries=0)(_RaySlot)
        self._resources = {_RESOURCE: 1} if _RESOURCE in self._ray.cluster_resources() else {}

    @property
    def places(self) -> int:
        """How many slots the cluster has room for now: its `browser` resources, else its processors."""
        found = self._ray.cluster_resources()
        return max(int(found.get(_RESOURCE, 0) or found.get("CPU", 1)), 1)

    def want(self, number: int) -> None:
        """Ask for as many slots; actors that wait for a machine are what makes an autoscaler start one."""
        living = sum(not each.silent for each in self._actors.values())
        for _ in range(number - living):
            self._made += 1
            name = f"slot{self._made}"
            options = {"num_cpus": 1, "resources": self._resources, "max_concurrency": _THREADS}
            self._actors[name] = _Actor(self._kind.options(**options).remote(self._order(name)))

    def wait(self, seconds: float) -> list[News]:
        for each in self._actors.values():
            if each.waits is None and not each.silent and each.due <= self._clock.now():
                each.ask()
        pending = {
            each.waits: name for name, each in self._actors.items() if not each.silent and each.waits is not None
        }
        if not pending:
            asyncio.run(self._clock.sleep(seconds))
            return []
        ready, _ = self._ray.wait(list(pending), num_returns=1, timeout=seconds)
        if ready:  # all others that have answered meanwhile
            ready, _ = self._ray.wait(list(pending), num_returns=len(pending), timeout=0)
        return [news for answer in ready for news in self._answered(pending[answer], answer)]

    def _answered(self, name: str, answer: Any) -> Iterator[News]:
        actor = self._actors.get(name)
        if actor is None:
            return
        try:
            value = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            lives = isinstance(error, self._ray.exceptions.ActorUnavailableError)
            if not (lives and actor.breaks(self._clock.now())):
                actor.silent = True
                yield News(name, Down(cause(error)))
            return
        if actor.up:
            taken, said = value
            actor.answers(taken)
            found = [News(name, from_slot(line), blob) for line, blob in actor.heard.take(said)]
        else:
            actor.up, actor.broken_since, found = True, None, [News(name, Up(value))]
        actor.ask()
        yield from found

    def start(self, name: str) -> None:
        """Start the child of a slot."""
        if (actor := self._actors.get(name)) is not None:
            actor.children += 1
            actor.tell(b"")

    def tell(self, slot: str, message: ToChild) -> None:
        actor = self._actors.get(slot)
        if actor is not None and not actor.silent:
            actor.tell(encode(message))

    def drop(self, slot: str) -> None:
        actor = self._actors.pop(slot, None)
        if actor is not None:
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(actor.handle)

    def close(self) -> None:
        """End all slots and leave the cluster; one that was started here ends."""
        closing = [each.handle.close.remote() for each in self._actors.values() if not each.silent]
        if closing:
            self._ray.wait(closing, num_returns=len(closing), timeout=8.0)
        for name in list(self._actors):
            self.drop(name)
        self._ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def check(place: ClusterPlace) -> None:
    """Raise ClusterError for what can be said at once: Ray is not installed, or nothing answers."""
    if find_spec("ray") is None:
        raise ClusterError(f"--task-cluster {place} needs the package ray, which is not installed: {_INSTALL}")
    if place.port is None:
        return
    try:
        with socket.create_connection((place.host, place.port), _CONNECTS):
            return
    except OSError as error:
        raise ClusterError(
            f"--task-cluster {place}: nothing answers at {place.host}:{place.port} ({error.strerror or error}). "
            f"Expected: {_EXPECTED}."
        ) from error


def connected(place: ClusterPlace, folder: Path | None) -> Any:
    """Ray, connected; `folder`: where a cluster that is started here has its files. Raises ClusterError."""
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", _TRIES)
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    if place.local:
        options |= {"num_cpus": place.local, "include_dashboard": False, "_temp_dir": str(folder)}
        os.environ.setdefault(_NICENESS, "0")  # else the tests wait for whatever else the machine does
    try:
        ray.init(address=place.address, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        expected = f" Expected: {_EXPECTED}." if place.port else ""
        raise ClusterError(f"--task-cluster {place}: {_first_line(error).rstrip('.')}.{expected}") from error
    return ray


def keep_signals() -> None:
    """Set the signal handlers of pytest and of this plugin again: Ray has put its own before them."""
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(ValueError):  # this is not the main thread
            signal.signal(number, signal.getsignal(number))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def cause(error: BaseException) -> str:
    """What a slot has ended with: the error of its start stands behind a whole traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines and "creation task" in lines[0] else _first_line(error)


def authenticates() -> bool:
    """Return whether the connected cluster asks for a token, so that nobody else can run code on its nodes."""
    raylet: Any = import_module("ray._raylet")
    try:
        return bool(raylet.get_authentication_mode() == raylet.AuthenticationMode.TOKEN)
    except AttributeError:  # another version of Ray
        return os.environ.get("RAY_AUTH_MODE") == "token"
