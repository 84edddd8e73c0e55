"""A list of products that is filtered, as pytest-playwright has it."""

from playwright.sync_api import Page, expect


def test_filter(page: Page) -> None:
    page.goto("/filter")
    expect(page.locator(".product")).to_have_count(4)
    page.get_by_label("Search").fill("ball")
    page.get_by_label("Category").select_option("Toys")
    expect(page.locator(".product")).to_have_text(["Red ball", "Blue ball"])
