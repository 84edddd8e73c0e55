"""The session of a task with several users: each has a seat, which is a session of their own (ports.Session)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import chain, starmap
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from harness.browser.evidence import CONSOLE
from harness.browser.session import PlaywrightSession, of_nobody
from harness.criteria.syntax import Selected
from harness.model.dialogs import MetDialog
from harness.model.policy import WritePermission
from harness.model.ports import USERS, Evidence, Injection, Saved, Undo
from harness.model.record import MetRoute, Sent
from harness.recovery import Capture
from harness.recovery.failure import Failed, Failure
from harness.values import replace

T = TypeVar("T")


class SavedSeats(Struct, frozen=True):
    """The pages of all users (ports.Saved)."""

    seats: Mapping[str, Saved]

    @property
    def url(self) -> str:
        return next(iter(self.seats.values())).url

    @property
    def posted(self) -> bool:
        return any(each.posted for each in self.seats.values())

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(chain.from_iterable(each.addresses for each in self.seats.values()))


class Seats:
    """All calls for one user go to that user's session; all others to each of them, at the same time."""

    def __init__(self, seats: Mapping[str, PlaywrightSession]) -> None:
        """`seats`: name of a user -> the session; the first one acts at first."""
        self._seats = dict(seats)
        self._acting = self._first = next(iter(seats))

    def act_as(self, user: str | None) -> str | None:
        before, self._acting = self._acting, user or self._first
        return before

    def of(self, user: str | None = None) -> PlaywrightSession:
        name = user or self._acting
        if name not in self._seats:
            raise Failed(of_nobody(name))
        return self._seats[name]

    async def strike(self, strike: Injection) -> Undo | None:
        """Inject a fault into the browser of the user who acts (ports.FaultTarget)."""
        return await self.of().sabotage.strike(strike)

    @property
    def sabotage(self) -> Seats:
        """The target of faults."""
        return self

    async def _all(self, call: Callable[[str, PlaywrightSession], Awaitable[T]]) -> dict[str, T]:
        """The results for each user; an error of one is raised when all calls are over."""
        found = await asyncio.gather(*starmap(call, self._seats.items()), return_exceptions=True)
        results: dict[str, T] = {}
        for user, each in zip(self._seats, found, strict=True):
            if isinstance(each, Failed):
                raise Failed(_of(user, each.failure)) from each
            if isinstance(each, BaseException):
                raise each
            results[user] = each
        return results

    def begin_step(self, index: int, heard: Callable[[Sent], None]) -> None:
        for seat in self._seats.values():
            seat.begin_step(index, heard)

    def restrict(self, permission: WritePermission | None) -> None:
        for seat in self._seats.values():
            seat.restrict(permission)

    def take_sent(self) -> tuple[Sent, ...]:
        return tuple(chain.from_iterable(seat.take_sent() for seat in self._seats.values()))

    async def take_settled(self) -> tuple[Sent, ...]:
        return tuple(chain.from_iterable((await self._all(lambda _, seat: seat.take_settled())).values()))

    async def hold(self) -> bool:
        return all((await self._all(lambda _, seat: seat.hold())).values())

    async def release(self) -> None:
        await self._all(lambda _, seat: seat.release())

    async def record(self, *, freeing: bool = True) -> None:
        await self._all(lambda _, seat: seat.record(freeing=freeing))

    async def save(self, within: float) -> SavedSeats:
        return SavedSeats(await self._all(lambda _, seat: seat.save(within)))

    async def restore(
        self, saved: Saved | None, within: float, *, restart: bool, barred: str | None = None
    ) -> tuple[str, ...] | Failure:
        assert saved is None or isinstance(saved, SavedSeats)
        seats = saved.seats if saved is not None else {}
        found = await self._all(
            lambda user, seat: seat.restore(seats.get(user), within, restart=restart, barred=barred)
        )
        differences: list[str] = []
        for user, each in found.items():
            if isinstance(each, Failure):
                return _of(user, each)
            differences += (f"{user}: {line}" for line in each)
        return tuple(differences)

    async def leave_storage(self, within: float, *, held_up: bool) -> Failure | None:
        found = await self._all(lambda _, seat: seat.leave_storage(within, held_up=held_up))
        return next((_of(user, each) for user, each in found.items() if each is not None), None)

    async def evidence(self, capture: Capture, folder: Path, selectors: Collection[Selected] = ()) -> Evidence:
        """The evidence of the user who acts; that of the others is in a folder for each. Criteria read the first's."""
        folders = {user: folder / USERS / user for user in self._seats} | {self._acting: folder}
        for each in folders.values():
            each.mkdir(parents=True, exist_ok=True)
        found = await self._all(lambda user, seat: seat.evidence(capture, folders[user], selectors))
        for user in self._seats.keys() - {self._acting}:
            await asyncio.to_thread(_tell_apart, found[user], logs=capture.logs)
        return replace(found[self._acting], user=self._acting, page=found[self._first].page)

    async def close(self) -> None:
        await self._all(lambda _, seat: seat.close())

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(chain.from_iterable(seat.files for seat in self._seats.values()))

    @property
    def requests(self) -> int:
        return sum(seat.requests for seat in self._seats.values())

    @property
    def dialogs(self) -> tuple[MetDialog, ...]:
        return tuple(chain.from_iterable(seat.dialogs for seat in self._seats.values()))

    @property
    def routes(self) -> tuple[MetRoute, ...]:
        return self._seats[self._first].routes  # they are the same for all

    @property
    def looked(self) -> Mapping[Selected, bool]:
        found: dict[Selected, bool] = {}
        for selected, matched in chain.from_iterable(seat.looked.items() for seat in self._seats.values()):
            found[selected] = found.get(selected, False) or matched
        return found


def _of(user: str, failure: Failure) -> Failure:
    return replace(failure, details={**failure.details, "user": user})


def _tell_apart(evidence: Evidence, *, logs: bool) -> None:
    """Write beside a user's files what is no file yet: the console, and why a file is missing."""
    if logs:
        text = "".join(f"{line}\n" for line in evidence.console)
        (evidence.folder / CONSOLE).write_text(text, "utf-8", "replace")
    if missed := [f"{each.name}: {each.reason}\n" for each in evidence.items if each.status == "missed"]:
        with (evidence.folder / "missing.txt").open("a", encoding="utf-8", errors="replace") as file:  # logs come later
            file.writelines(missed)
