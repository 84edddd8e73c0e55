"""The merchants' card pages in a real browser: each asks in its own way."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.demo.conftest import Env, Open, log_in


def enter(open_page: Open, url: str, world: str) -> Page:
    page = open_page(url, world)
    log_in(page, "demo", "demo-pass")
    return page


def on_file(env: Env, world: str, site: str) -> str:
    return str(env.get(world)[site]["payment"]["last4"])


@pytest.mark.thorough
def test_the_utility_asks_in_a_dialog(open_page: Open, env: Env) -> None:
    page = enter(open_page, "http://util.local/autopay", "dialog")
    page.click("#change-card")
    page.click("#cancel-change")
    expect(page.locator("#card-dialog")).to_be_hidden()
    page.click("#change-card")
    page.fill("#new-last4", "12")
    page.click("#save-card")
    expect(page.locator("#card-dialog #error")).to_be_visible()
    assert on_file(env, "dialog", "util") == "1234"
    page.fill("#new-last4", "5678")
    page.fill("#new-expiry", "08/2027")
    page.click("#save-card")
    expect(page.locator("#payment-card")).to_have_text("Mastercard ending 5678")
    assert on_file(env, "dialog", "util") == "5678"


@pytest.mark.thorough
def test_food_delivery_asks_with_radio_buttons(open_page: Open, env: Env) -> None:
    page = enter(open_page, "http://food.local/account", "radio")
    expect(page.locator("#card-1234")).to_be_checked()
    page.check("#card-5678")
    page.click("#save-card")
    expect(page.locator("#payment-card")).to_have_attribute("data-last4", "5678")
    assert on_file(env, "radio", "food") == "5678"


@pytest.mark.thorough
def test_public_transport_asks_with_a_select(open_page: Open, env: Env) -> None:
    env.patch("select", {"bank": {"cards": {"1234": {"status": "blocked"}}}})
    page = enter(open_page, "http://transport.local/settings", "select")
    expect(page.locator("#topup-card")).to_have_value("")
    page.select_option("#topup-card", "5678")
    page.click("#save-settings")
    expect(page.locator("#topup-card")).to_have_value("5678")
    assert on_file(env, "select", "transport") == "5678"


@pytest.mark.thorough
def test_the_widget_tells_the_page_around_it(open_page: Open, env: Env) -> None:
    page = enter(open_page, "http://stream.local/account/payment", "widget")
    widget = page.frame_locator("#payment-widget")
    widget.locator("#card-last4").fill("5678")
    widget.locator("#card-expiry").fill("08/2027")
    widget.locator("#widget-save").click()
    expect(widget.locator("#saved")).to_be_visible()
    expect(page.locator("#payment-card")).to_have_text("Mastercard ending 5678")
    expect(page.locator("#payment-expiry")).to_have_text("08/2027")
    assert on_file(env, "widget", "stream") == "5678"


@pytest.mark.thorough
def test_the_travel_agency_asks_twice(open_page: Open, env: Env) -> None:
    page = enter(open_page, "http://travel.local/profile", "twice")
    page.click("#change-card")
    page.fill("#new-last4", "5678")
    page.fill("#new-expiry", "08/2027")
    page.click("#next-step")
    expect(page.locator("#draft-card")).to_have_text("5678")
    assert on_file(env, "twice", "travel") == "1234"
    page.check("#holder")
    page.click("#confirm-card")
    expect(page.locator("#payment-card")).to_have_attribute("data-last4", "5678")
    assert on_file(env, "twice", "travel") == "5678"


@pytest.mark.thorough
def test_a_lost_card_is_blocked_and_replaced(open_page: Open, env: Env) -> None:
    page = enter(open_page, "http://bank.local/cards", "lost")
    page.click("#card-1234 .report-lost")
    page.select_option("#lost-reason", "stolen")
    page.click("#block-card")
    page.click("#card-1234 .issue-virtual")
    page.click("#issue-button")
    expect(page.locator("#card-8899 .card-name")).to_have_text("Visa ending 8899 (virtual)")
    expect(page.locator("#card-1234 .issue-virtual")).to_have_count(0)
    page.click("#card-1234 .order-replacement")
    page.check("#delivery-standard")
    page.click("#order-button")
    expect(page.locator("#replacement-id")).to_have_text("RC-501")
    page.click("text=All cards")
    expect(page.locator("#card-1234 .replacement-link")).to_have_attribute("href", "/replacements/RC-501")
    assert env.get("lost")["bank"]["cards"]["1234"]["status"] == "blocked"


@pytest.mark.thorough
def test_who_is_logged_out_from_outside_meets_the_login(open_page: Open, env: Env) -> None:
    page = enter(open_page, "http://food.local/account", "outside")
    env.patch("outside", {"food": {"sessions": None}})
    page.check("#card-5678")
    page.click("#save-card")
    expect(page.locator("#login-form")).to_be_visible()
    assert on_file(env, "outside", "food") == "1234"


def test_the_bank_vouches_for_its_customer(open_page: Open) -> None:
    page = open_page("http://food.local/account", "vouched")
    page.click("#bank-login")
    expect(page).to_have_url("http://bank.local/login?next=/vouch/food%3Fnext%3D/account")
    log_in(page, "demo", "demo-pass")
    expect(page).to_have_url("http://food.local/account")
    page.goto("http://travel.local/profile")
    page.click("#bank-login")
    expect(page).to_have_url("http://travel.local/profile")
