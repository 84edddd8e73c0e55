"""The page of an evaluation in a real browser: readable on a phone, in the dark, and deaf to hostile texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from harness.reporting.evaluation.page import evaluation_page
from harness.reporting.evaluation.trials import write_trial_pages
from tests.browser.stage import Stage
from tests.browser.test_dashboard import CONTRASTS, DESKTOP, PHONE
from tests.unit.reporting.evaluation.test_reports import WAY
from tests.unit.runner.evaluation.lines import evaluation, lines

MESSAGE = "Assertion failed: json('state', 'orders').length == 1: <script>alert(1)</script> " * 3


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "dark"), (DESKTOP, "light")])
@pytest.mark.sampled(1)
async def test_the_page_can_be_read(stage: Stage, tmp_path: Path, size: dict[str, int], scheme: str) -> None:
    names = ("careful", "../<b>x", "größe ✓", "d")
    agents = [lines(name, ["pf"] * 6 + ["pp"] * 6, message=MESSAGE) for name in names]
    trials = [each for several in agents for each in several]
    way = tmp_path / "trajectories/T00"
    way.mkdir(parents=True)
    (way / "trajectory.jsonl").write_text(WAY, "utf-8")
    trials[0] = trials[0].model_copy(update={"trajectory": "trajectories/T00/trajectory.jsonl"})
    (tmp_path / "index.html").write_text(evaluation_page(evaluation(*agents), trials), "utf-8")
    write_trial_pages(trials, tmp_path)
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

    await page.locator("#tasks tbody a").first.click()
    await expect(page.get_by_text("careful: click #buy <i> -> passed")).to_be_visible()
    assert await page.locator("details.trial[open]").count() == 1
    await page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert await page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert (await page.evaluate(CONTRASTS))["poor"] == []
    assert told == []
    await context.close()
