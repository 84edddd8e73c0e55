"""One request of a page, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(slots=True)
class Exchange:
    """One request and what became of it."""

    url: str
    method: str
    started: datetime
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    error: str | None = None

    @property
    def answered(self) -> bool:
        """Whether there is nothing to wait for: an answer came, or the request failed."""
        return self.status is not None or self.error is not None
