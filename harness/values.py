"""A changed copy of a value, whether its class is a `msgspec.Struct` or a dataclass (docs/decisions)."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from msgspec import Struct, structs

T = TypeVar("T")


def replace(value: T, /, **changes: Any) -> T:
    """Return a copy of the value with other fields, as Python's `copy.replace` does from 3.13 on."""
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    changed: Any = dataclasses.replace(value, **changes)  # type: ignore[type-var]
    return changed  # type: ignore[no-any-return]
