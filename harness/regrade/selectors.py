"""Selectors, as far as a recorded page can answer them: CSS of its structure, and XPath."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from cssselect import HTMLTranslator, SelectorError

from harness.regrade.undecided import UndecidedError

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
