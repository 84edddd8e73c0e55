"""Makes a DOM snapshot inert: opening the file runs nothing, loads nothing, sends nothing; text and layout stay."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

from harness.reporting.addresses import MARK

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"
"""The second wall: what the rewriting might miss, the browser refuses."""

_HEAD = f'<!DOCTYPE html>\n<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
_BEGINNING = _HEAD.encode()
_DROPPED = frozenset((
    "script", "noscript", "base", "meta", "link", "object", "embed", "applet", "portal", "fencedframe", "frame",
    "frameset", "noframes", "noembed", "xmp", "plaintext", "animate", "animatemotion", "animatetransform", "set",
    "handler", "listener", "param",
))  # fmt: skip
_WITH_CONTENT = frozenset({"script", "noscript", "object", "applet", "noframes", "noembed"})
_LOADS = frozenset((
    "src", "srcset", "href", "action", "formaction", "data", "poster", "background", "longdesc", "manifest", "ping",
    "xlink:href", "srcdoc", "imagesrcset", "code", "codebase", "archive", "classid", "profile", "lowsrc", "dynsrc",
    "cite",
))  # fmt: skip
_GONE = frozenset({"autofocus", "autoplay", "nonce", "integrity", "http-equiv", "shadowrootmode"})
_VOID = frozenset(("area", "br", "col", "hr", "img", "input", "source", "track", "wbr"))
_NAME = re.compile(r"[a-z][a-z0-9:_.-]*")
_ATTRIBUTE = re.compile(r"[^\s\"'<>/=\x00]+")
_SCRIPT_URL = re.compile(r"(?:javascript|vbscript|livescript)\s*:", re.IGNORECASE)
_BLANK = re.compile(r"[\x00-\x20\x7f-\xa0]+")
_CSS_URL = re.compile(r"url\(\s*(?![\"']?\s*(?:data:image/|#))(?:\"[^\"]*\"|'[^']*'|[^)]*)\s*\)", re.IGNORECASE)
_CSS_IMPORT = re.compile(r"@import\b[^;]*;?", re.IGNORECASE)

Attributes = list[tuple[str, str | None]]


def inert(document: str) -> str:
    """The same page, dead. Values of password fields are redacted."""
    parser = _Rewriter()
    parser.feed(document)
    parser.close()
    return f"{_HEAD}{''.join(parser.out)}"


def is_inert(file: Path) -> bool:
    """Whether its first words are those of `inert`, so that the browser refuses what follows. OSError."""
    with file.open("rb") as stream:
        return stream.read(len(_BEGINNING)) == _BEGINNING


class _Rewriter(HTMLParser):
    """Writes every tag anew: each `<` in the result belongs to a tag that was allowed here."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self._skipped: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        if self._skipped:
            if tag == self._skipped[-1] and tag in _WITH_CONTENT:
                self._skipped.append(tag)
        elif tag in _WITH_CONTENT:
            self._skipped.append(tag)
        elif tag not in _DROPPED and _NAME.fullmatch(tag):
            self._style = tag == "style"
            self.out.append(f"<{tag}{''.join(_attributes(tag, attrs))}>")

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        """`<script/>` opens a script in HTML, `<path/>` is whole in SVG: closed explicitly, both are harmless."""
        if tag not in _DROPPED:
            self.handle_starttag(tag, attrs)
            if tag not in _VOID:
                self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            if tag == self._skipped[-1]:
                self._skipped.pop()
        elif tag not in _DROPPED and _NAME.fullmatch(tag):
            self._style = False
            self.out.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.out.append(_css(data) if self._style else html.escape(data, quote=False))


def _attributes(tag: str, attrs: Attributes) -> list[str]:
    password = tag == "input" and any(n == "type" and (v or "").strip().lower() == "password" for n, v in attrs)
    written = []
    for name, value in attrs:
        if name.startswith("on") or name in _GONE or not _ATTRIBUTE.fullmatch(name):
            continue
        if _SCRIPT_URL.search(_BLANK.sub("", value or "")):
            continue
        written.append(_attribute(tag, name, MARK if password and name == "value" and value else value))
    return written


def _attribute(tag: str, name: str, value: str | None) -> str:
    if value is None:
        return f" {name}"
    if name == "style":
        value = _css(value)
    elif name in _LOADS and not _harmless(name, value):
        stand_in = ' href="#"' if tag in ("a", "area") and name == "href" else ""
        return f'{stand_in} data-inert-{name.replace(":", "-")}="{html.escape(value)}"'
    return f' {name}="{html.escape(value)}"'


def _harmless(name: str, value: str) -> bool:
    """An image that is part of the document, or a place in it."""
    value = value.strip().lower()
    return (name in ("src", "poster") and value.startswith("data:image/")) or (
        name in ("href", "xlink:href") and value.startswith("#")
    )


def _css(text: str) -> str:
    """Style rules without anything to load; `<` is spelt so that no parser takes it for a tag."""
    return _CSS_IMPORT.sub("", _CSS_URL.sub("url()", text)).replace("<", r"\3c ")
