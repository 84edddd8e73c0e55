"""Values that a task makes itself: `${fake.email}` and `${now + 3d}`. Each is made once, and the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from harness.spec.references import BadReferenceError, Reference
from harness.spec.task import TaskSpec

ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
"""A stand-in for the start of a task that only is checked."""


class Generated:
    """Makes the values of one task. A fake value depends only on the task's `seed` and id, with case and profile."""

    def __init__(self, spec: TaskSpec, now: datetime, timezone: str | None = None, locale: str | None = None) -> None:
        """`now`, `timezone` and `locale` hold for a task without `time`: its start, and those of its context."""
        self._seed = f"{spec.seed}/{spec.task_id}"
        self._locale = locale
        self._timezone = timezone
        self._time = _time_of(spec)
        self._now = self._time or now
        self.made: dict[str, Any] = {}
        """Reference -> its value, for all that were asked for."""

    @classmethod
    def for_checks(cls, spec: TaskSpec) -> Generated:
        """Make values that show whether the references of a task can be filled in."""
        browser = spec.browser
        return cls(spec, ANY_MOMENT, locale=None if browser is None else browser.locale)

    def __call__(self, wanted: Reference) -> Any:
        """The value of a reference. Raises BadReferenceError."""
        name = str(wanted)
        if name not in self.made:
            self.made[name] = self._moment(wanted) if wanted.namespace == "now" else self._fake(wanted)
        return self.made[name]

    def _fake(self, wanted: Reference) -> Any:
        from harness.spec.fakes import fake

        name, _, number = wanted.name.partition("#")
        return fake(name, number or "1", self._seed, self._locale)

    def _moment(self, wanted: Reference) -> str:
        from harness.spec.moments import NAME, moment

        try:
            return moment(f"{NAME}{wanted.name}").text(self._now, self._zone(wanted))
        except (OverflowError, ValueError, OSError) as error:
            if isinstance(error, BadReferenceError):
                raise
            raise BadReferenceError(str(wanted), "the moment is not within the years 1 to 9999") from None

    def _zone(self, wanted: Reference) -> tzinfo | None:
        """The zone of `time`, else that of the browser context, else that of the machine (None)."""
        if self._time is not None or self._timezone is None:
            return self._time.tzinfo if self._time is not None else None
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

        try:
            return ZoneInfo(self._timezone)
        except (ZoneInfoNotFoundError, ValueError):
            problem = f"the machine's database has no time zone `{self._timezone}`"
            raise BadReferenceError(str(wanted), problem, "pip install tzdata") from None


def _time_of(spec: TaskSpec) -> datetime | None:
    """The task's `time`; None without one, or if it is no time, which is reported elsewhere."""
    try:
        found = datetime.fromisoformat(spec.time) if spec.time else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def recorded_values(values: Mapping[str, Any]) -> Any:
    """What `Generated` made in a run, for criteria that are judged again afterwards."""

    def value(wanted: Reference) -> Any:
        if str(wanted) not in values:
            raise BadReferenceError(str(wanted), "the evidence has no value for it")
        return values[str(wanted)]

    return value
