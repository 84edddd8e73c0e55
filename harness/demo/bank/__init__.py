"""bank.local: accounts, cards, and the merchants that charge them."""

from __future__ import annotations

from harness.demo.bank import accounts, cards, merchants
from harness.demo.bank.access import LOGIN

ROUTES = [*LOGIN.routes(), *accounts.ROUTES, *cards.ROUTES, *merchants.ROUTES]
