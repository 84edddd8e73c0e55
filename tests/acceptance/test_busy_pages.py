"""A look is not an outcome: every form of one question waits for a page that is busy, navigates, or is replaced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from tests.acceptance.warm import warm
from tests.conftest import FULL

HOLD = "const hold = ms => { const end = Date.now() + ms; while (Date.now() < end); }; "
BUSY = """const end = Date.now() + 3000;
  const go = () => { if (Date.now() >= end) { x.textContent = '%s'; return; } hold(600); setTimeout(go, 300); };
  setTimeout(go, 50);"""
PAGES = {
    "busy": BUSY % "b",
    "wrong": BUSY % "c",
    "blocked": "setTimeout(() => { hold(2500); x.textContent = 'b'; }, 50);",
    "long": "setTimeout(() => { hold(6000); x.textContent = 'b'; }, 2000);",
    "replaced": """let rounds = 0; const again = () => {
      document.body.innerHTML = `<h1>Cart</h1><p id=x>${++rounds > 60 ? 'b' : 'a'}</p>`;
      if (rounds <= 60) { hold(20); setTimeout(again, 10); } };
      setTimeout(again, 50);""",
    "navigating": """const n = Number(location.hash.slice(1) || 0);
      if (n < 8) { setTimeout(() => { location.hash = n + 1; location.reload(); }, 120); } else x.textContent = 'b';""",
}
FORMS = {
    "assert": 'steps: [{act: open, url: %s}, {act: assert, selector: "#x", value: b}]',
    "expr": "steps: [{act: open, url: %s}, {act: assert, expr: \"text('#x') == 'b'\"}]",
    "criterion": "steps: [{act: open, url: %s}]\nsuccess_criteria: [\"text('#x') == 'b'\"]",
    "eventually": "steps: [{act: open, url: %s}]\nsuccess_criteria: [\"EVENTUALLY(text('#x') == 'b')\"]",
    "wait": 'steps: [{act: open, url: %s}, {act: wait, selector: "#x", value: b}]',
    "aria": 'steps: [{act: open, url: %s}, {act: assert, aria: "- heading \\"Cart\\"\\n- paragraph: b"}]',
    "remember": "steps: [{act: open, url: %s}, {act: wait, value: 0.2, remember: {seen: \"text('#x')\"}}]\n"
    "success_criteria: [\"mem('seen') != ''\"]",
}


def task(name: str, page: str, form: str, limits: str) -> str:
    return f"task_id: {name}\n{limits}\n{FORMS[form] % f'/{page}'}\n"


@pytest.fixture
def folder(tmp_path: Path, httpserver: HTTPServer) -> Path:
    for name, script in PAGES.items():
        page = f"<!doctype html><title>Cart</title><h1>Cart</h1><p id=x>a</p><script>{HOLD}{script}</script>"
        httpserver.expect_request(f"/{name}").respond_with_data(page, content_type="text/html")
    (tmp_path / "pyproject.toml").write_text(f'[tool.harness]\nbase_url = "{httpserver.url_for("")}"\n', "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    return tmp_path


def test_all_forms_of_one_question_give_one_verdict(folder: Path) -> None:
    """Each page needs some seconds; all are looked at in one run, side by side, so that it is also a busy machine."""
    right = [("busy", "assert"), ("blocked", "remember")]
    right += [("replaced", "criterion"), ("navigating", "wait")]
    if FULL:
        right = [(page, form) for page in ("busy", "blocked") for form in FORMS]
        right += [(page, form) for page in ("replaced", "navigating") for form in ("assert", "criterion", "wait")]
    limits = "expect_timeout: 20\nstep_timeout: 30\nerror_recovery: {on_browser_crash: abort}"
    for page, form in right:
        (folder / f"{page}-{form}.task.yaml").write_text(task(f"{page}-{form}", page, form, limits), "utf-8")
    retried = "{on_assertion_fail: {strategy: retry_after_wait, wait_before_retry_seconds: 6}}"
    limits = f"expect_timeout: 4\nstep_timeout: 30\nerror_recovery: {retried}"
    long = [("long", form) for form in (("assert", "criterion") if FULL else ())]
    for page, form in long:  # a failed look ends no script of the page
        (folder / f"{page}-{form}.task.yaml").write_text(task(f"{page}-{form}", page, form, limits), "utf-8")
    right += long
    wrong = [form for form in FORMS if form != "remember"] if FULL else ["criterion"]
    for form in wrong:
        (folder / f"wrong-{form}.task.yaml").write_text(
            task(f"wrong-{form}", "wrong", form, "expect_timeout: 5\nstep_timeout: 6"), "utf-8"
        )
    done = warm().run("pytest", "-q", "--task-workers", "4", cwd=folder)
    assert f"{len(wrong)} failed, {len(right)} passed" in done.stdout, done.stdout
    for form in wrong:
        report = json.loads((folder / "errors" / f"wrong-{form}" / "error_report.json").read_text("utf-8"))
        codes = {"criterion": "CRITERIA_UNMET", "eventually": "CRITERIA_UNMET", "wait": "STEP_TIMEOUT"}
        assert report["code"] == codes.get(form, "ASSERTION_FAILED"), (form, report["error_message"])
        assert "'c'" in report["error_message"] or "paragraph: c" in json.dumps(report), (form, report["error_message"])
