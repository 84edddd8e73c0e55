"""A question that is answered, as pytest-playwright has it."""

from playwright.sync_api import Page, expect


def test_dialog(page: Page) -> None:
    page.goto("/dialog")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("listitem")).to_have_count(0)
