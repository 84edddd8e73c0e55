"""A file that is sent, as pytest-playwright has it."""

from playwright.sync_api import Page, expect


def test_upload(page: Page) -> None:
    page.goto("/upload")
    page.get_by_label("Attachment").set_input_files("pairs/note.txt")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("listitem")).to_have_text("note.txt: words")
