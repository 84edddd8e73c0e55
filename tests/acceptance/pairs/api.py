"""Something made by request and seen on the page, as pytest-playwright has it."""

from playwright.sync_api import Page, expect


def test_api(page: Page) -> None:
    made = page.request.post("/items", data={"name": "mug"})
    assert made.status == 201
    assert made.json()["name"] == "mug"
    page.goto("/api")
    expect(page.get_by_role("listitem")).to_have_text(["mug"])
