"""Logins that tasks share: made once per run and state of the site, checked before each use, made anew when over."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from harness.browser import Storage, StorageState
from harness.model.plan import Plan, ReadyLogin
from harness.model.ports import Evidence, Snapshot
from harness.model.record import TaskResult
from harness.model.report import ErrorReport
from harness.recovery.failure import Failed, Failure
from harness.reporting.archive import DirectoryArchive
from harness.resilience import Clock
from harness.resilience.events import Emit, LoginMade, discard
from harness.resilience.replaced import replaced, try_lock
from harness.spec.names import slug

_POLL = 0.1
"""Seconds between two attempts to get the lock of a login."""
_TRIES = 2
"""How often a login is tried in a process; after that, the tasks that need it fail at once."""

_Play = Callable[[Plan, StorageState | None], Awaitable[tuple[TaskResult, Storage | None]]]
"""Plays a plan in a browser with this storage (None: empty); returns the result, and the storage at its end if it has
passed: a storage that cannot be read is the failure of the plan."""


class Logins:
    """The logins of one process. Processes of the same run share them through files, under a lock each."""

    def __init__(self, kept: Path, of_run: Path, clock: Clock, tell: Emit = discard) -> None:
        """`kept` is the folder of logins for later runs, `of_run` that of the logins of this run."""
        self._kept, self._of_run = kept, of_run
        self._clock = clock
        self._tell = tell
        self._failures: Counter[str] = Counter()
        self._failed: dict[str, Failure] = {}
        self._answers: dict[str, Failure | None] = {}
        """Digest of a login -> why it is refused, once an empty browser was asked whether `holds` holds there too."""

    async def storage(self, login: ReadyLogin, place: str, play: _Play) -> StorageState:
        """The browser storage of someone who is logged in. Raises Failed(LOGIN_FAILED).

        `place` is the state of the site for which the login is: its slot, or a world.
        """
        asked = self._kept / f"{slug(login.name)}-{login.digest}.asked"
        if not asked.exists():
            await self._ask_an_empty_browser(login, asked, play)
        storage = await self._valid(login, self._file(login, place), play)
        asked.touch()
        return storage

    async def _ask_an_empty_browser(self, login: ReadyLogin, asked: Path, play: _Play) -> None:
        """Refuse a `holds` that also holds without the login: all tasks would run logged out. Raises Failed.

        It is asked once, also over several runs.
        """
        async with self._alone(asked):
            if login.digest not in self._answers:
                result, _ = await play(login.check, None)
                refusal = (
                    f"Login `{login.name}` is refused: `holds` also holds without it, in an empty browser at "
                    f"{login.check.steps[0].describe()}: {login.holds}; name something there that only this user sees"
                )
                failure = Failure("LOGIN_FAILED", refusal, details={"login": login.name})
                self._answers[login.digest] = failure if result.ok else None
        if refused := self._answers.get(login.digest):
            raise Failed(refused)

    async def _valid(self, login: ReadyLogin, file: Path, play: _Play) -> StorageState:
        """The storage in the file while it is valid, else that of a new login. Raises Failed."""
        known = _read(file)
        if known is not None and (valid := await self._checked(login, known, file, play)):
            return valid
        async with self._alone(file):
            made = _read(file)  # another process may have made it while this one waited
            if made is not None and made != known and (valid := await self._checked(login, made, file, play)):
                return valid
            if self._failures[file.name] >= _TRIES:
                raise Failed(self._failed[file.name])
            return await self._made(login, file, play, "it was over" if known else "there was none")

    async def _made(self, login: ReadyLogin, file: Path, play: _Play, why: str) -> StorageState:
        """Log in, check it, and keep it. Raises Failed."""
        begun = self._clock.now()
        try:
            result, made = await play(login.plan, None)
            if not result.ok or made is None:
                why = result.failure.message if result.failure else result.skipped or "it did not pass"
                raise Failed(_login_failed(login, f"failed: {why}", result))
            checked, kept = await play(login.proof, made.state)  # sites renew what they keep in the browser
            if not checked.ok or kept is None:
                why = "; ".join([checked.failure.message if checked.failure else "", *made.unsaved])
                shown = login.check.steps[0].describe()
                raise Failed(_login_failed(login, f"was made, but does not hold at {shown}: {why}", checked))
        except Failed as failed:
            self._failures[file.name] += 1
            self._failed[file.name] = failed.failure
            raise
        self._failures.pop(file.name, None)
        _write(file, kept.state)
        whole = "; ".join([why, *kept.unsaved])
        self._tell(LoginMade(login.name, round(self._clock.now() - begun, 3), whole))
        return kept.state

    async def _checked(self, login: ReadyLogin, known: StorageState, file: Path, play: _Play) -> StorageState | None:
        """The storage after a visit of the page that shows whether the login is valid; None if it is not.

        The visit may have changed it: sites renew their cookies.
        """
        result, now = await play(login.check, known)
        if not result.ok or now is None:
            return None
        if now.state != known:
            _write(file, now.state)
        return now.state

    def _file(self, login: ReadyLogin, place: str) -> Path:
        name = hashlib.sha256(f"{login.digest} {place}".encode()).hexdigest()[:12]
        return (self._kept if login.keep else self._of_run) / f"{slug(login.name)}-{name}.json"

    @asynccontextmanager
    async def _alone(self, file: Path) -> AsyncIterator[None]:
        """Hold the lock of a login, which all processes of this machine share."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.with_suffix(".lock").open("a") as lock:
            while not try_lock(lock):
                await self._clock.sleep(_POLL)
            yield

    def close(self) -> None:
        """Delete the logins of this run; those that are kept for later runs stay."""
        shutil.rmtree(self._of_run, ignore_errors=True)


class LoginArchive(Struct, frozen=True):
    """The archive of a login and its checks (ports.Archive)."""

    archive: DirectoryArchive
    quiet: bool = False
    """Whether a failure leaves nothing: a login that is over is none."""

    def scratch(self, plan: Plan) -> Path:
        return self.archive.scratch(plan)

    def keep(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> Path:
        if not self.quiet:
            return self.archive.keep(plan, result, report, evidence, state)
        self.archive.skipped(plan)
        return evidence.folder

    def hold(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> None:
        self.archive.hold(plan, result, report, evidence, state)

    def skipped(self, plan: Plan) -> None:
        self.archive.skipped(plan)

    def passed(self, plan: Plan, result: TaskResult) -> None:
        """What this run has left stays: tasks that failed because of it name the folder."""
        del result
        self.archive.outdated(plan)
        self.archive.skipped(plan)


def _read(file: Path) -> StorageState | None:
    """The storage in a file; None if there is none, or if it is damaged."""
    with suppress(OSError, ValueError):
        found: StorageState = json.loads(file.read_text("utf-8"))
        return found
    return None


def _write(file: Path, storage: StorageState) -> None:
    """Write a file that only this user can read."""
    with replaced(file) as made, os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(storage, out)


def _login_failed(login: ReadyLogin, what: str, result: TaskResult) -> Failure:
    where = f" (its artifacts are in {result.artifacts.name})" if result.artifacts else ""
    details = {"login": login.name, "code": result.failure.code if result.failure else None}
    return Failure("LOGIN_FAILED", f"Login `{login.name}` {what}{where}", details=details)
