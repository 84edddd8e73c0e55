"""`harness import`: a pytest-playwright test and the task made of it, against the same ordinary application."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import stranger_app
from tests.acceptance.warm import harness, warm
from tests.conftest import FULL

TEST = '''\
import os
import re

import pytest
from playwright.sync_api import Page, expect

BASE = "{base}"


def test_todos(page: Page):
    """Ann adds something to do."""
    page.goto(f"{{BASE}}/login")
    page.locator("#user").fill("ann")
    page.locator("#password").fill(os.environ["ANN_PASSWORD"])
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("#who")).to_have_text("ann")
    page.locator("#text").fill("Water the plants")
    page.locator("#text").press("Enter")
    row = page.get_by_role("listitem").filter(has_text="Water the plants")
    row.get_by_role("button", name="done").click()
    expect(page.locator("li.done")).to_have_count(1)
    expect(page).to_have_title("To do")
    expect(page).to_have_url(re.compile(r"/$"))
    expect(page.get_by_text("Log in")).not_to_be_visible()


@pytest.mark.parametrize("item", ["cup", "tea"])
def test_shop(page: Page, item):
    page.goto(f"{{BASE}}/shop")
    page.locator("[name=item]:visible").fill(item)
    page.click("#fetch-order")
    expect(page.locator("#out")).to_contain_text("place")
    page.goto(f"{{BASE}}/frame")
    page.frame_locator("#inner").get_by_role("button").click()
    expect(page.frame_locator("#inner").locator("#hello")).to_have_text("hello")
    page.goto(f"{{BASE}}/late?seconds=0.5")
    expect(page.locator("#late")).to_be_visible()
'''
SUITE = {
    "conftest.py": """\
import pytest
from pages import LoginPage, TodoPage


@pytest.fixture
def todos(page):
    LoginPage(page).login("ann", "s3cret-pass")
    return TodoPage(page)


@pytest.fixture
def new_todo(todos):
    todos.add("Water the plants")
    yield "Water the plants"
    todos.finish("Water the plants")
""",
    "pages.py": """\
from playwright.sync_api import expect

BASE = "{base}"


class LoginPage:
    USER = "#user"

    def __init__(self, page):
        self.page = page
        self.password = page.locator("#password")

    def login(self, user, password):
        self.page.goto(f"{{BASE}}/login")
        self.page.fill(self.USER, user)
        self.password.fill(password)
        self.page.get_by_role("button", name="Log in").click()


class TodoPage:
    def __init__(self, page):
        self.page = page

    def row(self, text):
        return self.page.get_by_role("listitem").filter(has_text=text)

    def add(self, text):
        self.page.locator("#text").fill(text)
        self.page.locator("#text").press("Enter")

    def finish(self, text):
        self.row(text).get_by_role("button", name="Done").click()
        expect(self.page.locator("li.done").filter(has_text=text)).to_be_visible()

    def texts(self):
        return self.page.locator("li").all_inner_texts()
""",
    "test_pages.py": """\
import pytest
from playwright.sync_api import expect
from pages import BASE, LoginPage, TodoPage


def test_adds(todos, new_todo):
    expect(todos.row(new_todo)).to_have_count(1)


def test_counts_one_more(todos):
    before = todos.page.locator("li").count()
    todos.add("Mow")
    expect(todos.row("Mow")).to_be_visible()
    assert todos.page.locator("li").count() == before + 1


def test_counts_wrongly(todos):
    before = todos.page.locator("li").count()
    todos.add("Mow again")
    expect(todos.row("Mow again")).to_be_visible()
    assert todos.page.locator("li").count() == before


@pytest.mark.parametrize("user, who", [("bob", "bob"), ("bob", "ann")], ids=["bob", "ann"])
def test_knows_who(page, user, who):
    LoginPage(page).login(user, "hunter2")
    expect(page.locator("#who")).to_have_text(who)


def test_only_if_it_is_there(page):
    page.goto(f"{{BASE}}/shop")
    if page.locator("#cookies").is_visible():
        page.click("#cookies")
    with page.expect_response("**/order*") as answer:
        page.click("#fetch-order")
    assert answer.value.status == 200
    assert page.inner_text("#out") == "placed"


def test_is_not_there(page):
    page.goto(f"{{BASE}}/shop")
    expect(page.locator("#out")).not_to_have_text("", timeout=500)
""",
}
SPEC = {
    "pages.ts": """\
import { expect, type Locator, type Page } from '@playwright/test';

export class LoginPage {
  readonly password: Locator;

  constructor(private readonly page: Page) {
    this.password = page.locator('#password');
  }

  async login(user: string, password: string) {
    await this.page.goto(`{base}/login`);
    await this.page.fill('#user', user);
    await this.password.fill(password);
    await this.page.getByRole('button', { name: 'Log in' }).click();
  }
}
""",
    "todos.spec.ts": """\
import { test as base, expect } from '@playwright/test';
import { LoginPage } from './pages';

const test = base.extend<{ todos: LoginPage }>({
  todos: async ({ page }, use) => {
    const todos = new LoginPage(page);
    await todos.login('ann', 's3cret-pass');
    await use(todos);
  },
});

test.describe('to-dos', () => {
  test.beforeEach(async ({ page, todos }) => {
    await page.locator('#text').fill('Call Bob');
    await page.locator('#text').press('Enter');
  });

  test('shows who is there', async ({ page }) => {
    await expect(page.locator('#who')).toHaveText(/^ann$/i);
    expect(await page.title()).toBe('To do');
  });

  for (const word of ['Call Bob', 'Call Nobody']) {
    test(`lists ${word}`, async ({ page }) => {
      await expect(page.getByRole('listitem').filter({ hasText: word }).first()).toBeVisible({ timeout: 1000 });
    });
  }

  test.fixme('sorts', async ({ page }) => {});
});
""",
}
NOT_WHOLE = """\
def test_twice(page):
    page.goto("http://shop.test/")
    page.context.add_cookies([])


def test_sum():
    assert 1 + 1 == 2


def test_whole(page):
    page.goto("http://shop.test/")
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, str(Path(stranger_app.__file__))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        process.terminate()
        process.stdout.close()


def reset(address: str) -> None:
    request = urllib.request.Request(f"{address}/test-state/reset", method="POST")
    urllib.request.urlopen(request, timeout=30).close()


def test_the_test_and_its_task_pass_on_the_same_site(tmp_path: Path, address: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    (tmp_path / "test_stranger.py").write_text(TEST.format(base=address), "utf-8")
    done = harness("import", "test_stranger.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrote tasks/todos.task.yaml: 14 statements -> 12 steps, complete" in done.stdout
    assert "2 of 2 complete, 0 drafts, 0 without a step" in done.stdout
    assert "2 loaded, 0 with errors" in harness("validate", "tasks", cwd=tmp_path).stdout
    for what, passed in (("test_stranger.py", 3), ("tasks", 3)) if FULL else (("tasks", 3),):
        reset(address)
        ran = warm().run("pytest", what, cwd=tmp_path, ANN_PASSWORD="s3cret-pass")
        assert f"{passed} passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_suite_of_page_objects_has_the_verdicts_of_its_tests(tmp_path: Path, address: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -v -p no:hypothesispytest -p no:faker\n", "utf-8")
    for name, text in SUITE.items():
        (tmp_path / name).write_text(text.format(base=address), "utf-8")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/test_installed.py").write_text("def test_it(page):\n    page.goto('/')\n", "utf-8")
    done = harness("import", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 of 6 complete" in done.stdout
    assert {each.name for each in (tmp_path / "tasks/steps").iterdir()} >= {"login-page-login.steps.yaml"}
    reset(address)
    ran = warm().run("pytest", "tasks", cwd=tmp_path).stdout
    assert "4 passed" in ran, ran
    assert "3 failed" in ran, ran
    for failing in ("counts-wrongly", "knows-who[ann]", "is-not-there"):
        assert re.search(rf"{re.escape(failing)}.* FAILED", ran), ran
    if FULL:
        reset(address)
        told = warm().run("pytest", "test_pages.py", cwd=tmp_path).stdout
        assert ("4 passed" in told, "3 failed" in told) == (True, True), told
        for failing in ("test_counts_wrongly", "test_knows_who[chromium-ann]", "test_is_not_there"):
            assert re.search(rf"{re.escape(failing)}.* FAILED", told), told


def test_tests_in_typescript_become_tasks_too(tmp_path: Path, address: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -v -p no:hypothesispytest -p no:faker\n", "utf-8")
    for name, text in SPEC.items():
        (tmp_path / name).write_text(text.replace("{base}", address), "utf-8")
    done = harness("import", "todos.spec.ts", cwd=tmp_path)
    assert (done.returncode, "3 of 3 complete" in done.stdout) == (0, True), done.stdout + done.stderr
    ran = warm().run("pytest", "tasks", cwd=tmp_path).stdout
    assert "2 passed, 1 skipped" in ran.replace("1 failed, ", ""), ran
    assert re.search(r"Nobody.* FAILED", ran), ran


def test_nothing_stops_the_import_and_a_draft_is_never_green(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(NOT_WHOLE, "utf-8")
    (tmp_path / "test_b.py").write_text("def f(:", "utf-8")
    done = harness("import", "test_b.py", "test_a.py", "-o", "made", cwd=tmp_path)
    assert done.returncode == 1
    assert "test_b.py: it cannot be read" in done.stderr
    assert "test_a.py:3: a task has no act for `context.add_cookies`\n    page.context.add_cookies([])\n" in done.stderr
    assert "test_a.py: test_sum leads to no step" in done.stderr
    assert "wrote made/twice.task.yaml: 2 statements -> 1 step, draft, 1 missing" in done.stdout
    assert "1 of 3 complete, 1 draft, 1 without a step" in done.stdout
    again = harness("import", "test_a.py", "-o", "made", cwd=tmp_path)
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    checked = harness("validate", "made", cwd=tmp_path)
    assert "twice.task.yaml:5:8: draft: the task is a draft, so it is not run" in checked.stdout + checked.stderr
    ran = warm().run("pytest", "made/twice.task.yaml", cwd=tmp_path)
    assert ran.returncode != 0
    assert "the task is a draft" in ran.stdout
    for name, text, message in (("test_c.py", "x = 1", "no test in test_c.py"), ("gone.py", None, "no file gone.py")):
        if text is not None:
            (tmp_path / name).write_text(text, "utf-8")
        refused = harness("import", name, cwd=tmp_path)
        assert (refused.returncode, message in refused.stderr) == (1, True), refused.stderr
