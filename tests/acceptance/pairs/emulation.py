"""A browser in another place, as pytest-playwright has it."""

import pytest
from playwright.sync_api import Page, expect


@pytest.mark.browser_context_args(locale="de-DE", timezone_id="Europe/Berlin", color_scheme="dark")
def test_emulation(page: Page) -> None:
    page.goto("/emulation")
    expect(page.locator("#date")).to_have_text("31.1.2026")
    expect(page.locator("#zone")).to_have_text("Europe/Berlin")
    expect(page.locator("#scheme")).to_have_text("dark")
