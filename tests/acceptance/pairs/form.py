"""A form with all kinds of fields, as pytest-playwright has it."""

from playwright.sync_api import Page, expect


def test_form(page: Page) -> None:
    page.goto("/form")
    page.get_by_label("Name").fill("Ann")
    page.get_by_label("Country").select_option("Norway")
    page.get_by_label("Card").check()
    page.get_by_label("I accept the terms").check()
    page.get_by_role("button", name="Order").click()
    expect(page.get_by_role("status")).to_have_text("Ann, Norway, card, on")
