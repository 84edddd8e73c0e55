"""One request of a page, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property


class Later(Mapping[str, str]):
    """A mapping that is made when somebody looks into it: of a hundred answers' headers, one's matter."""

    def __init__(self, make: Callable[[], Mapping[str, str]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, str]:
        return self._make()

    def __getitem__(self, name: str) -> str:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


@dataclass(slots=True)
class Exchange:
    """One request and what became of it."""

    url: str
    method: str
    started: datetime
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of the answer; names in lower case."""
    error: str | None = None
    loading: dict[object, str] = field(default_factory=dict, compare=False, repr=False)
    """Of a document: URLs that its page asked for and does not have yet, itself among them; by request."""
    parsed: bool = False
    """Of a document: whether its page is there (DOMContentLoaded), though parts of it may still be missing."""

    @property
    def answered(self) -> bool:
        """Whether there is nothing to wait for: an answer came, or the request failed."""
        return self.status is not None or self.error is not None
