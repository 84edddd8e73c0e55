"""`${now + 3d | %Y-%m-%d}`: the syntax of moments, and their texts."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache

from msgspec import Struct

from harness.spec.problems import BadReferenceError

NAME = "now"
_SHIFT = re.compile(r"\s*([+-])\s*(\d{1,6})\s*(mo|[smhdwy])(?!\w)")
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_PORTABLE = "YmdHMSyjIpAaBbfzGVu%"
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_DAYS = {"d": 1, "w": 7}
_MONTHS = {"mo": 1, "y": 12}
_SHIFTS = "`+` or `-`, a whole number, and s, m (minutes), h, d, w, mo (months) or y"
_INSTEAD = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y", "e": "%d", "k": "%H", "h": "%b"}
"""Directives that only some platforms have -> what every platform has."""


class RelativeMoment(Struct, frozen=True):
    """A moment relative to now, and the format of its text; without a format it is written as ISO 8601."""

    shifts: tuple[tuple[int, str], ...]
    """Amounts and units, applied from left to right."""
    form: str

    def text(self, now: datetime, zone: tzinfo | None) -> str:
        """The text of the moment; `zone` is that of its days and its text, None is the zone of the machine.

        Raises OverflowError, ValueError or OSError for a moment outside the years 1 to 9999.
        """
        at = now.astimezone(zone)
        for amount, unit in self.shifts:
            at = _shifted(at, amount, unit, zone)
        if not self.form:
            return at.isoformat(timespec="seconds")
        return _DIRECTIVE.sub(lambda found: at.strftime(found[0]), self.form)


def _shifted(at: datetime, amount: int, unit: str, zone: tzinfo | None) -> datetime:
    """Hours and less are durations. Days and more keep the time of day, also when the clocks are changed."""
    if unit in _SECONDS:
        return (at.astimezone(UTC) + timedelta(seconds=amount * _SECONDS[unit])).astimezone(zone)
    wall = at.replace(tzinfo=None)
    moved = (
        wall + timedelta(days=amount * _DAYS[unit]) if unit in _DAYS else _months_later(wall, amount * _MONTHS[unit])
    )
    there = moved.replace(tzinfo=zone) if zone else moved
    return there.astimezone(UTC).astimezone(zone)  # a time of day that the clocks leave out becomes one that exists


def _months_later(wall: datetime, months: int) -> datetime:
    """The same day of another month, or its last day: a month after 31 January is the end of February."""
    year, month = divmod(wall.year * 12 + wall.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return wall.replace(year=year, month=month + 1, day=min(wall.day, monthrange(year, month + 1)[1]))


@cache
def moment(body: str, offset: int = 0) -> RelativeMoment:
    """Parse the text between the braces. Raises BadReferenceError at the wrong part (`offset` is that of the `$`)."""
    shifts, bar, form = body.partition("|")
    shifts, place, found = shifts.rstrip(), len(NAME), []
    while place < len(shifts):
        shift = _SHIFT.match(shifts, place)
        if shift is None:
            blank = len(shifts[place:]) - len(shifts[place:].lstrip())
            raise _wrong(body, f"after `now` may follow {_SHIFTS}", "", offset, place + blank)
        found.append((int(shift[1] + shift[2]), shift[3]))
        place = shift.end()
    if bar and not form.strip():
        raise _wrong(body, "no format after `|`", "such as %Y-%m-%d", offset, len(shifts))
    start = len(body) - len(form.lstrip()) if bar else 0
    for directive in _DIRECTIVE.finditer(form.strip()):
        if directive[1] not in _PORTABLE or not directive[1]:
            letter, known = directive[1], " ".join(f"%{each}" for each in _PORTABLE)
            hint = f"write {_INSTEAD[letter]}" if letter in _INSTEAD else ""
            hint = hint if letter else "write `%%` for a percent sign"
            problem = f"`%{letter}` is not a directive of every platform, which are {known}"
            raise _wrong(body, problem, hint, offset, start + directive.start())
    return RelativeMoment(tuple(found), form.strip())


def _wrong(body: str, problem: str, hint: str, offset: int, place: int) -> BadReferenceError:
    return BadReferenceError(f"${{{body[:60]}}}", problem, hint, offset + len("${") + place)
