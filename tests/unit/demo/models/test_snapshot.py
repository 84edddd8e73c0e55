"""Elements are found by role and name, and by what is near them."""

from __future__ import annotations

import pytest

from harness.demo.models.brain import PageSnapshot, last_page

CARDS = """\
- main [ref=f2e1]:
  - heading "Your cards" [level=1] [ref=f2e2]
  - table [ref=f2e3]:
    - row [ref=f2e4]:
      - cell [ref=f2e5]: Visa ending 1234
      - cell [ref=f2e6]:
        - link "Deactivate" [ref=f2e7] [cursor=pointer]:
          - /url: /cards/1234/deactivate
    - row [ref=f2e8]:
      - cell [ref=f2e9]: Mastercard ending 5678
      - cell [ref=f2e10]:
        - link "Deactivate" [ref=f2e11] [cursor=pointer]:
          - /url: /cards/5678/deactivate
        - 'link "Report: \\"lost\\"" [ref=f2e12]'
  - textbox "Note" [active] [ref=f2e13]: The old one
  - button "Note it" [ref=f2e14]
  - button "Note" [ref=f2e15]
  - link "Help" [cursor=pointer]
"""


@pytest.mark.parametrize(
    ("role", "name", "near", "ref"),
    [
        ("link", "Deactivate", "", "f2e7"),
        ("link", "Deactivate", "1234", "f2e7"),
        ("link", "Deactivate", "5678", "f2e11"),
        ("link", "Deactivate", "9999", None),
        ("link", 'Report: "lost"', "", "f2e12"),
        ("button", "Note", "", "f2e15"),  # the exact name goes before one that begins so
        ("button", "note i", "", "f2e14"),
        ("", "Note", "", "f2e13"),
        ("", "Your cards", "", None),  # nobody acts on a heading
        ("heading", "Your cards", "", "f2e2"),
        ("link", "Help", "", None),  # it has no ref
    ],
)
def test_an_element_is_found_by_its_role_its_name_and_what_is_near(
    role: str, name: str, near: str, ref: str | None
) -> None:
    found = PageSnapshot(CARDS).find(role, name, near)
    assert (found and found.ref) == ref


@pytest.mark.parametrize(
    ("role", "after", "ref"),
    [("cell", "Your cards", "f2e5"), ("link", "Mastercard", "f2e11"), ("button", "Gone", None)],
)
def test_an_element_is_found_behind_a_text(role: str, after: str, ref: str | None) -> None:
    found = PageSnapshot(CARDS).find(role, "", after=after)
    assert (found and found.ref) == ref


def test_a_text_of_the_page_is_seen() -> None:
    assert PageSnapshot(CARDS).shows("Visa ending 1234")
    assert not PageSnapshot(CARDS).shows("Visa ending 7777")


def test_an_element_is_described_by_role_and_name() -> None:
    found = PageSnapshot(CARDS).find("button", "Note it")
    assert found is not None
    assert found.description == 'button "Note it"'


def test_the_page_is_that_of_the_last_text_that_shows_one() -> None:
    old = CARDS.replace("f2e", "e")
    assert last_page([old, CARDS, "What next?"]).find("button", "Note it") == PageSnapshot(CARDS).find("", "Note it")
    assert last_page(["What next?"]).nodes == []
