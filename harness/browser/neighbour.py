"""Whether a Playwright server on a loopback port is a program of this machine, or only a port of a container."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

COMMAND = "run-server"


def serves_here(port: int) -> bool:
    """Whether a `run-server` that has the same files as we listens there. False also where that cannot be seen.

    Blocks for some ten milliseconds.
    """
    return any(_listens(process, port) for process in psutil.process_iter() if _is_server(process))


def _is_server(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return COMMAND in process.cmdline()
    return False


def _listens(process: psutil.Process, port: int) -> bool:
    with suppress(psutil.Error, OSError):
        there = process.net_connections("tcp")
        return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in there) and _here(process)
    return False


def _here(process: psutil.Process) -> bool:
    """A container that shares our network has another root folder."""
    roots = Path("/proc")
    return not roots.joinpath("self", "root").exists() or roots.joinpath(str(process.pid), "root").samefile("/")
