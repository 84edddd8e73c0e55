"""What is read of bytes: text, JSON, rows. What cannot be read says why, and is not taken for empty."""

from __future__ import annotations

import sys

import pytest

from harness.browser.contents import MOST, body_of, content_of, document_in


@pytest.mark.parametrize(
    ("raw", "kind", "document"),
    [
        (b'{"a": 1}', "application/json", {"a": 1}),
        (b"\xef\xbb\xbf[1]", "text/plain", [1]),
        (b"7", "text/plain", "7"),
        (b"{no json", "application/json", "{no json"),
        (b"", "text/html", ""),
    ],
)
def test_a_body_is_json_or_else_text(raw: bytes, kind: str, document: object) -> None:
    assert document_in(raw, kind) == document


@pytest.mark.parametrize(
    ("name", "raw", "rows"),
    [
        ("a.csv", b"a,b\n1,2\n", [{"a": "1", "b": "2"}]),
        ("a.CSV", b'\xef\xbb\xbfa;b\r\n"1;x";\r\n\r\n', [{"a": "1;x", "b": ""}]),
        ("a.tsv", b"a\tb\n1", [{"a": "1"}]),
        ("a.csv", b"a,b\n", []),
    ],
)
def test_the_rows_of_a_table_have_the_names_of_its_first_line(name: str, raw: bytes, rows: object) -> None:
    assert content_of(name, raw)["rows"] == rows


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("a.csv", b"a,a\n1,2\n", "two columns are named 'a'"),
        ("a.csv", b"a,b\n1,2,3\n", "row 2 has more columns than the first"),
        ("a.txt", b"x" * (MOST + 1), "a.txt is larger than"),
        ("a.zip", b"PK\0", "a.zip is no text"),
        ("a.pdf", b"%PDF-1.4 broken", "the PDF cannot be read"),
    ],
)
def test_what_cannot_be_read_says_why(name: str, raw: bytes, why: str) -> None:
    found = content_of(name, raw)
    assert why in found["unread"]
    assert "rows" not in found


def test_texts_of_other_encodings_and_bodies_that_are_gone() -> None:
    assert content_of("a.txt", "\u00fc".encode("utf-16"))["text"] == "\u00fc"
    assert content_of("a.txt", b"\xfc")["text"] == "\u00fc"
    assert body_of("it is gone") == {"unread": "it is gone"}
    assert "larger" in body_of(b"x" * (MOST + 1))["unread"]


def test_without_pypdf_a_pdf_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert content_of("a.pdf", b"%PDF-1.4") == {"unread": "reading PDF needs pypdf: pip install 'pytest-taskspec[pdf]'"}
