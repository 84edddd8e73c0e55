"""A changed copy of a value: of a `msgspec.Struct` or a dataclass (docs/decisions/023), and of the texts in JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct, structs

T = TypeVar("T")


def replace(value: T, /, **changes: Any) -> T:
    """Return a copy of the value with other fields, as Python's `copy.replace` does from 3.13 on."""
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    changed: Any = dataclasses.replace(value, **changes)  # type: ignore[type-var]
    return changed  # type: ignore[no-any-return]


# Walks over the texts in a JSON value: all go the same way, whatever they do with a text.


def map_texts(value: Any, change: Callable[[str], Any], *, keys: bool = False) -> Any:
    """The value with each text changed; all other values stay, and keys unless they are to be changed too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(str(key)) if keys else key: map_texts(each, change, keys=keys) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map_texts(each, change, keys=keys) for each in value)
    return map_texts(dict(value), change, keys=keys) if isinstance(value, Mapping) else value


def texts_of(value: Any) -> Iterator[str]:
    """The texts in a JSON value or a model, without its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_of(each)
    elif isinstance(value, dict) or hasattr(value, "model_fields_set"):  # what marks a model of pydantic
        for each in (value if isinstance(value, dict) else vars(value)).values():
            if each is not None:  # most keys of a step are not given
                yield from texts_of(each)
