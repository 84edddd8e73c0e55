"""A card that is dragged, as pytest-playwright has it."""

from playwright.sync_api import Page, expect


def test_drag(page: Page) -> None:
    page.goto("/drag")
    expect(page.locator("#done")).to_be_empty()
    page.get_by_text("Write tests").drag_to(page.locator("#done"))
    expect(page.locator("#done")).to_have_text("Write tests")
