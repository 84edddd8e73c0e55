"""Finds secrets in texts, however they are spelt there, and masks them (docs/design/evidence.md).

A text is searched as it is, and again after each round in which its escapes were undone: of addresses, HTML, JSON and
programs, also nested. Each find is traced back to its place in the text, so only what spells a secret is replaced.
"""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from urllib.parse import quote, quote_plus, urlsplit

from msgspec import Struct

from harness.values import replace

MARK = "[redacted]"

_SHORTEST = 3
"""Shorter values are not searched: they would be found in every word."""
COMMON = frozenset({"true", "false", "null", "none", "undefined", "yes", "off"})
"""Values that are no secrets, whatever they are called: without them no report could be read."""
LEAST = 6
"""The number of first (or last) letters by which a secret is recognized before (or after) an ellipsis."""
_LEAST_AT_AN_END = 10
"""The same number at the end of a line or text without an ellipsis."""
_EXACT = 3
"""Secrets of so few letters are only found in the case that they have."""
_PLAIN = re.compile(r"\d{3,5}|[A-Za-z]{3,7}")
"""Secrets that are ordinary numbers or words, as `1234` and `demo`: within `91234` and `democracy` they are none."""
_LINE, _TELLING_LINE = 16, 6
"""Lines of a secret that are searched alone: long ones, and shorter ones that are more than words."""
_ENCODED = 4
"""The least number of bytes of a secret that is searched in base64 and hex."""
_ROUNDS = 12
"""Rounds in which escapes are undone."""
_KEPT_LENGTH, _KEPT = 256, 4096
"""Answers for short texts are kept: a recording says the same names again and again."""
_SEARCHED_AGAIN = 100_000
"""Characters of a text that is searched again between the marks, since an escape may have been cut in two."""


def hidden_values(secrets: Iterable[str]) -> frozenset[str]:
    """The secrets that are searched: others are too short or too common to be told from ordinary words."""
    return frozenset(each for each in secrets if len(each) >= _SHORTEST and each.strip().lower() not in COMMON)


def cut(text: str, length: int) -> str:
    """The text, with a sign where it is cut: only by that sign is what is left of a secret recognized later."""
    return text if len(text) <= length else text[: length - 1] + "…"


# The spellings of a secret that no undoing of escapes reveals.


@lru_cache(maxsize=2048)
def _needles(secret: str) -> tuple[_Needle, ...]:
    """All that is searched for one secret."""
    words = {form for text in (secret, *_parts(secret)) for form in _forms(text)}
    words = {each for each in words if len(each) >= _SHORTEST and not each.isspace()}
    exact = {each for word in (secret, *_undone(secret)) for each in _in_base64(word)}
    exact |= words if len(secret) <= _EXACT else set()
    folded = {_lower(each) for each in words if len(secret) > _EXACT} | set(_in_hex(secret))
    found = [*(_Needle(each, secret) for each in folded), *(_Needle(_lower(each), secret, each) for each in exact)]
    alone = _PLAIN.fullmatch(secret) is not None
    return tuple(replace(each, alone=alone and each.word == secret.lower()) for each in found)


def _forms(secret: str) -> Iterator[str]:
    """The text itself as it is normalized, shown, sent and quoted."""
    # Escapes are undone in the text that is searched. Here stand only the changes that no undoing takes back: by disks
    # and pages (normal forms, case), by forms (`+` for a blank), by paths (`/`) and task files (`$${`), by the quotes
    # of SQL, YAML and shells, and by who reads the bytes of UTF-8 as latin-1 or windows-1252.
    composed = (unicodedata.normalize(form, secret) for form in ("NFC", "NFD", "NFKC"))
    replaced = (secret.replace(*pair) for pair in ((" ", "+"), ("+", " "), ("\\", "/"), ("${", "$${")))
    for text in {secret, *composed, *replaced, secret.upper(), secret.lower(), secret.casefold()}:
        yield from _shown(text)
        yield from _undone(text)
    yield from (secret.replace(quote, quote * 2) for quote in "'\"")
    yield from (secret.replace("'", quoted) for quoted in ("'\"'\"'", "'\\''"))
    if not secret.isascii():
        data = secret.encode("utf-8", "replace")
        yield from (data.decode("latin-1"), data.decode("cp1252", "replace"))


def _shown(text: str) -> Iterator[str]:
    """The text as it is shown: without what cannot be printed, with other line breaks, in one line."""
    lines = re.split(r"\r\n|\r|\n", text)
    for each in {text, *(mark.join(lines) for mark in ("\r\n", "\n", "\r", " ", "")), " ".join(text.split())}:
        yield each
        if each.isascii() and each.isprintable():
            continue
        yield each.translate(_UNSEEN)
        yield "".join(letter if letter.isprintable() else " " for letter in each)
        yield "".join(letter for letter in each if letter.isprintable())
        yield each.replace("\t", "")
        yield from (re.sub("[\ud800-\udfff]", mark, each) for mark in ("?", "\ufffd"))
        yield each.replace("\xa0", " ")


_UNSEEN = dict.fromkeys((*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF, 0xAD))
"""Letters of no width, which browsers and editors drop or keep as they like."""


def _undone(text: str) -> Iterator[str]:
    """The text after each round in which what looks like an escape in it is undone."""
    for _ in range(_ROUNDS):
        layer = _unescaped(text)
        if layer is None or len(layer.text) < LEAST:
            return
        text = layer.text
        yield text


def _parts(secret: str) -> Iterator[str]:
    """Parts of a secret that are secrets alone: lines, a URL's password, a token after its scheme, texts of JSON."""
    lines = re.split(r"[\r\n]+|(?:\\r)?\\n", secret)
    for line in map(str.strip, lines if len(lines) > 1 else ()):
        telling = len(line) >= _TELLING_LINE and not all(each.isalpha() or each in " .,;:!?-'" for each in line)
        if (telling or len(line) >= _LINE) and not line.startswith(("-----BEGIN", "-----END")):
            yield line
    if found := re.fullmatch(r"(?:bearer|basic|token)\s+(\S{8,})", secret.strip(), re.IGNORECASE):
        yield found[1]
    if "://" in secret and "@" in secret and (password := _password(secret)):
        yield password
    if secret.lstrip()[:1] in ("{", "["):
        yield from _texts_of_json(secret)


def _password(url: str) -> str:
    try:
        return urlsplit(url.strip()).password or ""
    except ValueError:
        return ""


def _texts_of_json(text: str) -> Iterator[str]:
    try:
        found = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while found:
        match found.pop():
            case dict() as document:
                found += document.values()
            case list() as items:
                found += items
            case str() as value if len(value) >= 2 * LEAST and "://" not in value and not value.isalpha():
                yield value


def _in_hex(secret: str) -> Iterator[str]:
    data = secret.encode("utf-8", "replace")
    if len(data) >= _ENCODED:
        yield from (data.hex(), data.hex(":"), data.hex(" "), data.hex("-"))


def _in_base64(secret: str) -> Iterator[str]:
    """The letters in base64 that depend on the secret alone, wherever it stands in the encoded text."""
    texts = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    texts |= {quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace")}
    datas = {text.encode("utf-8", "replace") for text in texts}
    if not secret.isascii() and all(letter <= "\xff" for letter in secret):
        datas.add(secret.encode("latin-1"))
    for data in datas:
        for offset in range(3) if len(data) >= _ENCODED else ():
            first, whole = -(-offset * 8 // 6), (offset + len(data)) * 8 // 6
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                yield encode(b"\0" * offset + data).decode()[first:whole]


# Texts without escapes, whose letters know their place in the text before.


class _Layer:
    """A text that is made of another one by changing what a pattern matches. It finds places again in that one."""

    def __init__(self, pattern: re.Pattern[str], source: str, change: Callable[[str], str] | None = None) -> None:
        self._pattern, self._source, self._change = pattern, source, change
        self.text = pattern.sub("" if change is None else (lambda found: change(found[0])), source)
        self._starts: list[int] | None = None
        self._parts: list[tuple[int, int, int]] = []

    def before(self, start: int, end: int) -> tuple[int, int]:
        """The place in the other text of what stands from `start` to `end`."""
        if self._starts is None:
            self._starts = self._map()
        return self._place(self._starts, start, 1), self._place(self._starts, end - 1, 2)

    def _map(self) -> list[int]:
        """Where the changed parts begin; where each ends, and where it began and ended before, is kept beside."""
        starts, apart = [], 0
        for found in self._pattern.finditer(self._source):
            start, end = found.span()
            length = 0 if self._change is None else len(self._change(found[0]))
            starts.append(start + apart)
            apart += length - (end - start)
            self._parts.append((end + apart, start, end))
        return starts

    def _place(self, starts: list[int], place: int, side: int) -> int:
        number = bisect_right(starts, place) - 1
        if number < 0:
            return place + side - 1
        part = self._parts[number]
        return part[side] if place < part[0] else part[2] + place - part[0] + side - 1


_HEX = "[0-9a-fA-F]"
_ESCAPE = re.compile(
    rf"%(?:[cdCD]{_HEX}%[89abAB]{_HEX}|[eE]{_HEX}(?:%[89abAB]{_HEX}){{2}}|[fF][0-4](?:%[89abAB]{_HEX}){{3}}"
    rf"|u{_HEX}{{4}}|[0-7]{_HEX})"
    r"|&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?"
    rf"|\\(?:u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}|u{_HEX}{{4}}|u\{{{_HEX}{{1,6}}\}}|U{_HEX}{{8}}"
    rf"|x[cdCD]{_HEX}\\x[89abAB]{_HEX}|x[eE]{_HEX}(?:\\x[89abAB]{_HEX}){{2}}|x[fF][0-4](?:\\x[89abAB]{_HEX}){{3}}"
    rf"|x{_HEX}{{2}}|3{_HEX}\ |(?!%{_HEX}{{2}}|&[#\w]{{1,32}};).)",
    re.DOTALL,
)
"""One escaped letter: in an address, in HTML, in JSON or a program."""
_IN_MAIL = re.compile(
    rf"=(?:[cdCD]{_HEX}=[89abAB]{_HEX}|[eE]{_HEX}(?:=[89abAB]{_HEX}){{2}}|[fF][0-4](?:=[89abAB]{_HEX}){{3}}"
    r"|[2-7][0-9A-F]|\r?\n)"
)
"""The same in quoted-printable, which breaks lines after `=`."""
_IN_OLD_FORM = re.compile(rf"%[89a-fA-F]{_HEX}")
"""A letter of windows-1252 in an address, which is no UTF-8."""
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}


class _Tight:
    """A text without its white space, of whose letters it knows where they stood."""

    def __init__(self, source: str) -> None:
        words = source.split()
        self.text = "".join(words)
        self._source, self._words = source, words
        self._starts: list[int] = []
        self._before: list[int] = []

    def before(self, start: int, end: int) -> tuple[int, int]:
        """The place in the source of what stands from `start` to `end`."""
        if not self._starts:
            self._starts = list(accumulate(map(len, self._words), initial=0))
            place = 0
            for word in self._words:
                place = self._source.index(word, place)
                self._before.append(place)
                place += len(word)
        return self._place(start), self._place(end - 1) + 1

    def _place(self, place: int) -> int:
        number = bisect_right(self._starts, place) - 1
        return self._before[number] + place - self._starts[number]


@lru_cache(maxsize=4096)
def _letter(escape: str) -> str:
    """The letter that an escape stands for."""
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[0] == "\\" and len(escape) == 2:
        return _LETTERS.get(escape[1], escape[1])
    if escape[-1] == "\n":
        return ""
    digits = re.findall(rf"{_HEX}{{2,8}}", re.sub(r"[%\\=][xuU]?\{?", " ", escape))
    if escape[1] in "uU":
        return "".join(map(_of_number, digits)).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    data = bytes.fromhex("".join(digits))
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace") if b"\x80" <= data < b"\xa0" else data.decode("latin-1")


def _of_number(digits: str) -> str:
    number = int(digits, 16)
    return chr(number) if number < 0x110000 else "\ufffd"


def _unescaped(text: str) -> _Layer | None:
    """The text with its escapes undone once; None if it has none."""
    mail = "=\n" in text or "=\r\n" in text
    if not mail and "%" not in text and "&" not in text and "\\" not in text:
        return None
    for pattern in (_IN_MAIL,) if mail else (_ESCAPE, _IN_OLD_FORM):
        layer = _Layer(pattern, text, _letter)
        if layer.text != text:
            return layer
    return None


def _lower(text: str) -> str:
    """The text in lower case, letter by letter, so that it keeps its length."""
    if text.isascii():
        return text.lower()
    # The one letter whose lower case is two letters stays as it is.
    low = "\u0130".join(part.lower() for part in text.split("\u0130"))
    return low.replace("\u03c2", "\u03c3")  # the small sigma has another form at the end of a word


# The search.

_SIGN = re.compile(r"\s*(?:…|\.\.\.)")
_ANY_SIGN = re.compile(r"(?:…|\.\.\.)\s*")
_END = re.compile(r"[^\S\n]*(?:\n|\Z)")


class _Needle(Struct, frozen=True):
    """A spelling of a secret in lower case; `exact` is its only case, if it has one."""

    word: str
    secret: str
    exact: str = ""
    alone: bool = False
    """Whether it is found only where no further digits, or letters, stand beside it."""


class _Search:
    """Finds needles: whole ones, beginnings before an ellipsis or an end, and ends after an ellipsis."""

    def __init__(self, needles: Iterable[_Needle]) -> None:
        self._by_start: dict[str, list[_Needle]] = {}
        for needle in needles:
            self._by_start.setdefault(needle.word[:LEAST], []).append(needle)
        self._start = re.compile(_alternatives(self._by_start)) if self._by_start else None
        self._words = [needle for each in self._by_start.values() for needle in each if not needle.exact]
        self._joined = "\n".join(needle.word for needle in self._words)

    def spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        if self._start is None:
            return
        low, place, signs = _lower(text), 0, "…" in text or "..." in text
        while found := self._start.search(low, place):
            start = found.start()
            place = start + 1
            for size in range(_SHORTEST, LEAST + 1):
                for needle in self._by_start.get(low[start : start + size], ()):
                    end = _end(needle, text, low, start, signs)
                    if end and not (needle.alone and _goes_on(text, start, end)):
                        yield start, end, needle.secret
        for sign in _ANY_SIGN.finditer(low) if signs else ():
            yield from self._after(low, sign.end())

    def _after(self, low: str, start: int) -> Iterator[tuple[int, int, str]]:
        """The end of a needle that stands here, after an ellipsis."""
        letters = low[start : start + LEAST]
        if len(letters) < LEAST or letters not in self._joined:
            return
        for needle in self._words:
            place = needle.word.find(letters)
            while place >= 0:
                if low.startswith(needle.word[place:], start):
                    yield start, start + len(needle.word) - place, needle.secret
                place = needle.word.find(letters, place + 1)


def _end(needle: _Needle, text: str, low: str, start: int, signs: bool) -> int:
    """The end of the needle that begins here, or of what a cut has left of it; 0 if it is something else."""
    end = start + len(needle.word)
    if needle.exact:
        return end if text.startswith(needle.exact, start) else 0
    if low.startswith(needle.word, start):
        return end
    if len(needle.word) <= LEAST:
        return 0
    if not signs and not low.startswith(needle.word[:_LEAST_AT_AN_END], start):
        return 0
    count = _common(needle.word, low, start)
    end = start + count
    cut = count >= LEAST and signs and _SIGN.match(low, end)
    return end if cut or (count >= _LEAST_AT_AN_END and _END.match(low, end)) else 0


def _goes_on(text: str, start: int, end: int) -> bool:
    """Return whether what stands here is a part of a longer number or word, or of a number with decimals."""
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    if not text[start].isdigit():
        return before.isalpha() or after.isalpha()
    decimals = before == "." and text[max(0, start - 2) : start - 1].isdigit()
    decimals = decimals or (after == "." and text[end + 1 : end + 2].isdigit())
    return before.isdigit() or after.isdigit() or decimals


def _common(word: str, text: str, start: int) -> int:
    """The number of the word's first letters that stand in the text from here."""
    least, most = 0, len(word)
    while least < most:
        middle = (least + most + 1) // 2
        if text.startswith(word[least:middle], start + least):
            least = middle
        else:
            most = middle - 1
    return least


def _alternatives(words: Iterable[str]) -> str:
    """A pattern for any of the words; those with the same beginning share it, so that a search is fast."""
    tails: dict[str, set[str]] = {}
    for word in words:
        tails.setdefault(word[:1], set()).add(word[1:])
    found = [re.escape(letter) + ("" if "" in rest else _alternatives(rest)) for letter, rest in sorted(tails.items())]
    return found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"


class Secrets:
    """Finds and masks secrets. A value that is too short or too common is not searched."""

    def __init__(self, secrets: Iterable[str] = (), instead: Mapping[str, str] | None = None) -> None:
        """`instead`: the text that replaces a secret, if it is not the mark."""
        self.values = hidden_values(secrets)
        self._instead = instead or {}
        needles = [
            needle for secret in sorted(self.values, key=lambda each: (len(each), each)) for needle in _needles(secret)
        ]
        self._search = _Search(needles)
        self._tight = _Search(_without_blanks(needles))
        self._kept: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.values)

    def mask(self, text: str) -> str:
        """The text without the secrets. What is masked already stays as it is."""
        if not self.values or len(text) < _SHORTEST:
            return text
        if len(text) > _KEPT_LENGTH:
            return self._masked(text)
        masked = self._kept.get(text)
        if masked is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            masked = self._kept[text] = self._masked(text)
        return masked

    def _masked(self, text: str) -> str:
        return MARK.join(map(self._without_mark, text.split(MARK)))

    def _without_mark(self, text: str) -> str:
        """Mask a text, and then what is left between the marks; in a long text, one search is enough."""
        spans = _merged(self._spans(text))
        if not spans:
            return text
        again = self._without_mark if len(text) <= _SEARCHED_AGAIN else str
        parts, last = [], 0
        for start, end, secret in spans:
            parts += [again(text[last:start]), self._instead.get(secret, MARK)]
            last = end
        return "".join([*parts, again(text[last:])])

    def _spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        layers: list[_Layer] = []
        for _ in range(_ROUNDS):
            present = layers[-1].text if layers else text
            yield from (_in_source(span, layers) for span in self._in(present))
            following = _unescaped(present)
            if following is None:
                return
            layers.append(following)

    def _in(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where secrets stand in a text whose escapes stay as they are."""
        yield from self._search.spans(text)
        layer = _Tight(text)
        if len(layer.text) == len(text):
            return
        for start, end, secret in self._tight.spans(layer.text):
            place = layer.before(start, end)
            if any(letter.isspace() for letter in secret) or _broken(text[slice(*place)]):
                yield *place, secret


def _in_source(span: tuple[int, int, str], layers: list[_Layer]) -> tuple[int, int, str]:
    """The place in the text itself of what stands there in the last layer."""
    start, end, secret = span
    for layer in reversed(layers):
        start, end = layer.before(start, end)
    return start, end, secret


def _broken(text: str) -> bool:
    """Return whether all white space in it has a line break, as a display puts it into a long word."""
    return all("\n" in blank for blank in re.findall(r"\s+", text))


def _without_blanks(needles: Iterable[_Needle]) -> Iterator[_Needle]:
    for needle in needles:
        word = "".join(needle.word.split())
        if len(word) >= LEAST:
            yield _Needle(word, needle.secret, needle.exact)


def _merged(spans: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The spans in order; those that overlap are one."""
    merged: list[tuple[int, int, str]] = []
    for start, end, secret in sorted(set(spans), key=lambda each: (each[0], -each[1], each[2])):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
        else:
            merged.append((start, end, secret))
    return merged


@lru_cache(maxsize=64)
def secrets_of(values: frozenset[str]) -> Secrets:
    """The secrets of these values; those of a run are asked for again and again."""
    return Secrets(values)
