"""The picture of a page, and its elements beside it."""

from __future__ import annotations

import html
from html.parser import HTMLParser

from harness.reporting.attachments import LARGEST_PAGE, LARGEST_PICTURE, side_by_side
from harness.reporting.redact_files import inert

PAGE = (
    "<html><head><title>Shop</title><style>body, .a{color:red}</style></head><body class=x><h1>Shop</h1></body></html>"
)


class Frames(HTMLParser):
    """The frames of a page: their attributes, and the document in each."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[tuple[dict[str, str | None], str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "iframe":
            found = dict(attrs)
            self.frames.append((found, found.get("srcdoc") or ""))


def test_both_are_in_one_page() -> None:
    page = side_by_side(b"\x89PNG", inert(PAGE)) or ""
    assert 'src="data:image/png;base64,iVBORw=="' in page
    assert page.count("<body") == page.count("<html") == 1


def test_the_elements_are_a_document_of_their_own_without_rights() -> None:
    page = side_by_side(b"\x89PNG", inert("</style></iframe>\"'" + PAGE)) or ""
    found = Frames()
    found.feed(page)
    ((attributes, inner),) = found.frames
    assert attributes["sandbox"] == ""
    assert "<h1>Shop</h1>" in inner
    assert "body, .a{color:red}" in inner
    assert "color:red" not in page.replace(html.escape(inner), "")


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
