"""Forty kinds of secrets, and all the ways in which a page, a report or a program may write one."""

from __future__ import annotations

import base64
import html
import json
import shlex
import unicodedata
from urllib.parse import quote, quote_plus

SECRETS: dict[str, str] = {
    "one line": "Zq7-one-line-Kx93",
    "several lines": "Zq7 alpha-11\nbravo/22\ncharlie+33",
    "several lines of Windows": "Zq8 delta-44\r\necho/55\r\nfoxtrot+66",
    "long lines": "Zq9-the-first-of-long-lines\nand-the-second-of-long-lines",
    "PEM": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
    "-----END PRIVATE KEY-----\n",
    "PEM in one line": "-----BEGIN EC KEY-----\\nMHcCAQEEIBx8Zq7Kx93Vv0OOPLwq\\noAoGCCqGSM49AwEHoUQDQgAE\\n"
    "-----END EC KEY-----",
    "JSON": '{"id": "zq-71", "key": "Vv93-json-Kx"}',
    "single quotes": "it's 'Zq71' o'Kx",
    "double quotes": 'say "Zq72" "Kx"',
    "backslashes": "C:\\Zq73\\new\\temp\\Kx",
    "percent": "100%Zq74%41%zzKx",
    "unicode": "Zürich-Zq75-Größe-Kx",
    "combining": "Zq76-e\u0301cole-n\u0303-Kx",
    "right to left": "Zq77-שלום-עולם-Kx",
    "emoji": "Zq78-\U0001f600-\U0001f469\u200d\U0001f4bb-Kx",
    "spaces around": "  Zq79 spaces Kx  ",
    "tabs": "Zq80\ttab\tKx",
    "very short": "k7#Q",
    "very long": "".join(f"Zq{number:04x}Kx" for number in range(1280)),
    "digits": "8402617395",
    "URL with a password": "postgres://ann:Zq81Kx-pw@db.example/app",
    "basic auth": "ann:Zq82-basic-Kx",
    "bearer": "Bearer Zq83.bearer_Kx-token",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJacTg0In0.Kx93_dQssw5c-Zq84",
    "cookie": "sid=Zq85cookieKx; Path=/; HttpOnly",
    "GUID": "3f2b8c1e-7a54-4d09-9b6e-c0ffee85Zq86"[:36],
    "hex": "9f86d081884c7d659a2feaa0c55ad015",
    "base64": "WnE4Ny1iYXNlNjQtS3g+Lz8/Pz8vPg==",
    "HTML": '<b>Zq88</b>&amp;<Kx attr="1">\'',
    "regular expression": "^Zq89.*[a-z]+(Kx)?$|\\d{2}",
    "shell": "$(Zq90) `Kx` && rm -rf $HOME; !#~",
    "control characters": "Zq91\x01\x02ctrl\x1b[31mKx",
    "case": "ZqUPPERlower92kX",
    "path": "/var/lib/Zq93/../Kx.key",
    "mail": "zq94.person+tag@Kx-example.test",
    "glob": "*Zq95?[ab]{c,d}**Kx",
    "half a pair": "Zq96\ud83dhalfKx",
    "no width": "Zq97\u200bzero\u2060widthKx",
    "NFC": unicodedata.normalize("NFC", "Zq98-é-ñ-ü-Kx"),
    "NFD": unicodedata.normalize("NFD", "Zq99-é-ñ-ü-Kx"),
    "other scripts": "Zqпароль-密码-Kx",  # noqa: RUF001 - that is the point
    "template": "${Zq61} {{Kx}} $$",
    "form": "a+b=c&d=Zq62 Kx",
    "non-breaking": "Zq63\xa0space\xa0Kx",
}


def spelt(secret: str) -> dict[str, str]:
    """What a page, a recording or a program may make of the secret."""
    inside, plain = json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
    once = quote(secret, safe="", errors="replace")
    data = secret.encode("utf-8", "replace")
    return {
        "itself": secret,
        "upper": secret.upper(),
        "lower": secret.lower(),
        "title": secret.title(),
        "swapped case": secret.swapcase(),
        "JSON": inside,
        "JSON of all letters": plain,
        "JSON twice": json.dumps(inside)[1:-1],
        "JSON twice of all letters": json.dumps(plain, ensure_ascii=False)[1:-1],
        "JSON three times": json.dumps(json.dumps(inside)[1:-1])[1:-1],
        "all as \\u": "".join(f"\\u{ord(each):04x}" if ord(each) < 65536 else each for each in secret),
        "upper \\U": "".join(f"\\u{ord(each):04X}" if ord(each) < 65536 else each for each in secret),
        "\\x": "".join(f"\\x{each:02x}" for each in data),
        "repr": repr(secret)[1:-1],
        "repr with the other quote": repr("'\"" + secret)[4:-1],
        "escaped slash": inside.replace("/", "\\/"),
        "escaped quotes": plain.replace("'", "\\'"),
        "doubled double quotes": secret.replace('"', '""'),
        "doubled single quotes": secret.replace("'", "''"),
        "shell": shlex.quote(secret),
        "percent": quote(secret, errors="replace"),
        "percent of all": once,
        "percent in lower case": _lower_percent(once),
        "percent twice": quote(once, safe=""),
        "percent three times": quote(quote(once, safe=""), safe=""),
        "every byte as percent": "".join(f"%{each:02X}" for each in data),
        "form": quote_plus(secret, errors="replace"),
        "form twice": quote_plus(quote_plus(secret, errors="replace")),
        "form of a field of several lines": quote_plus(_crlf(secret), errors="replace"),
        "innerHTML": html.escape(secret, quote=False).replace("\xa0", "&nbsp;"),
        "attribute": html.escape(secret, quote=False).replace('"', "&quot;").replace("\xa0", "&nbsp;"),
        "HTML": html.escape(secret),
        "HTML twice": html.escape(html.escape(secret)),
        "HTML by number": "".join(f"&#{ord(each)};" for each in secret if not "\ud800" <= each <= "\udfff"),
        "HTML in hex": "".join(f"&#x{ord(each):X};" for each in secret if not "\ud800" <= each <= "\udfff"),
        "HTML in JSON": json.dumps(html.escape(secret))[1:-1],
        "JSON in HTML": html.escape(inside),
        "percent in JSON in HTML": html.escape(json.dumps(once)[1:-1]),
        "hex": data.hex(),
        "upper hex": data.hex().upper(),
        "hex with colons": data.hex(":"),
        "base64": base64.b64encode(data).decode(),
        "base64 for addresses": base64.urlsafe_b64encode(data).decode(),
        "base64 of an address": base64.b64encode(once.encode()).decode(),
        "base64 of JSON": base64.b64encode(inside.encode()).decode(),
        "base64 as percent": quote(base64.b64encode(data).decode(), safe=""),
        "base64 over lines": base64.encodebytes(data).decode().strip(),
        "composed": unicodedata.normalize("NFC", secret),
        "decomposed": unicodedata.normalize("NFD", secret),
        "lines of Windows": _crlf(secret),
        "in one line": " ".join(secret.split()),
        "over lines with spaces before": secret.replace(" ", "\n      "),
        "soft line breaks": "=\n".join(secret[place : place + 8] for place in range(0, len(secret), 8)),
        "over lines": "\n    ".join(secret[place : place + 40] for place in range(0, len(secret), 40)),
        "lone halves replaced": secret.encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
        "unprintable as blanks": "".join(each if each.isprintable() else " " for each in secret),
        "unprintable left out": "".join(each for each in secret if each.isprintable()),
        "UTF-8 read as Latin-1": data.decode("latin-1"),
    }  # fmt: skip


def _lower_percent(text: str) -> str:
    parts = text.split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
