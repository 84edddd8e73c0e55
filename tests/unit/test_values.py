"""A changed copy of a value of either kind."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec import Struct

from harness.values import replace


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
