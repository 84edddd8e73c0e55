"""A changed copy of a value of either kind, and of the texts in it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import pytest
from msgspec import Struct

from harness.values import map_texts, replace


class Fast(Struct, frozen=True):
    name: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class Slow:
    name: str
    count: int = 0


@pytest.mark.parametrize("kind", [Fast, Slow])
def test_a_copy_differs_in_what_was_named(kind: type[Fast]) -> None:
    value = kind("a", 1)
    assert replace(value, count=2) == kind("a", 2)
    assert value == kind("a", 1)
    with pytest.raises(TypeError, match="colour"):
        replace(value, colour="red")


def test_a_text_is_changed_wherever_it_stands() -> None:
    found = map_texts({"a": MappingProxyType({"b": ["x", ("y", 1)]}), "c": None}, str.upper)
    assert found == {"a": {"b": ["X", ("Y", 1)]}, "c": None}
    assert map_texts({"a": "x"}, str.upper, keys=True) == {"A": "X"}
