"""`harness import`: a pytest-playwright test and the task made of it, against the same ordinary application."""

from __future__ import annotations

import json
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
NOT_WHOLE = """\
def test_twice(page):
    page.goto("http://shop.test/")
    page.dblclick("#a")
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, str(Path(stranger_app.__file__))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        process.terminate()
        process.stdout.close()


def test_the_test_and_its_task_pass_on_the_same_site(tmp_path: Path, address: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    (tmp_path / "test_stranger.py").write_text(TEST.format(base=address), "utf-8")
    done = harness("import", "test_stranger.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrote tasks/todos.task.yaml: 13 statements -> 8 steps, complete" in done.stdout
    assert "2 tasks: 2 complete, 0 with something missing" in done.stdout
    assert "2 loaded, 0 with errors" in harness("validate", "tasks", cwd=tmp_path).stdout
    reset = f"{address}/test-state/reset"
    for what, passed in (("test_stranger.py", 3), ("tasks", 3)) if FULL else (("tasks", 3),):
        urllib.request.urlopen(urllib.request.Request(reset, method="POST"), timeout=30).close()
        ran = warm().run("pytest", what, cwd=tmp_path, ANN_PASSWORD="s3cret-pass")
        assert f"{passed} passed" in ran.stdout, ran.stdout + ran.stderr


def test_what_is_missing_is_said_and_decides_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(NOT_WHOLE, "utf-8")
    done = harness("import", "test_a.py", "-o", "made", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "test_a.py:3: a task has no act for `page.dblclick`\n    page.dblclick('#a')\n"
    assert "wrote made/twice.task.yaml: 2 statements -> 1 step, 1 missing" in done.stdout
    again = harness("import", "test_a.py", "-o", "made", cwd=tmp_path)
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    assert harness("import", "test_a.py", "-o", "made", "--force", "--partial", cwd=tmp_path).returncode == 0
    for name, text, message in (
        ("a.spec.ts", "", "only tests in Python are imported"),
        ("test_b.py", "def f(:", "this is no Python"),
        ("test_c.py", "x = 1", "no test in test_c.py"),
    ):
        (tmp_path / name).write_text(text, "utf-8")
        refused = harness("import", name, cwd=tmp_path)
        assert (refused.returncode, message in refused.stderr) == (1, True), refused.stderr
    assert "there is no file gone.py" in harness("import", "gone.py", cwd=tmp_path).stderr
