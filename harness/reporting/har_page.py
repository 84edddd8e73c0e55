"""A HAR as a table for people: what failed first, then in the order of the requests."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from harness.model.ports import Json
from harness.reporting.still_page import row, size, still_page

MOST = 1000
"""Requests that are shown; the HAR has them all."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a HAR, and what came of it."""

    method: str
    url: str
    status: int
    """0: there was no answer."""
    milliseconds: float
    bytes: int
    """-1: not known."""
    type: str = ""
    why: str = ""
    at: str = ""
    """When it began, as the HAR writes it."""

    @property
    def failed(self) -> bool:
        """No answer, or one that says no."""
        return self.status < 100 or self.status >= 400


def requests_of(har: Json) -> Iterator[Request]:
    """In the order of the file; entries that cannot be read are passed over."""
    log = har.get("log") if isinstance(har, dict) else None
    entries = log.get("entries") if isinstance(log, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            yield _request(entry)


def har_page(har: Json) -> str | None:
    """The table as a page; None for a HAR without requests."""
    found = sorted(requests_of(har), key=lambda request: request.at)
    if not found:
        return None
    begun = _moment(found[0].at)
    rows = sorted(found, key=lambda request: not request.failed)[:MOST]
    failed = sum(request.failed for request in found)
    more = f", the first {MOST} of them shown" if len(found) > MOST else ""
    head = "".join(f"<th>{name}</th>" for name in ("status", "method", "url", "at", "ms", "size", "type", "why"))
    told = (
        f"{len(found)} requests{more}; {failed} failed, those first"
        if failed
        else f"{len(found)} requests{more}; none failed"
    )
    body = "".join(row(_cells(request, begun), "bad" if request.failed else "") for request in rows)
    return still_page("Requests", f"<p>{html.escape(told)}</p>\n<table><tr>{head}</tr>\n{body}</table>\n")


def _cells(request: Request, begun: datetime | None) -> list[tuple[str, object]]:
    now = _moment(request.at)
    at = f"{(now - begun).total_seconds():.2f} s" if now and begun else ""
    return [
        ("s", request.status or "no answer"),
        ("s", request.method),
        ("u", request.url),
        ("n m", at),
        ("n", f"{request.milliseconds:.0f}"),
        ("n", size(request.bytes)),
        ("m s", request.type),
        ("", request.why),
    ]


def _request(entry: Mapping[str, Json]) -> Request:
    request, response = _table(entry, "request"), _table(entry, "response")
    content = _table(response, "content")
    return Request(
        method=str(request.get("method", "")),
        url=str(request.get("url", "")),
        status=max(0, int(_number(response.get("status")))),
        milliseconds=max(0.0, _number(entry.get("time"))),
        bytes=int(_number(content.get("size"), -1)),
        type=str(content.get("mimeType") or "").partition(";")[0],
        why=str(response.get("_failureText") or response.get("statusText") or ""),
        at=str(entry.get("startedDateTime") or ""),
    )


def _table(of: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    found = of.get(key)
    return found if isinstance(found, dict) else {}


def _number(value: Json, otherwise: float = 0) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else otherwise


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
