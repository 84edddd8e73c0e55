"""Redacts whole files by type: bodies, HAR, DOM snapshot (made inert), trace.zip."""

from __future__ import annotations

import base64
import binascii
import html
import json
import mimetypes
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qsl

from harness.masking import MARK
from harness.model.ports import USERS, Json
from harness.reporting.files import VIDEO, VIDEOS, ManifestEntry, is_inside, write_json, write_text
from harness.reporting.redaction import HEADERS, Redactor, redact_packed
from harness.spec.pictures import COMPARISONS
from harness.task_secrets import is_secret_name

_PAIR = re.compile(r"(?P<lead>^|&)(?P<name>[^=&\s]+)=(?P<value>[^&\s]*)")
_FORM = re.compile(r"[^=&\s{}<>]+=[^&\s]*(?:&[^=&\s{}<>]+=[^&\s]*)*\s*")
_PART = re.compile(r'(?P<head>\bname="(?P<name>[^"]*)"[^\r\n]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n)(?P<value>[^\r\n]+)')
_INPUT = re.compile(r"""<input\b(?:[^>"']|"[^"]*"|'[^']*')*>""", re.IGNORECASE)
_PASSWORD = re.compile(r"""\btype\s*=\s*["']?password\b""", re.IGNORECASE)
_VALUE = re.compile(r"""(\svalue\s*=\s*)("[^"]+"|'[^']+'|[^\s"'>]+)""", re.IGNORECASE)


def redact_body(text: str, mime: str, redactor: Redactor) -> str:
    """Redact a body by its type, or if that is unclear, by its content."""
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
    """Redact a base64 body, decoded if it is text."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        return redactor.text(text)
    return base64.b64encode(redact_bytes(data, mime, redactor)).decode()


def redact_bytes(data: bytes, mime: str, redactor: Redactor) -> bytes:
    """Redact a body as it is on disk; compressed data is decompressed."""

    def plain(found: bytes) -> bytes:
        try:
            return redact_body(found.decode(), mime if found is data else "", redactor).encode()
        except UnicodeDecodeError:
            return redactor.data(found)

    return redact_packed(data, plain)


def _mask_named(value: Json) -> Json:
    """Mask the values under secret names in a JSON document; an empty text is no secret, and stays."""
    if isinstance(value, dict):
        return {
            key: MARK
            if is_secret_name(key) and isinstance(item, str | int | float) and item != ""
            else _mask_named(item)
            for key, item in value.items()
        }
    return [_mask_named(item) for item in value] if isinstance(value, list) else value


def _json(text: str) -> str:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    masked = _mask_named(document)
    return text if masked == document else json.dumps(masked, ensure_ascii=False)


def _masked_pair(found: re.Match[str]) -> str:
    secret = is_secret_name(found["name"]) and found["value"]
    return f"{found['name']}={MARK if secret else found['value']}"


def _masked_input(found: re.Match[str]) -> str:
    tag = found.group()
    return _VALUE.sub(rf'\1"{MARK}"', tag) if _PASSWORD.search(tag) else tag


# Redacts a HAR.


def redact_har(har: Json, redactor: Redactor) -> Json:
    """Redact a HAR. Raises ValueError if it is none."""
    try:
        entries = [_redact_entry(entry, redactor) for entry in har["log"]["entries"]]
        rest = redactor.strings({key: value for key, value in har["log"].items() if key != "entries"})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a HAR: {error!r}") from error
    return {"log": {**rest, "entries": entries}}


def _redact_entry(entry: Json, redactor: Redactor) -> Json:
    """Redact one request with its response; also in the form of Playwright's traces."""
    masked = dict(entry)
    for side in ("request", "response"):
        if isinstance(entry.get(side), dict):
            masked[side] = _message(entry[side], redactor)
    if "_webSocketMessages" in entry:
        frames = entry["_webSocketMessages"]
        masked["_webSocketMessages"] = [
            {**frame, "data": redact_body(str(frame.get("data", "")), "", redactor)} for frame in frames
        ]
    bodies = {"request", "response", "_webSocketMessages"}
    return {key: value if key in bodies else redactor.strings(value) for key, value in masked.items()}


def _message(message: Json, redactor: Redactor) -> Json:
    masked = dict(message)
    masked["headers"] = [_header(header, redactor) for header in message.get("headers", ())]
    masked["cookies"] = [{**cookie, "value": MARK} for cookie in message.get("cookies", ())]
    for key in ("url", "redirectURL"):
        if key in message:
            masked[key] = redactor.text(str(message[key]))
    if "queryString" in message:
        url = str(masked.get("url", "")).partition("#")[0]
        masked["queryString"] = _pairs(message["queryString"], url, url.partition("?")[2], redactor)
    for key in ("postData", "content"):
        if isinstance(message.get(key), dict):
            masked[key] = _body(message[key], redactor)
    treated = {"headers", "cookies", "url", "redirectURL", "queryString", "postData", "content"}
    return {key: value if key in treated else redactor.strings(value) for key, value in masked.items()}


def _header(header: Json, redactor: Redactor) -> Json:
    name, value = str(header.get("name", "")), str(header.get("value", ""))
    secret = name.lower() in HEADERS or is_secret_name(name)
    return {**header, "name": redactor.text(name), "value": MARK if secret else redactor.text(value)}


def _pairs(pairs: Json, redacted: str, form: str, redactor: Redactor) -> Json:
    """Redact the pairs of an address or a body; if a secret was in it, they are parsed again from the redacted `form`.

    A `&`, `=` or `+` in the secret has split it into pieces, which cannot be recognized one by one.
    """
    if MARK in redacted:
        found = parse_qsl(form, keep_blank_values=True)
        pairs = [{"name": name, "value": value} for name, value in found]
    return [_pair(pair, redactor) for pair in pairs]


def _pair(pair: Json, redactor: Redactor) -> Json:
    if is_secret_name(str(pair.get("name", ""))) and pair.get("value"):
        return {**redactor.strings(pair), "value": MARK}
    return redactor.strings(pair)


def _body(body: Json, redactor: Redactor) -> Json:
    mime = str(body.get("mimeType", ""))
    masked = dict(body)
    if isinstance(text := body.get("text"), str):
        change = redact_base64 if body.get("encoding") == "base64" else redact_body
        masked["text"] = change(text, mime, redactor)
    if "params" in body:
        form = str(masked.get("text", ""))
        masked["params"] = _pairs(body["params"], form, form, redactor)
    treated = {"text", "params"}
    return {key: value if key in treated else redactor.strings(value) for key, value in masked.items()}


# Makes a DOM snapshot inert: opening the file runs nothing, loads nothing, sends nothing; text and layout stay.

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"
"""The second line of defence: the browser refuses what the rewriting might miss."""

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
_GONE = frozenset({"autofocus", "autoplay", "nonce", "integrity", "http-equiv"})
_VOID = frozenset(("area", "br", "col", "hr", "img", "input", "source", "track", "wbr"))
_NAME = re.compile(r"[a-z][a-z0-9:_.-]*")
_ATTRIBUTE = re.compile(r"[^\s\"'<>/=\x00]+")
_SCRIPT_URL = re.compile(r"(?:javascript|vbscript|livescript)\s*:", re.IGNORECASE)
_BLANK = re.compile(r"[\x00-\x20\x7f-\xa0]+")
_CSS_URL = re.compile(r"url\(\s*(?![\"']?\s*(?:data:image/|#))(?:\"[^\"]*\"|'[^']*'|[^)]*)\s*\)", re.IGNORECASE)
_CSS_IMPORT = re.compile(r"@import\b[^;]*;?", re.IGNORECASE)

_Attributes = list[tuple[str, str | None]]


def inert(document: str) -> str:
    """The page without anything active. Values of password fields are redacted."""
    parser = _Rewriter()
    parser.feed(document)
    parser.close()
    return f"{_HEAD}{''.join(parser.out)}"


def is_inert(file: Path) -> bool:
    """Return whether the file begins as `inert` does, so that the browser refuses active content. Raises OSError."""
    with file.open("rb") as stream:
        return stream.read(len(_BEGINNING)) == _BEGINNING


class _Rewriter(HTMLParser):
    """Writes every tag again: each `<` in the result belongs to a tag that was allowed here."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self._skipped: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        if self._skipped:
            if tag == self._skipped[-1] and tag in _WITH_CONTENT:
                self._skipped.append(tag)
        elif tag in _WITH_CONTENT:
            self._skipped.append(tag)
        elif tag not in _DROPPED and _NAME.fullmatch(tag):
            self._style = tag == "style"
            self.out.append(f"<{tag}{''.join(_attributes(tag, attrs))}>")

    def handle_startendtag(self, tag: str, attrs: _Attributes) -> None:
        """Close the tag explicitly: `<script/>` opens a script in HTML, while `<path/>` is complete in SVG."""
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


def _attributes(tag: str, attrs: _Attributes) -> list[str]:
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
    """Return whether the address is an image inside the document, or a place in it."""
    value = value.strip().lower()
    return (name in ("src", "poster") and value.startswith("data:image/")) or (
        name in ("href", "xlink:href") and value.startswith("#")
    )


def _css(text: str) -> str:
    """Style rules that load nothing; `<` is escaped so that no parser takes it for a tag."""
    return _CSS_IMPORT.sub("", _CSS_URL.sub("url()", text)).replace("<", r"\3c ")


# Rewrites a Playwright trace.zip without secrets; entry names stay, so that the trace viewer still opens it.

_LINES = (".trace", ".network")
_FILL = re.compile(r'(\b(?:fill|type|press_sequentially|pressSequentially)\()".+"(\))', re.DOTALL)
_STORAGE = frozenset({"storageState", "setStorageState", "cookies", "addCookies"})
"""The calls of a browser context whose parameters or results are cookies and other storage."""
_WORTH_SEARCHING = 6
"""A typed password of this length is searched everywhere; a shorter one only where it was typed."""


def redact_trace(source: Path, target: Path, redactor: Redactor) -> None:
    """Redact a trace. Raises zipfile.BadZipFile, zlib.error, OSError or ValueError if it cannot be read."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        typed = {value for name in old.namelist() if name.endswith(".trace") for value in _typed(old.read(name))}
        redactor = redactor.plus(value for value in typed if len(value) >= _WORTH_SEARCHING)
        for info in old.infolist():
            if not info.is_dir():
                new.writestr(info.filename, _entry(info.filename, old.read(info), redactor))


def _entry(name: str, data: bytes, redactor: Redactor) -> bytes:
    if name.endswith(_LINES):
        return "".join(_lines(data, redactor)).encode()
    mime = mimetypes.guess_type(PurePosixPath(name).name)[0] or ""
    if name.startswith("screencast/"):  # pictures of the browser: pixels, which may show anything
        return data
    return redact_bytes(data, mime, redactor)


def _events(data: bytes) -> Iterator[Json]:
    for line in data.decode().split("\n"):
        if line.strip():
            yield json.loads(line)


def _lines(data: bytes, redactor: Redactor) -> Iterator[str]:
    secret_calls: set[str] = set()
    storage_calls: set[str] = set()
    addresses = redactor.for_addresses()
    for event in _events(data):
        if event.get("type") == "before" and _fills_secret(event):
            secret_calls.add(event["callId"])
        if event.get("type") == "before" and event.get("method") in _STORAGE:
            storage_calls.add(event["callId"])
        masked = redactor.strings(_event(event, secret_calls, addresses))
        if event.get("callId") in storage_calls:
            masked |= {key: _stored(masked[key]) for key in ("params", "result") if key in masked}
        yield json.dumps(masked, separators=(",", ":")) + "\n"


def _event(event: Json, secret_calls: set[str], addresses: Redactor) -> Json:
    match event.get("type"):
        case "resource-snapshot":
            return {**event, "snapshot": _redact_entry(event["snapshot"], addresses)}
        case "frame-snapshot":
            return {**event, "snapshot": {**event["snapshot"], "html": _tree(event["snapshot"].get("html"))}}
        case "before" if event["callId"] in secret_calls:
            params = {key: MARK if key in ("value", "text") and item else item for key, item in event["params"].items()}
            return {**event, "params": params}
        case "log" if event.get("callId") in secret_calls:
            return {**event, "message": _FILL.sub(rf'\1"{MARK}"\2', str(event.get("message", "")))}
        case "before" | "context-options":
            return _mask_named(event)
        case _:
            return event


def _stored(value: Json) -> Json:
    """Cookies, localStorage and IndexedDB without their values: whoever has them is logged in."""
    if isinstance(value, dict):
        return {
            key: MARK if key in ("value", "valueEncoded") and each else _stored(each) for key, each in value.items()
        }
    return [_stored(each) for each in value] if isinstance(value, list) else value


def _fills_secret(event: Json) -> bool:
    params = event.get("params") or {}
    return event.get("method") in ("fill", "type") and is_secret_name(str(params.get("selector", "")))


def _tree(node: Json) -> Json:
    """A DOM snapshot (`[name, attributes, ...children]`) with masked password fields; an empty one stays empty."""
    if not isinstance(node, list):
        return node
    if _is_password(node):
        values = ("value", "__playwright_value_")
        hidden = {key: MARK if key in values and item else item for key, item in node[1].items()}
        return [node[0], hidden, *node[2:]]
    return [_tree(item) for item in node]


def _is_password(node: list[Json]) -> bool:
    return (
        len(node) > 1 and node[0] == "INPUT" and isinstance(node[1], dict)
        and str(node[1].get("type", "")).lower() == "password"
    )  # fmt: skip


def _typed(data: bytes) -> Iterator[str]:
    """The texts that were typed into password fields, by the actions and the snapshots."""
    for event in _events(data):
        if event.get("type") == "before" and _fills_secret(event):
            yield from (str(event["params"][key]) for key in ("value", "text") if key in event["params"])
        elif event.get("type") == "frame-snapshot":
            yield from _passwords(event["snapshot"].get("html"))


def _passwords(node: Json) -> Iterator[str]:
    if isinstance(node, list):
        if _is_password(node):
            yield from (str(node[1][key]) for key in ("value", "__playwright_value_") if node[1].get(key))
        for item in node:
            yield from _passwords(item)


# Copies of files, redacted by their type; those that a session puts into its scratch folder.

_KEPT_FOLDERS = ("accessibility", COMPARISONS, "downloads", "files", "screenshots")
"""The folders of a scratch folder where a session puts the files that its steps keep."""

_LARGEST = 64 * 1024 * 1024
"""The largest file of a step, in bytes; a larger one is not copied, since it could not be redacted in memory."""

UNREADABLE = (
    OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, EOFError,
    NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors of a broken file while it is redacted: then it is left out, never kept unredacted."""

_VIEWED = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".webm")


def redacted_copy(source: Path, target: Path, redactor: Redactor) -> None:
    """Copy one file, redacted by its type. Raises one of `UNREADABLE` for a broken one."""
    match source.suffix.lower():
        case ".html" | ".htm":
            write_text(target, redactor.text(inert(source.read_text("utf-8", "replace"))))
        case ".har":
            write_json(target, redact_har(json.loads(source.read_text("utf-8")), redactor))
        case ".zip" if source.name.startswith("trace"):
            redact_trace(source, target, redactor)
        case suffix if suffix in _VIEWED:
            shutil.copyfile(source, target)
        case ".json":
            write_json(target, redactor.json(json.loads(source.read_text("utf-8"))))
        case _:
            target.write_bytes(redactor.data(source.read_bytes()))


def copy_files(scratch: Path, target: Path, redactor: Redactor, *, users: bool = False) -> list[ManifestEntry]:
    """Copy named screenshots and downloads, which lie in these folders of the scratch folder.

    `users`: also what users beside the failing one saw.
    """
    folders = (*_KEPT_FOLDERS, USERS) if users else _KEPT_FOLDERS
    return [_copy_entry(scratch, source, target, redactor) for source in sorted(_files_to_keep(scratch, folders))]


def recordings_in(scratch: Path, name: str = "trace.zip") -> Iterator[Path]:
    """The traces or videos in a scratch folder: of the first user, or the failing one, and of the others."""
    return (path for path in (scratch / name, *scratch.glob(f"{USERS}/*/{name}")) if path.is_file())


def copy_recordings(scratch: Path, target: Path, redactor: Redactor) -> None:
    """Copy what `--tracing on` and `--video on` have left of a task that passed; a broken file is left out."""
    of_pages = scratch.glob(f"{USERS}/*/{VIDEOS}")
    for source in (*recordings_in(scratch), *recordings_in(scratch, VIDEO), *of_pages):
        path = target / source.relative_to(scratch)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            redacted_copy(source, path, redactor)
        except UNREADABLE:
            path.unlink(missing_ok=True)


def _files_to_keep(scratch: Path, kept: Iterable[str]) -> Iterator[Path]:
    """The files to keep. Links are left out, since they could lead anywhere."""
    yield from scratch.glob(VIDEOS)
    for name in kept:
        for folder, folders, names in os.walk(scratch / name):
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths = (Path(folder, name) for name in names if not name.startswith("."))
            yield from (path for path in paths if not path.is_symlink() and is_inside(scratch, path))


def _copy_entry(scratch: Path, source: Path, target: Path, redactor: Redactor) -> ManifestEntry:
    parts = source.relative_to(scratch).parts
    name = Path(*(parts[1:] if parts[0] == "files" else parts))
    if source.stat().st_size > _LARGEST:
        return ManifestEntry(str(name), "missed", f"larger than {_LARGEST} bytes")
    path = target / redactor.text(str(name)).replace("\\", "_")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pictured = parts[0] in (COMPARISONS, "screenshots") or len(parts) == 1
        _file_copy(source, path, redactor, pictured=pictured, apart=parts[0] == USERS)
    except UNREADABLE as error:
        path.unlink(missing_ok=True)
        return ManifestEntry(str(name), "missed", f"could not be redacted: {type(error).__name__}: {error}")
    return ManifestEntry(str(name), "taken", bytes=path.stat().st_size)


def _file_copy(source: Path, target: Path, redactor: Redactor, *, pictured: bool, apart: bool) -> None:
    """Copy a file. A download is kept as received, except for secrets. `pictured`: the browser took the picture.

    `apart`: it is evidence of a user, and no file of a step.
    """
    if source.suffix.lower() == ".har" or apart:
        redacted_copy(source, target, redactor)
    elif pictured and source.suffix.lower() in _VIEWED:
        shutil.copyfile(source, target)
    else:
        target.write_bytes(redactor.data(source.read_bytes()))
