"""The merchants: sites with an account and a card on file, which each lets its customer change in its own way."""

from __future__ import annotations
