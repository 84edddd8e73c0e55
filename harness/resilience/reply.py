"""What an error tells of the HTTP answer it carries, whichever client raised it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a status."""

    status: int
    retry_after: float | None = None
    """Seconds the server asks to wait (`Retry-After`), never below zero."""


def reply(error: BaseException, now: datetime) -> Reply | None:
    """The answer of `error.response` (httpx, requests), or of the error itself (urllib, aiohttp), if there is one.

    `now` is the time of day, aware. A `Retry-After` that is a date is measured from the answer's own `Date`, else from
    `now`.
    """
    for carrier in (getattr(error, "response", None), error):
        headers = getattr(carrier, "headers", None)
        status = _status(carrier)
        if status is not None and headers is not None:
            return Reply(status, _retry_after(_lowered(headers), now))
    return None


def _status(carrier: Any) -> int | None:
    values = (getattr(carrier, name, None) for name in ("status_code", "status", "code"))
    return next((value for value in values if isinstance(value, int) and 100 <= value <= 599), None)


def _lowered(headers: Mapping[str, Any]) -> dict[str, str]:
    return {str(name).lower(): str(value).strip() for name, value in headers.items()}


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        at = _date(value)
        return None if at is None else max(0.0, (at - (_date(headers.get("date", "")) or now)).total_seconds())
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
