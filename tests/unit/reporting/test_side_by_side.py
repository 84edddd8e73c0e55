"""The picture of a page, and its elements beside it."""

from __future__ import annotations

from harness.reporting.inert import inert
from harness.reporting.side_by_side import LARGEST_PAGE, LARGEST_PICTURE, side_by_side, within

PAGE = (
    "<html><head><title>Shop</title><style>body, .a{color:red}</style></head><body class=x><h1>Shop</h1></body></html>"
)


def test_both_are_in_one_page() -> None:
    page = side_by_side(b"\x89PNG", inert(PAGE)) or ""
    assert 'src="data:image/png;base64,iVBORw=="' in page
    assert "<h1>Shop</h1>" in page
    assert page.count("<body") == page.count("<html") == 1


def test_style_sheets_of_the_page_reach_no_further() -> None:
    assert within(inert(PAGE)).strip() == "<style>@scope (.page) {\n:scope, .a{color:red}\n}</style><h1>Shop</h1>"


def test_nothing_of_the_page_acts() -> None:
    bad = "<script>alert(1)</script><img src=http://evil.test/x onerror=alert(2)><a href=javascript:alert(3)>x</a>"
    page = side_by_side(b"\x89PNG", inert(bad)) or ""
    for text in ("<script", "onerror", "javascript:", ' src="http'):
        assert text not in page


def test_what_is_too_large_stands_alone() -> None:
    assert side_by_side(bytes(LARGEST_PICTURE + 1), "<p>x") is None
    assert side_by_side(b"x", "x" * (LARGEST_PAGE + 1)) is None
    assert side_by_side(None, "<p>x") is None
    assert side_by_side(b"x", None) is None
