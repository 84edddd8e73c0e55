"""`${fake.email}`: values that Faker makes, always the same for the same seed. Imported when a task uses one."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from datetime import date, time
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.spec.problems import did_you_mean
from harness.spec.references import BadReferenceError, SharedProblemError

if TYPE_CHECKING:
    from faker import Generator

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
