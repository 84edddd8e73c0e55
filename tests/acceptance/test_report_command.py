"""The HTML report with the real Allure 3, looked at in a real browser that reaches nothing but this machine."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from harness.reporting.allure.build import Report, ReportError, Wanted, build_report, find_allure
from harness.reporting.allure.files import write_allure_files
from harness.reporting.allure.serve import report_server
from tests.acceptance.report_run import CONFTEST, TESTS
from tests.acceptance.warm import warm

PROJECT = Path(__file__).parents[2]
ACTS = "<script>console.log('owned');top.document.title='owned';new Image().src='http://evil.test/'</script>"
"""What a page might say, wherever a report shows it."""


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
    options = ("-q", *blocked, "--rootdir=.", "--alluredir=results", "test_tasks.py")
    done = warm().run("pytest", *options, cwd=folder, PYTHONPATH=str(PROJECT), PYTEST_ADDOPTS="")
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    write_allure_files(folder / "results", {"Browser": "chromium"}, {})
    sabotage(folder / "results")
    return folder / "results"


def sabotage(results: Path) -> None:
    """A result that was half written, a foreign file, and a result in which everything wants to act."""
    (results / "half-result.json").write_text('{"uuid": "h", "name": "half')
    (results / "notes.txt").write_text("not Allure's")
    attached = [
        {"name": f"{ACTS}page", "source": "evil1-attachment.html", "type": "text/html"},
        {"name": "picture", "source": "evil2-attachment.svg", "type": "image/svg+xml"},
        {"name": "passwords", "source": "../../../../etc/passwd", "type": "text/plain"},
    ]
    evil = {"uuid": "evil", "name": f"EVIL {ACTS}", "fullName": ACTS, "historyId": "e", "status": "broken", "start": 1}
    evil |= {
        "stop": 2,
        "statusDetails": {"message": ACTS, "trace": ACTS},
        "descriptionHtml": ACTS,
        "attachments": attached,
    }
    evil |= {
        "links": [{"url": "javascript:console.log('owned')", "name": "link"}],
        "labels": [{"name": "epic", "value": ACTS}],
    }
    (results / "evil-result.json").write_text(json.dumps(evil))
    (results / "evil1-attachment.html").write_text(
        f"<h1>EVIL page</h1>{ACTS}<img src=x onerror=\"console.log('owned')\">"
    )
    script = ACTS.removeprefix("<script>").removesuffix("</script>")
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><text y="20">EVIL</text><script>{script}</script></svg>'
    (results / "evil2-attachment.svg").write_text(svg)


@pytest.fixture(scope="module")
def built(results: Path) -> Report:
    try:
        find_allure(results.parent)
    except ReportError as error:
        pytest.skip(str(error))
    return build_report(results, results.parent / "report", project=results.parent)


@pytest.fixture(scope="module")
def report(built: Report) -> Path:
    return built.index.parent


@pytest.fixture
def page(report: Path, browser: Browser) -> Iterator[Page]:
    yield from served(report, browser)


def served(report: Path, browser: Browser) -> Iterator[Page]:
    """A page at the served report, which is to reach nothing but this machine and to say no error in the console."""
    with report_server(report) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}/"
        context = browser.new_context(base_url=base)
        outside: list[str] = []
        context.on(
            "request",
            lambda request: None if request.url.startswith((base, "data:", "blob:")) else outside.append(request.url),
        )
        said: list[str] = []
        context.on("console", lambda message: said.append(message.text) if message.type in ("error", "log") else None)
        yield context.new_page()
        context.close()
        server.shutdown()
    assert [url for url in outside if "shop" not in url] == []
    assert not [text for text in said if "owned" in text]
    assert not [text for text in said if "Failed to load" in text and "favicon" not in text]


def test_the_report_shows_the_tasks_their_steps_and_evidence_and_what_broke(page: Page) -> None:
    page.goto("index.html")
    for text in ("B1-2025-001: buy a mouse", "C2-2025-002: buy a mouse", "family B", "family D"):
        page.get_by_text(text).first.wait_for(timeout=15_000)
    page.get_by_text("B1-2025-001: buy a mouse").first.click(timeout=15_000)
    page.get_by_text("at step 4 (of 0-5)").first.wait_for(timeout=15_000)
    page.get_by_text(re.compile(r"4\. wait .product-grid")).first.wait_for(timeout=15_000)
    page.get_by_text("manifest").first.wait_for(timeout=15_000)
    assert page.get_by_text("missed", exact=True).count() == 0
    with page.context.expect_page() as opened:
        page.get_by_text("Open trace").first.click()
    opened.value.get_by_text("Fill").first.wait_for(timeout=20_000)
    assert opened.value.get_by_text("hunter2xyz").count() == 0
    page.goto("index.html")
    page.get_by_text("Categories").first.click(timeout=15_000)
    page.get_by_text("Timeouts").first.wait_for(timeout=15_000)
    page.get_by_text("Product defects").first.wait_for(timeout=15_000)


@pytest.mark.thorough
def test_every_attachment_is_there(page: Page) -> None:
    for task in ("B1-2025-001", "C2-2025-002"):
        page.goto("index.html")
        page.get_by_text(f"{task}: buy a mouse").first.click(timeout=15_000)
        page.get_by_text("manifest").first.wait_for(timeout=15_000)
        assert page.get_by_text("missed", exact=True).count() == 0


@pytest.mark.thorough
def test_a_trace_opens_beside_the_report(page: Page) -> None:
    page.goto("traces/index.html")
    page.get_by_text("B1-2025-001: buy a mouse").first.click()
    page.get_by_text("Fill").first.wait_for(timeout=20_000)
    assert page.get_by_text("hunter2xyz").count() == 0


@pytest.mark.thorough
def test_one_file_opens_without_a_server(results: Path, report: Path, browser: Browser) -> None:
    index = build_report(results, results.parent / "single", Wanted(single_file=True), project=results.parent).index
    assert [path.name for path in index.parent.glob("*.js")] == []
    opened = browser.new_page()
    opened.goto(index.as_uri())
    opened.get_by_text("B1-2025-001: buy a mouse").first.wait_for(timeout=15_000)
    opened.close()
    history = results.parent / ".harness/allure-history.jsonl"
    assert len(history.read_text("utf-8").splitlines()) == 1  # built twice, run once


def test_what_was_broken_is_named(built: Report) -> None:
    named = {line.partition(":")[0] for line in built.left_out}
    assert named == {"half-result.json", "notes.txt", "evil-result.json"}
    assert any("../../../../etc/passwd" in line for line in built.left_out)
    assert built.results == 4


def test_a_hostile_result_does_nothing(page: Page) -> None:
    page.goto("index.html")
    page.get_by_text(re.compile("EVIL")).first.click(timeout=15_000)
    page.get_by_text(re.compile("^Attachments")).first.click(timeout=15_000)
    for name in (re.compile(r"^<script>.*page$"), "picture"):
        page.get_by_text(name).last.click(timeout=15_000)
    page.frame_locator("iframe").get_by_text("EVIL page").first.wait_for(timeout=15_000)
    assert page.title() != "owned"


def test_an_attachment_that_is_opened_on_its_own_does_nothing(page: Page, report: Path) -> None:
    found = [path for path in report.glob("data/attachments/*") if b"EVIL" in path.read_bytes()]
    assert len(found) == 2
    for path in found:
        page.goto(path.relative_to(report).as_posix())
        assert "EVIL" in page.content()
        assert page.evaluate("() => window.origin") == "null"
        assert page.title() != "owned"


@pytest.mark.thorough
def test_the_button_of_a_trace_opens_it_beside_the_report(page: Page) -> None:
    page.goto("index.html")
    page.get_by_text("B1-2025-001: buy a mouse").first.click(timeout=15_000)
    trace = page.get_by_text("Playwright trace", exact=True).first
    trace.wait_for(timeout=15_000)
    with page.context.expect_page() as opened:
        trace.locator("xpath=ancestor::*[.//button][1]//button").first.click()
    opened.value.get_by_text("Fill").first.wait_for(timeout=30_000)
    assert opened.value.url.startswith(page.url.partition("index.html")[0])


@pytest.mark.thorough
def test_the_attempts_are_a_timeline_and_the_requests_a_table(page: Page) -> None:
    page.goto("index.html")
    page.get_by_text("B1-2025-001: buy a mouse").first.click(timeout=15_000)
    page.get_by_text(re.compile("^Attachments")).first.click(timeout=15_000)
    page.get_by_text("attempts", exact=True).first.click(timeout=15_000)
    shown = page.frame_locator("iframe")
    shown.get_by_text("ATTEMPT 1: FAILED").first.wait_for(timeout=15_000)
    box = shown.locator("span.wait").first.bounding_box()
    assert box is not None
    assert box["width"] > 3
