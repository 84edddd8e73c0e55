"""Whether a document fits a JSON Schema of a server or a page. Nothing is fetched, and it takes only a moment.

Schemas are text of strangers. One may nest patterns or references so that a check would never end, and meanwhile no
limit of any task would hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from harness.task_secrets import hidden

if TYPE_CHECKING:
    from jsonschema import ValidationError

_LONGEST: Final = 300
"""Characters of the message of a validator that are kept."""
_LARGEST: Final = 200_000
"""Characters of a schema that is used."""
MOST_CHECKS: Final = 20_000
"""The number of keywords that are checked for one document: less than a second."""
_COSTLY: Final = 100
"""Characters of a message that cost as much as a check."""
_SPENT: ContextVar[list[int]] = ContextVar("tool_schema_checks")


class _TooCostlyError(Exception):
    """The check takes more than it may."""


def misfit(schema: Mapping[str, Any], document: Any) -> str:
    """The place in the document and what is wrong there; empty if it fits, or if the schema cannot be used."""
    if not (found := misfits(schema, document)):
        return ""
    from jsonschema.exceptions import best_match

    error = best_match(found)
    place = error.json_path.removeprefix("$").removeprefix(".")
    return f"{f'`{place}`: ' if place else ''}{hidden(error.message)[:_LONGEST]}"


def misfits(schema: Mapping[str, Any], document: Any) -> tuple[ValidationError, ...]:
    """All that does not fit; empty if the document fits, or if the schema cannot be used."""
    if not _usable(schema):
        return ()
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    token = _SPENT.set([0])
    try:
        kind = validator_for(dict(schema), default=Draft202012Validator)
        kind.check_schema(dict(schema))
        # With an empty registry nothing is fetched: a schema may name any address.
        return tuple(_bounded(kind)(dict(schema), registry=Registry()).iter_errors(document))
    except (SchemaError, Unresolvable, RecursionError, ValueError, _TooCostlyError):
        return ()  # also an address or a pointer that cannot be read
    finally:
        _SPENT.reset(token)


def _usable(schema: Mapping[str, Any]) -> bool:
    """Whether the schema says something and can be checked: patterns of names would be matched without a limit."""
    if not schema or not isinstance(schema.get("$schema", ""), str):
        return False
    try:
        text = json.dumps(schema)
    except (ValueError, RecursionError):
        return False
    return len(text) <= _LARGEST and '"patternProperties"' not in text


@cache
def _bounded(kind: Any) -> Any:
    """The validator with patterns that are matched in linear time, and with a limit for the whole."""
    from jsonschema.validators import extend

    keywords = {name: _counted(check) for name, check in {**kind.VALIDATORS, "pattern": _pattern}.items()}
    return extend(kind, keywords)  # type: ignore[no-untyped-call]


def _counted(check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def counted(*given: Any) -> Iterator[Any]:
        _spend(1)
        for error in check(*given) or ():
            _spend(len(error.message) // _COSTLY)  # it shows the document, which may be large
            yield error

    return counted


def _spend(checks: int) -> None:
    spent = _SPENT.get()
    spent[0] += checks
    if spent[0] > MOST_CHECKS:
        raise _TooCostlyError


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Exception]:
    """The check of a text; one by a pattern that needs more than linear time is left to the server."""
    from jsonschema.exceptions import ValidationError
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if not isinstance(instance, str):
        return
    try:
        matcher = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return
    if not matcher.isinstance_python(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")
