"""Redacts what requests and responses carry: JSON, forms, HTML, plain text."""

from __future__ import annotations

import base64
import binascii
import json
import re

from harness.model.ports import Json
from harness.reporting.addresses import MARK
from harness.reporting.packed import redact_packed
from harness.reporting.redaction import Redactor
from harness.reporting.secrets import is_secret_name

_PAIR = re.compile(r"(?P<lead>^|&)(?P<name>[^=&\s]+)=(?P<value>[^&\s]*)")
_FORM = re.compile(r"[^=&\s{}<>]+=[^&\s]*(?:&[^=&\s{}<>]+=[^&\s]*)*\s*")
_PART = re.compile(r'(?P<head>\bname="(?P<name>[^"]*)"[^\r\n]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n)(?P<value>[^\r\n]+)')
_INPUT = re.compile(r"""<input\b(?:[^>"']|"[^"]*"|'[^']*')*>""", re.IGNORECASE)
_PASSWORD = re.compile(r"""\btype\s*=\s*["']?password\b""", re.IGNORECASE)
_VALUE = re.compile(r"""(\svalue\s*=\s*)("[^"]+"|'[^']+'|[^\s"'>]+)""", re.IGNORECASE)


def redact_body(text: str, mime: str, redactor: Redactor) -> str:
    """A body by its type; where the type does not say, by its look."""
    kind = mime.partition(";")[0].strip().lower()
    if "json" in kind or text.lstrip()[:1] in ("{", "["):
        masked = _json(text)
    elif "urlencoded" in kind or _FORM.fullmatch(text):
        masked = _PAIR.sub(lambda found: found["lead"] + _masked_pair(found), text)
    elif kind.startswith("multipart/"):
        masked = _PART.sub(lambda found: found["head"] + MARK if is_secret_name(found["name"]) else found.group(), text)
    else:
        masked = _INPUT.sub(_masked_input, text)
    return redactor.text(masked)


def redact_base64(text: str, mime: str, redactor: Redactor) -> str:
    """A base64 body, decoded when it is text."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        return redactor.text(text)
    return base64.b64encode(redact_bytes(data, mime, redactor)).decode()


def redact_bytes(data: bytes, mime: str, redactor: Redactor) -> bytes:
    """A body as it is on disk; what is packed is unpacked."""

    def plain(found: bytes) -> bytes:
        try:
            return redact_body(found.decode(), mime if found is data else "", redactor).encode()
        except UnicodeDecodeError:
            return redactor.data(found)

    return redact_packed(data, plain)


def mask_named(value: Json) -> Json:
    """A JSON document whose values under secret names are gone; an empty text tells no secret, and stays."""
    if isinstance(value, dict):
        return {
            key: MARK
            if is_secret_name(key) and isinstance(item, str | int | float) and item != ""
            else mask_named(item)
            for key, item in value.items()
        }
    return [mask_named(item) for item in value] if isinstance(value, list) else value


def _json(text: str) -> str:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    masked = mask_named(document)
    return text if masked == document else json.dumps(masked, ensure_ascii=False)


def _masked_pair(found: re.Match[str]) -> str:
    secret = is_secret_name(found["name"]) and found["value"]
    return f"{found['name']}={MARK if secret else found['value']}"


def _masked_input(found: re.Match[str]) -> str:
    tag = found.group()
    return _VALUE.sub(rf'\1"{MARK}"', tag) if _PASSWORD.search(tag) else tag
