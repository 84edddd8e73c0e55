"""Calls to the browser that may stay without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from playwright.async_api import Error as PlaywrightError

T = TypeVar("T")
D = TypeVar("D")


async def bounded(call: Awaitable[T], seconds: float, otherwise: D) -> T | D:
    """The result of a call; `otherwise` if it takes longer, or raises one of Playwright's errors."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except (PlaywrightError, TimeoutError):
        return otherwise
