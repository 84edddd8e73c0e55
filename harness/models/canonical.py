"""A request to a model in a form that is the same in every run, and the translation of element refs between runs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from harness.values import map_texts, texts_of

Redact = Callable[[str], str]
IGNORED = "…"
"""Stands in a canonical request for what a pattern ignores."""
PICTURE = "(picture)"
"""Stands there for a picture: no two runs have the same bits."""

_REF = re.compile(r"\[ref=(\w+)\]|aria-ref=(\w+)")
_PICTURE = re.compile(r"(?:data:image/\w+;base64,)?[A-Za-z0-9+/]{200,}={0,2}")


class CanonicalRequest(Struct, frozen=True):
    """One request. Two requests with the same digest ask the same question."""

    document: Mapping[str, Any]
    """JSON without secrets; its keys are sorted, and its element refs are `ref1`, `ref2`, ... by first appearance."""
    refs: tuple[str, ...]
    """The refs that the page had, in that order."""

    @property
    def digest(self) -> str:
        """The sha256 of the document, as 64 hexadecimal digits."""
        return digest_of(self.document)

    @property
    def lines(self) -> list[str]:
        """The document for a person, a line of each text on a line of its own."""
        return lines_of(self.document)


def canonical(
    model: str, method: str, path: str, body: bytes, ignore: Sequence[re.Pattern[str]] = (), redact: Redact = str
) -> CanonicalRequest:
    """The canonical form of a request to the model of that name in the settings. `path`: that of the URL.

    Where the server was does not count: a recording holds for another address of the same provider.
    """
    document = {"model": model, "request": f"{method} {path}", "body": _sorted(_decoded(body))}
    found = (each for text in texts_of(document) for each in _REF.finditer(text))
    refs = tuple(dict.fromkeys(each[1] or each[2] for each in found))
    names = {ref: f"ref{number}" for number, ref in enumerate(refs, 1)}

    def settle(text: str) -> str:
        text = _rename_refs(_PICTURE.sub(PICTURE, text), names)
        for pattern in ignore:
            text = pattern.sub(IGNORED, text)
        return redact(text)

    return CanonicalRequest(map_texts(document, settle), refs)


def digest_of(document: Any) -> str:
    """The sha256 of a JSON document, whatever the order of its keys."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def lines_of(document: Mapping[str, Any]) -> list[str]:
    """A JSON document for a person, with the lines of its texts as lines."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, indent=1)
    return text.replace(r"\n", "\n").splitlines()


def _rename_refs(text: str, names: Mapping[str, str]) -> str:
    """Replace the refs that have another name; a word counts as a ref only where it stands alone."""
    if not names:
        return text
    return re.sub(rf"\b(?:{'|'.join(map(re.escape, names))})\b", lambda found: names[found[0]], text)


def between_runs(recorded: Sequence[str], present: Sequence[str]) -> dict[str, str]:
    """What each ref of a recording is called on the present page; refs with the same name are left out."""
    return {old: new for old, new in zip(recorded, present, strict=False) if old != new}


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def _sorted(value: Any) -> Any:
    """The value with the keys of all objects in order, so that the order of first appearances is settled."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


# Refs in a recorded answer: a stream breaks a tool's arguments into fragments, and a ref with them.

_FRAGMENTS = ("arguments", "partial_json", "delta", "text", "content")
"""The keys of the events of the providers' streams under which texts grow piece by piece."""


def translate_answer(body: str, names: Mapping[str, str]) -> str:
    """A recorded body with the refs of the present page, whether it is JSON or a stream of events."""
    if not names:
        return body
    events = [(line, _event(line)) for line in body.splitlines(keepends=True)]
    if not any(event is not None for _, event in events):
        return _rename_refs(body, names)
    _join_fragments([event for _, event in events if event is not None], names)
    return "".join(line if event is None else _event_line(event, line, names) for line, event in events)


def _event(line: str) -> Any | None:
    if not line.startswith("data:"):
        return None
    try:
        return json.loads(line[5:])
    except ValueError:
        return None


def _event_line(event: Any, line: str, names: Mapping[str, str]) -> str:
    end = line[len(line.rstrip("\r\n")) :]
    renamed = map_texts(event, lambda text: _rename_refs(text, names))
    return f"data: {json.dumps(renamed, ensure_ascii=False)}{end}"


def _join_fragments(events: Sequence[Any], names: Mapping[str, str]) -> None:
    """Put a text that grows over several events into the first of them, if it breaks a ref that changes."""
    grown: dict[tuple[Any, ...], list[tuple[dict[str, Any], str]]] = {}
    for event in events:
        for place, owner, key in _fragments(event, ()):
            grown.setdefault(place, []).append((owner, key))
    for pieces in grown.values():
        texts = [owner[key] for owner, key in pieces]
        whole = "".join(texts)
        if _rename_refs(whole, names) != "".join(_rename_refs(text, names) for text in texts):
            for owner, key in pieces:
                owner[key] = ""
            owner, key = pieces[0]
            owner[key] = whole  # `_event_line` renames


def _fragments(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], str]]:
    """Each text that may grow: its place (with the indices that tell two tools apart), its owner and key."""
    if isinstance(value, dict):
        marks = tuple(value[name] for name in ("index", "output_index", "item_id") if name in value)
        for key, each in value.items():
            if key in _FRAGMENTS and isinstance(each, str):
                yield (*place, *marks, key), value, key
            else:
                yield from _fragments(each, (*place, *marks, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _fragments(each, (*place, number))
