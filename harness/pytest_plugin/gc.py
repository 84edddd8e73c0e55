"""Makes garbage collection rare while a session loads its modules and task files, since nearly all of it stays.

Python would examine all objects again and again as they grow, and twice more at the end: a fifth of the processor time
of a run of one task, and two fifths of the time of collecting 2,000 tasks.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

MANY = 100
"""The number of tests from which the garbage of their collection is worth a search."""
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
    """Makes garbage collection rare until the tests begin, and exempts from it what exists then.

    Only while Python tests run in this process too, all is examined again at the end, as pytest does to report what
    tests left open. Otherwise that is spared, and so is the search when the process ends. The plugin that registers
    this one has `end` called after pytest's own last search, also after a collection that did not finish.
    """

    def __init__(self) -> None:
        self._python_tests = False
        self._rarely = ExitStack()
        self._changed = self._rarely.enter_context(rarely())
        self._frozen = False
        atexit.unregister(gc.freeze)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Exempt all living objects from collections. The controller of xdist has no tests."""
        self._rarely.close()
        if not session.config.getoption("collectonly"):
            from harness.pytest_plugin.selection import task_items  # it was loaded with the first task

            self._python_tests = len(task_items(session.items)) < len(session.items)
        if self._changed:
            if len(session.items) >= MANY:
                gc.collect()
            gc.freeze()
            self._frozen = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        if self._python_tests:
            self._thaw()

    def end(self) -> None:
        """Make collections normal again, since the process may go on."""
        self._rarely.close()
        self._thaw()

    def _thaw(self) -> None:
        if self._frozen:
            self._frozen = False
            gc.unfreeze()
            if not self._python_tests:
                atexit.register(gc.freeze)
