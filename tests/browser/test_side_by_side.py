"""The picture of a page and its elements, opened in a real browser: the page's own style stays in its half."""

from __future__ import annotations

from pathlib import Path

from harness.reporting.attachments import side_by_side
from harness.reporting.redact_files import inert
from tests.browser.stage import Stage

HOSTILE = (
    "<html><head><style>html{position:fixed;inset:0;contain:none!important;z-index:9;background:red!important}</style>"
    "<style>} } figcaption, .picture{display:none!important} </style></head>"
    "<body><h1 id=shop style='color:rgb(1, 2, 3)'>Shop</h1></body></html>"
)


async def test_the_pages_style_stays_in_its_half(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(side_by_side(b"\x89PNG", inert(HOSTILE)) or "", "utf-8")
    page = await (await stage.session()).chromium.browser.new_page(viewport={"width": 1000, "height": 700})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    await page.goto(file.as_uri())
    shop = page.frame_locator("iframe.page").locator("#shop")
    assert await shop.evaluate("element => getComputedStyle(element).color") == "rgb(1, 2, 3)"
    captions = await page.locator("figcaption").all()
    assert [await caption.is_visible() for caption in captions] == [True, True]
    over = "() => document.elementFromPoint(200, 22).closest('figure') === document.querySelector('figure')"
    assert await page.evaluate(over)
    assert said == []
    await page.screenshot(path=tmp_path / "page.png")
    await page.close()
