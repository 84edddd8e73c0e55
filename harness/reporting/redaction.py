"""Removes secrets from texts and JSON documents (docs/design/evidence.md)."""

from __future__ import annotations

import io
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from harness.masking import LEAST, MARK, Secrets, hidden_values, secrets_of
from harness.model.browser_settings import secrets as secrets_of_endpoints
from harness.model.model_settings import keys
from harness.model.ports import Json
from harness.model.settings import Settings
from harness.model.tool_evidence import bounded_call
from harness.model.tool_settings import secrets as secrets_of_tools
from harness.model.tool_settings import secrets_of_commands
from harness.spec.names import well_formed
from harness.task_secrets import is_secret_name, masked_fields

# Secrets in addresses: `user:password@`, and values of the query and the fragment, by their names.

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
_RUN = re.compile(r"(?<![^\s\"'<>`])[^\s\"'<>`=%]*+[=%][^\s\"'<>`]*+")
"""A run of characters without white space and quotes, but with a `=` or `%`: it contains whole addresses."""
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


__all__ = ["HEADERS", "MARK", "Redactor", "kept_call", "masked_call", "masked_step", "redactor_of"]

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
        self._secrets = secrets_of(frozenset(secrets))

    @classmethod
    def of(cls, settings: Settings, secrets: Iterable[str] = ()) -> Redactor:
        """The redactor of a run: it knows the secrets of its settings, and these."""
        own = (*secrets_of_endpoints(settings.browser_endpoint), *keys(settings.models, os.environ))
        own += tuple(secrets_of_tools(settings.tools, os.environ, is_secret_name))
        own += tuple(secrets_of_commands(settings.agents, os.environ))
        return cls((*secrets, *own), settings.redact, settings.redact_query)

    def learn(self, secrets: Iterable[str]) -> None:
        """Add secrets from now on."""
        self._secrets = self._with(secrets)

    def plus(self, secrets: Iterable[str]) -> Redactor:
        """A redactor with these secrets in addition."""
        more = self._with(secrets)
        return self if more is self._secrets else Redactor(more.values, self._patterns, self._query)

    def _with(self, secrets: Iterable[str]) -> Secrets:
        known = self._secrets.values
        more = hidden_values(secrets)
        return self._secrets if more <= known else secrets_of(known | more)

    def for_addresses(self) -> Redactor:
        """A redactor that knows only secrets in addresses, with the names that the project added."""
        return Redactor(query=self._query)

    def text(self, text: str) -> str:
        """Redact a text. Every text of a report comes through here, so this is where it becomes writable, too."""
        text = self._secrets.mask(text)
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
            return self._secrets.mask(data.decode("latin-1")).encode("latin-1", "replace")

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
            case list() | tuple():
                return [self.strings(item) for item in value]
            case _:
                return value

    def _number(self, value: float) -> Json:
        text = str(value)
        secret = text in self._secrets.values  # a 1 is everywhere, also in the index of the step
        secret = secret or (len(text) >= LEAST and self._secrets.mask(text) != text)
        if secret or any(found.group() for p in self._compiled for found in p.finditer(text)):
            return MARK
        return value if isinstance(value, int) or math.isfinite(value) else text


_FOLDERS = frozenset({"PWD", "OLDPWD"})
"""Variables of every shell that have the name of a password and hold a folder."""


def redactor_of(settings: Settings, names: Collection[str], environ: Mapping[str, str]) -> Redactor:
    """The redactor of settings and of the environment: of variables with these names, and with names of secrets."""
    named = (name for name in environ if is_secret_name(name) and name not in _FOLDERS)
    secrets = (environ[name] for name in {*named, *(set(names) & environ.keys())})
    return Redactor.of(settings, secrets)


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
