"""Small real web sites that the shipped tasks run against: a shop, a bank, an office, merchants, language models."""

from __future__ import annotations

VERSION = "1.2"
"""Version of the sites themselves, reported by ``GET /health``."""
