"""The HTML report with the real Allure 3, looked at in a real browser that reaches nothing but this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from harness.browser.executable import find
from harness.reporting.allure_files import write_allure_files
from harness.reporting.html import build_report
from harness.reporting.npm import ReportError, allure_command
from harness.reporting.serving import report_server
from harness.settings import BrowserSettings
from tests.acceptance.report_run import CONFTEST, TESTS

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = find(BrowserSettings(), Path(playwright.chromium.executable_path), os.environ)
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Path:
    """Allure results of a real pytest run, with a trace that Playwright recorded."""
    folder = tmp_path_factory.mktemp("run")
    context = browser.new_context()
    context.tracing.start(screenshots=True, snapshots=True)
    page = context.new_page()
    page.set_content("<h1>Shop</h1><input id=pw type=password><button>Pay</button>")
    page.fill("#pw", "hunter2xyz")
    page.click("button")
    page.screenshot(path=folder / "page.png")
    context.tracing.stop(path=folder / "trace.zip")
    context.close()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_tasks.py").write_text(TESTS)
    blocked = [f"-pno:{name}" for name in ("playwright", "taskspec", "cacheprovider")]
    command = [sys.executable, "-m", "pytest", "-q", *blocked, "--rootdir=.", "--alluredir=results", "test_tasks.py"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    write_allure_files(folder / "results", {"Browser": "chromium"}, {})
    return folder / "results"


@pytest.fixture(scope="module")
def report(results: Path) -> Path:
    try:
        allure_command(results.parent)
    except ReportError as error:
        pytest.skip(str(error))
    return build_report(results, results.parent / "report", project=results.parent).parent


@pytest.fixture
def page(report: Path, browser: Browser) -> Iterator[Page]:
    """The served report; whatever it asks of another machine is recorded in `outside` and refused."""
    with report_server(report) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}/"
        context = browser.new_context(base_url=base)
        outside: list[str] = []
        context.on(
            "request",
            lambda request: None if request.url.startswith((base, "data:", "blob:")) else outside.append(request.url),
        )
        yield context.new_page()
        context.close()
        server.shutdown()
    assert outside == []


def test_the_report_shows_the_tasks(page: Page) -> None:
    page.goto("index.html")
    for text in ("B1-2025-001: buy a mouse", "C2-2025-002: buy a mouse", "family B", "family D"):
        page.get_by_text(text).first.wait_for(timeout=15_000)


def test_a_failed_task_shows_steps_and_evidence(page: Page) -> None:
    page.goto("index.html")
    page.get_by_text("B1-2025-001: buy a mouse").first.click(timeout=15_000)
    page.get_by_text("at step 4 (of 0-5)").first.wait_for(timeout=15_000)
    page.get_by_text(re.compile(r"4\. wait .product-grid")).first.wait_for(timeout=15_000)
    with page.context.expect_page() as opened:
        page.get_by_text("Open trace").first.click()
    opened.value.get_by_text("Fill").first.wait_for(timeout=20_000)


def test_every_attachment_is_there(report: Path, page: Page) -> None:
    page.goto("index.html")
    for task in ("B1-2025-001", "C2-2025-002"):
        page.get_by_text(f"{task}: buy a mouse").first.click(timeout=15_000)
        page.get_by_text("manifest").first.wait_for(timeout=15_000)
        assert page.get_by_text("missed", exact=True).count() == 0
        page.goto("index.html")


def test_failures_are_grouped_by_what_broke(page: Page) -> None:
    page.goto("index.html")
    page.get_by_text("Categories").first.click(timeout=15_000)
    page.get_by_text("Timeouts").first.wait_for(timeout=15_000)
    page.get_by_text("Product defects").first.wait_for(timeout=15_000)


def test_a_trace_opens_beside_the_report(page: Page) -> None:
    page.goto("traces/index.html")
    page.get_by_text("B1-2025-001: buy a mouse").first.click()
    page.get_by_text("Fill").first.wait_for(timeout=20_000)
    assert page.get_by_text("hunter2xyz").count() == 0


def test_one_file_opens_without_a_server(results: Path, report: Path, browser: Browser) -> None:
    index = build_report(results, results.parent / "single", single_file=True, project=results.parent)
    assert [path.name for path in index.parent.glob("*.js")] == []
    opened = browser.new_page()
    opened.goto(index.as_uri())
    opened.get_by_text("B1-2025-001: buy a mouse").first.wait_for(timeout=15_000)
    opened.close()
