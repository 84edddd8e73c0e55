"""Who listens on a port."""

from __future__ import annotations

import shlex

import psutil

SHOWN = 300
"""Characters of a command line that a message shows."""


def listening_pid(port: int) -> int | None:
    """The process that listens on the port of any address; None when there is none, or it cannot be seen."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS lets only root look at all connections at once
        return next((pid for pid in psutil.pids() if _listens(pid, port)), None)
    listening = (c for c in connections if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port)
    # psutil leaves the pid out for the processes of other users.
    return next((connection.pid for connection in listening if connection.pid), None)


def describe_listener(port: int) -> str:
    """`pid 123 (python -m http.server 8470)`, for a message."""
    pid = listening_pid(port)
    if pid is None:
        return "a process that cannot be seen from here"
    command = command_of(pid)
    return f"pid {pid} ({command})" if command else f"pid {pid}"


def command_of(pid: int | None) -> str:
    """The command line of a process, at most 300 characters; empty when it cannot be seen."""
    try:
        return shlex.join(psutil.Process(pid).cmdline())[:SHOWN] if pid is not None else ""
    except psutil.Error:
        return ""


def owns_port(pid: int, port: int) -> bool:
    """Whether the process, or one below it, listens on the port."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return False
    return any(_listens(member, port) for member in (pid, *(child.pid for child in children)))


def _listens(pid: int, port: int) -> bool:
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port for c in connections)
