"""The recorded page, answering the page functions of the assertion language as the page itself did."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.model.ports import Json
from harness.regrade.selectors import Query, query
from harness.regrade.tree import Tree
from harness.regrade.undecided import UndecidedError
from harness.reporting.redaction import MARK

_FIELDS = frozenset({"input", "textarea", "select"})
_SPACE = re.compile(r"[ \t\n\r\f]+")
_CASELESS = frozenset((
    "accept", "accept-charset", "align", "alink", "axis", "bgcolor", "charset", "checked", "clear", "codetype",
    "color", "compact", "declare", "defer", "dir", "direction", "disabled", "enctype", "face", "frame", "hreflang",
    "http-equiv", "lang", "language", "link", "media", "method", "multiple", "nohref", "noresize", "noshade",
    "nowrap", "readonly", "rel", "rev", "rules", "scope", "scrolling", "selected", "shape", "target", "text", "type",
    "valign", "valuetype", "vlink",
))  # fmt: skip
"""Attributes whose values HTML compares without regard to case."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element as it was."""

    name: str
    attributes: Mapping[str, str]
    facts: Mapping[str, Json]
    """`visible`, `value` of a field, `text` where it is not simply that of its parts, `ns` outside of HTML."""

    @property
    def html(self) -> bool:
        return "ns" not in self.facts

    def attribute(self, name: str) -> str | None:
        return self.attributes.get(name.lower() if self.html else name)

    @property
    def is_field(self) -> bool:
        return self.html and self.name in _FIELDS


@dataclass(frozen=True, slots=True)
class RecordedPage:
    """A page at one moment. What it cannot answer raises UndecidedError."""

    url: str
    title: str
    whole: bool
    shadows: bool
    quirks: bool
    elements: Sequence[Element]
    texts: Sequence[str]
    """The texts of the page, in order."""
    spans: Sequence[tuple[int, int]]
    """Of each element: which of the texts are below it."""
    trees: tuple[Tree, Tree] = field(repr=False)
    """For CSS and for XPath."""

    def read(self, function: str, selector: str | None, name: str | None) -> Json:
        """One page function, as `harness.criteria.Sources.page` has it."""
        if function in ("url", "title"):
            return self.url if function == "url" else self.title
        asked = query(selector or "")
        found = self._found(asked)
        if self.shadows and asked.is_css and not self._settled(function, found):
            raise UndecidedError("the page has shadow roots, whose elements were not recorded")
        match function:
            case "exists":
                return bool(found)
            case "count":
                return len(found)
            case "visible":
                return self._seen(found)
        return self._of_first(function, found[0], name) if found else None

    def _settled(self, function: str, found: Sequence[int]) -> bool:
        """Whether elements that are not known of could change nothing."""
        return (function == "exists" and bool(found)) or (function == "visible" and self._seen(found))

    def _seen(self, found: Sequence[int]) -> bool:
        return any(self.elements[place].facts.get("visible") is True for place in found)

    def _of_first(self, function: str, place: int, name: str | None) -> Json:
        element = self.elements[place]
        if function == "attr":
            return element.attribute(name or "")
        if element.is_field:
            return element.facts.get("value")
        return element.attribute("value") if function == "value" else self._text(place)

    def _text(self, place: int) -> Json:
        facts = self.elements[place].facts
        if "text" not in facts:
            begin, end = self.spans[place]
            return _SPACE.sub(" ", "".join(self.texts[begin:end])).strip(" ")
        if facts["text"] is None:
            raise UndecidedError("the text of this element is too long to have been recorded")
        return facts["text"]

    def _found(self, asked: Query) -> list[int]:
        if not self.whole:
            raise UndecidedError("the page was too large to be recorded whole")
        self._check(asked)
        return self.trees[0 if asked.is_css else 1].find(asked.xpath)

    def _check(self, asked: Query) -> None:
        """Raises where redaction or the page's own rules leave open which elements are meant."""
        for element in self.elements:
            for name, value in element.attributes.items():
                lower = name.lower()
                if lower not in asked.attributes and "*" not in asked.attributes:
                    continue
                if MARK in value:
                    raise UndecidedError(f"the attribute `{name}` is redacted, and the selector goes by it")
                if asked.is_css and lower in _CASELESS and (asked.cased or value != value.lower()):
                    raise UndecidedError(f"HTML compares `{name}` in ways that are not known here")
                if self.quirks and lower in ("id", "class") and (asked.cased or value != value.lower()):
                    raise UndecidedError("in quirks mode, capital letters of ids and classes do not count")
        if asked.texts and any(MARK in text for text in self.texts):
            raise UndecidedError("a text of the page is redacted, and the selector goes by texts")
