"""Values that a task makes itself: `${fake.email}` and `${now + 3d}`. Each is made once, and the same everywhere."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.spec.problems import did_you_mean
from harness.spec.references import BadReferenceError, Reference, SharedProblemError
from harness.spec.task import TaskSpec

if TYPE_CHECKING:
    from faker import Generator

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
            fakes, _, number = wanted.name.partition("#")
            moment = wanted.namespace == "now"
            self.made[name] = self._moment(wanted) if moment else fake(fakes, number or "1", self._seed, self._locale)
        return self.made[name]

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


# What Faker makes, always the same for the same seed. It is imported when a task uses it.

_USUAL = "en_US"
_LOCK = threading.Lock()
"""Held from the seed to the value: the threads of a process share the generators."""


def fake(name: str, number: str, seed: str, locale: str | None) -> Any:
    """The value of a provider as JSON. Raises BadReferenceError for a name that is no provider, or not a usable one.

    `number` tells several values of one name apart. `locale` is the browser's; Faker's names for it are used if it
    has the locale and the provider in it, otherwise those of en_US.
    """
    shown = f"${{fake.{name}{f'#{number}' if number != '1' else ''}}}"
    try:
        generators = (_generator(_known_locale(locale)), _generator(_USUAL))
    except ImportError:
        hint = "pip install 'pytest-taskspec[fake]'"
        raise SharedProblemError(shown, "needs Faker, which is not installed", hint) from None
    for generator in generators:
        if name in _providers(generator):
            return _made(shown, generator, name, f"{seed}/{name}#{number}")
    known = _providers(generators[0])
    hint = did_you_mean(name, known) or did_you_mean(name.rpartition(".")[2], known)
    raise BadReferenceError(shown, f"Faker has no provider `{name}`", hint)


def _made(shown: str, generator: Generator, name: str, seed: str) -> Any:
    make: Callable[[], Any] = getattr(generator, name)
    if needed := _needed(make):
        raise BadReferenceError(shown, f"Faker's `{name}` needs an argument (`{needed}`), so it cannot be used here")
    try:
        with _LOCK:
            generator.seed_instance(seed)
            value = make()
        return _as_json(value)
    except TypeError as error:
        raise BadReferenceError(shown, f"Faker's `{name}` gives no value that a task can hold: {error}") from None
    except Exception as error:  # noqa: BLE001 - a provider may need a library, a program or a file
        raise BadReferenceError(shown, f"Faker's `{name}` failed: {type(error).__name__}") from None


def _needed(make: Callable[[], Any]) -> str:
    """The first argument that has no default; empty if there is none."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = (each for each in inspect.signature(make).parameters.values() if each.kind not in variable)
    return next((each.name for each in given if each.default is each.empty), "")


def _as_json(value: Any) -> Any:
    """The value as JSON: a date as ISO 8601, a decimal number as a number. Raises TypeError for anything else."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _as_json(each) for key, each in value.items()}
    raise TypeError(f"it is of the type {type(value).__name__}")


@cache
def _generator(locale: str) -> Generator:
    """Faker's generator for a locale. Raises ImportError without Faker."""
    from faker import Factory

    return Factory.create(locale)


@cache
def _providers(generator: Generator) -> frozenset[str]:
    """The public methods of its providers. Those that change the generator itself are no providers."""
    found = generator.get_providers()
    return frozenset(
        name for each in found for name in dir(each) if not name.startswith("_") and callable(getattr(each, name))
    )


def _known_locale(locale: str | None) -> str:
    """Faker's name of a browser's locale (`de-DE`, `de`); en_US if it has none. Raises ImportError without Faker."""
    if locale is None:
        return _USUAL
    from faker.config import AVAILABLE_LOCALES

    language, _, region = locale.replace("-", "_").partition("_")
    wanted = {f"{language}_{region}".lower(), f"{language}_{region or language}".lower()}
    return next((each for each in sorted(AVAILABLE_LOCALES) if each.lower() in wanted), _USUAL)
