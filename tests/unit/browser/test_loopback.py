"""Whether a browser elsewhere reaches this machine: what counts as an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.async_api import Error
from playwright.async_api import TimeoutError as PlaywrightTimeout

from harness.browser.endpoints import sees_us


class Elsewhere:
    """A browser, its context and the answer to its request."""

    def __init__(self, found: Exception | bytes) -> None:
        self._found = found
        self.request = self

    async def new_context(self) -> Elsewhere:
        return self

    async def get(self, *_: object, **__: object) -> Elsewhere:
        if isinstance(self._found, Exception):
            raise self._found
        return self

    async def body(self) -> bytes:
        assert isinstance(self._found, bytes)
        return self._found

    async def close(self) -> None:
        raise Error("Target page, context or browser has been closed")


def seen(found: Exception | bytes) -> bool:
    browser: Any = Elsewhere(found)
    return asyncio.run(sees_us(browser))


@pytest.mark.parametrize(
    "found",
    [
        b"another word",
        Error("APIRequestContext.get: connect ECONNREFUSED 127.0.0.1:1"),
        Error("APIRequestContext.get: Parse Error: Expected HTTP/"),
    ],
)
def test_nobody_or_another_is_there(found: Exception | bytes) -> None:
    assert not seen(found)


@pytest.mark.parametrize("error", [PlaywrightTimeout("Timeout 3000ms exceeded."), Error("browser has been closed")])
def test_of_one_that_does_not_answer_nothing_is_known(error: Exception) -> None:
    with pytest.raises(Error, match=str(error)):
        seen(error)
