"""A driver of Playwright that is stopped, killed, silent, or speaks garbage, at any moment: no run hangs for it."""

from __future__ import annotations

import sys
from pathlib import Path

import playwright
import pytest
from pytest_httpserver import HTTPServer

from tests.acceptance.conftest import Project
from tests.browser.processes import gone
from tests.conftest import FULL

KNOWN = {
    "stop": ("BROWSER_UNRESPONSIVE", "stopped"),
    "garbage": ("BROWSER_UNRESPONSIVE", "unreadable"),
    "kill": ("DRIVER_GONE", "gone"),
    "silence": ("BROWSER_UNRESPONSIVE", "silent"),
    "close": ("BROWSER_UNRESPONSIVE", "silent"),
    "unknown": ("BROWSER_UNRESPONSIVE", "silent"),
}
"""What is done to a driver -> the code of the task whose click was under way, and what is known about the driver."""
SOON = ("garbage", "kill")
"""What is known at once; silence takes a while, and the tests below stop drivers."""
STEPS = [{"act": "open", "url": "http://shop.local/"}, {"act": "click", "selector": "body"}]


@pytest.fixture
def struck(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose driver is struck_driver.py; the test sets STRIKES."""
    wrapper = project.path / "node"
    wrapper.write_text(
        f"#!{sys.executable}\n{Path(__file__).with_name('struck_driver.py').read_text('utf-8')}", "utf-8"
    )
    wrapper.chmod(0o755)
    (project.path / "drivers").mkdir()
    monkeypatch.setenv("FOLDER", str(project.path / "drivers"))
    monkeypatch.setenv("NODE", str(Path(playwright.__file__).parent / "driver" / "node"))
    monkeypatch.setenv("PLAYWRIGHT_NODEJS_PATH", str(wrapper))
    return project


def nothing_is_left(project: Project) -> None:
    pids = [int(pid) for file in (project.path / "drivers").iterdir() for pid in file.read_text("utf-8").split()]
    assert [pid for pid in pids if not gone(pid)] == []


@pytest.mark.own_driver
def test_the_task_ends_with_what_is_known_and_the_next_one_has_a_new_driver(
    struck: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes as long as a driver and a browser need to start, once for each strike."""
    kinds = list(KNOWN) if FULL else list(SOON)
    monkeypatch.setenv("STRIKES", ",".join(f"{kind}:click" for kind in kinds))
    for number, kind in enumerate(kinds):
        struck.task(f"T{number}-{kind}", steps=STEPS, priority=1 + number // 5)
    struck.task("Z", steps=STEPS, priority=5)
    result = struck.run(timeout=300)
    result.assert_outcomes(failed=len(kinds), passed=1)
    for number, kind in enumerate(kinds):
        report = struck.report(f"T{number}-{kind}")
        assert (report["code"], report["context"]["driver"]) == KNOWN[kind], report["error_message"]
        assert report["step_index"] == 1
        assert report["final_state"] == "failed"
    nothing_is_left(struck)


@pytest.mark.own_driver
@pytest.mark.parametrize("kind", list(KNOWN) if FULL else ["stop"])
@pytest.mark.thorough
def test_a_driver_that_is_lost_before_the_first_step_is_replaced(
    struck: Project, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """While it starts, while the browser starts, and while the page opens."""
    monkeypatch.setenv("STRIKES", f"{kind}:initialize,{kind}:launch,none:x")
    struck.task("A", steps=STEPS, timeout=120)
    struck.task("B", steps=STEPS, timeout=120)
    struck.run("--task-workers", "2", timeout=300).assert_outcomes(passed=2)
    nothing_is_left(struck)


@pytest.mark.own_driver
def test_what_pages_send_while_the_driver_is_stopped_is_not_done_again(
    struck: Project, monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer
) -> None:
    """The click has passed, and its order leaves while nobody can see it: the task does not go back over the click."""
    page = "<button id=go onclick=\"setTimeout(() => fetch('/order', {method: 'POST'}), 400)\">go</button>"
    httpserver.expect_request("/").respond_with_data(page, content_type="text/html")
    httpserver.expect_request("/order", method="POST").respond_with_data("")
    (struck.path / "pyproject.toml").write_text("", "utf-8")  # no channel can restore what was ordered
    monkeypatch.setenv("STRIKES", "stop:waitForSelector")
    steps = [
        {"act": "open", "url": httpserver.url_for("/")},
        {"act": "click", "selector": "#go"},
        {"act": "wait", "selector": "#never"},
    ]
    struck.task("A", steps=steps, checkpoints=[1])
    struck.run().assert_outcomes(failed=1)
    assert struck.report("A")["code"] == "BROWSER_UNRESPONSIVE"
    assert [request.path for request, _ in httpserver.log].count("/order") == 1
    nothing_is_left(struck)


@pytest.mark.thorough
@pytest.mark.own_driver
@pytest.mark.parametrize("kind", KNOWN)
def test_a_driver_that_is_lost_at_the_end_does_not_hold_up_the_end(
    struck: Project, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("STRIKES", f"{kind}:close")
    struck.task("A", steps=STEPS)
    struck.task("B", steps=STEPS)
    struck.run("--tracing", "on", timeout=300).assert_outcomes(passed=2)
    nothing_is_left(struck)
