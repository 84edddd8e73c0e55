"""Garbage collection is rare while many task files are collected: of what is made then, nearly all stays.

Python looks through all that is alive again and again as it grows: two fifths of the time of collecting 2,000 tasks.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from harness.pytest_plugin.collect import TaskFile

MANY = 100
"""Task files from which on it pays; with fewer nothing is changed."""
RARE = 1_000_000
"""Objects that may be made and not freed between two looks for cycles: what may be garbage, at most. About as many as
10,000 tasks are made of."""


@contextmanager
def rarely() -> Iterator[bool]:
    """False, and nothing is changed, in a process that has its own way: garbage collection off, or as rare already."""
    usual = gc.get_threshold()
    if not gc.isenabled() or not 0 < usual[0] < RARE:
        yield False
        return
    gc.set_threshold(RARE, *usual[1:])
    try:
        yield True
    finally:
        gc.set_threshold(*usual)


class RareGarbage:
    """Of one session: while it collects, from its hundredth task file on."""

    def __init__(self, config: pytest.Config) -> None:
        self._collect_only = bool(config.getoption("collectonly"))
        self._files = 0
        self._rarely = ExitStack()
        self._changed = False
        self._frozen = False
        atexit.unregister(gc.freeze)
        config.add_cleanup(self._thaw)  # runs after pytest's own last look for garbage, whose cleanup comes later

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        if not isinstance(collector, TaskFile):
            return
        self._files += 1
        if self._files == MANY:
            self._changed = self._rarely.enter_context(rarely())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        try:
            with self._rarely:
                return (yield)
        finally:
            self._freeze()

    def _freeze(self) -> None:
        """What is alive now is not looked at again while tasks run. What is garbage is freed first."""
        if self._changed:
            gc.collect()
            gc.freeze()
            self._frozen = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """Before pytest looks for garbage a last time, and tells what was not closed. Of items that never ran it need
        not be asked."""
        if not self._collect_only:
            self._thaw()

    def _thaw(self) -> None:
        """The process may live on. One that ends after `--collect-only` need not take apart what it has."""
        if self._frozen:
            self._frozen = False
            gc.unfreeze()
            if self._collect_only:
                atexit.register(gc.freeze)
