"""A slot: on its machine it keeps one pytest process, its child, and passes messages on. It knows nothing of Ray."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from msgspec import Struct

from harness.cluster.equality import NodeFacts, differences
from harness.cluster.messages import (
    ALLURE,
    Died,
    Done,
    Ended,
    FromSlot,
    Leaving,
    ReceiveBuffer,
    SendBuffer,
    encode,
    from_slot,
)
from harness.resilience import SystemClock
from harness.resilience.process import PipedChild, Program
from harness.values import replace

_CHILD = "harness.pytest_plugin.cluster_child"
"""The plugin that makes a pytest process a child."""
FOLDER = "TASKSPEC_SLOT_FOLDER"
"""The variable with the child's own folder."""
_PREFIX = "taskspec-slot-"
"""How the folder of a slot is called, before the number of its process."""
GRACE = 30.0
"""Seconds for a child to end after SIGTERM to its slot."""
_POLLED = 2.0
"""Seconds that a poll waits for the first message."""


class SlotOrder(Struct, frozen=True):
    """What a slot needs to begin."""

    name: str
    run: str
    like: NodeFacts
    """What the driver has."""
    root: str
    """The project's folder on the driver's machine."""
    start: str
    """The folder where pytest was started, relative to the project's."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    leave_out: tuple[str, ...]
    """Folders below the project's that a run writes to."""
    path: tuple[str, ...] = ()
    """Folders of the project from which the driver imports modules."""
    slots: int = 1
    """How many slots share the machine, as far as the driver knows."""


class ClusterSlot:
    """One slot. Its methods may be called from several threads."""

    def __init__(self, order: SlotOrder) -> None:
        self._order = order
        same = Path(order.root)
        self._root = same if same.is_dir() else Path.cwd()  # the same path as the driver's, or where this one began
        self._folder = own_folder(Path(tempfile.gettempdir()), _PREFIX)
        self._said: SendBuffer[tuple[bytes, bytes]] = SendBuffer()
        """The messages to the driver, each with the content of the file that it names."""
        self._told: ReceiveBuffer[tuple[int, bytes]] = ReceiveBuffer()
        self._saying, self._hearing = threading.Condition(), threading.Lock()
        self._child: PipedChild | None = None
        self._number = 0
        self._closed = False
        self._lock = threading.Lock()

    def begin(self) -> NodeFacts:
        """Say what this machine has. If it is what the driver has, the first child collects while the driver does."""
        found = NodeFacts.here(self._root, tuple(self._root / each for each in self._order.leave_out))
        if not differences(self._order.like, found):
            self.start(1)
        return found

    def start(self, number: int) -> None:
        """Start the child with this number, unless it has been started, or another one runs."""
        with self._lock:
            if self._child is None and number > self._number and not self._closed:
                self._number = number
                try:
                    self._child = self._spawn()
                except OSError as error:
                    self._say(Died(None, (f"its process did not start: {error}",)))
                    return
                threading.Thread(target=self._read, args=(self._child,), daemon=True).start()

    def tell(self, messages: Iterable[tuple[int, tuple[int, bytes]]]) -> None:
        """Take numbered messages of the driver, each with the number of the child that it is for.

        An empty one starts that child; others are passed on to it.
        """
        with self._hearing:
            for number, line in self._told.take(messages):
                if line:
                    self._pass_on(number, line)
                else:
                    self.start(number)

    def _pass_on(self, number: int, line: bytes) -> None:
        """Give a message to the child with this number; it is lost if another one runs, or none."""
        child = self._child
        if child is not None and number == self._number:
            with suppress(OSError, ValueError):
                stdin, _ = child.pipes
                stdin.write(line)
                stdin.flush()

    def poll(self, heard: int, within: float = _POLLED) -> tuple[int, list[tuple[int, tuple[bytes, bytes]]]]:
        """Wait for something to be said: the number of the last message that was taken, and what came since `heard`."""
        with self._saying:
            self._said.acknowledged(heard)
            self._saying.wait_for(lambda: self._said.kept, within)
            return self._told.number, self._said.kept

    def leave(self) -> None:
        """The machine is about to be taken away."""
        threading.Thread(target=self._say, args=(Leaving(),), daemon=True).start()  # a signal may come while it is said

    def _say(self, message: FromSlot, blob: bytes = b"") -> None:
        with self._saying:
            self._said.put((encode(message), blob))
            self._saying.notify_all()

    def close(self, grace: float = 3.0) -> None:
        """End the child and remove the folder. Bounded."""
        with self._lock:
            self._closed = True
            child, self._child = self._child, None
        if child is not None:
            asyncio.run(child.stop(grace))
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spawn(self) -> PipedChild:
        own = Path(tempfile.mkdtemp(prefix="child-", dir=self._folder))
        order = self._order
        arguments = [each.replace(order.root, str(self._root)) for each in order.arguments]
        environment = {**order.environment, FOLDER: str(own), "TASKSPEC_SLOT": order.name, "TASKSPEC_RUN": order.run}
        environment["PYTEST_XDIST_WORKER_COUNT"] = str(order.slots)
        environment |= self._search_path()
        command = [sys.executable, "-P", "-m", "pytest", "-p", _CHILD, *arguments]
        start = self._root / order.start
        program = Program(command, environment, start if start.is_dir() else self._root)
        return PipedChild(program, self._folder / "child.log", SystemClock())

    def _search_path(self) -> dict[str, str]:
        """PYTHONPATH with the folders of the project that the driver imports from."""
        own = [each.replace(self._order.root, str(self._root)) for each in self._order.path]
        given = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        folders = list(dict.fromkeys([*own, *given]))
        return {"PYTHONPATH": os.pathsep.join(folders)} if folders else {}

    def _read(self, child: PipedChild) -> None:
        _, stdout = child.pipes
        with suppress(OSError, ValueError):
            for line in stdout:
                with suppress(ValueError):  # it is no message: some program has written to the descriptor
                    self._say(*_with_content(from_slot(line)))
        self._over(child)

    def _over(self, child: PipedChild) -> None:
        code = asyncio.run(child.stop(1.0))
        with self._lock:
            mine = self._child is child
            self._child = None if mine else self._child
        if mine:
            self._say(Died(code, tuple(child.tail())))


def own_folder(place: Path, prefix: str) -> Path:
    """Make a folder of this process, and remove those of processes that were killed."""
    for folder in place.glob(f"{prefix}*"):
        pid = folder.name.removeprefix(prefix).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=place))


def _with_content(message: FromSlot) -> tuple[FromSlot, bytes]:
    """A message with the content of the file that it names; the file is removed."""
    if not isinstance(message, Done | Ended) or not message.files:
        return message, b""
    path = Path(message.files)
    try:
        return message, path.read_bytes()
    except OSError as error:
        lost = f"its files could not be read on the slot's machine: {error}"
        return (replace(message, lost=lost) if isinstance(message, Done) else message), b""
    finally:
        path.unlink(missing_ok=True)


def hears_sigterm(slot: ClusterSlot) -> None:
    """Let SIGTERM of this process mean that its machine is taken away. Only on the main thread."""

    def leave(_number: int, _frame: object) -> None:
        slot.leave()
        timer = threading.Timer(GRACE, os._exit, (0,))
        timer.daemon = True
        timer.start()

    with suppress(ValueError):
        signal.signal(signal.SIGTERM, leave)


# What tasks leave on the machine of a slot, as archives that travel to the driver.

MOST_BYTES = 64 * 2**20
"""The largest size of what a task leaves that travels; the largest files are left out first."""


class TaskArchives:
    """Packs the files below the folder of a child.

    The archives lie beside it, because the slot may read one after the end of the child.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: it has `errors` and `allure`."""
        self._folder = folder
        self._made = 0

    def pack(self, documents: Iterable[Mapping[str, Any]]) -> tuple[Path | None, str]:
        """Move the files of these task records, and Allure's new ones, into an archive, if any; say what it lacks."""
        found: dict[str, Path] = {}
        for key in dict.fromkeys(document["key"] for document in documents):
            found |= _files(self._folder / "errors" / key, f"{key}/errors")
            found |= _files(self._folder / "errors" / ".kept" / key, f"{key}/kept")
        found |= _files(self._folder / "allure", ALLURE)
        if not found:
            return None, ""
        self._made += 1
        archive = self._folder.with_name(f"{self._folder.name}-{self._made}.tar")
        try:
            kept, left_out = fitting(found, MOST_BYTES)
            with tarfile.open(archive, "w") as tar:
                for name, path in kept.items():
                    tar.add(path, name)
            return archive, f"these files were too large to travel: {', '.join(left_out)}" if left_out else ""
        except OSError as error:
            archive.unlink(missing_ok=True)
            return None, f"these files could not be packed ({error}): {', '.join(found)}"
        finally:
            for path in found.values():
                path.unlink(missing_ok=True)


def _files(folder: Path, name: str) -> dict[str, Path]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {f"{name}/{path.relative_to(folder).as_posix()}": path for path in found}


def fitting(files: dict[str, Path], most: int) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The files that together have at most so many bytes, and the names of the others: the largest ones."""
    sizes = {name: path.stat().st_size for name, path in files.items()}
    total, left_out = sum(sizes.values()), []
    for name in sorted(sizes, key=lambda each: sizes[each], reverse=True):
        if total <= most:
            break
        total -= sizes[name]
        left_out.append(name)
    return {name: path for name, path in files.items() if name not in left_out}, tuple(left_out)
