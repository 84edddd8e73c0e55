"""What pages authorize themselves by is learned before a text of theirs is told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.browser import page_looks
from harness.browser.page_looks import PageSecrets


@pytest.mark.fake_clock
async def test_a_browser_that_was_too_busy_to_name_its_cookies_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[str] = []
    monkeypatch.setattr(page_looks, "learn", lambda *values: learned.extend(values))

    async def cookies() -> list[dict[str, Any]]:
        await asyncio.sleep(1)
        return [{"name": "sid", "value": "Zk3xQ9vLr2Wm8TyB"}]

    watch = SimpleNamespace(requests=0, answers=1, exchanges=[])
    tab = cast("Any", SimpleNamespace(watch=watch, context=SimpleNamespace(cookies=cookies)))
    secrets = PageSecrets()
    await secrets.learn(tab, 0.05)
    assert learned == []
    await secrets.learn(tab, 2)
    assert learned == ["Zk3xQ9vLr2Wm8TyB"]
    await secrets.learn(tab, 2)
    assert learned == ["Zk3xQ9vLr2Wm8TyB"], "nothing has been answered since"
