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
    redirected: bool = False
    """It follows a redirect: what it asks for is not what was sent."""

    def repeatable(self, *, write: bool) -> bool:
        """Whether the document may be asked for again: by GET, and not itself the request of a write."""
        return self.method in ("GET", "HEAD") and (self.redirected or not write)

    loading: dict[object, str] = field(default_factory=dict, compare=False, repr=False)
    """Of a document: URLs that its page asked for and does not have yet, itself among them; by request."""
    parsed: bool = False
    """Of a document: whether its page is there (DOMContentLoaded), though parts of it may still be missing."""

    @property
    def answered(self) -> bool:
        """Whether there is nothing to wait for: an answer came, or the request failed."""
        return self.status is not None or self.error is not None
