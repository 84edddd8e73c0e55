"""A call, and what may be put around it. Order is the meaning: `compose` takes the outermost first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import reduce
from typing import TypeVar

T = TypeVar("T")
Call = Callable[[], Awaitable[T]]
"""Something to be done, perhaps more than once: a function without arguments that answers an awaitable."""
Policy = Callable[[Call[T]], Call[T]]
"""Puts something around a call; the result is a call again. Cancellation passes through untouched."""


def compose(*policies: Policy[T]) -> Policy[T]:
    """One policy out of several, the outermost first.

    The recommended order is fallback, retry, guard, limit (specs/004, layered approach): each retry asks the breaker
    and has a limit of its own; the fallback comes when retries are over, or the circuit is open.
    """

    def composed(call: Call[T]) -> Call[T]:
        return reduce(lambda inner, policy: policy(inner), reversed(policies), call)

    return composed
