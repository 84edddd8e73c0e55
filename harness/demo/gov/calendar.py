"""The days and times that can be booked."""

from __future__ import annotations

import calendar
from datetime import date
from typing import Any

from harness.demo.rows import Document

TIMES = ("09:00", "10:00", "11:00")
SATURDAY = 5


def days(year: int, month: int, today: str) -> list[dict[str, Any]]:
    """Return the days of a month and whether each can be booked: working days after ``today`` (ISO)."""
    last = calendar.monthrange(year, month)[1]
    dates = [date(year, month, day) for day in range(1, last + 1)]
    return [{"date": day.isoformat(), "open": is_open(day, today)} for day in dates]


def is_open(day: date, today: str) -> bool:
    """Return whether the office takes appointments on a day."""
    return day.weekday() < SATURDAY and day.isoformat() > today


def free_times(gov: Document, day: str, today: str) -> list[str]:
    """Return the free times of a day; none for a closed day or an invalid date."""
    try:
        wanted = date.fromisoformat(day)
    except ValueError:
        return []
    if not is_open(wanted, today):
        return []
    booked = {(entry.get("date"), entry.get("time")) for entry in gov["appointments"].values()}
    return [time for time in TIMES if (day, time) not in booked]
