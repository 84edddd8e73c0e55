"""bank.local without a browser."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.unit.demo.conftest import Visit


def env(visit: Visit) -> Any:
    return visit("world").get("/env").json()["bank"]


@pytest.fixture
def bank(visit: Visit) -> TestClient:
    """A client that is logged in."""
    client = visit("bank")
    client.post("/login", data={"user": "demo", "secret": "demo-pass"})
    return client


def test_without_a_session_every_page_asks_for_the_login(visit: Visit) -> None:
    for path in ("/accounts", "/cards", "/cards/1234/replace", "/merchants", "/accounts/AC-100/statement.csv"):
        answer = visit("bank").get(path, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={path}")


def test_login_comes_back_to_the_page_and_stays_on_the_site(visit: Visit) -> None:
    def goes_to(following: str) -> str:
        form = {"user": "demo", "secret": "demo-pass", "next": following}
        return str(visit("bank").post("/login", data=form, follow_redirects=False).headers["location"])

    assert goes_to("/cards") == "/cards"
    assert [goes_to(path) for path in ("//evil.example", "https://evil.example", "/\\evil.example", "")] == [
        "/accounts"
    ] * 4


def test_a_wrong_password_is_told_and_the_third_locks(visit: Visit) -> None:
    bank = visit("bank")
    wrong = [bank.post("/login", data={"user": "demo", "secret": "nope"}) for _ in range(3)]
    assert [answer.status_code for answer in wrong] == [401, 401, 403]
    assert "wrong password" in wrong[0].text
    assert "locked" in bank.post("/login", data={"user": "demo", "secret": "demo-pass"}).text
    assert env(visit)["users"]["demo"]["locked"] is True


def test_the_cookie_cannot_be_read_from_the_environment(visit: Visit, bank: TestClient) -> None:
    token = bank.cookies["session"]
    assert token not in str(env(visit))
    assert [session["user"] for session in env(visit)["sessions"].values()] == ["demo"]


def test_an_expired_session_goes_back_to_the_login(visit: Visit, bank: TestClient) -> None:
    assert bank.get("/cards", follow_redirects=False).status_code == 200
    visit("world").patch("/env", json={"bank": {"sessions": None}})
    assert bank.get("/cards", follow_redirects=False).headers["location"] == "/login?next=/cards"


def test_logout_ends_the_session(visit: Visit, bank: TestClient) -> None:
    bank.post("/logout")
    assert env(visit)["sessions"] == {}
    assert bank.get("/cards", follow_redirects=False).status_code == 303


def test_a_card_is_replaced_and_the_old_one_deactivated(visit: Visit, bank: TestClient) -> None:
    bank.post("/cards/1234/replace", data={"last4": "7777", "expiry": "12/2029"})
    assert env(visit)["cards"]["1234"]["status"] == "active"
    bank.post("/cards/1234/deactivate", data={"reason": "replaced"})
    cards = env(visit)["cards"]
    assert (cards["7777"]["status"], cards["7777"]["expiry"], cards["7777"]["replaces"]) == (
        "active",
        "12/2029",
        "1234",
    )
    assert (cards["1234"]["status"], cards["1234"]["reason"]) == ("inactive", "replaced")


def test_a_card_is_not_activated_twice_nor_deactivated_without_a_reason(visit: Visit, bank: TestClient) -> None:
    assert "already have a card" in bank.post("/cards/1234/replace", data={"last4": "5678", "expiry": "12/2029"}).text
    assert "choose a reason" in bank.post("/cards/1234/deactivate", data={}).text
    assert env(visit)["cards"]["1234"]["status"] == "active"


def test_a_merchant_charges_an_active_card_only(visit: Visit, bank: TestClient) -> None:
    assert "now charges the card ending 5678" in bank.post("/merchants/shop", data={"card": "5678"}).text
    assert "is not active" in bank.post("/merchants/shop", data={"card": "0000"}).text
    binding = env(visit)["bindings"]["shop"]
    assert (binding["card"], binding["updated"]) == ("5678", "2025-11-16")
    assert bank.post("/merchants/nobody", data={"card": "5678"}).status_code == 404


def test_the_statement_is_a_csv_file(bank: TestClient) -> None:
    answer = bank.get("/accounts/AC-100/statement.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="statement-AC-100.csv"'
    assert answer.text.splitlines()[:2] == ["id,date,text,card,amount", "T-70001,2025-11-01,Salary,,2950.00"]


def test_a_lost_card_is_blocked_for_good(visit: Visit, bank: TestClient) -> None:
    assert "say what happened" in bank.post("/cards/1234/lost", data={"reason": "bored"}).text
    assert env(visit)["cards"]["1234"]["status"] == "active"
    assert "The card is blocked" in bank.post("/cards/1234/lost", data={"reason": "lost"}).text
    bank.post("/cards/1234/lost", data={"reason": "stolen"})
    card = env(visit)["cards"]["1234"]
    assert (card["status"], card["reason"], card["blocked"]) == ("blocked", "lost", "2025-11-16T09:00:00Z")


def test_one_virtual_card_is_issued_for_a_blocked_one(visit: Visit, bank: TestClient) -> None:
    assert "for a blocked card only" in bank.post("/cards/1234/virtual").text
    bank.post("/cards/1234/lost", data={"reason": "lost"})
    assert 'id="card-8899"' in bank.post("/cards/1234/virtual").text
    assert "ending 8899 has been issued already" in bank.post("/cards/1234/virtual").text
    cards = env(visit)["cards"]
    assert list(cards) == ["1234", "5678", "8899"]
    card = {name: cards["8899"][name] for name in ("kind", "expiry", "status", "replaces", "account")}
    assert list(card.values()) == ["virtual", "11/2028", "active", "1234", "AC-100"]


def test_one_replacement_is_ordered_for_a_card(visit: Visit, bank: TestClient) -> None:
    assert "choose a delivery" in bank.post("/cards/1234/replacement", data={}).text
    ordered = bank.post("/cards/1234/replacement", data={"delivery": "express"})
    again = bank.post("/cards/1234/replacement", data={"delivery": "standard"})
    assert [answer.url.path for answer in (ordered, again)] == ["/replacements/RC-501"] * 2
    assert 'id="replacement-status">ordered<' in ordered.text
    replacement = env(visit)["replacements"]
    assert list(replacement) == ["RC-501"]
    assert (replacement["RC-501"]["card"], replacement["RC-501"]["delivery"]) == ("1234", "express")
    assert bank.get("/replacements/RC-9").status_code == 404


def test_a_visitor_whom_the_bank_forgot_is_logged_out(visit: Visit, bank: TestClient) -> None:
    visit("world").patch("/env", json={"bank": {"users": {"demo": None}}})
    assert bank.get("/cards", follow_redirects=False).headers["location"] == "/login?next=/cards"
