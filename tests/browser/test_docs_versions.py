"""The menu of versions in the documentation, opened from a folder without a server."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest
from playwright.sync_api import Browser, expect

from tools.release.site import index

TEMPLATE = jinja2.Template((Path(__file__).parents[2] / "docs/_templates/versions.html").read_text("utf-8"))


def written(site: Path, version: str, pagename: str) -> Path:
    page = site / version / f"{pagename}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    menu = TEMPLATE.render(version=version, pagename=pagename, content_root="../" * pagename.count("/") or "./")
    page.write_text(f"<!doctype html><h1>{pagename} of {version}</h1>{menu}<hr>{menu}", "utf-8")  # as the theme does
    return page


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for version, pagename in (("0.1.0", "index"), ("0.1.0", "design/why"), ("0.2.0", "index"), ("0.2.0", "design/why"),
                              ("0.2.0", "design/new")):  # fmt: skip
        written(tmp_path, version, pagename)
    index(tmp_path)
    return tmp_path


def test_the_menu_leads_to_the_same_page_of_another_version_or_to_its_start(browser: Browser, site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "0.1.0/design/why.html").as_uri())
    menus = page.get_by_label("Version of the documentation")
    assert [each.locator("option").count() for each in menus.all()] == [2, 2]
    menu = menus.last
    assert menu.locator("option").all_text_contents() == ["0.2.0", "0.1.0"]
    expect(menu).to_have_value("0.1.0")
    menu.select_option("0.2.0")
    expect(page.locator("h1")).to_have_text("design/why of 0.2.0")
    page.goto((site / "0.2.0/design/new.html").as_uri())
    menu.select_option("0.1.0")
    expect(page.locator("h1")).to_have_text("index of 0.1.0")
    page.goto((site / "index.html").as_uri())
    expect(page.locator("h1")).to_have_text("index of 0.2.0")
    page.close()


@pytest.mark.thorough
def test_a_site_of_one_version_shows_it_and_has_no_menu(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(error.message))
    page.goto(written(tmp_path, "site", "index").as_uri())
    expect(page.get_by_label("Version of the documentation").first).to_be_disabled()
    assert errors == []
    page.close()
