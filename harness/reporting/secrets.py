"""How a secret can be spelt in a file, and which names say that their value is one."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 3
"""Shorter values are not looked for: they would be found in every word."""

_SHORTEST_ENCODED = 4
"""Letters of base64; a secret of four bytes leaves no more of its own, wherever it stands."""
_ANYWHERE = re.compile(r"passw|passphrase|secret|token|api[-_ ]?key|credential", re.IGNORECASE)
_WORDS = frozenset({"pin", "pwd", "pw", "pass", "otp", "cvv", "cvc", "puk", "tan"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ENCODED = {"path": ' "<>^`{|}', "query": " \"<>'", "fragment": ' "<>`'}
"""What Chromium writes as %XX in each part of an address, besides controls and what is not ASCII; never a `%`."""
_NEXT_PART = {("path", "?"): "query", ("path", "#"): "fragment", ("query", "#"): "fragment"}
_DROPPED = str.maketrans("", "", "\t\r\n")


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret: `password`, `userPin`, `csrf_token`, but not `shipping`."""
    return bool(_ANYWHERE.search(name)) or any(word.lower() in _WORDS for word in _WORD.findall(name))


def spellings(secret: str) -> set[str]:
    """Every way a secret is written: plain, in URLs, JSON, HTML and Python, in base64 at any offset."""
    if len(secret) < SHORTEST:
        return set()
    found = {secret, *_in_html(secret), *_as_literal(secret), *_quoted(secret)}
    for text in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        found |= {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return {word for word in found if len(word) >= SHORTEST} | set(_in_base64(secret))


def _in_html(secret: str) -> Iterator[str]:
    """As Python and templates write it, and as Chromium does, which escapes quotes only where it must."""
    plain = html.escape(secret, quote=False)
    for text in (plain, plain.replace("\xa0", "&nbsp;")):
        inside = text.replace('"', "&quot;")
        yield from (text, inside, inside.replace("&lt;", "<").replace("&gt;", ">"))
    yield html.escape(secret)
    yield plain.replace('"', "&#34;").replace("'", "&#39;")


def _as_literal(secret: str) -> Iterator[str]:
    """As `repr` writes it, whichever quotes stand around it, as a criterion does, and as a path of the world does."""
    whole = repr("'\"" + secret)[4:-1]
    yield from (whole, whole.replace("\\'", "'"))
    printable = "".join(letter if letter.isprintable() else " " for letter in secret)
    yield printable if len("".join(printable.split())) >= SHORTEST else secret
    yield from (secret.replace("\\", "\\\\").replace(mark, "\\" + mark) for mark in "'\"")


def _quoted(secret: str) -> Iterator[str]:
    """As an address or a form holds it; a field of several lines sends CR LF, one of a single line drops them."""
    lines = secret.replace("\r\n", "\n").replace("\n", "\r\n")
    texts = {_in_address(secret, part) for part in _ENCODED}
    for text in (secret, lines, secret.translate(_DROPPED)):
        texts |= {quote(text, safe=safe, errors="replace") for safe in ("/", "", "~()*!'")}
        texts |= {quote_plus(text, errors="replace"), *_in_form(text)}
    for text in texts:
        yield text
        yield _lower_escapes(text)


def _in_form(text: str) -> Iterator[str]:
    """As Chromium sends a form: of a page in UTF-8, or in the western alphabet that a page without a charset has."""
    yield quote_plus(text, safe="*", errors="replace").replace("~", "%7E")
    yield quote_plus(text, safe="*", encoding="cp1252", errors="xmlcharrefreplace").replace("~", "%7E")


def _in_address(secret: str, part: str) -> str:
    """As Chromium shows it in `location.href` when it begins in this part of the address."""
    written = ""
    for letter in secret.translate(_DROPPED):
        part = _NEXT_PART.get((part, letter), part)
        if part == "path" and letter == "\\":
            written += "/"
        else:
            plain = " " <= letter <= "~" and letter not in _ENCODED[part]
            written += letter if plain else quote(letter, safe="", errors="replace")
    return written


def _in_base64(secret: str) -> Iterator[str]:
    """Encoded as it is, as JSON, as part of an address, and in the western alphabet that `btoa` takes it for.

    The letters `+` and `/` may be escaped in their turn.
    """
    texts = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    texts |= {quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace")}
    datas = {text.encode("utf-8", "replace") for text in texts}
    if all(letter <= "\xff" for letter in secret):
        datas.add(secret.encode("latin-1"))
    for letters in {letters for data in datas for letters in _encoded(data)}:
        yield letters
        if "+" in letters or "/" in letters:
            yield letters.replace("/", "\\/")
            yield from (quote(letters, safe=""), _lower_escapes(quote(letters, safe="")))


def _lower_escapes(text: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda found: found.group().lower(), text)


def _encoded(data: bytes) -> Iterator[str]:
    """The base64 letters that only depend on the secret, wherever it stands in the encoded text."""
    for offset in range(3):
        whole = (offset + len(data)) * 8 // 6
        first = -(-offset * 8 // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            letters = encode(b"\0" * offset + data).decode()[first:whole]
            if len(letters) >= _SHORTEST_ENCODED:
                yield letters
