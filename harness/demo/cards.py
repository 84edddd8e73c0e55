"""Parses what a customer types about a card."""

from __future__ import annotations

import re
from typing import Final

from starlette.datastructures import FormData

from harness.demo.visit import field

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
