"""The merchants without a browser: their login, what they sell, and the card they have on file."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.unit.demo.conftest import Visit

NEW = {"last4": "5678", "expiry": "08/2027"}
CHANGES = {
    "util": ("/autopay", NEW),
    "food": ("/account/card", {"card": "5678"}),
    "transport": ("/settings", {"card": "5678", "threshold": "10"}),
    "stream": ("/account/payment/widget", NEW),
}
PAGES = {
    "util": ("/bills", "/autopay"),
    "food": ("/menu", "/account"),
    "transport": ("/account", "/settings"),
    "stream": ("/library", "/account/payment", "/account/payment/widget"),
    "travel": ("/trips", "/profile", "/profile/card", "/profile/card/confirm"),
}
OFFERS = {"util": "W-2025-11", "food": "ramen", "transport": "topup-10", "stream": "orbit", "travel": "edi-2026"}


def env(visit: Visit) -> Any:
    return visit("world").get("/env").json()


def log_in(visit: Visit, site: str) -> TestClient:
    client = visit(site)
    client.post("/login", data={"user": "demo", "secret": "demo-pass"})
    return client


@pytest.mark.parametrize("site", PAGES)
def test_every_page_needs_a_session_and_names_the_card(visit: Visit, site: str) -> None:
    for path in PAGES[site]:
        answer = visit(site).get(path, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={path}")
    client = log_in(visit, site)
    assert client.get("/").url.path == PAGES[site][0]
    assert 'data-last4="1234"' in client.get(PAGES[site][1]).text
    visit("world").patch("/env", json={site: {"sessions": None}})
    assert client.get(PAGES[site][1]).url.path == "/login"


def vouched(visit: Visit, site: str, next_page: str = "") -> str:
    """Ask the bank, as its customer, to vouch; return where it sends the visitor."""
    asked = visit(site).get("/login/bank", params={"next": next_page}, follow_redirects=False).headers["location"]
    assert asked.startswith(f"http://bank.local/vouch/{site}?next=/")
    return str(log_in(visit, "bank").get(asked, follow_redirects=False).headers["location"])


@pytest.mark.parametrize("site", PAGES)
def test_the_bank_vouches_for_its_customer_once(visit: Visit, site: str) -> None:
    page = PAGES[site][1]
    back = vouched(visit, site, page)
    assert back.startswith(f"http://{site}.local/login/bank/return?code=")
    client, late = visit(site), visit(site)
    assert client.get(back).url.path == page
    assert client.get(page).url.path == page
    assert late.get(back).url.path == "/login"
    assert late.get(page).url.path == "/login"


def test_a_code_is_good_for_its_own_site_only_and_cannot_be_read(visit: Visit) -> None:
    back = vouched(visit, "food")
    code = back.partition("code=")[2].partition("&")[0]
    assert code not in visit("world").get("/env").text
    assert visit("util").get(back.replace("food.local", "util.local")).url.path == "/login"
    assert log_in(visit, "bank").get("/vouch/world").status_code == 404


def test_who_is_not_logged_in_at_the_bank_logs_in_there_first(visit: Visit) -> None:
    answer = visit("bank").get("/vouch/food?next=/account", follow_redirects=False)
    assert answer.headers["location"] == "/login?next=/vouch/food%3Fnext%3D/account"


def test_the_bank_is_found_by_address_too(visit: Visit) -> None:
    answer = visit("food").get("/login/bank", headers={"Host": "127.0.0.1:9"}, follow_redirects=False)
    assert answer.headers["location"] == "http://127.0.0.1:1/vouch/food?next=/menu"


@pytest.mark.parametrize("site", OFFERS)
def test_the_card_on_file_pays_until_it_is_blocked(visit: Visit, site: str) -> None:
    client, offer = log_in(visit, site), OFFERS[site]
    before = env(visit)
    assert 'id="receipt-id"' in client.post(f"/purchases/{offer}").text
    visit("world").patch("/env", json={"bank": {"cards": {"1234": {"status": "blocked"}}}})
    assert "declined the card ending 1234" in client.post(f"/purchases/{offer}").text
    after = env(visit)
    bought = [receipt for key, receipt in after[site]["purchases"].items() if key not in before[site]["purchases"]]
    assert [(receipt["offer"], receipt["card"]) for receipt in bought] == [(offer, "1234")]
    paid = before["bank"]["accounts"]["AC-100"]["balance"] - after["bank"]["accounts"]["AC-100"]["balance"]
    assert round(paid, 2) == after[site]["offers"][offer]["price"]
    assert client.post("/purchases/nothing").status_code == 404


@pytest.mark.parametrize("site", CHANGES)
def test_another_card_is_put_on_file(visit: Visit, site: str) -> None:
    path, form = CHANGES[site]
    log_in(visit, site).post(path, data=form)
    kept = env(visit)[site]["payment"]
    assert kept == {"brand": "Mastercard", **NEW, "updated": "2025-11-16T09:00:00Z"}


@pytest.mark.parametrize("site", CHANGES)
def test_a_blocked_card_is_not_taken(visit: Visit, site: str) -> None:
    visit("world").patch("/env", json={"bank": {"cards": {"5678": {"status": "blocked"}}}})
    path, form = CHANGES[site]
    refused = log_in(visit, site).post(path, data=form).text
    assert "declined the card ending 5678" in refused or "choose one of your cards" in refused
    assert env(visit)[site]["payment"]["last4"] == "1234"


@pytest.mark.parametrize("site", ["util", "stream"])
def test_a_typed_card_is_checked_and_may_be_of_another_bank(visit: Visit, site: str) -> None:
    client, path = log_in(visit, site), CHANGES[site][0]
    assert "must be four digits" in client.post(path, data={"last4": "1", "expiry": "12/2029"}).text
    client.post(path, data={"last4": "0042", "expiry": "12/2029"})
    kept = env(visit)[site]["payment"]
    assert (kept["brand"], kept["last4"], kept["expiry"]) == ("Visa", "0042", "12/2029")


def test_the_threshold_is_saved_with_the_top_up_card(visit: Visit) -> None:
    transport = log_in(visit, "transport")
    assert "choose a threshold" in transport.post("/settings", data={"card": "5678", "threshold": "7"}).text
    assert env(visit)["transport"]["payment"]["last4"] == "1234"
    transport.post("/settings", data={"card": "5678", "threshold": "20"})
    assert env(visit)["transport"]["topup"]["threshold"] == 20


def test_a_profile_takes_the_card_after_the_second_step_only(visit: Visit) -> None:
    travel = log_in(visit, "travel")
    assert travel.get("/profile/card/confirm").url.path == "/profile/card"
    assert travel.post("/profile/card/confirm", data={"holder": "yes"}).url.path == "/profile/card"
    assert "must look like" in travel.post("/profile/card", data={"last4": "5678", "expiry": "2027"}).text
    assert 'id="draft-card">5678<' in travel.post("/profile/card", data=NEW).text
    assert "confirm that the card is yours" in travel.post("/profile/card/confirm", data={}).text
    assert env(visit)["travel"]["payment"]["last4"] == "1234"
    travel.post("/profile/card/confirm", data={"holder": "yes"})
    after = env(visit)["travel"]
    assert (after["payment"]["last4"], after["draft"]) == ("5678", {})


def test_a_paid_bill_is_not_offered_again(visit: Visit) -> None:
    util = log_in(visit, "util")
    util.post("/purchases/W-2025-11")
    bills = util.get("/bills").text
    assert 'data-offer="W-2025-11"' not in bills
    assert 'data-offer="E-2025-11"' in bills
