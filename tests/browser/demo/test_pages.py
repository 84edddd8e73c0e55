"""The demo sites in a real browser: what their scripts do, and that they make no noise."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.demo.conftest import Env, Open, log_in

ROOT = Path(__file__).parents[3]


def to_calendar(page: Page) -> None:
    """Go from the login through the renewal up to the calendar."""
    log_in(page, "C-204815", "2468")
    page.click("#start-renewal")
    page.click("#confirm-details")
    for kind, file in {"passport": "passport.pdf", "photo": "photo.png", "address": "proof-of-address.pdf"}.items():
        page.set_input_files(f"#{kind}-file", ROOT / "tasks" / "files" / file)
    page.click("#upload-documents")
    page.check("#declaration")
    page.click("#submit-review")


def test_search_shows_and_filters_products(open_page: Open) -> None:
    page = open_page("http://shop.local/", "search")
    page.fill("#search-box", "wireless mouse")
    page.click("button[type='submit']")
    expect(page.locator(".product-grid .product-item")).to_have_count(4)
    expect(page.locator(".spinner")).to_be_hidden()
    page.fill("#filter-max-price", "30")
    page.click("#apply-filters")
    expect(page.locator(".product-item")).to_have_count(1)
    page.click(".product-item[data-sku='WM-5521'] .product-link")
    expect(page.locator("#product-title")).to_have_text("Logitech M185")


@pytest.mark.thorough
def test_the_spinner_stays_when_the_search_fails(browser: Browser) -> None:
    page = browser.new_page(user_agent="test harness-world/spinner")
    page.route("**/api/search*", lambda route: route.abort())
    with page.expect_console_message(lambda message: "Failed to fetch /api/search" in message.text):
        page.goto("http://shop.local/search?q=mouse")
    assert page.locator(".spinner").is_visible()
    assert page.locator(".product-item").count() == 0
    page.close()


@pytest.mark.thorough
def test_the_total_follows_the_shipping_speed_and_the_order_is_placed(open_page: Open, env: Env) -> None:
    page = open_page("http://shop.local/product/WM-5521", "checkout")
    page.click("#add-to-cart")
    page.click("#checkout-button")
    expect(page.locator("#checkout-total")).to_have_text("24.99")
    page.select_option("#shipping-speed", "same_day")
    expect(page.locator("#checkout-total")).to_have_text("30.98")
    page.click("#place-order")
    expect(page.locator("#order-id")).to_have_text("O-10001")
    with page.expect_download() as download:
        page.click("#download-receipt")
    assert download.value.suggested_filename == "receipt-O-10001.txt"
    assert env.get("checkout")["shop"]["orders"]["O-10001"]["total"] == 30.98
    assert "O-10001" not in env.get("search")["shop"]["orders"]


@pytest.mark.thorough
def test_the_state_of_a_return_is_polled(open_page: Open, env: Env) -> None:
    page = open_page("http://shop.local/orders/O-09871/return/WM-5521", "return")
    page.select_option("#return-reason", "defective")
    page.click("#submit-return")
    env.patch("return", {"shop": {"returns": {"R-50001": {"state": "processing"}}}})
    page.click("#view-return")
    expect(page.locator("#return-state")).to_have_text("processing")
    env.patch("return", {"shop": {"returns": {"R-50001": {"state": "approved"}}}})
    expect(page.locator("#return-state")).to_have_text("approved")
    expect(page.locator("#refund-amount")).to_have_text("30.98")


@pytest.mark.thorough
def test_a_card_is_deactivated_only_after_the_dialog(open_page: Open, env: Env) -> None:
    page = open_page("http://bank.local/cards/1234/deactivate", "dialog")
    log_in(page, "demo", "demo-pass")
    page.select_option("#deactivate-reason", "lost")
    page.click("#deactivate-button")
    page.click("#cancel-deactivate")
    assert env.get("dialog")["bank"]["cards"]["1234"]["status"] == "active"
    page.click("#deactivate-button")
    page.click("#confirm-deactivate")
    expect(page.locator("#card-1234 .card-status")).to_have_text("inactive")
    assert env.get("dialog")["bank"]["cards"]["1234"]["status"] == "inactive"


@pytest.mark.thorough
def test_a_form_sent_in_an_expired_session_leads_to_the_login(open_page: Open, env: Env) -> None:
    page = open_page("http://bank.local/merchants", "expired")
    log_in(page, "demo", "demo-pass")
    env.patch("expired", {"bank": {"sessions": None}})
    page.select_option("#merchant-shop .binding-card", "5678")
    page.click("#merchant-shop .update-binding")
    log_in(page, "demo", "demo-pass")
    expect(page.locator("#account-AC-100")).to_be_visible()
    assert env.get("expired")["bank"]["bindings"]["shop"]["card"] == "1234"


@pytest.mark.thorough
def test_an_appointment_is_booked_in_the_calendar(open_page: Open, env: Env) -> None:
    page = open_page("http://gov.local/permits/RP-2024-77", "grid")
    to_calendar(page)
    expect(page.locator("#calendar-month")).to_have_text("November 2025")
    page.click("#next-month")
    page.click("#next-month")
    page.click("#previous-month")
    expect(page.locator("#calendar-month")).to_have_text("December 2025")
    expect(page.locator("#calendar-day-2025-12-06")).to_be_disabled()
    page.click(".calendar-date[data-date='2025-12-01']")
    expect(page.locator("#book-appointment")).to_be_disabled()
    page.click(".time-slot[data-time='10:00']")
    page.click("#book-appointment")
    expect(page.locator("#appointment-id")).to_have_text("APT-9988")
    expect(page.locator("#appointment-date")).to_have_text("December 1, 2025")
    appointment = env.get("grid")["gov"]["appointments"]["APT-9988"]
    assert (appointment["date"], appointment["time"], appointment["status"]) == ("2025-12-01", "10:00", "booked")


@pytest.mark.thorough
def test_the_redesigned_calendar_has_cells_instead_of_buttons(open_page: Open, env: Env) -> None:
    env.patch("table", {"gov": {"settings": {"calendar": {"widget": "table"}}}})
    page = open_page("http://gov.local/permits/RP-2024-77", "table")
    to_calendar(page)
    page.click("#next-month")
    page.click("//td[@data-date='2025-12-01']")
    expect(page.locator("#selected-date")).to_have_text("December 1, 2025")
    page.click(".time-slot[data-time='11:00']")
    assert page.locator(".calendar-date, #calendar-day-2025-12-01").count() == 0
    page.click("#book-appointment")
    expect(page.locator("#appointment-time")).to_have_text("11:00")
