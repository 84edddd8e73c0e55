"""Elements out of an ARIA snapshot, as Chromium and Playwright really give it."""

from __future__ import annotations

from harness.model.snapshot import IN_FRAME, elements, refs_of, with_selectors
from harness.spec.steps import Click, Drag, Wait

SNAPSHOT = """
- generic [active] [ref=f1e17]:
  - link "Cart (0)" [ref=e9] [cursor=pointer]:
    - /url: /cart
  - spinbutton "n" [ref=f1e19]
  - textbox [ref=f1e22]: "#000000"
  - combobox "s" [ref=f1e23]:
    - option "a" [selected]
    - option "b" [disabled]
  - listbox [ref=f1e24]:
    - option "q" [ref=f1e25]
  - 'button "q \\"x\\": [ref=e1]" [disabled] [ref=f1e26]'
  - 'button "it''s: so" [ref=f1e27]'
  - iframe [ref=f1e29]:
    - button "in" [ref=f2e2]
  - text: link "no" [ref=e99]
  - checkbox "c" [checked] [ref=f1e38]
"""


def test_roles_names_refs_and_states() -> None:
    found = {each.ref: each for each in elements(SNAPSHOT)}
    assert "e1" not in found
    assert "e99" not in found
    assert str(found["e9"]) == 'link "Cart (0)"'
    assert found["e9"].url == "/cart"
    assert (found["f1e19"].role, found["f1e22"].name, str(found["f1e22"])) == ("spinbutton", "", "textbox")
    assert (found["f1e23"].options, found["f1e24"].options) == (2, 1)
    assert (found["f1e26"].name, found["f1e26"].enabled) == ('q "x": [ref=e1]', False)
    assert (found["f1e27"].name, found["f1e27"].enabled) == ("it's: so", True)
    assert found["f2e2"].selector == "aria-ref=f2e2"
    assert (found["f1e38"].checked, found["f1e19"].checked) == (True, False)


def test_an_empty_page_has_none() -> None:
    assert elements("") == []


def test_the_refs_of_a_step_are_replaced_by_selectors() -> None:
    selectors = {"e1": 'role=button[name="It\'s"]', "f1e2": f"#frame{IN_FRAME}#in{IN_FRAME}role=button", "e3": "#c"}
    click = Click(selector="aria-ref=e1", note="x")
    assert refs_of(click) == ("e1",)
    assert with_selectors(click, selectors) == Click(selector=selectors["e1"], note="x")
    framed = with_selectors(Click(selector="aria-ref=f1e2"), selectors)
    assert framed == Click(selector="role=button", frame="#frame >>> #in")
    drag = Drag(selector="aria-ref=e3", value="aria-ref=e1")
    assert (refs_of(drag), with_selectors(drag, selectors)) == (
        ("e3", "e1"),
        Drag(selector="#c", value=selectors["e1"]),
    )
    kept = Wait(value=0, remember={"x": "text('aria-ref=e1')"})
    assert refs_of(kept) == ("e1",)
    made = with_selectors(kept, selectors)
    assert made is not None
    assert made.remember == {"x": "text('role=button[name=\"It\\'s\"]')"}


def test_a_step_with_a_ref_that_has_no_selector_stays_as_it_is() -> None:
    assert with_selectors(Click(selector="aria-ref=e9"), {"e1": "#a"}) is None
    assert refs_of(Click(selector="#a")) == ()
    assert refs_of(Click(selector="aria-ref=e9 >> span")) == ()
