"""The page as criteria see it, once: every element with its attributes, live value, text and visibility.

An HTML copy tells less: it knows no typed values, no styles, and is another tree once it is parsed again.
"""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page

from harness.browser.isolated import script

MOST_NODES = 20_000
LONGEST_TEXT = 2_000
"""Characters of one element's text that are kept, where it cannot be put together from the text below it."""
MOST_CHARACTERS = 2_000_000
MILLISECONDS = 500
"""After that the walk is broken off, and says so."""

_WALK = script(
    "page_state",
    """
(_, [mostNodes, longest, mostCharacters, limit]) => {
  const began = performance.now();
  const isField = e => ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.tagName);
  const folded = s => s.replace(/[ \\t\\n\\r\\f]+/g, ' ').replace(/^ | $/g, '');
  const isVisible = e => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && e.checkVisibility({visibilityProperty: true});
  };
  const nodes = [], elements = [];
  let shadows = 0, characters = 0, whole = true;
  const stack = document.documentElement ? [[document.documentElement, -1]] : [];
  while (stack.length) {
    const [node, parent] = stack.pop();
    if (nodes.length >= mostNodes || characters > mostCharacters || performance.now() - began > limit) {
      whole = false;
      break;
    }
    const place = nodes.length;
    if (node.nodeType !== Node.ELEMENT_NODE) {
      characters += node.data.length;
      nodes.push([parent, node.data]);
      continue;
    }
    shadows += node.shadowRoot ? 1 : 0;
    const attributes = {};
    for (const each of node.attributes) {
      attributes[each.name] = each.value;
      characters += each.name.length + each.value.length;
    }
    const facts = {};
    if (node.namespaceURI !== 'http://www.w3.org/1999/xhtml') facts.ns = node.namespaceURI || '';
    if (isVisible(node)) facts.visible = true;
    if (isField(node)) facts.value = node.value;
    elements.push([place, node]);
    nodes.push([parent, node.localName, attributes, facts]);
    const children = [...node.childNodes].filter(each => [1, 3, 4].includes(each.nodeType));
    for (const child of children.reverse()) stack.push([child, place]);
  }
  const texts = nodes.map(each => each.length === 2 ? each[1] : '');
  for (let place = nodes.length - 1; place > 0; place--) {
    if (nodes[place][0] >= 0) texts[nodes[place][0]] = texts[place] + texts[nodes[place][0]];
  }
  for (const [place, element] of whole ? elements : []) {
    if (performance.now() - began > limit) {
      whole = false;
      break;
    }
    const text = element.innerText ?? element.textContent;
    if (text !== folded(texts[place])) nodes[place][3].text = text.length <= longest ? text : null;
  }
  return {title: document.title, quirks: document.compatMode === 'BackCompat', shadows, whole, nodes};
}
""",
)


async def page_state(page: Page) -> dict[str, Any]:
    """`url`, `title`, and `nodes` in the order of the document, each `[parent, text]` or
    `[parent, name, attributes, facts]`; `whole` is false when there was too much of it.

    A text that is its parts' texts, folded, is left out of an element's facts; one that is too long is null.
    Raises Playwright's errors.
    """
    limits = [MOST_NODES, LONGEST_TEXT, MOST_CHARACTERS, MILLISECONDS]
    found: dict[str, Any] = await _WALK.of_page(page, limits)
    return {"version": 1, "url": page.url, **found}
