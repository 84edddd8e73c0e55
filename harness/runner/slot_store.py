"""The store of a run in the process of a slot: it stores the directories of failed tasks before it reports them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache, partial
from pathlib import Path

from msgspec import Struct

from harness.resilience import Clock
from harness.resilience.breaker import Breaker, BreakerSettings, CircuitOpen, CircuitState
from harness.runner.stored_part import ERRORS, find_attempt
from harness.store import Store, StoreError, StoreUnusable

ASKED_WITHIN = 10.0
"""Seconds that the start of a slot waits for the store."""
PUT_WITHIN = 60.0
"""Seconds for the directory of a failed task to be stored."""
TRIED_WITHIN = 10.0
"""The same for a store that has not answered within that time before."""
RESTS = 60.0
"""Seconds for which such a store is not waited for at all."""
HANGS = (
    "the store has not taken its directory within {:g} s; until it does, this slot hardly waits for the store, and the "
    "machine that runs pytest stores the directories that have come there"
)


class StoredFolder(Struct, frozen=True):
    """What has become of a directory."""

    name: str = ""
    """Its place in the store; empty if the driver is to store it."""
    trouble: str = ""
    """What a person should know of the store; it is told once, and not again for each task."""


class SlotStore:
    """The store as one slot sees it, which may be another place than its driver's. One thread at a time uses it.

    A circuit breaker keeps a store that hangs from holding up each task that fails.
    """

    def __init__(self, store: Store, attempt: str, clock: Clock) -> None:
        """`store`: of the part. `attempt`: the name of what the run does of it."""
        self._store = store
        self._attempt = attempt
        self.check = cache(partial(find_attempt, store, attempt))
        """Raises StoreError unless this is certainly the store of the driver. Once it is, nothing is asked again."""
        settings = BreakerSettings(failure_threshold=1, success_threshold=1, reset_seconds=RESTS)
        self._circuit = Breaker("store", settings, now=clock.now)

    def refuse_other(self) -> None:
        """Raise StoreUnusable if this is certainly another store than the driver's. Bounded.

        If that is unknown, `check` is asked again before a write.
        """
        try:
            do_within(ASKED_WITHIN, self.check)
        except StoreUnusable:
            raise
        except (StoreError, TimeoutError):
            return

    def put(self, folder: Path, number: int) -> StoredFolder:
        """Store the directory of a task that has failed, before its report names it. Bounded.

        `number`: of the item's attempt, since one that was lost with its slot may have stored something too.
        """
        try:
            ticket = self._circuit.admit()
        except CircuitOpen:
            return StoredFolder()
        first, name = self._circuit.state is CircuitState.CLOSED, f"{ERRORS}/{self._attempt}.{number}/{folder.name}"

        def put() -> None:
            self.check()
            self._store.put_folder(folder, name)

        within = PUT_WITHIN if first else TRIED_WITHIN
        try:
            do_within(within, put)
            ticket.succeeded()
            return StoredFolder(name)
        except TimeoutError:
            ticket.failed("it did not answer")
            return StoredFolder(trouble=HANGS.format(within) if first else "")
        except StoreError:
            return StoredFolder()
        finally:
            ticket.released()


def do_within(seconds: float, work: Callable[[], None]) -> None:
    """Do something that may hang: on a thread that is left alone after so long.

    Raises TimeoutError, and what the work raises.
    """
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
            done.set_result(None)
        except Exception as error:  # noqa: BLE001 - it is raised below, on the thread that waits
            done.set_exception(error)

    threading.Thread(target=run, name="taskspec-store-put", daemon=True).start()
    done.result(seconds)
