"""Removes secrets from texts and JSON documents (docs/design/evidence.md)."""

from __future__ import annotations

import base64
import html
import io
import json
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from msgspec import Struct

from harness.model.browser_settings import secrets as secrets_of_endpoints
from harness.model.model_settings import keys
from harness.model.ports import Json
from harness.model.settings import Settings
from harness.model.tool_evidence import bounded_call
from harness.model.tool_settings import secrets as secrets_of_tools
from harness.model.tool_settings import secrets_of_commands
from harness.spec.names import blank_unprintable, well_formed

# Secrets in addresses: `user:password@`, and values of the query and the fragment, by their names.

MARK = "[redacted]"

QUERY_NAMES = frozenset({
    "access_token", "api_key", "apikey", "assertion", "auth", "authorization", "client_secret", "code",
    "code_verifier", "hmac", "id_token", "jsessionid", "jwt", "key", "nonce", "oauth_signature", "oauth_token",
    "oauth_verifier", "otp", "passwd", "password", "phpsessid", "pwd", "refresh_token", "samlrequest",
    "samlresponse", "secret", "session", "session_id", "sessionid", "sid", "sig", "signature", "ticket", "token",
    "x_amz_credential", "x_amz_security_token", "x_amz_signature", "x_goog_credential", "x_goog_signature",
})  # fmt: skip
"""Names in a query or a fragment whose values are secrets, in lower case with `_` for `-`. Names with a telling word,
such as `csrf_token` and `newPassword`, count as well (`is_secret_name`); `redact_query` in [tool.harness] adds more.
"""

_LEAD = r"(?P<lead>[?&#;]|\\u0026|%(?:25)*+(?:3[fF]|26|23))"
_NAME = r"(?P<name>(?:[\w.~$\[\]-]|%(?:25)*+(?:5[bBdD]|2[dD]|5[fF])){1,80}?)"
_PLAIN = re.compile(_LEAD + _NAME + r"(?P<equals>=)(?P<value>(?:[^&#\s\"'<>`\\;]|\\/|;(?![\w.-]+=))+)")
_ENCODED_ADDRESS = re.compile(
    _LEAD
    + _NAME
    + r"(?P<equals>%(?:25)*+3[dD])(?P<value>(?:[^&#\s\"'<>`\\;%]|%(?!(?:25)*+(?:26|23|22|27|20|3[cCeE])))+)"
)
_LOGIN = re.compile(r"(?<=://)[^/?#@\s\"'<>\\]+(?=@)|(?<=:\\/\\/)[^/?#@\s\"'<>\\]+(?=@)")
_ENCODED_LOGIN = re.compile(
    r"(?P<slashes>3[aA]%(?:25)*+2[fF]%(?:25)*+2[fF])(?:[^/?#&@\s\"'<>\\%]|%(?!(?:25)*+(?:40|2[fF])))+(?=%(?:25)*+40)"
)
_RUN = re.compile(r"[^\s\"'<>`]+")
"""A run of characters without white space and quotes: it contains whole addresses."""
_BEGIN = re.compile(
    r"(?=[A-Za-z][A-Za-z0-9+.-]{0,20}(?::|%(?:25)*3[aA])(?:\\?/|%(?:25)*2[fF]){2})"
    r"|\A(?=[?#])"
    r"|(?:\A|(?<=[(\[=,]))(?=(?:\.{0,2}\\?/|%(?:25)*2[fF])(?:[\w.~%+@:!*/-]|\\/)*(?:[?#;]|%(?:25)*3[fF]))"
)
"""The beginning of an address in a run. In a script, `?` and `&` have other meanings."""
_RELATIVE = re.compile(r"[\w.~%+@/-]*[?#]")
_AFTER_VALUE = ").,]}"
"""Characters after an address in a sentence that do not belong to it."""


def redact_addresses(text: str, more: Iterable[str] = ()) -> str:
    """Mask logins and secret values in the addresses of a text. `more`: further names of secrets."""
    if "=" in text or "%3" in text:
        names = frozenset(map(_normalize_name, more))
        text = _RUN.sub(lambda found: _redact_address(found, names), text)
    if "@" in text or "%" in text:
        text = _LOGIN.sub(MARK, text)
        text = _ENCODED_LOGIN.sub(lambda found: found["slashes"] + MARK, text)
    return text


def _redact_address(found: re.Match[str], names: frozenset[str]) -> str:
    run = found.group()
    if "=" not in run and "%" not in run:
        return run
    quoted = not found.start() or found.string[found.start() - 1] in "\"'"
    begin = _RELATIVE.match(run) if quoted else None
    begin = begin or _BEGIN.search(run)
    if begin is None:
        return run
    before, address = run[: begin.start()], run[begin.start() :]
    for pattern in (_PLAIN, _ENCODED_ADDRESS):
        address = pattern.sub(lambda pair: _mask_value(pair, names), address)
    return before + address


@lru_cache(maxsize=1024)
def is_secret_query(name: str, more: frozenset[str] = frozenset()) -> bool:
    """Return whether a value of this name in a query or a fragment is secret. `more`: further names, lower case."""
    plain = _normalize_name(name)
    return plain in QUERY_NAMES or is_secret_name(plain) or plain in more


def _normalize_name(name: str) -> str:
    while (plain := unquote(name)) != name:
        name = plain
    return name.lower().replace("-", "_")


def _mask_value(found: re.Match[str], names: frozenset[str]) -> str:
    rest = found["value"].removeprefix(MARK)
    secret = rest.rstrip(_AFTER_VALUE)
    if not secret or not is_secret_query(found["name"], names):
        return found.group()
    return f"{found['lead']}{found['name']}{found['equals']}{MARK}{rest[len(secret) :]}"


# Secrets that a display cut off or broke across lines, so that a search for the whole fails.

LEAST = 6
"""The number of first (or last) letters by which a secret is recognized before (or after) an ellipsis."""

LEAST_AT_AN_END = 10
"""The same number at the end of a line or text without an ellipsis."""

_GAP = r"[^\S\n]*+\n\s*+(?:[-+]\s*+)?"
"""A line break, with the marks that an indented difference writes before its lines."""
_INSIDE, _BETWEEN = f"(?:{_GAP})?", rf"(?:{_GAP}|\s*+)"
_BREAKS = (re.compile(_GAP), re.compile(r"\s*\n\s*"))
_SPACES = (*_BREAKS, re.compile(r"\s*"))
_SIGN = re.compile(r"\s*(?:…|\.\.\.)")
_END = re.compile(r"[^\S\n]*(?:\n|\Z)")


class _Word(Struct, frozen=True):
    """A secret without its white space; `spaced` has the indices of letters that had some before them."""

    letters: str
    spaced: frozenset[int]

    @classmethod
    def of(cls, secret: str) -> _Word:
        parts, spaced = secret.split(), set()
        length = 0
        for part in parts[:-1]:
            length += len(part)
            spaced.add(length)
        return cls("".join(parts), frozenset(spaced))

    def start(self) -> str:
        """A pattern for its first letters."""
        letters = enumerate(self.letters[:LEAST])
        return "".join((self._gap(number) if number else "") + re.escape(letter) for number, letter in letters)

    def reach(self, text: str, place: int) -> tuple[int, int]:
        """The number of its letters that follow in the text from here, and the end of the last one."""
        count = 0
        while count < len(self.letters):
            after = self._after(text, place, count)
            if after is None:
                break
            place, count = after, count + 1
        return count, place

    def _after(self, text: str, place: int, number: int) -> int | None:
        """The end of the next letter, which has this number; None if another character follows."""
        letter = self.letters[number]
        if text.startswith(letter, place):
            return place + 1
        if number and place < len(text) and text[place].isspace():
            for gap in _SPACES if number in self.spaced else _BREAKS:
                found = gap.match(text, place)
                if found and text.startswith(letter, found.end()):
                    return found.end() + 1
        return None

    def _gap(self, number: int) -> str:
        return _BETWEEN if number in self.spaced else _INSIDE


class _Beginnings:
    """Finds secrets that are broken over lines, and the beginnings of secrets that were cut."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words: dict[str, list[_Word]] = {}
        for word in map(_Word.of, words):
            if len(word.letters) >= LEAST:
                self._words.setdefault(word.letters[0], []).append(word)
        starts = sorted({word.start() for words in self._words.values() for word in words})
        self._start = re.compile("|".join(starts)) if starts else None

    def sub(self, mark: str, text: str, *, at_ends: bool) -> str:
        if self._start is None:
            return text
        parts, place, kept = [], 0, 0
        while found := self._start.search(text, place):
            end = self._end(text, found.start(), at_ends)
            place = found.start() + 1 if end is None else end
            if end is not None:
                parts += [text[kept : found.start()], mark]
                kept = end
        return "".join([*parts, text[kept:]])

    def _end(self, text: str, place: int, at_ends: bool) -> int | None:
        """The end in the text of the secret that begins here; None if it is something else."""
        ends = (_end_of(word, text, place, at_ends) for word in self._words[text[place]])
        return max((end for end in ends if end is not None), default=None)


class TruncatedSecrets:
    """Removes what a cut has left of secrets: their beginning before an ellipsis, their end after one."""

    def __init__(self, words: Iterable[str]) -> None:
        """`words`: the secrets in all their spellings."""
        words = tuple(words)
        self._forward = _Beginnings(words)
        self._backward = _Beginnings(word[::-1] for word in words)

    def sub(self, mark: str, text: str) -> str:
        text = self._forward.sub(mark, text, at_ends=True)
        if "…" in text or "..." in text:
            text = self._backward.sub(mark[::-1], text[::-1], at_ends=False)[::-1]
        return text


def _end_of(word: _Word, text: str, place: int, at_ends: bool) -> int | None:
    count, end = word.reach(text, place)
    whole = count == len(word.letters)
    cut = count >= LEAST and _SIGN.match(text, end)
    ended = at_ends and count >= LEAST_AT_AN_END and _END.match(text, end)
    return end if whole or cut or ended else None


# Redacts compressed data: gzip, deflate and zip files, also nested.

LARGEST = 64 * 2**20
"""The largest decompressed size in bytes; larger data cannot be redacted, and is left out."""
DEPTH = 4
"""The depth of nested archives; those further inside are left out."""
LEFT_OUT = b"[left out: too large or too deep to be redacted]"

Redact = Callable[[bytes], bytes]
_DEFLATED = {b"\x1f\x8b": 31, b"\x78": 15}
"""The first bytes of gzip and zlib, and zlib's numbers for them."""


def redact_packed(data: bytes, redact: Redact, depth: int = 0) -> bytes:
    """Decompress, `redact`, compress again; other data is redacted directly. Without a secret nothing changes."""

    def inside(found: bytes) -> bytes:
        return redact_packed(found, redact, depth + 1) if depth < DEPTH else LEFT_OUT

    if data.startswith(b"PK\x03\x04"):
        return _zip(data, inside)
    for start, bits in _DEFLATED.items():
        if data.startswith(start) and (content := _inflated(data, bits)) is not None:
            return _deflated(data, bits, content, inside)
    return redact(data)


def _deflated(data: bytes, bits: int, content: bytes, inside: Redact) -> bytes:
    masked = LEFT_OUT if len(content) > LARGEST else inside(content)
    if masked == content:
        return data
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(masked) + packer.flush()


def _inflated(data: bytes, bits: int) -> bytes | None:
    """The content, at most one byte more than LARGEST; None if the data is not deflated."""
    try:
        return zlib.decompressobj(bits).decompress(data, LARGEST + 1) or None
    except zlib.error:
        return None


def _zip(data: bytes, inside: Redact) -> bytes:
    """Redact a zip. One that is broken, encrypted or a bomb is left out: its content could not be redacted."""
    target = io.BytesIO()
    changed = False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
            if sum(info.file_size for info in old.infolist()) > LARGEST:
                return LEFT_OUT
            for info in old.infolist():
                found = (info.filename.encode("utf-8", "replace"), b"" if info.is_dir() else old.read(info))
                name, content = map(inside, found)
                changed = changed or (name, content) != found
                new.writestr(name.decode("utf-8", "replace"), content)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, OSError, ValueError):
        return LEFT_OUT
    return target.getvalue() if changed else data


# The spellings of a secret in a file, and the names whose values are secret.

SHORTEST = 3
"""Shorter values are not searched: they would be found in every word."""

_SHORTEST_ENCODED = 4
"""The number of base64 letters of a secret of four bytes that depend on it alone, wherever it stands."""
_SHORTEST_LINE = 16
"""Shorter lines of a secret are not searched alone: they may be words of any text."""
_LINE_BREAK = re.compile(r"[\r\n]+|(?:\\r)?\\n")
"""Between two lines of a secret; environment variables often have `\\n` as two characters."""
_ANYWHERE = re.compile(r"passw|passphrase|secret|token|api[-_ ]?key|credential", re.IGNORECASE)
_WORDS = frozenset({"pin", "pwd", "pw", "pass", "otp", "cvv", "cvc", "puk", "tan"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ENCODED = {"path": ' "<>^`{|}', "query": " \"<>'", "fragment": ' "<>`'}
"""The characters that Chromium escapes in each part of an address, besides controls and non-ASCII; never a `%`."""
_NEXT_PART = {("path", "?"): "query", ("path", "#"): "fragment", ("query", "#"): "fragment"}
_DROPPED = str.maketrans("", "", "\t\r\n")


def is_secret_name(name: str) -> bool:
    """Return whether a field of this name has a secret: `password`, `userPin`, `csrf_token`, not `shipping`."""
    return bool(_ANYWHERE.search(name)) or any(word.lower() in _WORDS for word in _WORD.findall(name))


def spellings(secret: str) -> set[str]:
    """All spellings of a secret: plain, in URLs, JSON, HTML and Python, in base64 at any offset; and of its lines."""
    if len(secret) < SHORTEST:
        return set()
    found = _as_text(secret).union(*map(_as_text, _lines(secret)))
    return {word for word in found if len(word) >= SHORTEST} | set(_in_base64(secret))


def _lines(secret: str) -> Iterator[str]:
    """The lines of a secret of several lines, such as a private key: a log has them one by one."""
    lines = _LINE_BREAK.split(secret)
    for line in map(str.strip, lines if len(lines) > 1 else ()):
        if len(line) >= _SHORTEST_LINE and not line.startswith(("-----BEGIN", "-----END")):
            yield line


def _as_text(secret: str) -> set[str]:
    """The spellings of a secret but for base64."""
    found = {secret, *_in_html(secret), *_as_literal(secret), *_quoted_forms(secret)}
    for text in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        found |= {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return found


def _in_html(secret: str) -> Iterator[str]:
    """The secret in HTML as Python and templates write it, and as Chromium does, which escapes fewer quotes."""
    plain = html.escape(secret, quote=False)
    for text in (plain, plain.replace("\xa0", "&nbsp;")):
        inside = text.replace('"', "&quot;")
        yield from (text, inside, inside.replace("&lt;", "<").replace("&gt;", ">"))
    yield html.escape(secret)
    yield plain.replace('"', "&#34;").replace("'", "&#39;")


def _as_literal(secret: str) -> Iterator[str]:
    """The secret as `repr` writes it with either quote, as a criterion does, and as a path of the world does."""
    whole = repr("'\"" + secret)[4:-1]
    yield from (whole, whole.replace("\\'", "'"))
    printable = blank_unprintable(secret)
    yield printable if len("".join(printable.split())) >= SHORTEST else secret
    yield from (secret.replace("\\", "\\\\").replace(mark, "\\" + mark) for mark in "'\"")


def _quoted_forms(secret: str) -> Iterator[str]:
    """The secret in an address or a form; a multi-line field sends CR LF, a single-line one drops line breaks."""
    lines = secret.replace("\r\n", "\n").replace("\n", "\r\n")
    texts = {_in_address(secret, part) for part in _ENCODED}
    for text in (secret, lines, secret.translate(_DROPPED)):
        texts |= {quote(text, safe=safe, errors="replace") for safe in ("/", "", "~()*!'")}
        texts |= {quote_plus(text, errors="replace"), *_in_form(text)}
    for text in texts:
        yield text
        yield _lower_escapes(text)


def _in_form(text: str) -> Iterator[str]:
    """The secret in a form that Chromium sends: from a page in UTF-8, or in windows-1252 without a charset."""
    yield quote_plus(text, safe="*", errors="replace").replace("~", "%7E")
    yield quote_plus(text, safe="*", encoding="cp1252", errors="xmlcharrefreplace").replace("~", "%7E")


def _in_address(secret: str, part: str) -> str:
    """The secret as Chromium shows it in `location.href`, beginning in this part of the address."""
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
    """The secret in base64: alone, as JSON, as part of an address, and in Latin-1 as `btoa` reads it.

    The letters `+` and `/` may be escaped in turn.
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
    """The base64 letters that depend only on the secret, wherever it stands in the encoded text."""
    for offset in range(3):
        whole = (offset + len(data)) * 8 // 6
        first = -(-offset * 8 // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            letters = encode(b"\0" * offset + data).decode()[first:whole]
            if len(letters) >= _SHORTEST_ENCODED:
                yield letters


__all__ = ["HEADERS", "MARK", "Redactor", "kept_call", "masked_call", "masked_fields", "masked_step"]

HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"})
"""Headers whose value is always a secret, in lower case."""


class Redactor:
    """Masks secrets in all spellings, secrets in addresses, and matches of configured patterns."""

    def __init__(self, secrets: Iterable[str] = (), patterns: Iterable[str] = (), query: Iterable[str] = ()) -> None:
        """`query`: further names whose value in an address is a secret.

        Raises ValueError for a pattern that is not a regular expression.
        """
        self._patterns = tuple(patterns)
        self._query = tuple(query)
        self._compiled = tuple(map(_compiled, self._patterns))
        self._secrets: frozenset[str] = frozenset()
        self._words: re.Pattern[str] | None = None
        self._bytes: re.Pattern[bytes] | None = None
        self._cut = TruncatedSecrets(())
        self.learn(secrets)

    @classmethod
    def of(cls, settings: Settings, secrets: Iterable[str] = ()) -> Redactor:
        """The redactor of a run: it knows the secrets of its settings, and these."""
        own = (*secrets_of_endpoints(settings.browser_endpoint), *keys(settings.models, os.environ))
        own += tuple(secrets_of_tools(settings.tools, os.environ, is_secret_name))
        own += tuple(secrets_of_commands(settings.agents, os.environ))
        return cls((*secrets, *own), settings.redact, settings.redact_query)

    def learn(self, secrets: Iterable[str]) -> None:
        """Add secrets from now on."""
        more = self._secrets.union(secrets)
        if more == self._secrets:
            return
        words = sorted(set().union(*map(spellings, more)), key=lambda word: (-len(word), word))
        self._secrets = more
        self._words = re.compile("|".join(map(re.escape, words))) if words else None
        self._bytes = (
            re.compile(b"|".join(re.escape(word.encode("utf-8", "replace")) for word in words)) if words else None
        )
        self._cut = TruncatedSecrets(words)

    def plus(self, secrets: Iterable[str]) -> Redactor:
        """A redactor with these secrets in addition."""
        more = self._secrets.union(secrets)
        return self if more == self._secrets else Redactor(more, self._patterns, self._query)

    def for_addresses(self) -> Redactor:
        """A redactor that knows only secrets in addresses, with the names that the project added."""
        return Redactor(query=self._query)

    def text(self, text: str) -> str:
        """Redact a text. Every text of a report comes through here, so this is where it becomes writable, too."""
        if self._words:
            text = self._cut.sub(MARK, self._words.sub(MARK, text))
        for pattern in self._compiled:
            text = pattern.sub(lambda found: MARK if found.group() else "", text)
        return well_formed(redact_addresses(text, self._query))

    def data(self, data: bytes) -> bytes:
        """Redact a file's content: as text if it is text, else only the secrets' bytes; archives are unpacked."""
        return redact_packed(data, self._plain)

    def _plain(self, data: bytes) -> bytes:
        try:
            return self.text(data.decode()).encode()
        except UnicodeDecodeError:
            return self._bytes.sub(MARK.encode(), data) if self._bytes else data

    def json(self, value: Json) -> Json:
        """Redact a document, numbers included. Values without a JSON form become texts."""
        match value:
            case str():
                return self.text(value)
            case bool() | None:
                return value
            case int() | float():
                return self._number(value)
            case dict():
                return {self.text(str(key)): self.json(item) for key, item in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self.json(item) for item in value]
            case _:
                return self.text(str(value))

    def strings(self, value: Json) -> Json:
        """Redact a document of a fixed format: only its text values change, never its keys and numbers."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {well_formed(str(key)): self.strings(item) for key, item in value.items()}
            case list():
                return [self.strings(item) for item in value]
            case _:
                return value

    def _number(self, value: float) -> Json:
        text = str(value)
        secret = len(text) >= SHORTEST and text in self._secrets  # a 1 is everywhere, also in the index of the step
        if secret or any(found.group() for p in self._compiled for found in p.finditer(text)):
            return MARK
        return value if isinstance(value, int) or math.isfinite(value) else text


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"`redact` pattern {pattern!r}: {error}") from error


def masked_step(step: dict[str, Any]) -> dict[str, Any]:
    """A step of a report or trace without a text typed into a password field, and without passwords of a tool."""
    if step.get("act") == "tool":
        calls = [masked_call(each) for each in step.get("tool_calls", ())]
        return {**masked_call(step), **({"tool_calls": calls} if calls else {})}
    secret = step.get("act") == "type" and is_secret_name(str(step.get("selector", "")))
    return {**step, "value": MARK} if secret and step.get("value") else step


def masked_call(call: dict[str, Any]) -> dict[str, Any]:
    """A call of a tool without the values of fields such as `password` and `api_key`, sent or answered."""
    return {**call, **{key: masked_fields(call[key]) for key in ("arguments", "result") if key in call}}


def kept_call(call: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """A call of a tool as reports keep it: redacted, and then bounded, so that no secret is cut in two."""
    return bounded_call(redactor.json(masked_call(call)))


def masked_fields(value: Json) -> Json:
    """A document without the values of its fields that have the name of a secret."""
    match value:
        case dict():
            return {key: _masked_field(str(key), item) for key, item in value.items()}
        case list() | tuple():
            return [masked_fields(item) for item in value]
        case _:
            return value


def _masked_field(name: str, value: Json) -> Json:
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return MARK if plain and value != "" and is_secret_name(name) else masked_fields(value)
