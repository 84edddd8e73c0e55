"""Texts that were shown and are gone: the script that sees them is put into a page a few times, not at every look."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from harness.browser import page_looks
from harness.browser.page_looks import VanishedTexts
from tests.unit.fakes import FakeClock


@pytest.mark.fake_clock
async def test_the_script_is_put_into_the_page_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    clock = FakeClock()

    async def ask(*_: object) -> None:
        asked.append(clock.time)

    monkeypatch.setattr(page_looks, "ask", ask)
    texts = VanishedTexts(clock)
    for tenths in range(30):
        clock.time = tenths / 10
        texts.looked(cast("Any", object()))
        await asyncio.sleep(0)
    assert len(asked) == 3, asked
