"""All processes of a session's browser; some of them may end while one looks at them."""

from __future__ import annotations

import contextlib

import psutil

from harness.browser import PlaywrightSession


def tree(session: PlaywrightSession) -> list[psutil.Process]:
    """The browser first."""
    root = psutil.Process(session.chromium.pid)
    return [root, *root.children(recursive=True)]


def words(process: psutil.Process) -> list[str]:
    """Its command line; empty when it has ended."""
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def signal_tree(session: PlaywrightSession, number: int) -> None:
    for process in tree(session):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def signal_renderers(session: PlaywrightSession, number: int) -> None:
    """Signal the processes of its pages only."""
    for process in tree(session):
        if "--type=renderer" in words(process):
            process.send_signal(number)


def gone(pid: int) -> bool:
    """Whether it runs no more; one that only waits to be reaped does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True
