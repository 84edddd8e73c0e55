"""A table that is sorted, as pytest-playwright has it."""

from playwright.sync_api import Page, expect


def test_table(page: Page) -> None:
    page.goto("/table")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Age").click()
    expect(page.locator(".name")).to_have_text(["Bob", "Cleo", "Ann"])
    expect(page.get_by_role("row").filter(has_text="Ann").get_by_role("cell").last).to_have_text("41")
