"""The recorded page, answering the page functions of the assertion language as the page itself did."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cssselect import HTMLTranslator, SelectorError
from lxml import etree

from harness.model.ports import Json
from harness.reporting.redaction import MARK

# Reads `page_state.json`. Whoever wrote it is not trusted: what is no page is refused, and size is bounded.

MOST_NODES = 20_000
DEEPEST = 250
_OF_ELEMENT, _OF_TEXT = 4, 2
"""Parts of a node: `[above, name, attributes, facts]` and `[above, text]`."""


def recorded_page(document: Json) -> RecordedPage:
    """The page. ValueError for what is none."""
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise ValueError("it holds no page")  # noqa: TRY004 - the content of a file, not an argument
    nodes, url, title = document["nodes"], document.get("url"), document.get("title")
    if document.get("version") != 1 or not isinstance(url, str) or not isinstance(title, str):
        raise ValueError("it was written by another version")
    if len(nodes) > MOST_NODES:
        raise ValueError(f"it has more than {MOST_NODES} nodes")
    spans = _spans(nodes)
    return RecordedPage(
        url=url,
        title=title,
        whole=document.get("whole") is True,
        shadows=bool(document.get("shadows")),
        quirks=bool(document.get("quirks")),
        elements=[RecordedElement(node[1], node[2], node[3]) for node in nodes if len(node) == _OF_ELEMENT],
        texts=[node[1] for node in nodes if len(node) == _OF_TEXT],
        spans=spans,
        trees=(tree(nodes, css=True), tree(nodes, css=False)),
    )


def _spans(nodes: Sequence[Json]) -> list[tuple[int, int]]:
    """For each element the texts below it. ValueError unless the nodes are a tree in order, and not too deep."""
    spans: list[tuple[int, int]] = []
    open_: list[tuple[int, int]] = []  # number of the node, and its place among the elements
    texts = 0
    for number, node in enumerate(nodes):
        if not _is_node(node):
            raise ValueError(f"its node {number} is none")
        while open_ and open_[-1][0] != node[0]:
            _, place = open_.pop()
            spans[place] = (spans[place][0], texts)
        if bool(open_) != bool(number) or (number == 0 and (node[0] != -1 or len(node) == _OF_TEXT)):
            raise ValueError(f"its node {number} is below none")
        if len(open_) > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        if len(node) == _OF_TEXT:
            texts += 1
        else:
            open_.append((number, len(spans)))
            spans.append((texts, texts))
    for _, place in open_:
        spans[place] = (spans[place][0], texts)
    return spans


def _is_node(node: Json) -> bool:
    if not isinstance(node, list) or len(node) not in (_OF_ELEMENT, _OF_TEXT) or type(node[0]) is not int:
        return False
    if not isinstance(node[1], str) or len(node) == _OF_TEXT:
        return isinstance(node[1], str)
    _, _, attributes, facts = node
    return (
        isinstance(attributes, dict)
        and isinstance(facts, dict)
        and all(isinstance(value, str) for value in attributes.values())
    )


# Selectors, as far as a recorded page can answer them: CSS of its structure, and XPath.

_ENGINE = re.compile(r"([A-Za-z_0-9+:*-]+)=")
_XPATH = re.compile(r"\(*//|\.\.")
_PSEUDO = re.compile(r"::?([A-Za-z-]+)")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_ATTRIBUTE = re.compile(r"\[\s*([\w:-]+)")
_NAMESPACE = re.compile(r"(?<!\\)\|(?!=)")
_EXACT = re.compile(r"\[[^\]=]*=[^\]]*(?:''|\s)[sS]\s*\]")
_XPATH_ATTRIBUTE = re.compile(r"(?:@|attribute::)\s*([\w:.*-]+)")
_XPATH_TEXT = re.compile(
    r"\b(?:text|string|normalize-space|contains|starts-with|concat|translate|substring\S*)\s*\(|\[\s*\."
)
_STRUCTURAL = frozenset((
    "not", "is", "where", "has", "root", "empty", "first-child", "last-child", "only-child", "nth-child",
    "nth-last-child", "first-of-type", "last-of-type", "only-of-type", "nth-of-type", "nth-last-of-type",
))  # fmt: skip
"""Pseudo-classes that the tree alone answers."""
LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Query:
    """A selector as XPath, and what of the page it goes by."""

    xpath: str
    is_css: bool
    attributes: frozenset[str]
    """Names of the attributes it looks at, in lower case; `*`: any."""
    texts: bool
    """Whether it may look at texts."""
    cased: bool
    """Whether its names have capital letters."""


@lru_cache(maxsize=1024)
def query(selector: str) -> Query:
    """Raises UndecidedError for one that needs a browser, or cannot be read."""
    text = selector.strip()
    if len(text) > LONGEST:
        raise UndecidedError(f"its selector has more than {LONGEST} characters")
    if ">>" in text:
        raise UndecidedError("a chain of selectors (`>>`) needs a browser")
    engine = _ENGINE.match(text)
    if _XPATH.match(text) or (engine and engine[1] == "xpath"):
        return _of_xpath(text.removeprefix("xpath=").strip())
    if engine and engine[1] != "css":
        raise UndecidedError(f"the selector engine `{engine[1]}` needs a browser")
    if text[:1] in "\"'":
        raise UndecidedError("a selector by text needs a browser")
    return _of_css(text.removeprefix("css=").strip())


def _of_xpath(text: str) -> Query:
    bare = _QUOTED.sub("''", text)
    if re.search(r"[A-Z]", bare):
        raise UndecidedError("capital letters in an XPath mean other things in a page than in what is recorded of it")
    names = frozenset(_XPATH_ATTRIBUTE.findall(bare))
    return Query(text, False, names, bool(_XPATH_TEXT.search(bare)), False)


def _of_css(text: str) -> Query:
    bare = _QUOTED.sub("''", text)
    for name in _PSEUDO.findall(re.sub(r"\[[^\]]*\]|\\.", "", bare)):
        if name.lower() not in _STRUCTURAL:
            raise UndecidedError(f"`:{name}` needs a browser")
    if re.search(r"\[[^\]]*\\", bare):
        raise UndecidedError("an attribute name with `\\` needs a browser")
    if _NAMESPACE.search(bare):
        raise UndecidedError("a namespace (`|`) needs a browser")
    if _EXACT.search(bare):
        raise UndecidedError("the flag `s` needs a browser")
    names = frozenset(name.lower() for name in _ATTRIBUTE.findall(bare))
    named = frozenset(name for mark, name in (("#", "id"), (".", "class")) if mark in bare)
    try:
        xpath = HTMLTranslator().css_to_xpath(text)
    except (SelectorError, RecursionError) as error:
        raise UndecidedError(f"its selector is beyond what is read here: {error}") from error
    return Query(xpath, True, names | named, False, bool(re.search(r"[A-Z]", text)))


# The elements of a recorded page as a tree that XPath can be asked of.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Tree:
    """`places` keeps lxml's stand-ins for the elements alive, so that they can be told apart."""

    root: Any
    places: Mapping[Any, int]

    def find(self, xpath: str) -> list[int]:
        """Places of the elements, in the order of the document. Raises UndecidedError."""
        if self.root is None:
            return []
        try:
            found = self.root.getroottree().xpath(xpath)
        except (etree.XPathError, ValueError) as error:
            raise UndecidedError(f"its selector cannot be followed here: {error}") from error
        if not isinstance(found, list):
            raise UndecidedError("its selector finds no elements")
        return sorted(self.places[each] for each in found if each in self.places)


def tree(nodes: Sequence[Json], *, css: bool) -> Tree:
    """For CSS without namespaces and in small letters; for XPath as the document has it. `nodes` were checked."""
    made: dict[int, Any] = {-1: None}
    for number, (above, what, *more) in enumerate(nodes):
        if not more:
            _append(made[above], _NO_XML.sub("\ufffd", what))
            continue
        made[number] = _element(what, *more, css=css)
        if above >= 0:
            made[above].append(made[number])
    elements = [element for element in made.values() if element is not None]
    return Tree(elements[0] if elements else None, {element: place for place, element in enumerate(elements)})


def _append(above: Any, text: str) -> None:
    if len(above):
        above[-1].tail = (above[-1].tail or "") + text
    else:
        above.text = (above.text or "") + text


def _element(name: str, attributes: Mapping[str, str], facts: Mapping[str, Json], *, css: bool) -> Any:
    """Names that XML does not have are left out: a selector cannot say them but with `\\`, which is refused."""
    name = name.lower() if css else name
    name = name if _NAME.fullmatch(name) else "_unnamed"
    space = "" if css else _NO_XML.sub("", str(facts.get("ns", "")))
    made = etree.Element(f"{{{space}}}{name}" if space else name, nsmap={None: space} if space else None)
    for key, value in attributes.items():
        if _NAME.fullmatch(key):
            made.set(key.lower() if css else key, _NO_XML.sub("\ufffd", value))
    return made


# Why the evidence does not tell.


class UndecidedError(Exception):
    """What was recorded does not tell the value that is asked for; the message says why, as part of a sentence."""


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
class RecordedElement:
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
    elements: Sequence[RecordedElement]
    texts: Sequence[str]
    """The texts of the page, in order."""
    spans: Sequence[tuple[int, int]]
    """For each element, which of the texts are below it."""
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
