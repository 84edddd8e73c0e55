"""Ordinary Playwright tests with `page_tests = true`: each fails as it always did, and leaves what a task leaves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.browser.executable import find
from harness.model.browser_settings import BrowserSettings
from harness.reporting.history.reading import load_run, recent_runs
from tests.acceptance.warm import harness, warm

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "schemas" / "error_report.schema.json").read_text("utf-8"))
INI = "[pytest]\naddopts = -p no:hypothesispytest -p no:faker -p no:cacheprovider\n"
ON = "[tool.harness]\npage_tests = true\nredact = ['order-\\d+']\n"
SITE = """
import http.server, threading
import pytest

PAGES = {"/": "<h1>Shop</h1><button id=buy disabled>Buy</button><i class=x>a</i><i class=x>b</i>"
              "<div style='position:relative'><a id=under href=#>go</a>"
              "<p id=lid style='position:absolute;inset:0;margin:0'></p></div>"
              "<script>console.log('order-4711 is here')</script>",
         "/login": "<input type=password value=s3cret-pass><iframe srcdoc='<b id=inner>in</b>'></iframe>"}

class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/never":
            self.server.over.wait()
        body = PAGES.get(self.path, "<h1>Broken</h1>").encode()
        self.send_response(200 if self.path in PAGES else 503)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

@pytest.fixture(scope="session")
def base_url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.over = threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.over.set()
    server.shutdown()

@pytest.fixture
def shop(page):
    page.set_default_timeout(1500)
    page.goto("/")
    return page

@pytest.fixture
def broken(shop):
    shop.click("#nothing")
"""
CAUSES = """
import pytest
from playwright.sync_api import expect

class Cart:
    def __init__(self, page):
        self.add = page.get_by_role("button", name="Add")

    def buy(self):
        self.add.click()  # ELEMENT_NOT_FOUND

def test_green(shop):
    expect(shop.locator("h1")).to_have_text("Shop")

def test_page_object(shop):
    '''Buys a thing.'''
    Cart(shop).buy()

def test_disabled(shop):
    shop.click("#buy")  # ELEMENT_DISABLED

def test_covered(shop):
    shop.locator("#under").click()  # ELEMENT_COVERED

def test_ambiguous(shop):
    shop.locator(".x").click()  # SELECTOR_AMBIGUOUS

def test_expect(shop):
    expect(shop.locator("h1")).to_have_text("Cart", timeout=600)  # ASSERTION_FAILED

def test_expect_nothing(shop):
    expect(shop.locator("#gone")).to_be_visible(timeout=600)  # ELEMENT_NOT_FOUND

def test_assert(shop):
    assert shop.inner_text("h1") == "Cart"  # ASSERTION_FAILED

def test_refused(page):
    page.goto("http://127.0.0.1:2/")  # NET_CONNECTION_REFUSED

def test_unanswered(page):
    page.goto("/never", timeout=1500)  # NET_TIMEOUT

def test_status(page):
    page.goto("/503")
    expect(page.locator("#buy")).to_be_visible(timeout=600)  # HTTP_UNAVAILABLE

def test_crash(shop):
    shop.goto("chrome://crash")  # PAGE_CRASHED

def test_frame(page):
    page.goto("/login")
    page.click("#inner", timeout=1500)  # ELEMENT_NOT_FOUND

def test_python(shop):
    {}["total"]  # TEST_ERROR

def test_fixture(broken):
    pass

def test_marked(shop):
    pytest.skip("not today")

@pytest.mark.xfail
def test_expected(shop):
    assert not shop

def test_no_browser():
    assert 1 == 2

def test_gone(browser_name, playwright):
    import conftest
    options = {"executable_path": conftest.EXECUTABLE} if conftest.EXECUTABLE else {}
    browser = playwright.chromium.launch(**options)
    page = browser.new_page()
    try:
        browser.new_browser_cdp_session().send("Browser.crash")
    except Exception:
        pass
    page.click("h1")  # BROWSER_CRASHED
"""


def conftest() -> str:
    found = find(BrowserSettings(), Path("/nowhere"), {})
    return f"{SITE}\nEXECUTABLE = {str(found)!r}\n"


def project(folder: Path, tests: str, settings: str = ON) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text(INI, "utf-8")
    (folder / "pyproject.toml").write_text(settings, "utf-8")
    (folder / "conftest.py").write_text(conftest(), "utf-8")
    (folder / "test_shop.py").write_text(tests, "utf-8")
    return folder


def verdicts(text: str) -> dict[str, str]:
    """Name of a test -> what pytest says of it with `-rA`."""
    found = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL) .*?::(\w+)", text, re.MULTILINE)
    return {name: verdict for verdict, name in found}


class Ran:
    """One run with all causes, and the same run without the setting."""

    def __init__(self, folder: Path) -> None:
        self.folder = project(folder / "on", CAUSES)
        self.text = warm().run("pytest", "-rA", "--junitxml", "j.xml", cwd=self.folder, timeout=600).stdout

    def report(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.place(name) / "error_report.json").read_text("utf-8"))
        return found

    def place(self, name: str) -> Path:
        return self.folder / "errors" / f"test_shop--{name}-chromium"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("pages"))


def test_each_failure_has_its_cause_at_the_line_of_the_call(ran: Ran) -> None:
    lines = CAUSES.splitlines()
    found = {path.name: json.loads((path / "error_report.json").read_text("utf-8")) for path in
             (ran.folder / "errors").iterdir() if path.name.startswith("test_")}  # fmt: skip
    for name, report in found.items():
        jsonschema.validate(report, SCHEMA)
        assert report["task_id"] == name
        if report["step"]["file"] == "test_shop.py":
            assert lines[report["step"]["line"] - 1].partition("# ")[2] == report["code"], name
    names = {re.sub(r"test_shop--test_|-chromium", "", name) for name in found}
    assert names == {"page_object", "disabled", "covered", "ambiguous", "expect", "expect_nothing", "assert",
        "refused", "unanswered", "status", "crash", "frame", "python", "fixture", "gone"}  # fmt: skip
    assert ran.report("test_page_object")["step"]["selector"] == 'get_by_role("button", name="Add")'
    assert ran.report("test_covered")["context"]["covered_by"].startswith('<p id="lid"')
    assert ran.report("test_fixture")["step"]["file"] == "conftest.py"
    for name in ("test_expect", "test_assert"):
        compared = ran.report(name)["context"]["assertion"]
        assert (compared["expected"], compared["actual"]) == ("Cart", "Shop")
    assert ran.report("test_expect_nothing")["error_message"].startswith("no element matches #gone")
    assert "page.frame_locator(" in ran.report("test_frame")["hint"]


def test_the_evidence_is_that_of_a_task_without_secrets(ran: Ran) -> None:
    taken = {path.name for path in ran.place("test_disabled").iterdir()}
    assert taken >= {"error_report.json", "manifest.json", "screenshot.png", "dom_snapshot.html", "console_logs.txt",
        "network_logs.har", "partial_trace.json", "trace.zip"}  # fmt: skip
    assert "<h1>Shop</h1>" in (ran.place("test_disabled") / "dom_snapshot.html").read_text("utf-8")
    har = json.loads((ran.place("test_disabled") / "network_logs.har").read_text("utf-8"))["log"]["entries"]
    assert [each["response"]["status"] for each in har][:1] == [200]
    said = (ran.place("test_disabled") / "console_logs.txt").read_text("utf-8")
    assert "is here" in said
    assert "order-4711" not in said
    assert not [path for path in ran.place("test_frame").rglob("*.*") if b"s3cret-pass" in path.read_bytes()]


def test_the_reports_know_it_as_they_know_tasks(ran: Ran) -> None:
    assert "test_shop--test_disabled-chromium failed: ELEMENT_DISABLED at test_shop.py:" in ran.text
    assert "\ntasks: 16: 1 completed, 15 failed\n" in ran.text
    assert 'name="code" value="ELEMENT_COVERED"' in (ran.folder / "j.xml").read_text("utf-8")
    assert "ELEMENT_COVERED" in harness("triage", cwd=ran.folder).stdout
    shown = harness("show", "test_shop--test_expect-chromium", cwd=ran.folder).stdout
    assert "ASSERTION_FAILED at test_shop.py:" in shown
    run = load_run(ran.folder, next(iter(recent_runs(ran.folder, 1))).run)
    outcomes = {each.task_id: each.outcome for each in run.executions}
    assert outcomes["test_shop--test_green-chromium"] == "passed"
    assert outcomes["test_shop--test_fixture-chromium"] == "failed"
    assert not any("no_browser" in each for each in outcomes)


def test_without_the_setting_the_verdicts_are_the_same_and_nothing_is_loaded(ran: Ran, tmp_path: Path) -> None:
    look = "import sys\ndef pytest_unconfigure():\n    print('pages:', [m for m in sys.modules if 'page_tests' in m])\n"
    folder = project(tmp_path, CAUSES, "")
    (folder / "conftest.py").write_text(conftest() + look, "utf-8")
    text = warm().run("pytest", "-rA", cwd=folder, timeout=600).stdout
    assert verdicts(text) == verdicts(ran.text)
    assert len(verdicts(text)) == 18
    assert "cause and evidence" not in text
    assert "pages: []" in text
    assert not (folder / "errors").exists()


OWN = """
import pytest
from playwright.async_api import async_playwright
from playwright.sync_api import sync_playwright
from conftest import EXECUTABLE

def launched(playwright):
    return playwright.chromium.launch(executable_path=EXECUTABLE)

def test_with(base_url):
    with sync_playwright() as playwright:
        page = launched(playwright).new_page()
        page.goto(base_url)
        page.click("#nothing", timeout=700)

def test_finally(base_url):
    playwright = sync_playwright().start()
    try:
        page = launched(playwright).new_page()
        page.goto(base_url)
        try:
            page.click("#handled", timeout=300)
        except Exception:
            page.context.browser.new_page().close()
        assert page.title() == "Shop"
    finally:
        playwright.stop()

def test_caught(base_url):
    with sync_playwright() as playwright:
        browser = launched(playwright)
        try:
            browser.new_page().click("#handled", timeout=300)
        except Exception:
            browser.close()

def test_async(base_url):
    import asyncio

    async def main():
        async with async_playwright() as playwright:
            browser = await launched(playwright)
            page = await browser.new_page()
            await page.goto(base_url)
            await page.click("#nothing", timeout=700)

    asyncio.run(main())
"""
AGAIN = """
def test_again(shop):
    shop.click("#nothing", timeout=400)
"""


def test_own_browsers_closed_by_the_test_and_workers_and_reruns(tmp_path: Path) -> None:
    folder = project(tmp_path, OWN)
    (folder / "test_more.py").write_text(AGAIN, "utf-8")  # apart: one process has one Playwright of the sync API
    options = (
        "-n",
        "2",
        "--dist",
        "loadfile",
        "--reruns",
        "1",
        "--tracing",
        "retain-on-failure",
        "--alluredir",
        "al",
        "-rA",
    )
    text = warm().run("pytest", *options, cwd=folder, timeout=600).stdout
    assert verdicts(text)["test_caught"] == "PASSED"
    for name, code in {
        "test_shop--test_with": "ELEMENT_NOT_FOUND",
        "test_shop--test_finally": "ASSERTION_FAILED",
        "test_shop--test_async": "ELEMENT_NOT_FOUND",
        "test_more--test_again-chromium": "ELEMENT_NOT_FOUND",
    }.items():
        place = folder / "errors" / name
        assert json.loads((place / "error_report.json").read_text("utf-8"))["code"] == code, text
        assert (place / "screenshot.png").is_file()
        assert "Shop</h1>" in (place / "dom_snapshot.html").read_text("utf-8")
    assert "reruns: 4; 4 tasks failed again" in text
    assert "tasks: 5: 1 completed, 4 failed" in text
    traced = json.loads((folder / "errors" / "test_more--test_again-chromium" / "manifest.json").read_text("utf-8"))
    assert "the test records one itself" in json.dumps(traced)
    assert list((folder / "test-results").rglob("trace.zip"))
    results = [json.loads(path.read_text("utf-8")) for path in (folder / "al").glob("*-result.json")]
    labels = {each["value"] for result in results for each in result["labels"] if each["name"] == "code"}
    assert labels == {"ELEMENT_NOT_FOUND", "ASSERTION_FAILED"}


HANGS = """
import time

def test_page(shop):
    shop.evaluate("() => { document.title = 'busy'; while (true) {} }")

def test_python(shop):
    while True:
        try:
            shop.title()
        except Exception:
            pass

def test_after(shop):
    assert shop.title() == ""
"""


def test_a_test_that_hangs_is_ended_with_its_evidence(tmp_path: Path) -> None:
    """The limit counts for each phase, so that the start of the browser on a busy machine is not near it."""
    folder = project(tmp_path, HANGS, f"{ON}page_test_timeout = 10\n")
    (folder / "test_warm.py").write_text("def test_browser(page):\n    pass\n", "utf-8")
    text = warm().run("pytest", "-rA", "test_warm.py", "test_shop.py", cwd=folder, timeout=600).stdout
    assert verdicts(text) == {"test_page": "FAILED", "test_python": "FAILED", "test_after": "PASSED",
        "test_browser": "PASSED"}  # fmt: skip
    page, python = (
        json.loads((folder / "errors" / f"test_shop--{name}-chromium" / "error_report.json").read_text("utf-8"))
        for name in ("test_page", "test_python")
    )
    assert page["code"] == "PAGE_UNRESPONSIVE"
    assert page["step"]["act"] == "evaluate"
    assert (folder / "errors" / "test_shop--test_page-chromium" / "screenshot.png").is_file()
    assert python["code"] == "TASK_TIMEOUT"
    assert "the test exceeded 10 s (`page_test_timeout`), at test_shop.py:1" in python["error_message"]


def test_settings_without_effect_are_refused(tmp_path: Path) -> None:
    folder = project(tmp_path, HANGS, "[tool.harness]\npage_test_timeout = 5\n")
    result = warm().run("pytest", cwd=folder)
    assert "page_test_timeout: has no effect without `page_tests = true`" in result.stdout + result.stderr


SERVED = """
import http.server, sys

class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"<h1>Shop</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Site).serve_forever()
"""
SERVICE = """page_test_services = "shared"
[tool.harness.services.shop]
command = ["{python}", "served.py", "{port}"]
hosts = ["shop.test"]
health = "http://shop.test/"
"""
STRUCK = """
from playwright.sync_api import expect

def test_host(page):
    page.goto("http://shop.test/")
    expect(page.locator("h1")).to_have_text("Shop")
    page.wait_for_timeout(PAUSE)
    page.click("h1")

def test_port(page, taskspec_services):
    page.goto(taskspec_services.url("shop.test"))
    expect(page.locator("h1")).to_have_text("Shop")
"""


def test_services_for_all_and_the_faults_that_strike_them(tmp_path: Path) -> None:
    folder = project(tmp_path, STRUCK.replace("PAUSE", "0"), ON + SERVICE)
    (folder / "served.py").write_text(SERVED, "utf-8")
    assert verdicts(warm().run("pytest", "-rA", cwd=folder).stdout) == {"test_host": "PASSED", "test_port": "PASSED"}
    for kind, code in {
        '{kind: status, url: "http://shop.test/**", status: 503}': "HTTP_UNAVAILABLE",
        "{kind: refuse, host: shop.test, seconds: 60}": "NET_CONNECTION_REFUSED",
    }.items():
        (folder / "a.faults.yaml").write_text(f"faults:\n  - {kind}\n", "utf-8")
        text = warm().run("pytest", "--faults", "a.faults.yaml", cwd=folder).stdout
        assert "tasks: 2: 2 failed\nfaults: 2 struck" in text
        for name in ("test_host", "test_port"):
            place = folder / "errors" / f"test_shop--{name}-chromium" / "error_report.json"
            report = json.loads(place.read_text("utf-8"))
            assert (report["code"], report["faults"][0]["behind"]) == (code, True)
    (folder / "test_shop.py").write_text(STRUCK.replace("PAUSE", "30000"), "utf-8")
    (folder / "a.faults.yaml").write_text("faults:\n  - {kind: browser_kill, delay: 1}\n", "utf-8")
    warm().run("pytest", "--faults", "a.faults.yaml", "-k", "host", cwd=folder)
    report = json.loads((folder / "errors" / "test_shop--test_host-chromium" / "error_report.json").read_text("utf-8"))
    assert (report["code"], report["faults"][0]["struck"]) == ("BROWSER_CRASHED", 1)
    (folder / "a.faults.yaml").write_text("faults:\n  - {kind: page_crash, step: 2}\n", "utf-8")
    result = warm().run("pytest", "--faults", "a.faults.yaml", cwd=folder)
    said = result.stderr + result.stdout
    assert "a.faults.yaml:2:5: faults[0]: test_shop--test_host-chromium is an ordinary test" in said
