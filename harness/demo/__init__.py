"""Small real web sites (a shop, a bank, a public office, five merchants) that the shipped tasks run against."""

from __future__ import annotations

VERSION = "1.1"
"""Version of the sites themselves, reported by ``GET /health``."""
