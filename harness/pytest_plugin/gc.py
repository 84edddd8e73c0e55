"""Makes garbage collection rare while many task files are collected, since nearly all objects made then stay.

Python would examine all objects again and again as they grow: two fifths of the time of collecting 2,000 tasks.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from harness.pytest_plugin.collect import TaskFile

MANY = 100
"""The number of task files from which it pays; with fewer nothing is changed."""
RARE = 1_000_000
"""The number of objects that may be made between two collections, which is the most that may be garbage.

It is about what 10,000 tasks consist of.
"""


@contextmanager
def rarely() -> Iterator[bool]:
    """Make collections rare; yields False, and changes nothing, if the process has them off, or as rare already."""
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
    """Makes garbage collection rare in one session while it collects, from about its hundredth task file on."""

    def __init__(self, config: pytest.Config) -> None:
        self._collect_only = bool(config.getoption("collectonly"))
        self._files = 0
        """The files so far; without the first one, if this was loaded while that was collected."""
        self._rarely = ExitStack()
        self._changed = False
        self._frozen = False
        atexit.unregister(gc.freeze)
        config.add_cleanup(self._rarely.close)  # after a collection that did not finish
        config.add_cleanup(self._thaw)  # it runs after pytest's own last search for garbage

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        if not isinstance(collector, TaskFile):
            return
        self._files += 1
        if self._files == MANY - 1:
            self._changed = self._rarely.enter_context(rarely())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Free the garbage, and exempt all living objects from collections while tasks run."""
        self._rarely.close()
        if self._changed:
            gc.collect()
            gc.freeze()
            self._frozen = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """Undo it before pytest looks for garbage a last time and reports what was not closed.

        After `--collect-only` that is not needed.
        """
        if not self._collect_only:
            self._thaw()

    def _thaw(self) -> None:
        """Make collections normal again, since the process may go on."""
        if self._frozen:
            self._frozen = False
            gc.unfreeze()
            if self._collect_only:
                atexit.register(gc.freeze)
