"""The dashboard in a real browser: readable, reachable, fast, and deaf to what hostile texts ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.resilience import SystemClock
from tests.unit.reporting.dashboard.pages import hostile_run, page_of, page_with_pictures, red_page, trend
from tests.unit.reporting.history.runs import execution, many, record, run

PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
OPENS = 8.0
"""Seconds. Alone it takes a quarter of one; this machine is shared."""
Open = Callable[..., Page]

CONTRASTS = """() => {
  const known = new Map();
  const painted = (color) => {
    const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    context.fillStyle = color; context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const channels = (color) => known.get(color) ?? known.set(color, painted(color)).get(color);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = channels(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255, 255];
  };
  const poor = [], seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim(), element = walker.currentNode.parentElement;
    if (!text || element.closest("script, title, .unseen, option, svg title")) continue;
    const style = getComputedStyle(element);
    const [front, back] = [channels(element.closest("svg") ? style.fill : style.color), behind(element)];
    const key = `${front} on ${back}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${text.slice(0, 30)}: ${ratio.toFixed(2)} (${key})`);
  }
  return { poor, pairs: seen.size };
}"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of some runs on disk, as a user opens them."""
    folder = tmp_path_factory.mktemp("pages")
    runs = {
        "usual": run(),
        "hostile": hostile_run(),
        "green": run(parts=[execution(record("T-1"))]),
        "empty": run(parts=(), happenings=(), metrics={}, environment={}),
        "many": many(1000),
    }
    for name, found in runs.items():
        (folder / f"{name}.html").write_text(page_of(found, trend()), "utf-8")
    (folder / "pictures.html").write_text(page_with_pictures(), "utf-8")
    (folder / "red.html").write_text(red_page(), "utf-8")
    return {name: folder / f"{name}.html" for name in (*runs, "pictures", "red")}


@pytest.fixture
def opened(browser: Browser, files: dict[str, Path]) -> Iterator[Open]:
    """Opens a page, and asks at the end whether it complained or asked for anything."""
    told: list[str] = []
    contexts = []

    def open_page(name: str, size: dict[str, int] | None = None, **options: Any) -> Page:
        context = browser.new_context(viewport=size or DESKTOP, **options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: told.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: told.append(f"error: {error}"))
        page.on("dialog", lambda dialog: told.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: told.append(f"request: {request.url}") if _foreign(request.url) else None)
        page.goto(files[name].as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert told == []


def _foreign(url: str) -> bool:
    return not url.startswith(("file:", "data:"))


@pytest.mark.parametrize("name", ["usual", "hostile", "green", "empty", "red"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.sampled(1)
def test_text_stands_out_from_what_is_behind_it(opened: Open, name: str, scheme: str) -> None:
    page = opened(name, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    found = page.evaluate(CONTRASTS)
    assert found["poor"] == []
    assert found["pairs"] >= 4


@pytest.mark.parametrize("name", ["usual", "hostile", "green", "empty", "many"])
@pytest.mark.parametrize("width", [320, 390])
@pytest.mark.sampled(1)
def test_a_phone_need_not_scroll_sideways(opened: Open, name: str, width: int) -> None:
    page = opened(name, {"width": width, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.sampled(1)
def test_pictures_are_side_by_side_and_one_over_the_other(opened: Open, size: dict[str, int]) -> None:
    page = opened("pictures", size)
    assert page.locator(".thumb img").count() == 1
    page.locator(".row > summary").click()
    assert page.locator(".pictures figure").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    tops = {each.bounding_box()["y"] for each in page.locator(".pictures figcaption").all()[:3]}  # type: ignore[index]
    assert len(tops) == (3 if size is PHONE else 1)
    over = page.locator(".over img").nth(1)
    assert over.evaluate("each => getComputedStyle(each).clipPath") == "inset(0px 0px 0px 50%)"
    page.get_by_role("slider").fill("80")
    assert over.evaluate("each => getComputedStyle(each).clipPath") == "inset(0px 0px 0px 80%)"
    assert page.evaluate("window.hacked") is None


def test_hostile_texts_do_nothing(opened: Open) -> None:
    page = opened("hostile")
    page.get_by_role("searchbox").fill("passwd")
    page.get_by_role("button", name="took").click()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, iframe, main script").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0


def test_a_thousand_tasks_open_at_once(opened: Open) -> None:
    clock = SystemClock()
    began = clock.now()
    page = opened("many")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert clock.now() - began < OPENS
    assert page.locator("#shown").inner_text() == "1000 tasks"


def test_many_tasks_have_pages_and_a_search(opened: Open) -> None:
    page = opened("many")
    rows = page.locator("table.tasks tbody tr:visible")
    assert rows.count() == 100
    page.get_by_label("Status").select_option("failed")
    assert (rows.count(), page.locator("#shown").inner_text()) == (100, "100 of 1000 tasks")
    page.get_by_label("Status").select_option("passed")
    assert page.locator("#place").inner_text() == "1 to 100 of 800"
    for _ in range(7):
        page.get_by_role("button", name="Next").click()
    assert (page.locator("#place").inner_text(), rows.count()) == ("701 to 800 of 800", 100)
    assert page.get_by_role("button", name="Next").is_disabled()
    page.get_by_label("Status").select_option("")
    last = rows.first.evaluate("row => row.cells.length")
    page.get_by_label("Search").fill("2025-0999")
    assert (page.locator("#shown").inner_text(), rows.count()) == ("1 of 1000 tasks", 1)
    assert rows.first.evaluate("row => row.cells.length") == last
    page.get_by_label("Search").fill("")
    by_task = page.locator("table.tasks th button").first
    by_task.click()
    by_task.click()
    assert "B6-2025-0993" in rows.first.inner_text()


def names(page: Page) -> list[tuple[str, str]]:
    """Role and name of what assistive technology meets."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")
    kept = (node for node in tree["nodes"] if not node.get("ignored"))
    return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in kept]


@pytest.mark.parametrize("name", ["usual", "empty"])
@pytest.mark.sampled(1)
def test_everything_that_can_be_used_has_a_name(opened: Open, name: str) -> None:
    found = names(opened(name))
    asked = {
        "link",
        "button",
        "combobox",
        "searchbox",
        "image",
        "img",
        "table",
        "region",
        "navigation",
        "DisclosureTriangle",
    }
    assert [role for role, text in found if role in asked and not text.strip()] == []
    roles = [role for role, _ in found]
    assert {"banner", "navigation", "main", "contentinfo"} <= set(roles)
    assert roles.count("main") == roles.count("banner") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["usual", "empty", "green"])
@pytest.mark.sampled(1)
def test_headings_are_in_order(opened: Open, name: str) -> None:
    levels = [
        int(tag[1]) for tag in opened(name).locator("h1, h2, h3, h4").evaluate_all("all => all.map(e => e.tagName)")
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.thorough
def test_tables_have_captions_and_heads(opened: Open) -> None:
    page = opened("usual")
    assert page.locator("table").count() >= 6
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator("th:not([scope])").count() == 0


def test_the_keyboard_comes_past_the_start_and_sees_where_it_is(opened: Open) -> None:
    page = opened("usual")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to what failed")
    expect(skip).to_be_in_viewport()
    assert skip.evaluate("e => e === document.activeElement && getComputedStyle(e).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.thorough
def test_the_switch_goes_over_the_system_and_plots_follow(opened: Open) -> None:
    page = opened("usual", color_scheme="dark")
    colours = """() => [getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector(".outcomes .rect")).fill]"""
    dark = page.evaluate(colours)
    page.get_by_label("Theme").select_option("light")
    light = page.evaluate(colours)
    assert all(one != other for one, other in zip(dark, light, strict=True))
    page.get_by_label("Theme").select_option("")
    assert page.evaluate(colours) == dark


def test_tasks_are_found_by_words_and_status(opened: Open) -> None:
    page = opened("usual")
    page.get_by_role("searchbox").fill("net_connection bank")
    rows = page.locator("table.tasks tbody tr:visible")
    assert rows.count() == 1
    assert page.locator("#shown").inner_text() == "1 of 18 tasks"
    page.get_by_role("searchbox").fill("")
    page.get_by_label("Status").select_option("expected")
    assert rows.locator("th").all_text_contents() == ["T-EXPECTED shopping"]


def test_a_column_sorts_both_ways(opened: Open) -> None:
    page = opened("usual")
    head = page.locator("th[data-sort]", has_text="took")
    times = """() => [...document.querySelectorAll("table.tasks tbody tr")]
        .map((row) => parseFloat(row.cells[3].dataset.value))"""
    head.get_by_role("button").click()
    assert page.evaluate(times) == sorted(page.evaluate(times))
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    assert page.evaluate(times) == sorted(page.evaluate(times), reverse=True)


def test_eleven_failures_fit_on_a_screen_and_open_by_keyboard(opened: Open) -> None:
    page = opened("red", {"width": 1280, "height": 800})
    rows = page.locator("details.row > summary")
    assert rows.count() == 11
    for row in (rows.first, rows.last):
        expect(row).to_be_in_viewport(ratio=1)
    told = page.locator(".told").first
    expect(told).to_be_hidden()
    rows.first.focus()
    page.keyboard.press("Enter")
    expect(told).to_be_visible()
    menu = page.locator(".row .menu").first
    expect(menu.get_by_role("link").first).to_be_hidden()
    page.keyboard.press("Tab")
    while not page.evaluate("document.activeElement.parentElement.matches('.menu')"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert menu.get_by_role("link").all_inner_texts() == ["error_report.json", "trace.zip"]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "error_report.json"
    assert rows.locator(".thumb img").count() == 11


@pytest.mark.thorough
def test_a_phone_has_cards(opened: Open) -> None:
    page = opened("red", {"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    boxes = [page.locator(f".row .{name}").first.bounding_box() for name in ("who", "chip", "why", "tries", "thumb")]
    who, whose, why, tries, thumb = [each or {} for each in boxes]
    assert who["y"] <= whose["y"] < why["y"] < tries["y"]
    assert thumb["x"] + thumb["width"] <= 400
    page.locator(".row > summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_a_cause_is_one_click_away(opened: Open) -> None:
    page = opened("usual", PHONE)
    page.locator("#tasks a[href='#cause-7']").click()
    expect(page.locator("#cause-7 .told")).to_be_in_viewport()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("link", "title"), [("All tasks", "All tasks"), ("Environment", "Environment"), ("Trends", "Trends")]
)
@pytest.mark.sampled(1)
def test_a_section_is_one_click_away(opened: Open, link: str, title: str) -> None:
    page = opened("many")
    page.get_by_role("navigation").get_by_role("link", name=link).click()
    expect(page.get_by_role("heading", name=title, exact=True)).to_be_in_viewport()


def test_it_can_be_read_without_script(opened: Open) -> None:
    page = opened("usual", java_script_enabled=False)
    row = page.locator("summary", has_text="Element not found: #checkout")
    row.click()
    assert page.locator("details.row[open] .told").is_visible()
    assert not page.get_by_label("Theme").is_visible()
    assert not page.get_by_role("searchbox").is_visible()


@pytest.mark.thorough
def test_print_is_light_and_has_no_controls(opened: Open) -> None:
    page = opened("usual", color_scheme="dark")
    page.get_by_label("Theme").select_option("dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.querySelector('h2')).color") == "rgb(26, 31, 38)"
    assert not page.get_by_role("searchbox").is_visible()
