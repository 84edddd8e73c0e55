"""The elements of a recorded page as a tree that XPath can be asked of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lxml import etree

from harness.model.ports import Json
from harness.regrade.undecided import UndecidedError

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
