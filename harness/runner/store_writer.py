"""Writes to the store of a run beside the tasks: one thread, again and again until the store takes it.

A store that fails does not stop the run. But no task begins to write before the store has taken that it does: otherwise
the process that goes on with the part could write a second time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness.model.events import Event
from harness.model.ledger import cut_off, words_of
from harness.model.plan import Plan
from harness.recovery.never_twice import WROTE
from harness.reporting.telemetry.stream import Sink
from harness.resilience import Clock
from harness.resilience.threads import on_own_thread
from harness.runner.stored_part import JOURNAL, RESULTS, wrote_name
from harness.store import Store, StoreError

PATIENCE = 10.0
"""Seconds that the first write of a task waits for the store."""
_PAUSE = 1.0
"""Seconds between two tries of that."""
_AGAIN = 5.0
"""Seconds after which a store that failed is tried again."""
_OFTEN = 30.0
"""Seconds between two looks for new Allure results."""
_Job = Callable[[], None]


class StoreWriter:
    """The thread that writes to the store of one part. Its methods return at once, but `flush`.

    Lines and notes come first: a large folder, or one that the store does not take, holds up no ends of other tasks.
    """

    def __init__(self, store: Store, attempt: str, clock: Clock, results: Path | None = None) -> None:
        """`results`: the folder of `--alluredir`."""
        self.problem = ""
        """The first thing that the store did not take."""
        self.left_out: list[str] = []
        """Files that could not be read, with the reason."""
        self._store = store
        self._journal = f"{JOURNAL}/{attempt}"
        self._clock = clock
        self._results = results
        self._looked = clock.now()
        self._known: dict[str, tuple[int, int]] = {}
        """Name of a stored Allure result -> its time and size then: it may have been half written."""
        self._small: deque[_Job | str] = deque()
        """Lines and notes, in order."""
        self._large: deque[_Job] = deque()
        """Folders and Allure results; one that fails goes to the end."""
        self._after: dict[str, list[str]] = {}
        """Name of a folder that is not stored yet -> the lines that name it."""
        self._unnoted: dict[str, None] = {}
        self._busy = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def tell(self, line: str, folder: str | None = None) -> None:
        """Append a line to the journal. If it names a folder that is still to be stored, that comes first."""
        with self._changed:
            after = self._after.get(folder or "")
            if after is not None:
                after.append(line)
        if after is None:
            self._add(self._small, line)
        if self._results is not None and self._clock.now() - self._looked >= _OFTEN:
            self.put_results()

    def put_folder(self, folder: Path, name: str) -> None:
        """Store a folder as it is when its turn comes."""
        with self._changed:
            self._after.setdefault(name, [])
        self._add(self._large, partial(self._put_folder, folder, name))

    def put_results(self) -> None:
        """Store the Allure results that are new or have changed."""
        if self._results is not None:
            self._looked = self._clock.now()
            self._add(self._large, partial(self._put_results, self._results))

    def note_write(self, task_id: str, attempt: str) -> None:
        """Note that a task was seen to write, unless somebody else has."""
        with self._changed:
            self._unnoted[task_id] = None
        self._add(self._small, partial(self._note, task_id, attempt))

    @property
    def unnoted(self) -> tuple[str, ...]:
        """Ids of the tasks that were seen to write, and of which the store does not know that yet."""
        with self._changed:
            return tuple(self._unnoted)

    def flush(self, seconds: float) -> bool:
        """Wait until everything is stored, at most so long; returns whether it is."""
        with self._changed:
            self._changed.notify_all()  # a store that failed is tried again now
            return self._changed.wait_for(lambda: not self._count(), timeout=seconds)

    @property
    def waiting(self) -> int:
        """The number of things that are not stored yet."""
        with self._changed:
            return self._count()

    def _count(self) -> int:
        return len(self._small) + len(self._large) + self._busy

    def _add(self, jobs: deque[Any], job: _Job | str) -> None:
        with self._changed:
            jobs.append(job)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="taskspec-store", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._small or self._large)
                small, taken = bool(self._small), self._take()
                self._busy = True
            try:
                if callable(first := taken[0]):
                    first()
                else:
                    self._store.append(self._journal, [str(line) for line in taken])
            except StoreError as error:
                self._give_back(taken, error, small=small)
            except OSError as error:  # of this machine: what cannot be read here does not keep the rest
                self.left_out.append(str(error))

    def _take(self) -> Sequence[_Job | str]:
        """The next job, or all lines up to the next one: they are stored together."""
        if not self._small:
            return [self._large.popleft()]
        taken = [self._small.popleft()]
        while isinstance(taken[0], str) and self._small and isinstance(self._small[0], str):
            taken.append(self._small.popleft())
        return taken

    def _give_back(self, taken: Sequence[_Job | str], error: StoreError, *, small: bool) -> None:
        """What failed is tried again after a while, or when `flush` asks for it."""
        self.problem = self.problem or str(error)
        with self._changed:
            if small:
                self._small.extendleft(reversed(taken))
            else:
                self._large.extend(job for job in taken if not isinstance(job, str))
            self._busy = False
            self._changed.wait(timeout=_AGAIN)

    def _put_folder(self, folder: Path, name: str) -> None:
        try:
            paths = sorted(folder.rglob("*"))
        except OSError as error:  # it has vanished
            self.left_out.append(str(error))
            paths = []
        for path in paths:
            if path.is_file() and not path.is_symlink():
                self._put_file(path, f"{name}/{path.relative_to(folder).as_posix()}")
        with self._changed:
            self._small.extend(self._after.pop(name, ()))

    def _put_file(self, path: Path, name: str) -> None:
        try:
            data = path.read_bytes()
        except OSError as error:
            self.left_out.append(f"{path}: {error.strerror or error}")
            return
        self._store.put(name, data)

    def _put_results(self, folder: Path) -> None:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file() and not path.is_symlink():
                state = (path.stat().st_mtime_ns, path.stat().st_size)
                if self._known.get(path.name) != state:
                    self._put_file(path, f"{RESULTS}/{path.name}")
                    self._known[path.name] = state

    def _note(self, task_id: str, attempt: str) -> None:
        self._store.put_new(wrote_name(task_id), attempt.encode())
        with self._changed:
            self._unnoted.pop(task_id, None)


class StoreLedger(Sink):
    """Lets a task of one process begin to write only when the store has taken that it does (`Ports.before_write`)."""

    name = "ledger of the store"

    def __init__(
        self, store: Store, attempt: str, clock: Clock, writer: StoreWriter, patience: float = PATIENCE
    ) -> None:
        """`store`: of the part. `patience`: seconds."""
        self._store, self._attempt, self._clock = store, attempt, clock
        self._writer, self._patience = writer, patience
        self._own: set[str] = set()
        """Ids of the tasks in which this process may write."""
        self._seen: set[str] = set()
        """Ids of the tasks that were seen to write."""

    async def before_write(self, plan: Plan) -> None:
        """Return when the store has taken that this task begins to write. Raises Failed: nothing was sent."""
        if plan.task_id in self._own:
            return
        why, until = "it did not answer", self._clock.now() + self._patience
        while (left := until - self._clock.now()) > 0:
            try:
                async with asyncio.timeout(left):
                    owner = await on_own_thread(self._claim, plan.task_id)
            except TimeoutError:
                break
            except StoreError as error:
                why = str(error)
                await self._clock.sleep(min(_PAUSE, left))
                continue
            if owner != self._attempt:
                raise cut_off(f"in another process of this part ({owner}) {WROTE}")
            self._own.add(plan.task_id)
            return
        within = f"within {self._patience:g} s"
        raise cut_off(f"{self._store.shown} did not take {within} that this task begins to write ({why})")

    def _claim(self, task_id: str) -> str:
        """The attempt that may write in the task: this one, unless there is another. Raises StoreError."""
        name = wrote_name(task_id)
        if self._store.put_new(name, self._attempt.encode()):
            return self._attempt
        return (self._store.get(name) or b"").decode("utf-8", "replace")

    def on_event(self, event: Event) -> None:
        """Note a write that was seen: a click that sent a request which writes."""
        task_id = event.plan.task_id
        if task_id not in self._own | self._seen and "wrote" in words_of(event, asks=True):
            self._seen.add(task_id)
            self._writer.note_write(task_id, self._attempt)
