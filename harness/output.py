"""What foreign code prints and logs while its task runs before its turn: kept, and said when the turn has come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Output:
    """Of one task, in order. Nothing of it is lost or told twice, whichever thread speaks as the turn comes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[Callable[[], None]] = []
        self._turn = False

    def keep(self, say: Callable[[], None]) -> bool:
        """Keep something to be said later; False when the turn has come, and it can be said at once."""
        with self._lock:
            if not self._turn:
                self._kept.append(say)
            return not self._turn

    @property
    def early(self) -> bool:
        """Whether what is said now is kept."""
        return not self._turn

    def turn(self) -> Exception | None:
        """Say what was kept, on this thread; from now on nothing is kept.

        The first error of what could not be said: it is none of the task's, and the rest is said all the same.
        """
        first: Exception | None = None
        while True:
            with self._lock:  # not held while it is said: who speaks may hold a lock of `logging`
                kept, self._kept = self._kept, []
                self._turn = not kept
            if self._turn:
                return first
            for say in kept:
                error = _said(say)
                first = first or error


def _said(say: Callable[[], None]) -> Exception | None:
    """The edge to foreign code: a stream or a handler may raise anything."""
    try:
        say()
    except Exception as error:  # noqa: BLE001
        return error
    return None


_OUTPUT: ContextVar[Output | None] = ContextVar("taskspec_output", default=None)


@contextmanager
def kept_in(output: Output) -> Iterator[None]:
    """What is said in here, and by what is started in here, is this task's."""
    token = _OUTPUT.set(output)
    try:
        yield
    finally:
        _OUTPUT.reset(token)


def early() -> bool:
    """Whether what is said now comes from a task whose turn has not come."""
    output = _OUTPUT.get()
    return output is not None and output.early


def keep(say: Callable[[], None]) -> bool:
    """Keep something to be said when the turn of the task has come that speaks; False: nobody waits for a turn."""
    output = _OUTPUT.get()
    return output is not None and output.keep(say)
