"""Reads `page_state.json`. Whoever wrote it is not trusted: what is no page is refused, and size is bounded."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.ports import Json
from harness.regrade.page import Element, RecordedPage
from harness.regrade.tree import tree

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
        elements=[Element(node[1], node[2], node[3]) for node in nodes if len(node) == _OF_ELEMENT],
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
