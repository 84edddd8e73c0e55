"""What was recorded, where criteria read from it (criteria.Sources)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from harness.model.ports import Json
from harness.regrade.page import RecordedPage
from harness.regrade.undecided import UndecidedError
from harness.reporting.redaction import MARK


@dataclass(frozen=True, slots=True)
class RecordedSources:
    """Each part is what was recorded, or a text that says why it is not known."""

    recorded_page: RecordedPage | str
    entries: Mapping[str, Json] | str
    channels: Mapping[str, Json] | str
    at: datetime | None
    """The world's time; known to a second or two."""
    url: str | None = None
    """Known also of a page that did not answer."""

    async def page(self, function: str, selector: str | None, name: str | None) -> Json:
        if not isinstance(self.recorded_page, str):
            return self.recorded_page.read(function, selector, name)
        if function == "url" and self.url is not None:
            return self.url
        raise UndecidedError(f"the page was not recorded: {self.recorded_page}")

    async def memory(self) -> Mapping[str, Json]:
        if isinstance(self.entries, str):
            raise UndecidedError(f"memory was not recorded: {self.entries}")
        return self.entries

    async def channel(self, name: str) -> Json:
        if isinstance(self.channels, str):
            raise UndecidedError(f"the environment was not recorded: {self.channels}")
        if name not in self.channels:
            told = self.channels.get("error")
            raise UndecidedError(f"channel `{name}` was not recorded" + (f": {told}" if isinstance(told, str) else ""))
        document = self.channels[name]
        if isinstance(document, dict) and document.keys() == {"error"}:
            raise UndecidedError(f"channel `{name}` could not be read then: {document['error']}")
        return document

    def now(self) -> datetime:
        if self.at is None:
            raise UndecidedError("the time was not recorded")
        return self.at

    def later(self, seconds: float) -> RecordedSources:
        """The same, at another time."""
        return replace(self, at=self.at and self.at + timedelta(seconds=seconds))


def redacted(value: Json) -> bool:
    """Whether anything in it, names included, is redacted."""
    return any(MARK in text for text in _texts(value))


def redacted_names(value: Json) -> bool:
    """Whether the name of anything in it is redacted, so that a path may miss what is there."""
    return any(MARK in text for text in _texts(value, values=False))


def _texts(value: Json, *, values: bool = True) -> Iterator[str]:
    """Without recursion: a document may be nested deeper than Python's stack is."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str(text) if values:
                yield text
            case dict(items):
                yield from map(str, items)
                waiting += items.values()
            case list(items):
                waiting += items
            case _:
                pass
