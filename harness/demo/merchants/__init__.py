"""The merchants: sites with an account and a stored card, each with its own way to change it."""

from __future__ import annotations
