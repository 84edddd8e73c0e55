"""A locator of a program, typed where a task has a selector, is told with the selector to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.imported.typed import written_for
from harness.spec.selectors import check_selector
from tests.unit.spec.files import problems, write

CALLS = {
    """getByRole("button", { name: "Save" })""": 'role=button[name="Save"]',
    """page.getByRole('button', {name: 'Save', exact: true})""": 'role=button[name="Save"]',
    """page.get_by_role("button", name="Save")""": 'role=button[name="Save"]',
    """await page.getByRole('button', { name: /save: it/i }).click();""": "role=button[name=/save: it/i]",
    """page.getByRole('heading', {level: 2, name: "it's"})""": 'role=heading[name="it\'s"][level=2]',
    """page.locator("#a")""": "#a",
    """this.page.locator(`#a`).first()""": "#a >> nth=0",
    """page.locator('#a').filter({ hasText: 'b' }).nth(2)""": '#a:has-text("b") >> nth=2',
    """getByLabel("User name")""": "label=User name",
    """page.getByText('Buy now')""": "text=Buy now",
    """page.getByPlaceholder("Email")""": "placeholder=Email",
    """screen.getByTestId('save')""": "testid=save",
    """cy.get('#a')""": "#a",
    """document.querySelector(".a > b")""": ".a > b",
    """page.frameLocator('#f').getByRole('link')""": 'role=link` and `frame: "#f"',
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_told_as_the_selector_that_means_the_same(call: str) -> None:
    assert written_for(call) == f"write `{CALLS[call]}{'' if 'frame: ' in CALLS[call] else '`'}".rstrip("`") + "`"
    check_selector(CALLS[call].partition("` and")[0])


@pytest.mark.parametrize(
    "call", ["page.locator(row)", "page.getByRole('button', { has: page.locator('b') })", "getByText("]
)
def test_a_call_that_no_selector_says_is_told_what_a_selector_is(call: str) -> None:
    assert written_for(call).startswith("a selector is a text, as in `role=button[name=")


@pytest.mark.parametrize("text", ["#a[", "div:has(b", "label=Email", "text=locator"])
def test_another_text_is_no_call(text: str) -> None:
    assert written_for(text) == ""


def test_a_file_names_the_place_and_the_line_to_write(tmp_path: Path) -> None:
    step = "{act: click, selector: \"page.getByRole('button', { name: 'Save' })\"}"
    criterion = "exists('getByText(\"Buy\")')"
    text = f"task_id: T-1\nsteps:\n  - {step}\nsuccess_criteria:\n  - {criterion}\n"
    found = "\n".join(map(str, problems(write(tmp_path, text))))
    assert "t.task.yaml:3:34: steps[0].selector: the selector `page.getByRole" in found
    assert "it is a call of Playwright's" in found
    assert 'hint: write `role=button[name="Save"]`' in found
    assert "t.task.yaml:5:13: success_criteria[0]" in found
    assert "hint: write `text=Buy`" in found
