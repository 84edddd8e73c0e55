"""bank.local: accounts, cards, lost cards, and the merchants that charge them."""

from __future__ import annotations

from harness.demo.bank import accounts, cards, lost, merchants, vouching
from harness.demo.bank.access import LOGIN

ROUTES = [*LOGIN.routes(), *accounts.ROUTES, *cards.ROUTES, *lost.ROUTES, *merchants.ROUTES, *vouching.ROUTES]
