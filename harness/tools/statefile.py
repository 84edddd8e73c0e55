"""The states of tool servers in files, for people who look at a run and order restarts (`harness tools`)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from harness.model.tools import ToolState
from harness.resilience.owner import Owner
from harness.resilience.replaced import write_whole
from harness.spec.step_base import EffectClass

FOLDER = Path(".harness/tools")
"""The folder of the files, below the project's folder."""
_STATE = ".state.json"
_ORDER = ".restart"


class ListedTool(Struct, frozen=True):
    """A tool as its server has listed it last."""

    name: str
    effect: EffectClass
    """By the settings, else by the server's hints, else `write`."""
    description: str = ""
    allowed: bool = True


class KeptState(Struct, frozen=True):
    """What one process knows of one tool server."""

    server: str
    place: str
    """The command line, or the address."""
    stdio: bool
    """Whether the process has started it with `command`."""
    state: ToolState
    reason: str
    since: str
    """The time since which it is in this state, in ISO 8601."""
    run: str
    owner: Owner
    """The process that uses the server."""
    crashes: int = 0
    """Crashes of the last five minutes."""
    pid: int | None = None
    """The server's process."""
    introduced: str = ""
    """Name and version, as the server introduced itself."""
    protocol: str = ""
    """The revision of MCP."""
    tools: tuple[ListedTool, ...] = ()
    stale: bool = False
    """Whether the list of tools is older than the last recovery of the server."""

    @property
    def alive(self) -> bool:
        """Whether the process that wrote it still runs: otherwise this is how a past run has left it."""
        return self.owner.alive


class StateFile:
    """The file of one server in this process. It is written as a whole and replaced; nobody learns of a full disk."""

    def __init__(self, root: Path, server: str, slot: int = 0) -> None:
        """`root`: the project's folder. Each slot of a shared state may have a server of its own."""
        self._folder = root / FOLDER
        label = f"{server}[{slot + 1}]" if slot else server
        self._file = self._folder / f"{label}.{os.getpid()}{_STATE}"
        self._server = server
        self._begun = False
        self._order = self._folder / f"{server}{_ORDER}"
        self._seen = self._order_stamp()
        """Of the last order: orders that were given before this object was made do not count."""

    def write(self, state: KeptState) -> None:
        """Write the state. The first time, the files of processes that have ended are removed."""
        with contextlib.suppress(OSError):
            if not self._begun:
                self._folder.mkdir(parents=True, exist_ok=True)
                for file, kept in _states(self._folder):
                    if kept is None or (kept.server == self._server and not kept.alive):
                        file.unlink(missing_ok=True)
                self._begun = True
            write_whole(self._file, msgspec.json.encode(state))

    def restart_ordered(self) -> bool:
        """Whether a restart was ordered since this was last asked."""
        before, self._seen = self._seen, self._order_stamp()
        return self._seen != before

    def _order_stamp(self) -> tuple[int, int] | None:
        try:
            found = self._order.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino


def order_restart(root: Path, server: str) -> tuple[KeptState, ...]:
    """Order all processes that use the server to restart it; returns their states. Raises OSError.

    They do so within a second. Nothing is kept for later runs: they begin without crashes and refusals anyway.
    """
    using = tuple(each for each in kept_states(root) if each.server == server and each.alive)
    write_whole(root / FOLDER / f"{server}{_ORDER}", b"")
    return using


def kept_states(root: Path) -> tuple[KeptState, ...]:
    """The states of all servers: of processes that run (`alive`), and as the last runs have left them; by name."""
    found = [kept for _, kept in _states(root / FOLDER) if kept is not None]
    return tuple(sorted(found, key=lambda each: (each.server, not each.alive, each.owner.pid)))


def _states(folder: Path) -> Iterator[tuple[Path, KeptState | None]]:
    """The files and what they contain; None for a damaged one."""
    for file in sorted(folder.glob(f"*{_STATE}")) if folder.is_dir() else ():
        try:
            yield file, msgspec.json.decode(file.read_bytes(), type=KeptState)
        except FileNotFoundError:
            continue
        except (OSError, msgspec.MsgspecError):
            yield file, None


def as_json(state: KeptState) -> dict[str, Any]:
    """The state as plain JSON, with `alive`."""
    told: dict[str, Any] = msgspec.to_builtins(state)
    return {**told, "owner": state.owner.pid, "alive": state.alive}
