"""Walks over the texts in a JSON value: all walkers go the same way, whatever they do with a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pydantic import BaseModel


def map_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """The value with each text changed; keys and all other values stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: map_texts(each, change) for key, each in value.items()}
    return type(value)(map_texts(each, change) for each in value) if isinstance(value, list | tuple) else value


def texts_of(value: Any) -> Iterator[str]:
    """The texts in a JSON value or a model, without its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, BaseModel | dict | list | tuple):
        inner: Iterable[Any] = value
        if not isinstance(value, list | tuple):
            inner = (value if isinstance(value, dict) else vars(value)).values()
        for each in inner:
            yield from texts_of(each)
