"""The page within a bound: what can be acted on comes first, in the page's order, and nothing is changed."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from harness.agents.view import NOTE, PageView

SHOP = "- generic [active] [ref=e1]:\n" + "\n".join(
    f"  - listitem [ref=e{4 * n + 2}]:\n    - text: Item {n}\n"
    f'    - link "Product {n}" [ref=e{4 * n + 3}] [cursor=pointer]:\n'
    f'      - /url: /p/{n}\n    - button "Add {n}" [ref=e{4 * n + 4}]\n    - paragraph [ref=e{4 * n + 5}]: Text of {n}'
    for n in range(60)
)
_NAMES = st.text("ab \":[]{}'é", max_size=12).map(lambda text: text.replace("\\", "").replace('"', '\\"'))
_ROLES = st.sampled_from(["button", "link", "textbox", "generic", "heading", "listitem", "paragraph", "text"])


@st.composite
def snapshots(draw: st.DrawFn) -> str:
    """A snapshot of any shape."""
    lines, depth = [], 0
    for number in range(draw(st.integers(0, 60))):
        depth = draw(st.integers(0, depth + 1))
        role, name = draw(_ROLES), draw(_NAMES)
        named = f' "{name}"' if name and draw(st.booleans()) else ""
        ref = f" [ref=e{number}]" if draw(st.booleans()) else ""
        lines.append(f"{'  ' * depth}- {role}{named}{ref}{draw(st.sampled_from(['', ':', ': said']))}")
    return "\n".join(lines)


@given(snapshots(), st.integers(NOTE, 3000))
def test_it_stays_within_the_bound_in_the_pages_order_with_unchanged_lines(snapshot: str, most: int) -> None:
    shown = PageView(snapshot).within(most)
    assert len(shown) <= most
    kept = [line.strip() for line in shown.splitlines() if line.strip().startswith("- ")]
    rest = iter(line.strip() for line in snapshot.splitlines())
    assert all(line in rest for line in kept), "each kept line is one of the page, in its order"


def test_a_page_that_fits_is_shown_as_it_is() -> None:
    assert PageView(SHOP).within(len(SHOP)) == SHOP


def test_what_can_be_acted_on_comes_first_and_the_rest_is_counted() -> None:
    shown = PageView(SHOP).within(6000)
    assert re.findall(r'button "Add (\d+)"', shown) == [str(n) for n in range(60)]
    assert re.findall(r'link "Product (\d+)"', shown) == [str(n) for n in range(60)]
    lines = shown.splitlines()
    assert lines[-1] == f"(left out: {301 + 60 - len(lines) + 1} of 361 lines, 0 of them to act on; `look` finds them)"


def test_what_is_left_out_of_a_small_bound_is_counted() -> None:
    shown = PageView(SHOP).within(1000)
    assert "Add 0" in shown
    assert "Add 59" not in shown
    kept = shown.count("[cursor=pointer]") + shown.count("button")
    assert f"{120 - kept} of them to act on" in shown


def test_a_text_is_found_wherever_it_is() -> None:
    found = PageView(SHOP).find("PRODUCT 59", 500)
    assert found == '- link "Product 59" [ref=e239] [cursor=pointer]:'
    assert PageView(SHOP).find("nowhere", 500) == ""
    many = PageView(SHOP).find("add", 500)
    assert len(many) <= 500
    assert "more lines: ask for something narrower" in many


def test_an_element_is_shown_with_all_that_is_in_it() -> None:
    assert PageView(SHOP).inside("e6", 500).splitlines() == [
        "- listitem [ref=e6]:",
        "  - text: Item 1",
        '  - link "Product 1" [ref=e7] [cursor=pointer]:',
        "    - /url: /p/1",
        '  - button "Add 1" [ref=e8]',
        "  - paragraph [ref=e9]: Text of 1",
    ]
    assert PageView(SHOP).inside("e9999", 500) == ""
