"""The effect of a merchant's charge or refund at the bank."""

from __future__ import annotations

from harness.demo.rows import Document
from harness.demo.visit import next_number


def charge(document: Document, last4: str, amount: float, merchant: str) -> bool:
    """Charge a card; False if the bank knows the card and it is not active. Cards of other banks always pay."""
    card = document["bank"]["cards"].get(last4)
    if card is None:
        return True
    if card.get("status") != "active":
        return False
    _book(document, card, -amount, merchant)
    return True


def refund(document: Document, last4: str, amount: float, merchant: str) -> None:
    """Refund an amount to the account of a card, whatever the card's status."""
    card = document["bank"]["cards"].get(last4)
    if card is not None:
        _book(document, card, amount, f"{merchant} refund")


def _book(document: Document, card: Document, amount: float, text: str) -> None:
    bank = document["bank"]
    account = bank["accounts"][card["account"]]
    account["balance"] = round(account["balance"] + amount, 2)
    number = f"T-{next_number(bank['numbers'], 'transaction')}"
    bank.setdefault("transactions", {})[number] = {
        "date": document["world"]["now"][:10],
        "account": card["account"],
        "card": card["last4"],
        "text": text,
        "amount": amount,
    }
