"""A page that opens beside the first, as pytest-playwright has it."""

from playwright.sync_api import Page, expect


def test_popup(page: Page) -> None:
    page.goto("/popup")
    with page.expect_popup() as info:
        page.get_by_role("link", name="Terms").click()
    terms = info.value
    expect(terms).to_have_title("Terms")
    terms.get_by_role("button", name="Accept").click()
    expect(terms.get_by_text("Accepted")).to_be_visible()
