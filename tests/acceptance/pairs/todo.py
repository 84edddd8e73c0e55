"""A list of things to do, as pytest-playwright has it."""

from playwright.sync_api import Page, expect


def test_todo(page: Page) -> None:
    page.goto("/todo")
    page.get_by_placeholder("What needs to be done?").fill("milk")
    page.get_by_placeholder("What needs to be done?").press("Enter")
    page.get_by_placeholder("What needs to be done?").fill("bread")
    page.get_by_placeholder("What needs to be done?").press("Enter")
    expect(page.get_by_test_id("todo-title")).to_have_text(["milk", "bread"])
    page.get_by_role("listitem").filter(has_text="milk").get_by_role("checkbox").check()
    expect(page.get_by_test_id("todo-count")).to_have_text("1 item left")
