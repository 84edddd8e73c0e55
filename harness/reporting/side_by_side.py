"""What the page looked like when the task failed: its picture, and its elements beside it, inert."""

from __future__ import annotations

import base64
import html

from harness.reporting.still_page import still_page

LARGEST_PICTURE, LARGEST_PAGE = 1_500_000, 1_000_000
"""Bytes; what is larger stands only in its own attachment."""

_STYLE = (
    ".two{display:flex;gap:16px;align-items:flex-start}.two>*{flex:1 1 50%;min-width:0;margin:0}"
    ".two img.picture{width:100%;border:1px solid #c3c9d0}figcaption{color:#5a646e;margin-bottom:4px}"
    ".page{border:1px solid #c3c9d0;box-sizing:border-box;width:100%;height:560px;background:#fff}"
)


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
        f"and without what it loaded</figcaption>{_framed(elements)}</figure></div>\n"
    )
    return still_page("Page at the failure", body, _STYLE)


def _framed(snapshot: str) -> str:
    """A document of its own, without rights: its style sheets reach no further, whatever they say."""
    return f'<iframe class="page" sandbox="" title="elements of the page" srcdoc="{html.escape(snapshot)}"></iframe>'
