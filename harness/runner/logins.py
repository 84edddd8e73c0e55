"""Logins that tasks share: made once per run and state of the site, checked before each use, made anew when over."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from harness.browser import StorageState
from harness.model.plan import Plan, ReadyLogin
from harness.model.ports import Archive, Evidence, Snapshot
from harness.model.record import TaskResult
from harness.model.report import ErrorReport
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.resilience.events import Emit, LoginMade, discard
from harness.spec.names import slug

POLL = 0.1
"""Seconds between two attempts to get the lock of a login."""
TRIES = 2
"""How often a login is tried in a process; after that, the tasks that need it fail at once."""

Play = Callable[[Plan, StorageState | None], Awaitable[tuple[TaskResult, StorageState | None]]]
"""Plays a plan in a browser with this storage; returns the result, and the storage at the end, if it can be read."""


class Logins:
    """The logins of one process. Processes of the same run share them through files, under a lock each."""

    def __init__(self, kept: Path, of_run: Path, clock: Clock, tell: Emit = discard) -> None:
        """`kept` is the folder of logins for later runs, `of_run` that of the logins of this run."""
        self._kept, self._of_run = kept, of_run
        self.of_episode: dict[str, str] = {}
        """World of an episode -> the login of its last task that passed and named one."""
        self._clock = clock
        self._tell = tell
        self._failures: Counter[str] = Counter()
        self._failed: dict[str, Failure] = {}

    async def storage(self, login: ReadyLogin, place: str, play: Play) -> StorageState:
        """The browser storage of someone who is logged in. Raises Failed(LOGIN_FAILED).

        `place` is the state of the site for which the login is: its slot, or a world.
        """
        file = self._file(login, place)
        known = _read(file)
        if known is not None and (valid := await self._checked(login, known, file, play)):
            return valid
        async with self._alone(file):
            made = _read(file)  # another process may have made it while this one waited
            if made is not None and made != known and (valid := await self._checked(login, made, file, play)):
                return valid
            if self._failures[file.name] >= TRIES:
                raise Failed(self._failed[file.name])
            return await self._made(login, file, play, "it was over" if known else "there was none")

    async def _made(self, login: ReadyLogin, file: Path, play: Play, why: str) -> StorageState:
        """Log in, check it, and keep it. Raises Failed."""
        begun = self._clock.now()
        try:
            result, storage = await play(login.plan, None)
            if not result.ok or storage is None:
                raise Failed(_not_logged_in(login, result))
            checked, _ = await play(login.check, storage)
            if not checked.ok:
                raise Failed(_does_not_hold(login, checked))
        except Failed as failed:
            self._failures[file.name] += 1
            self._failed[file.name] = failed.failure
            raise
        self._failures.pop(file.name, None)
        _write(file, storage)
        self._tell(LoginMade(login.name, round(self._clock.now() - begun, 3), why))
        return storage

    async def _checked(self, login: ReadyLogin, known: StorageState, file: Path, play: Play) -> StorageState | None:
        """The storage after a visit of the page that shows whether the login is valid; None if it is not.

        The visit may have changed it: sites renew their cookies.
        """
        result, storage = await play(login.check, known)
        if not result.ok:
            return None
        if storage is not None and storage != known:
            _write(file, storage)
        return storage or known

    def _file(self, login: ReadyLogin, place: str) -> Path:
        name = hashlib.sha256(f"{login.digest} {place}".encode()).hexdigest()[:12]
        return (self._kept if login.keep else self._of_run) / f"{slug(login.name)}-{name}.json"

    @asynccontextmanager
    async def _alone(self, file: Path) -> AsyncIterator[None]:
        """Hold the lock of a login, which all processes of this machine share."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.with_suffix(".lock").open("a") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await self._clock.sleep(POLL)
            yield

    def close(self) -> None:
        """Delete the logins of this run; those that are kept for later runs stay."""
        shutil.rmtree(self._of_run, ignore_errors=True)


class NoArtifacts(Struct, frozen=True):
    """The archive of a check: a login that is over is no failure, so it leaves nothing (ports.Archive)."""

    archive: Archive

    def scratch(self, plan: Plan) -> Path:
        return self.archive.scratch(plan)

    def keep(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> Path:
        del result, report, state
        self.archive.skipped(plan)
        return evidence.folder

    def skipped(self, plan: Plan) -> None:
        self.archive.skipped(plan)

    def passed(self, plan: Plan, result: TaskResult) -> None:
        del result
        self.archive.skipped(plan)


def _read(file: Path) -> StorageState | None:
    """The storage in a file; None if there is none, or if it is damaged."""
    with suppress(OSError, ValueError):
        found: StorageState = json.loads(file.read_text("utf-8"))
        return found
    return None


def _write(file: Path, storage: StorageState) -> None:
    """Write a file that only this user can read, by a rename, so that nobody reads a half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}.new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
        json.dump(storage, out)
    temporary.replace(file)


def _not_logged_in(login: ReadyLogin, result: TaskResult) -> Failure:
    reason = result.failure.message if result.failure else "the browser could not be read at its end"
    place = f" (its artifacts are in {result.artifacts.name})" if result.artifacts else ""
    details = {"login": login.name, "code": result.failure.code if result.failure else None}
    return Failure("LOGIN_FAILED", f"Login `{login.name}` failed: {reason}{place}", details=details)


def _does_not_hold(login: ReadyLogin, result: TaskResult) -> Failure:
    reason = result.failure.message if result.failure else ""
    message = f"Login `{login.name}` was made, but does not hold at {login.check.steps[0].describe()}: {reason}"
    return Failure("LOGIN_FAILED", message, details={"login": login.name})
