"""Selectors that no browser takes (tests/browser/test_failures.py asks one)."""

from __future__ import annotations

MALFORMED = (
    "##q", "a##b", "div[", "div]", "div(", "div)", "#a:has(.b", "[a='b]", '[a="b"', "a[b]]", ":has-text('x)",
    "a:has-text(it's)", "a[b(c]", "li:nth-child(2", "p:text-is(a [b)",
)  # fmt: skip
