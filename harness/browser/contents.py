"""What criteria read of bytes: a text, the JSON in it, the rows of a table. What cannot be read says why."""

from __future__ import annotations

import csv
import json
from collections import Counter
from contextlib import suppress
from io import BytesIO, StringIO
from typing import Any

from harness.spec.names import well_formed
from harness.task_secrets import learn_named

MOST = 2_000_000
"""Bytes of a body or a text that criteria read."""
UNREAD = "unread"
"""The key of an item that says why its content could not be read."""
_MOST_ROWS = 100_000
_MOST_PAGES = 500
_SEPARATORS = ",;\t|"
_NO_PDF = "reading PDF needs pypdf: pip install 'pytest-taskspec[pdf]'"


def document_in(raw: bytes, kind: str = "json") -> Any:
    """The JSON document in a body, else its text. `kind`: its content type."""
    text = raw.decode("utf-8-sig", "replace")
    if "json" in kind or text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            learn_named(document)
            return document
    return well_formed(text)


def json_in(text: str) -> Any:
    """The JSON document in a text; None if it has none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    learn_named(document)
    return document


def body_of(raw: bytes | str) -> dict[str, Any]:
    """`body` and `json` of an answer. A text is the reason why there is no body."""
    if isinstance(raw, str):
        return {UNREAD: raw}
    if len(raw) > MOST:
        return {UNREAD: f"its body is larger than {MOST:,} bytes"}
    text = well_formed(raw.decode("utf-8-sig", "replace"))
    return {"body": text, "json": json_in(text)}


def content_of(name: str, raw: bytes) -> dict[str, Any]:
    """`text` of a file, with `json` and `rows` where it has them, or the reason why it has no text."""
    if raw.startswith(b"%PDF-"):
        return _of_pdf(raw)
    if len(raw) > MOST:
        return {UNREAD: f"{name} is larger than {MOST:,} bytes"}
    text = _text_in(raw)
    if text is None:
        return {UNREAD: f"{name} is no text"}
    content: dict[str, Any] = {"text": text, "json": json_in(text)}
    if name.lower().endswith((".csv", ".tsv")):
        rows = _rows_in(text)
        if isinstance(rows, str):
            return {"text": text, "json": None, UNREAD: f"{name} has no rows to read: {rows}"}
        content["rows"] = rows
    return content


def _text_in(raw: bytes) -> str | None:
    """The text in a file; None if it is none."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return well_formed(raw.decode("utf-16", "replace"))
    if b"\0" in raw:
        return None
    try:
        return well_formed(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return well_formed(raw.decode("cp1252", "replace"))


def _rows_in(text: str) -> list[dict[str, str]] | str:
    """The rows of a table, each with the names of its first line as keys, or the reason why there are none."""
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    try:
        lines = [line for line in csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True) if line]
    except csv.Error as error:
        return str(error)
    names, *rows = lines or [[]]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        return f"two columns are named {twice[0]!r}"
    if len(rows) > _MOST_ROWS:
        return f"it has more than {_MOST_ROWS:,} rows"
    if longer := next((number for number, row in enumerate(rows, 2) if len(row) > len(names)), None):
        return f"row {longer} has more columns than the first"
    return [dict(zip(names, row, strict=False)) for row in rows]


def _of_pdf(raw: bytes) -> dict[str, Any]:
    try:
        from pypdf import PdfReader  # an extra
        from pypdf.errors import PyPdfError
    except ImportError:
        return {UNREAD: _NO_PDF}
    try:
        pages = PdfReader(BytesIO(raw)).pages
        if len(pages) > _MOST_PAGES:
            return {UNREAD: f"the PDF has more than {_MOST_PAGES} pages"}
        text = "\n".join(page.extract_text() for page in pages)
    except (PyPdfError, ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        return {UNREAD: f"the PDF cannot be read: {error}"}
    return {"text": well_formed(text)} if len(text) <= MOST else {UNREAD: "the text of the PDF is too long"}
