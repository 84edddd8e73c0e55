"""What the page looked like when the task failed: its picture, and its elements beside it, inert."""

from __future__ import annotations

import base64
import re

from harness.reporting.still_page import still_page

LARGEST_PICTURE, LARGEST_PAGE = 1_500_000, 1_000_000
"""Bytes; what is larger stands only in its own attachment."""

_STYLE = (
    ".two{display:flex;gap:16px;align-items:flex-start}.two>*{flex:1 1 50%;min-width:0;margin:0}"
    ".two img.picture{width:100%;border:1px solid #c3c9d0}figcaption{color:#5a646e;margin-bottom:4px}"
    ".page{border:1px solid #c3c9d0;height:560px;overflow:auto;contain:strict;background:#fff;color:#000}"
)
_SHELL = re.compile(r"<!DOCTYPE[^>]*>|</?(?:html|head|body)\b[^>]*>|<meta\b[^>]*>|<title>[^<]*</title>", re.IGNORECASE)
_SHEET = re.compile(r"<style[^>]*>([^<]*)</style>", re.IGNORECASE)
_ROOT = re.compile(r"(?<![\w.#-])(?:html|body|:root)\b(?![\w-])")


def side_by_side(picture: bytes | None, snapshot: str | None) -> str | None:
    """The page; None when there is nothing to put beside each other. `snapshot` was made inert (inert.py)."""
    shown = picture if picture and len(picture) <= LARGEST_PICTURE else None
    elements = snapshot if snapshot and len(snapshot) <= LARGEST_PAGE else None
    if shown is None or elements is None:
        return None
    data = base64.b64encode(shown).decode()
    body = (
        f'<div class="two"><figure><figcaption>screenshot</figcaption><img class="picture" alt="screenshot" '
        f'src="data:image/png;base64,{data}"></figure>\n<figure><figcaption>elements of the page, without its scripts '
        f'and without what it loaded</figcaption><div class="page">{within(elements)}</div></figure></div>\n'
    )
    return still_page("Page at the failure", body, _STYLE)


def within(snapshot: str) -> str:
    """An inert document as part of another one: its style sheets reach no further than its own elements."""
    return _SHEET.sub(
        lambda sheet: f"<style>@scope (.page) {{\n{_scoped(sheet[1])}\n}}</style>", _SHELL.sub("", snapshot)
    )


def _scoped(rules: str) -> str:
    return _ROOT.sub(":scope", rules)
