"""The page of an evaluation in a real browser: readable on a phone, in the dark, and deaf to hostile texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reporting.evaluation.page import evaluation_page
from tests.browser.stage import Stage
from tests.browser.test_dashboard import CONTRASTS, DESKTOP, PHONE
from tests.unit.runner.evaluation.lines import evaluation, lines

MESSAGE = "Assertion failed: json('state', 'orders').length == 1: <script>alert(1)</script> " * 3


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "dark"), (DESKTOP, "light")])
@pytest.mark.sampled(1)
async def test_the_page_can_be_read(stage: Stage, tmp_path: Path, size: dict[str, int], scheme: str) -> None:
    agents = (lines(name, ["pf"] * 6 + ["pp"] * 6, message=MESSAGE) for name in ("careful", "../<b>x", "größe ✓", "d"))
    (tmp_path / "index.html").write_text(evaluation_page(evaluation(*agents)), "utf-8")
    browser, told = (await stage.session()).chromium.browser, list[str]()
    context = await browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    page = await context.new_page()
    page.on("console", lambda message: told.append(message.text))
    page.on("dialog", lambda dialog: told.append(dialog.message))
    await page.goto((tmp_path / "index.html").as_uri())
    assert told == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    heights = await page.locator("#causes tbody tr").evaluate_all("rows => rows.map(row => row.offsetHeight)")
    assert max(heights) <= 180, "the messages are squeezed into a column of a few letters"
    assert (await page.evaluate(CONTRASTS))["poor"] == []
    await context.close()
