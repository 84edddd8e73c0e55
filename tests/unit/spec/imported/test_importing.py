"""Suites of Playwright tests become tasks; what a task cannot say is named with its line."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from harness.spec.imported.importing import Import, ImportedTest
from harness.spec.load import load_file
from harness.spec.problems import SpecError
from harness.spec.readers import read_yaml


def suite(folder: Path, files: dict[str, str], *given: str) -> tuple[list[ImportedTest], Import]:
    """The tests of the first file."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text), "utf-8")
    work = Import(dict(each.split("=", 1) for each in given))
    return work.tests(folder / next(iter(files))), work


def imported(folder: Path, body: str, head: str = "") -> ImportedTest:
    source = f"import os, re\nimport pytest\nfrom playwright.sync_api import Locator, expect\n{head}\n"
    return suite(folder, {"test_it.py": f"{source}def test_it(page):\n{indent(dedent(body), '    ')}\n"})[0][0]


def declared(test: ImportedTest) -> dict[str, Any]:
    assert test.task is not None
    found: dict[str, Any] = read_yaml(test.task.text)
    return found


def steps(folder: Path, body: str, head: str = "") -> list[dict[str, Any]]:
    test = imported(folder, body, head)
    assert not test.missing, test.missing
    found: list[dict[str, Any]] = declared(test)["steps"]
    return found


STEPS: dict[str, Any] = {
    "page.goto('/a')": {"act": "open", "url": "/a"},
    "page.goto(BASE + '/a')": {"act": "open", "url": "http://shop.test/a"},
    "page.goto('/a', wait_until='commit')": {"act": "open", "url": "/a", "until": "commit"},
    "r = page.goto('/a')\nassert r.status == 404": {"act": "open", "url": "/a", "status": 404},
    "r = page.goto('/a')\nassert r.status in (401, 403)": {"act": "open", "url": "/a", "status": [401, 403]},
    "r = page.goto('/a')\nassert r.ok\nassert r is not None": {"act": "open", "url": "/a"},
    "page.click('#a', force=True, timeout=2000)": {"act": "click", "selector": "#a", "force": True, "timeout": 2},
    "page.dblclick('#a')": {"act": "click", "selector": "#a", "count": 2},
    "page.locator('#a').click(button='right', modifiers=['Shift'], position={'x': 1, 'y': 2})": {
        "act": "click", "selector": "#a", "button": "right", "modifiers": ["Shift"], "position": {"x": 1, "y": 2},
    },
    "page.fill('#a', '${x}')": {"act": "type", "selector": "#a", "value": "$${x}"},
    "page.locator('#a').fill(os.environ['PW'])": {"act": "type", "selector": "#a", "value": "${env:PW}"},
    "page.locator('#a').fill(os.getenv('PW', 'tea'))": {"act": "type", "selector": "#a", "value": "tea"},
    "page.locator('#a').clear()": {"act": "clear", "selector": "#a"},
    "page.locator('#a').press_sequentially('x')": [
        {"act": "focus", "selector": "#a"}, {"act": "type", "value": "x", "keys": True},
    ],
    "page.locator('#a').clear()\npage.locator('#a').type('x')": {
        "act": "type", "selector": "#a", "value": "x", "keys": True,
    },
    "page.keyboard.press('Escape')": {"act": "press", "value": "Escape"},
    "page.mouse.wheel(0, 300)": {"act": "scroll", "value": 300},
    "page.locator('#a').set_checked(False)": {"act": "uncheck", "selector": "#a"},
    "page.drag_and_drop('#a', '#b')": {"act": "drag", "selector": "#a", "value": "#b"},
    "page.locator('#a').select_option(['x', 'y'])": {"act": "select", "selector": "#a", "value": ["x", "y"]},
    "page.locator('#a').select_option(index=1)": {"act": "select", "selector": "#a", "value": {"index": 1}},
    "page.locator('#a').set_input_files('data/a.txt')": {"act": "upload", "selector": "#a", "value": "a.txt"},
    "page.wait_for_timeout(1500)": {"act": "wait", "value": 1.5},
    "page.locator('#a').wait_for(state='hidden')": {"act": "wait", "expr": "NOT[visible('#a')]"},
    "page.wait_for_url('**/x')": {"act": "wait", "expr": "url() matches '^(.*/)?x$'"},
    "page.wait_for_load_state('networkidle')": {"act": "wait", "state": "networkidle"},
    "page.evaluate('window.scrollTo(0, document.body.scrollHeight)')": {"act": "scroll"},
    "page.screenshot(path='shots/home.png')": {"act": "screenshot", "screenshot_id": "home"},
    "page.frame_locator('#f').get_by_text('x', exact=True).click()": {
        "act": "click", "selector": 'text="x"', "frame": "#f",
    },
    "page.get_by_role('heading', name=re.compile('^a/b', re.I), level=2).click()": {
        "act": "click", "selector": "role=heading[name=/^a\\/b/i][level=2]",
    },
    "page.locator('li', has=page.get_by_label('x')).last.click()": {
        "act": "click", "selector": 'li >> has="label=x" >> nth=-1',
    },
    "page.locator('#a').or_(page.locator('#b')).click()": {"act": "click", "selector": '#a >> or="#b"'},
    "expect.soft(page.locator('#a')).to_have_count(2)": {"act": "assert", "expr": "count('#a') == 2", "soft": True},
    "expect(page.locator('#a')).to_match_aria_snapshot('- button')": {
        "act": "assert", "selector": "#a", "aria": "- button",
    },
    "if page.locator('#a').is_visible():\n    page.click('#b')": {
        "act": "click", "selector": "#b", "when": "visible('#a')",
    },
    "try:\n    page.click('#a', timeout=2000)\nexcept Exception:\n    pass": {
        "act": "click", "selector": "#a", "when": "WITHIN(2, visible('#a'))",
    },
    "with page.expect_response('**/api/a') as r:\n    page.click('#a')\nassert r.value.status == 201": {
        "act": "click", "selector": "#a", "expect_request": {"url": "*/api/a", "status": 201},
    },
    "with page.expect_response(lambda r: '/a' in r.url and r.request.method == 'POST'):\n    page.click('#a')": {
        "act": "click", "selector": "#a", "expect_request": {"url": "*/a*", "method": "POST"},
    },
    "r = page.request.get('/api')\nassert r.json()['a']['b'] == 1": {
        "act": "api", "method": "GET", "url": "/api", "expect": "result('a.b') == 1",
    },
    "if page.is_visible('#a'):\n    page.click('#b')\nelse:\n    page.click('#c')": [
        {"act": "assert", "expr": "url() != ''", "remember": {"if_1": "visible('#a')"}},
        {"act": "click", "selector": "#b", "when": "mem('if_1') == true"},
        {"act": "click", "selector": "#c", "when": "mem('if_1') == false"},
    ],
    "try:\n    page.click('#a')\n    page.click('#b')\nexcept Exception:\n    pass": {
        "use": "if-there", "when": "WITHIN(30, visible('#a'))",
    },
    "for e in ('#a', page.locator('#b')):\n    (page.locator(e) if isinstance(e, str) else e).click()": [
        {"act": "click", "selector": "#a"}, {"act": "click", "selector": "#b"},
    ],
    "for e in ('#a', page.locator('#b')):\n    if isinstance(e, Locator):\n        e.click()": {
        "act": "click", "selector": "#b",
    },
    "for n in range(2):\n    page.click(f'#a{n}')": [
        {"act": "click", "selector": "#a0"}, {"act": "click", "selector": "#a1"},
    ],
}  # fmt: skip
CRITERIA = {
    "expect(page.locator('#a')).to_have_text('x')": "text_content('#a') == 'x'",
    "expect(page.locator('#a')).not_to_contain_text('x')": "NOT[text_content('#a') includes 'x']",
    "expect(page.locator('#a')).to_have_text(re.compile(r'\\d+', re.I))": "text_content('#a') matches '(?i)\\d+'",
    "expect(page.locator('#a')).to_have_text('X', ignore_case=True)": "text_content('#a') matches '(?i)^X$'",
    "expect(page.locator('li')).to_have_text(['a', 'b'])": "texts('li') == ['a', 'b']",
    "expect(page.locator('#a')).not_to_be_hidden()": "visible('#a')",
    "expect(page.locator('#a')).to_be_visible(visible=False)": "NOT[visible('#a')]",
    "expect(page.locator('#a')).to_be_checked()": "checked('#a')",
    "expect(page.locator('#a')).to_be_disabled()": "NOT[enabled('#a')]",
    "expect(page.locator('#a')).to_have_class('a b')": "attr('#a', 'class') == 'a b'",
    "expect(page.locator('#a')).to_contain_class('b')": "class('#a') includes 'b'",
    "expect(page.locator('#a')).to_have_css('color', 'red')": "css('#a', 'color') == 'red'",
    "expect(page.locator('#a')).to_have_count(3, timeout=9000)": "WITHIN(9, count('#a') == 3)",
    "expect(page.locator('#a')).to_have_attribute('href', '/x')": "attr('#a', 'href') == '/x'",
    "expect(page).to_have_url('http://a.test')": "url() == 'http://a.test/'",
    "expect(page).to_have_url('/x.y')": "url() matches '^[a-z]+://[^/]+/x\\.y$'",
    "expect(page).to_have_title('It\\'s')": 'title() == "It\'s"',
    "assert page.is_visible('#a')": "visible('#a')",
    "assert not page.locator('#a').is_checked()": "NOT[checked('#a')]",
    "assert page.inner_text('#a') == 'x'": "text('#a') == 'x'",
    "assert 'x' in page.url": "url() includes 'x'",
    "assert 'x' in page.inner_text('#a').lower()": "text('#a') matches '(?i)x'",
    "assert float(page.inner_text('#a').replace('$', '')) > 3": "number(text('#a')) > 3",
    "assert page.locator('li').count() != 2": "NOT[count('li') == 2]",
    "assert len(page.locator('li').all_inner_texts()) == 2": "count('li') == 2",
    "assert page.locator('li').all_inner_texts() == []": "count('li') == 0",
    "t = page.locator('#a').text_content()\nassert t == 'x' and page.is_hidden('#b')": (
        "ALL[text_content('#a') == 'x', NOT[visible('#b')]]"
    ),
    "def n(p):\n    if p.is_visible('#a'):\n        return int(p.inner_text('#a'))\n    return 0\nassert n(page) < 1": (
        "ANY[ALL[visible('#a'), number(text('#a')) < 1], NOT[visible('#a')]]"
    ),
}
MISSING = {
    "page.locator('#a').fill(secret())": "`secret` is not in the source",
    "page.locator('#a').evaluate('x')": "no act for `evaluate`",
    "expect(page.locator('#a')).to_have_text(re.compile('(?P<x>a)'))": "only Python knows",
    "page.on('request', print)": "cannot listen to events",
    "page.route('**/*', lambda route: route.abort())": "an aborted request is a fault",
    "login(page)": "`login` is not in the source",
    "context = browser.new_context(proxy='x')": "`browser` is not in the source",
    "assert total == 3": "`total` is not in the source",
    "page.goto()": "it has no `url`",
    "page.context.add_cookies([])": "no act for `context.add_cookies`",
    "page.context.clear_cookies()": "cannot clear",
    "for row in page.locator('tr').all():\n    row.click()": "how many elements there are",
    "try:\n    page.click('#a')\nexcept Exception:\n    page.click('#b')": "goes on when these steps fail",
    "try:\n    expect(page).to_have_title('a')\nexcept AssertionError:\n    pass": "goes on when these checks fail",
    "while page.is_visible('#a'):\n    page.click('#a')": "write the loop with `until`",
    "expect(page.locator('#a')).to_have_values(['a'])": "no criterion reads",
    "assert 1 == 2": "false already in the source",
    "if not page.is_visible('#a'):\n    page.click('#b')\nelse:\n    page.click('#c')": "asks for a condition anew",
}  # fmt: skip
HEAD = "BASE = 'http://shop.test'"


@pytest.mark.parametrize("line", STEPS)
def test_a_statement_becomes_a_step(line: str, tmp_path: Path) -> None:
    found = steps(tmp_path, f"{line}\npage.goto('/end')", HEAD)
    wanted = STEPS[line] if isinstance(STEPS[line], list) else [STEPS[line]]
    assert found[:-1] == wanted


@pytest.mark.parametrize("line", CRITERIA)
def test_an_assertion_becomes_a_criterion(line: str, tmp_path: Path) -> None:
    test = imported(tmp_path, f"page.goto('http://shop.test/')\n{line}", HEAD)
    assert test.task is not None
    assert not test.missing
    file = tmp_path / "it.task.yaml"
    file.write_text(test.task.text, "utf-8")
    assert load_file(file).spec.success_criteria == (CRITERIA[line],)


@pytest.mark.parametrize("line", MISSING)
def test_what_a_task_cannot_say_is_named_at_its_place_and_makes_a_draft(line: str, tmp_path: Path) -> None:
    test = imported(tmp_path, f"page.goto('/a')\n{line}\npage.goto('/b')")
    assert test.task is not None
    assert MISSING[line] in test.missing[0].why
    assert test.missing[0].place.startswith("test_it.py:")
    text = test.task.text
    assert text.index("/a") < text.index("# MISSING: test_it.py:") < text.index("/b")
    file = tmp_path / "it.task.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(SpecError, match="the task is a draft, so it is not run"):
        load_file(file)


def test_popups_downloads_and_dialogs_belong_to_the_click(tmp_path: Path) -> None:
    found = steps(
        tmp_path,
        """\
        page.once("dialog", lambda dialog: dialog.accept("yes"))
        page.fill("#x", "y")
        with page.expect_popup() as popup:
            page.click("#a")
        help_page = popup.value
        help_page.click("#b")
        with page.expect_download() as download_info:
            page.click("#c")
        download = download_info.value
        page.close()
        """,
    )
    assert found[-5:] == [
        {"act": "click", "selector": "#a"},
        {"act": "switch_page", "value": -1},
        {"act": "click", "selector": "#b"},
        {"act": "switch_page", "value": 0},
        {"act": "download", "selector": "#c"},
    ]
    assert {"act": "dialog", "value": "accept", "text": "yes"} in found


def test_a_listener_for_all_dialogs_answers_before_each_act_and_none_is_none(tmp_path: Path) -> None:
    body = 'page.click("#a")\npage.on("dialog", lambda dialog: dialog.accept())\npage.click("#b")\npage.click("#c")'
    answer = {"act": "dialog", "value": "accept", "optional": True}
    clicks = [{"act": "click", "selector": each} for each in ("#a", "#b", "#c")]
    assert steps(tmp_path, body) == [clicks[0], answer, clicks[1], answer, clicks[2]]


def test_what_was_read_before_an_act_is_remembered_there(tmp_path: Path) -> None:
    test = imported(
        tmp_path,
        """\
        page.goto("/a")
        before = page.locator("li").count()
        name = page.inner_text("#name")
        page.click("#add")
        assert page.locator("li").count() == before + 1
        page.fill("#search", name)
        """,
    )
    assert not test.missing
    assert declared(test)["steps"][1:] == [
        {"act": "assert", "expr": "url() != ''", "remember": {"read_1": "count('li')"}},
        {"act": "assert", "expr": "exists('#name')", "remember": {"read_2": "text('#name')"}},
        {"act": "click", "selector": "#add"},
        {"act": "assert", "expr": "count('li') == mem('read_1') + 1"},
        {"act": "type", "selector": "#search", "value": "${memory.read_2}"},
    ]


def test_assertions_about_one_thing_one_after_the_other_are_not_all_criteria(tmp_path: Path) -> None:
    body = "page.goto('/')\nexpect(page.locator('#a')).to_be_visible()\nexpect(page.locator('#a')).to_be_hidden()"
    test = declared(imported(tmp_path, body))
    assert test["steps"][1] == {"act": "assert", "expr": "visible('#a')"}
    assert test["success_criteria"] == ["NOT[visible('#a')]"]


PAGES = {
    "tests/test_shop.py": """\
        import pytest
        from playwright.sync_api import expect
        from pages.shop import ShopPage
        from pages import urls

        class TestShop:
            @pytest.fixture(autouse=True)
            def setup(self, page, start):
                self.shop = ShopPage(page)

            def test_buy(self, signed_in):
                self.shop.search("mug").buy(amount=2)
                assert self.shop.total() == "$4"
                expect(self.shop.badge).to_have_text("2")

            @pytest.mark.smoke
            @pytest.mark.parametrize("word, hits", [("cup", 1), ("tea", 2)], ids=["one", "two"])
            def test_search(self, word, hits):
                if hits > 1:
                    self.shop.search(word)
                expect(self.shop.rows).to_have_count(hits)

            @pytest.mark.skip(reason="later")
            def test_later(self):
                self.shop.search("x")

            def test_nothing(self):
                assert 1 + 1 == 2
        """,
    "tests/conftest.py": """\
        import pytest
        from playwright.sync_api import sync_playwright
        from pages.login import LoginPage
        from pages import urls

        @pytest.fixture
        def page():
            with sync_playwright() as p:
                browser = p.chromium.launch()
                context = browser.new_context(viewport={"width": 800, "height": 600})
                try:
                    yield context.new_page()
                finally:
                    context.close()

        @pytest.fixture(autouse=True)
        def start(page):
            page.goto(urls.START["shop"])

        @pytest.fixture
        def signed_in(page):
            LoginPage(page).login("ann", password="secret")
            yield
            page.click("#logout")
        """,
    "pages/__init__.py": "",
    "pages/urls.py": 'BASE = "http://shop.test"\nSTART = {"shop": f"{BASE}/shop"}\n',
    "pages/base.py": """\
        class BasePage:
            def __init__(self, page):
                self.page = page

            def enter(self, selector, text):
                self.page.locator(selector).fill(text)
        """,
    "pages/login.py": """\
        from .base import BasePage

        class LoginPage(BasePage):
            USER = "#user"

            @property
            def button(self):
                return self.page.get_by_role("button", name="Log in")

            def login(self, user, password, remember=False):
                \"\"\"Logs in with the form.\"\"\"
                self.enter(self.USER, user)
                self.enter("#password", password)
                if remember:
                    self.page.check("#remember")
                self.button.click()
        """,
    "pages/shop.py": """\
        from pages.base import BasePage

        class ShopPage(BasePage):
            def __init__(self, page):
                super().__init__(page)
                self.badge = page.locator("#badge")
                self.rows = page.locator(".row")

            def search(self, word):
                self.enter("#q", word)
                self.page.keyboard.press("Enter")
                return self

            def buy(self, amount=1):
                for _ in range(amount):
                    self.page.click("#buy")

            def total(self):
                return self.page.locator("#total").inner_text()
        """,
    "pyproject.toml": "",
}


def test_page_objects_become_step_groups_and_fixtures_their_steps(tmp_path: Path) -> None:
    tests, work = suite(tmp_path, PAGES)
    assert [(each.name, each.result) for each in tests] == [
        ("test_buy", "complete"),
        ("test_search[one]", "complete"),
        ("test_search[two]", "complete"),
        ("test_later", "complete"),
        ("test_nothing", "complete"),
    ]
    buy, one, two, later, _ = map(declared, tests)
    assert buy["browser"] == {"viewport": [800, 600]}
    assert buy["steps"] == [
        {"act": "open", "url": "http://shop.test/shop"},
        {"use": "login-page-login", "with": {"user": "ann", "password": "secret"}},
        {"use": "shop-page-search", "with": {"word": "mug"}},
        {"use": "shop-page-buy"},
        {"act": "assert", "expr": "text('#total') == '$4'"},
        {"act": "assert", "expr": "text_content('#badge') == '2'"},
        {"act": "click", "selector": "#logout"},
    ]
    login = read_yaml(str(work.groups.found["login-page-login"]))
    assert login["description"] == "Logs in with the form."
    assert list(login["parameters"]) == ["user", "password"]
    assert login["steps"][1:] == [
        {"act": "type", "selector": "#password", "value": "${with.password}"},
        {"act": "click", "selector": 'role=button[name*="Log in"i]'},
    ]
    assert one["steps"] == [{"act": "open", "url": "http://shop.test/shop"}]
    assert two["steps"][1] == {"use": "shop-page-search", "with": {"word": "tea"}}
    assert (two["tags"], two["success_criteria"], later["skip"]) == (["smoke"], ["count('.row') == 2"], "later")
    for name, group in work.groups.found.items():
        (tmp_path / "tests" / f"{name}.steps.yaml").write_text(str(group), "utf-8")
    for test in tests:
        assert test.task is not None
        (tmp_path / "tests" / "it.task.yaml").write_text(test.task.text, "utf-8")
        load_file(tmp_path / "tests" / "it.task.yaml")


def test_a_group_whose_steps_depend_on_its_values_is_written_out(tmp_path: Path) -> None:
    found = steps(
        tmp_path,
        "for kind in ('a', 'b'):\n    act(page, kind)",
        "def act(page, kind):\n    page.click('#x' if kind == 'a' else '#y')\n    page.click(f'#{kind}')",
    )
    assert [each["selector"] for each in found] == ["#x", "#a", "#y", "#b"]


def test_parametrize_that_only_fills_in_stays_one_task(tmp_path: Path) -> None:
    source = """\
        import pytest
        @pytest.mark.parametrize("item", ["Milk", "Tea"])
        @pytest.mark.parametrize("price", [1, 2])
        def test_buy(page, item, price):
            page.get_by_text(item).click()
            page.click(f"#price-{price}")
    """
    (test,), _ = suite(tmp_path, {"test_a.py": source})
    assert declared(test)["parametrize"] == [
        {"item": item, "price": price} for item in ("Milk", "Tea") for price in (1, 2)
    ]
    assert declared(test)["steps"][1] == {"act": "click", "selector": "#price-${param.price}"}


def test_routes_of_a_test_answer_from_where_they_are_declared(tmp_path: Path) -> None:
    test = imported(
        tmp_path,
        """\
        page.route("**/api/a", lambda route: route.fulfill(json={"a": 1}))
        page.goto("/")
        page.route("**/api/b", handler)
        page.reload()
        """,
        "def handler(route):\n    route.fulfill(status=500, body='x', content_type='text/plain')",
    )
    assert declared(test)["routes"] == [
        {"url": "*/api/b", "status": 500, "body": "x", "headers": {"content-type": "text/plain"}, "steps": [1, 1999],
         "optional": True},
        {"url": "*/api/a", "json": {"a": 1}, "optional": True},
    ]  # fmt: skip


def test_the_user_says_what_a_fixture_is(tmp_path: Path) -> None:
    source = "def test_a(page, shop):\n    page.goto(shop.url + '/x')\n"
    (test,), _ = suite(tmp_path, {"test_a.py": source}, "shop.url=http://shop.test")
    assert declared(test)["steps"] == [{"act": "open", "url": "http://shop.test/x"}]
    (test,), _ = suite(tmp_path, {"test_a.py": source})
    assert "--value shop=..." in test.missing[0].why


def test_a_test_that_nobody_can_follow_does_not_stop_the_others(tmp_path: Path) -> None:
    source = "def test_a(page):\n    match page:\n        case _: pass\n\ndef test_b(page):\n    page.goto('/')\n"
    tests, _ = suite(tmp_path, {"test_a.py": source})
    assert [each.result for each in tests] == ["none", "complete"]


def test_no_call_that_is_not_known_is_left_out_without_a_word(tmp_path: Path) -> None:
    """A helper that could not be read may check something: the task must not be green without it."""
    for head, body in {
        "from shop_checks import check_total": "check_total(page)",
        "import pytest_check as check": "check.equal(page.title(), 'x')",
        "": "with pytest.raises(Exception):\n    page.click('#a')",
        "import requests": "requests.post('http://shop.test/reset')",
        "def outer(f):\n    return f\n@outer\ndef helper(page):\n    page.click('#a')": "helper(page)",
        "try:\n    from a import b\nexcept ImportError:\n    b = None\nx = b.make()": "x.verify(page)",
    }.items():
        assert imported(tmp_path, f"page.goto('/')\n{body}", head).result == "draft", body


SPEC = """\
import { test, expect } from '@playwright/test';
import { faker } from '@faker-js/faker';
import { Cart } from './cart';
import data from './data.json';

const MAX = 2;

test.describe('cart', { tag: '@shop' }, () => {
  test.use({ viewport: { width: 800, height: 600 } });
  let cart: Cart;

  test.beforeEach(async ({ page }) => {
    cart = new Cart(page, { path: '/cart' });
    await cart.open();
  });

  test(`adds ${MAX}`, async ({ page, context }) => {
    test.slow();
    for (let i = 0; i < MAX; i++) {
      await cart.add(data.items[i].name);
    }
    await test.step('pays', async () => {
      const link = page.getByRole('link', { name: 'Pay' });
      const [popup] = await Promise.all([context.waitForEvent('page'), link.click()]);
      await popup.getByLabel('Name').fill(faker.person.firstName());
      await expect(popup).toHaveURL(/paid$/);
    });
    expect(await cart.total()).toContain('4');
    const answer = page.waitForResponse(response => response.url().includes('/api') && response.status() === 200);
    await page.locator('#again').click({ button: 'right', timeout: 1_000 });
    await answer;
    await expect.soft(cart.rows.filter({ hasNotText: 'x' })).not.toHaveCount(3);
  });

  test.skip('later', async ({ page }) => {
    await page.goto('/later');
  });
});
"""
CART = """\
import { type Locator, type Page } from '@playwright/test';
abstract class Base {
  constructor(protected readonly page: Page) {}
}
export class Cart extends Base {
  readonly rows: Locator = this.page.locator('.row');
  private path: string;

  constructor(page: Page, options: { path: string }) {
    super(page);
    this.path = options.path;
  }

  open = async () => { await this.page.goto(this.path); };

  async add(name: string, amount = 1) {
    await this.page.getByPlaceholder('Name').fill(name);
    if (amount === 1) await this.page.getByRole('button', { name: `Add ${name}`, exact: true }).click();
  }

  async total() {
    return (await this.page.locator('#total').textContent())?.trim();
  }
}
"""


def test_tests_in_typescript_are_followed_as_those_in_python(tmp_path: Path) -> None:
    files = {"cart.spec.ts": SPEC, "cart.ts": CART, "data.json": '{"items": [{"name": "mug"}, {"name": "pen"}]}'}
    files["playwright.config.ts"] = "export default defineConfig({ use: { testIdAttribute: 'data-test' } });"
    tests, work = suite(tmp_path, files)
    assert [(each.result, each.missing) for each in tests] == [("complete", ()), ("complete", ())]
    adds, later = map(declared, tests)
    assert (adds["goal"], adds["tags"], adds["slow"], later["tags"]) == ("adds MAX", ["shop"], True, ["shop"])
    assert adds["browser"] == {"test_id_attribute": "data-test", "viewport": [800, 600]}
    assert later["skip"] == "the test is marked `skip`"
    assert adds["steps"] == [
        {"act": "open", "url": "/cart"},
        {"use": "cart-add", "with": {"name": "mug"}},
        {"use": "cart-add", "with": {"name": "pen"}},
        {"act": "click", "selector": 'role=link[name*="Pay"i]'},
        {"act": "switch_page", "value": -1},
        {"act": "type", "selector": "label=Name", "value": "${fake.first_name}"},
        {"act": "assert", "expr": "url() matches 'paid$'"},
        {"act": "switch_page", "value": 0},
        {"act": "assert", "expr": "text_content('#total') includes '4'"},
        {"act": "click", "selector": "#again", "button": "right", "timeout": 1,
         "expect_request": {"url": "*/api*", "status": 200}},
        {"act": "assert", "expr": "NOT[count('.row >> has-not-text=x') == 3]", "soft": True},
    ]  # fmt: skip
    assert read_yaml(str(work.groups.found["cart-add"]))["steps"] == [
        {"act": "type", "selector": "placeholder=Name", "value": "${with.name}"},
        {"act": "click", "selector": 'role=button[name="Add ${with.name}"]'},
    ]
