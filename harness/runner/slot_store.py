"""The store of a run in the process of a slot: it stores the directories of failed tasks before it reports them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from harness.runner.stored_part import ERRORS, find_attempt
from harness.store import Store, StoreError, StoreUnusable

PUT_WITHIN = 60.0
"""Seconds for the directory of a failed task to be stored."""


class SlotStore:
    """The store as one slot sees it, which may be another place than its driver's."""

    def __init__(self, store: Store, attempt: str) -> None:
        """`store`: of the part. `attempt`: the name of what the run does of it."""
        self._store = store
        self._attempt = attempt
        self.check = cache(partial(find_attempt, store, attempt))
        """Raises StoreError unless this is certainly the store of the driver. Once it is, nothing is asked again."""

    def refuse_other(self) -> None:
        """Raise StoreUnusable if this is certainly another store than the driver's.

        If that is unknown, `check` is asked again before a write.
        """
        try:
            self.check()
        except StoreUnusable:
            raise
        except StoreError:
            return

    def put(self, folder: Path, number: int) -> str:
        """Store the directory of a task that has failed, before its report names it. Bounded.

        `number`: of the item's attempt, since one that was lost with its slot may have stored something too. Returns
        the place; an empty text if the driver is to store it.
        """
        name = f"{ERRORS}/{self._attempt}.{number}/{folder.name}"

        def put() -> None:
            self.check()
            self._store.put_folder(folder, name)

        return name if is_stored_within(PUT_WITHIN, put) else ""


def is_stored_within(seconds: float, put: Callable[[], None]) -> bool:
    """Store something now, for so long at most; returns whether `put` has ended, and without a StoreError."""
    stored = threading.Event()

    def work() -> None:
        with contextlib.suppress(StoreError):
            put()
            stored.set()

    thread = threading.Thread(target=work, name="taskspec-store-put", daemon=True)
    thread.start()
    thread.join(seconds)
    return stored.is_set()
