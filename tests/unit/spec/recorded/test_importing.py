"""Tests for pytest-playwright become tasks; what a task cannot say is named with its line."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from harness.spec.load import load_file
from harness.spec.readers import read_yaml
from harness.spec.recorded.importing import ImportedTask, imported_tasks


def imported(body: str, head: str = "") -> ImportedTask:
    source = f"{head}\ndef test_it(page):\n{indent(dedent(body), '    ')}\n"
    return imported_tasks(source, "test_it.py")[0]


def steps(body: str, head: str = "") -> list[dict[str, Any]]:
    task = imported(body, head)
    assert not task.missing
    return read_yaml(task.text)["steps"] or []


STEPS: dict[str, dict[str, Any]] = {
    "page.goto('/a')": {"act": "open", "url": "/a"},
    "page.goto(f'{base_url}/a', wait_until='load')": {"act": "open", "url": "/a"},
    "page.goto(BASE + '/a')": {"act": "open", "url": "http://shop.test/a"},
    "page.goto('/a', wait_until='domcontentloaded')": {"act": "open", "url": "/a", "until": "domcontentloaded"},
    "page.goto('/a', wait_until='networkidle')": {"act": "open", "url": "/a"},
    "r = page.goto('/a')\nassert r.status == 404": {"act": "open", "url": "/a", "status": 404},
    "r = page.goto('/a')\nassert r.status in (401, 403)": {"act": "open", "url": "/a", "status": [401, 403]},
    "r = page.goto('/a')\nassert r.ok\nassert r is not None": {"act": "open", "url": "/a"},
    "page.click('#a', force=True, timeout=2000)": {"act": "click", "selector": "#a", "force": True, "timeout": 2},
    "page.fill('#a', '${x}')": {"act": "type", "selector": "#a", "value": "$${x}"},
    "page.locator('#a').fill(os.environ['PW'])": {"act": "type", "selector": "#a", "value": "${env:PW}"},
    "page.locator('#a').fill(os.getenv('PW'))": {"act": "type", "selector": "#a", "value": "${env:PW}"},
    "page.locator('#a').clear()": {"act": "type", "selector": "#a", "value": ""},
    "page.locator('#a').press_sequentially('x')": {"act": "type", "selector": "#a", "value": "x"},
    "page.locator('#a').press('Enter')": {"act": "press", "selector": "#a", "value": "Enter"},
    "page.keyboard.press('Escape')": {"act": "press", "value": "Escape"},
    "page.locator('#a').set_checked(False)": {"act": "uncheck", "selector": "#a"},
    "page.get_by_label('A').check()": {"act": "check", "selector": 'label=A'},
    "page.locator('#a').hover()": {"act": "hover", "selector": "#a"},
    "page.locator('#a').scroll_into_view_if_needed()": {"act": "scroll", "selector": "#a"},
    "page.locator('#a').drag_to(page.locator('#b'))": {"act": "drag", "selector": "#a", "value": "#b"},
    "page.drag_and_drop('#a', '#b')": {"act": "drag", "selector": "#a", "value": "#b"},
    "page.locator('#a').select_option(['x', 'y'])": {"act": "select", "selector": "#a", "value": ["x", "y"]},
    "page.locator('#a').select_option(index=1)": {"act": "select", "selector": "#a", "value": {"index": 1}},
    "page.locator('#a').set_input_files('a.txt')": {"act": "upload", "selector": "#a", "value": "a.txt"},
    "page.wait_for_timeout(1500)": {"act": "wait", "value": 1.5},
    "page.wait_for_selector('#a')": {"act": "wait", "selector": "#a"},
    "page.screenshot(path='shots/home.png')": {"act": "screenshot", "screenshot_id": "home"},
    "page.frame_locator('#f').get_by_text('x', exact=True).click()": {
        "act": "click", "selector": 'text="x"', "frame": "#f",
    },
    "page.get_by_role('heading', name=re.compile('^a/b', re.I), level=2).click()": {
        "act": "click", "selector": "role=heading[name=/^a\\/b/i][level=2]",
    },
    "page.locator('li').filter(has_not_text='x').last.click()": {
        "act": "click", "selector": 'li >> has-not-text=x >> nth=-1',
    },
    "expect(page.locator('#f').content_frame.locator('#a')).to_have_count(1)": {
        "act": "assert", "expr": "count('#a', frame='#f') == 1",
    },
    "expect(page.frame_locator('#f').locator('#a')).to_have_attribute('href', '/x')": {
        "act": "assert", "expr": "attr('#a', 'href', frame='#f') == '/x'",
    },
    "expect(page.locator('#f').content_frame.locator('#a')).to_contain_text('x')": {
        "act": "assert", "expr": "text('#a', frame='#f') includes 'x'",
    },
    "expect(page.locator('#a')).to_match_aria_snapshot('- button')": {
        "act": "assert", "selector": "#a", "aria": "- button",
    },
}  # fmt: skip
CRITERIA = {
    "expect(page.locator('#a')).to_have_text('x')": "text('#a') == 'x'",
    "expect(page.locator('#a')).not_to_have_text('x')": "text('#a') != 'x'",
    "expect(page.locator('#a')).not_to_contain_text('x')": "ALL[exists('#a'), NOT[text('#a') includes 'x']]",
    "expect(page.locator('#a')).to_have_text(re.compile(r'\\d+', re.I))": "text('#a') matches '(?i)\\d+'",
    "expect(page.locator('#a')).to_be_hidden()": "NOT[visible('#a')]",
    "expect(page.locator('#a')).not_to_be_hidden()": "visible('#a')",
    "expect(page.locator('#a')).to_be_visible(visible=False)": "NOT[visible('#a')]",
    "expect(page.locator('#a')).to_have_value('x')": "value('#a') == 'x'",
    "expect(page.locator('#a')).to_be_checked()": "exists('#a >> :scope:is(:checked, [aria-checked=\"true\"])')",
    "expect(page.locator('#a')).to_be_disabled()": "exists('#a >> :scope:is(:disabled, [aria-disabled=\"true\"])')",
    "expect(page.locator('#a')).to_have_count(3, timeout=9000)": "WITHIN(9, count('#a') == 3)",
    "expect(page.locator('#a')).to_have_attribute('href', '/x')": "attr('#a', 'href') == '/x'",
    "expect(page).to_have_url('http://a.test/x')": "url() == 'http://a.test/x'",
    "expect(page).to_have_url('/x.y')": "url() matches '^[a-z]+://[^/]+/x\\.y$'",
    "expect(page).to_have_url('**/x')": "url() matches '(.*/)?x$'",
    "expect(page).to_have_title('It\\'s')": 'title() == "It\'s"',
    "assert page.locator('#a').is_visible()": "visible('#a')",
    "assert not page.locator('#a').is_checked()": ("exists('#a >> :scope:not(:checked, [aria-checked=\"true\"])')"),
    "assert page.title() == 'x'": "title() == 'x'",
    "assert 'x' in page.url": "url() includes 'x'",
    "assert page.locator('#a').count() != 2": "count('#a') != 2",
}
MISSING = {
    "page.dblclick('#a')": "no act for `page.dblclick`",
    "page.locator('#a').click(button='right')": "another button",
    "page.locator('#a').click(position={'x': 1, 'y': 2})": "the option `position`",
    "page.locator('#a').fill(secret())": "the value of `secret()` is not in the source",
    "page.locator('#a').fill(f'{1:03}')": "the format of `1`",
    "page.locator('#a', has=page.locator('b')).click()": "the option `has`",
    "page.locator('#a').and_(page.locator('b')).click()": "no act for",
    "page.locator('#a').evaluate('x')": "no act for `evaluate`",
    "page.locator(page.locator('b')).click()": "a locator inside of a locator",
    "expect(page.locator('#a')).to_have_css('color', 'red')": "no criterion says `to_have_css`",
    "expect(page.locator('#a')).to_have_text(['a', 'b'])": "a list of texts",
    "expect(page.locator('#a')).to_have_text(re.compile('(?P<x>a)'))": "only Python knows",
    "page.on('request', print)": "cannot listen to events",
    "page.on('dialog', lambda dialog: dialog.accept())": "write a `dialog` step",
    "page.route('**/*', lambda route: route.abort())": "no act for `page.route`",
    "login(page)": "a function of the project",
    "if page.url:\n    page.reload()": "a task has no `if`",
    "with page.expect_request('**/x'):\n    page.click('#a')": "no act for `page.expect_request`",
    "context = browser.new_context(locale='de')": "write the options locale under `browser:`",
    "assert total == 3": "does not read a page",
    "page.goto()": "it has no `url`",
    "page.wait_for_timeout(slow)": "is no literal",
}  # fmt: skip
HEAD = "import os, re\nBASE = 'http://shop.test'"


@pytest.mark.parametrize("line", STEPS)
def test_a_statement_becomes_a_step(line: str) -> None:
    assert steps(f"{line}\npage.goto('/end')", HEAD)[0] == STEPS[line]


@pytest.mark.parametrize("line", CRITERIA)
def test_an_assertion_becomes_a_criterion(line: str, tmp_path: Path) -> None:
    task = imported(f"page.goto('http://shop.test/')\n{line}", HEAD)
    file = tmp_path / "it.task.yaml"
    file.write_text(task.text, "utf-8")
    assert load_file(file).spec.success_criteria == (CRITERIA[line],)


@pytest.mark.parametrize("line", MISSING)
def test_what_a_task_cannot_say_is_named_at_its_place(line: str) -> None:
    task = imported(f"page.goto('/a')\n{line}\npage.goto('/b')", HEAD)
    (missing,) = task.missing
    assert MISSING[line] in missing.why
    assert missing.place == "test_it.py:5"
    lines = task.text.splitlines()
    at = next(number for number, each in enumerate(lines) if "# MISSING: test_it.py:5: " in each)
    assert "/a" in lines[at - 1]
    assert "/b" in lines[-3] or "/b" in task.text.partition("MISSING: test_it.py")[2]
    assert "It is not complete: 1 parts" in task.text


def test_popups_downloads_and_dialogs_belong_to_the_click() -> None:
    found = steps("""\
        page.once("dialog", lambda dialog: dialog.accept("yes"))
        with page.expect_popup() as popup:
            page.click("#a")
        help_page = popup.value
        help_page.click("#b")
        with page.expect_download() as download_info:
            page.click("#c")
        download = download_info.value
        row = page.locator("tr")
        row.click()
        page.close()
    """)
    assert found == [
        {"act": "dialog", "value": "accept", "text": "yes"},
        {"act": "click", "selector": "#a"},
        {"act": "switch_page", "value": -1},
        {"act": "click", "selector": "#b"},
        {"act": "switch_page", "value": 0},
        {"act": "download", "selector": "#c"},
        {"act": "click", "selector": "tr"},
    ]


def test_a_test_that_dismisses_every_dialog_does_what_a_task_does_anyway() -> None:
    found = steps("""\
        page.on("dialog", lambda dialog: dialog.dismiss())
        page.click("#a")
        page.once("dialog", lambda dialog: dialog.accept())
        page.click("#b")
    """)
    accepted = {"act": "dialog", "value": "accept"}
    assert found == [{"act": "click", "selector": "#a"}, accepted, {"act": "click", "selector": "#b"}]


SUITE = '''
import pytest
from playwright.async_api import Page, expect

class TestShop:
    @pytest.mark.smoke
    @pytest.mark.parametrize("item", ["Milk", "Tea"])
    @pytest.mark.parametrize("price", [1, 2])
    async def test_buy(self, page: Page, item, price, logged_in):
        """Buy it: quickly."""
        await page.goto("/shop")
        await page.get_by_text(item).click()
        async with page.expect_popup() as popup:
            await page.click(f"#price-{price}")
        other = await popup.value
        await expect(other).to_have_title("Paid")

@pytest.mark.skip(reason="later")
@pytest.mark.parametrize("a,b", [("x", 1), ("y", 2)])
def test_pair(page, a, b):
    page.goto(f"/{a}/{b}")

def helper(page): ...

def run(playwright) -> None:
    browser = playwright.chromium.launch(headless=False)
    context = browser.new_context()
    page = context.new_page()
    page.goto("http://shop.test/")
    context.close()
    browser.close()
'''


def test_a_file_with_several_tests_becomes_several_tasks() -> None:
    buy, pair, run = imported_tasks(SUITE, "tests/test_shop.py", ["pair"])
    declared = read_yaml(buy.text)
    assert (buy.task_id, declared["goal"], declared["tags"]) == ("buy", "Buy it: quickly.", ["smoke"])
    assert declared["parametrize"] == {"item": ["Milk", "Tea"], "price": [1, 2]}
    assert declared["steps"][1:3] == [
        {"act": "click", "selector": "text=${param.item}"},
        {"act": "click", "selector": "#price-${param.price}"},
    ]
    assert [each.why for each in buy.missing] == ["what the fixture `logged_in` does is not carried over"]
    assert pair.task_id == "shop-pair"
    assert read_yaml(pair.text)["parametrize"] == [{"a": "x", "b": 1}, {"a": "y", "b": 2}]
    assert "pytest.mark.skip" in pair.missing[0].why
    assert (run.task_id, run.steps, run.missing) == ("shop", 1, ())
