"""Small real web sites (a shop, a bank, a public office) that the shipped tasks run against."""

from __future__ import annotations

VERSION = "1.0"
"""Version of the sites themselves, reported by ``GET /health``."""
