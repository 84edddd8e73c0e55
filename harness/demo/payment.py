"""The effect of a merchant's charge or refund at the bank."""

from __future__ import annotations

import re
from typing import Final

from starlette.datastructures import FormData

from harness.demo.visit import field, next_number
from harness.demo.worlds import Document

_LAST4: Final = re.compile(r"\d{4}", re.ASCII)
_EXPIRY: Final = re.compile(r"(0[1-9]|1[0-2])/(\d{4})", re.ASCII)


def typed(form: FormData, now: str) -> tuple[str, str, str]:
    """Return last four digits, expiry (``MM/YYYY``) and the error in them (empty if none)."""
    last4, expiry = field(form, "last4"), field(form, "expiry")
    month = _EXPIRY.fullmatch(expiry)
    if not _LAST4.fullmatch(last4):
        return last4, expiry, "The last digits must be four digits."
    if month is None:
        return last4, expiry, "The expiry must look like 12/2029."
    if f"{month[2]}-{month[1]}" < now[:7]:
        return last4, expiry, "This card has expired."
    return last4, expiry, ""


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
