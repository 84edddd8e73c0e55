"""What asyncio prints of errors that nobody awaits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.browser.driver import exception_handler


class Loop:
    """Of asyncio's only the one method."""

    def __init__(self) -> None:
        self.printed: list[dict[str, Any]] = []

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.printed.append(context)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Locator.click: Target page, context or browser has been closed", False),
        ("Connection closed while reading from the driver", False),
        ("something else", True),
    ],
)
def test_calls_that_an_early_ctrl_c_has_left_alone_are_not_told(text: str, told: bool) -> None:
    loop: Any = Loop()
    exception_handler(loop, {"message": "Future exception was never retrieved", "exception": Exception(text)})
    assert bool(loop.printed) is told


def test_a_message_without_an_error_is_told() -> None:
    loop: Any = Loop()
    exception_handler(loop, {"message": "a loop was closed", "loop": asyncio})
    assert len(loop.printed) == 1
