"""Signing in, as pytest-playwright has it."""

from playwright.sync_api import Page, expect


def test_login(page: Page) -> None:
    page.goto("/login")
    page.get_by_label("User name").fill("ann")
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Welcome, ann")).to_be_visible()
