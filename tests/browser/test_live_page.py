"""The live page in a real browser: what it shows, and that it goes on after its server was killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.browser.video import find_ffmpeg
from harness.reporting.telemetry.log import events_of, owner_file
from harness.resilience.owner import Owner
from harness.spec.names import new_run_id
from tests.acceptance.warm import Forked, start_harness
from tests.browser.test_dashboard import CONTRASTS, DESKTOP, PHONE
from tests.conftest import FULL

RUN = new_run_id(datetime.now(UTC), os.getpid())
"""A run that goes on: its process lives."""
OVER = "20260102T030405-99999999"
SCREENS = ((PHONE, "dark"), (DESKTOP, "light")) if FULL else ((PHONE, "dark"),)
MANY = 1000 if FULL else 300
HOSTILE = "expected 3 <script>document.title='hacked'</script>"


class Served:
    """A project with one event file, and its server as a process."""

    def __init__(self, root: Path, run: str = RUN) -> None:
        self.root = root
        self.run = run
        (root / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")
        self.events = events_of(root, run)
        self.events.parent.mkdir(parents=True)
        if run != OVER:
            owner_file(self.events).write_text(Owner.this().label, "utf-8")
        self.lines = 0
        self.process: Forked | None = None

    def add(self, kind: str, task: str = "", step: int | None = None, **fields: Any) -> None:
        stamp = {"at": "2026-01-02T03:04:05+00:00", "level": "INFO", "type": kind, "run": self.run, "worker": ""}
        record = {**stamp, "task_id": task, "step": step, "faulted": False, **fields}
        with self.events.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.lines += 1

    def task(self, number: int, *, code: str = "", error: str = HOSTILE, faulted: bool = False) -> None:
        name = f"SHOP-{number:04d}"
        self.add("task-begun", name, key=name, steps=3)
        if code:
            self.add("failed", name, 2, name="assert text('#total')", error=error, code=code)
        counts = {"attempts": 3, "failures": int(bool(code)), "retries": 0, "recovered": 0}
        state = {"final_state": "failed" if code else "completed", "code": code, "expected": False, "reason": ""}
        self.add("task", name, seconds=1.5, steps=3, faulted=faulted, **counts, **state)

    def start(self, port: int = 0) -> str:
        """Start the server; return the address that it prints."""
        environment = {"PYTHONUNBUFFERED": "1"}
        self.process = start_harness("serve", "--port", str(port), cwd=self.root, environment=environment)
        assert self.process.stdout is not None
        found = re.search(r"http\S+", self.process.stdout.readline())
        assert found is not None
        return found[0]

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(10)
            self.process = None


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.end()


def opened(browser: Browser, address: str, told: list[str], **options: Any) -> Page:
    page = browser.new_context(**options).new_page()
    page.on("pageerror", lambda error: told.append(f"error: {error}"))
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: told.append(f"dialog: {dialog.message}"))
    page.goto(address)
    return page


def test_a_thousand_tasks_are_readable_on_any_screen(browser: Browser, served: Served) -> None:
    ended = MANY - 10
    failed = 1 + (ended - 1) // 30
    served.add("run-begun", tasks=MANY)
    for number in range(ended):
        served.task(number, code=("" if number % 30 else "ASSERTION_FAILED"))
    served.add("task-begun", "SHOP-9999", key="SHOP-9999", steps=4)
    served.add("step-begun", "SHOP-9999", 1, name="click #buy")
    served.add(
        "circuit-state-change", circuit="origin:http://shop.test", **{"from": "closed", "to": "open"}, reason="r"
    )
    for worker, state in (("gw0", "open"), ("gw1", "closed")):
        served.add(
            "circuit-state-change", circuit="tool:mail", **{"from": "half_open", "to": state}, reason="r", worker=worker
        )
    served.add("client-status", session="S1", client="mine 1.0", **{"from": "attached", "to": "detached"}, reason="")
    served.add(
        "threshold", metric="session_drops", **{"from": "ok", "to": "warning"}, value=6, limit=5, unit="per minute"
    )
    address, told = served.start(), list[str]()
    for size, scheme in SCREENS:
        page = opened(browser, address, told, viewport=size, color_scheme=scheme)
        expect(page.locator("h1")).to_have_text(f"{ended} of {MANY} tasks ended, {failed} failed", timeout=15_000)
        expect(page.locator("#now")).to_contain_text("click #buy")
        expect(page.locator("#now")).to_contain_text("1 (of 0-3)")
        expect(page.locator("#causes")).to_contain_text(f"{failed} tasks")
        expect(page.locator("#causes")).to_contain_text(HOSTILE)
        expect(page.locator("#around")).to_contain_text("origin:http://shop.test")
        for shown in ("circuit tool:mail (gw0)", "client mine 1.0", "threshold session_drops"):
            expect(page.locator("#around")).to_contain_text(shown)
        page.fill("#search", f"{ended - 1:04}")
        expect(page.locator("#done tbody tr")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(CONTRASTS)["poor"] == []
        assert "token=" not in page.url
        assert "hacked" not in page.title()
        page.context.close()
    assert told == []


def evidence(served: Served, key: str, trace: Path | None = None) -> None:
    folder = served.root / "errors" / key
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"run": served.run}), "utf-8")
    (folder / "error_report.json").write_text("{}", "utf-8")
    if trace:
        (folder / "trace.zip").write_bytes(trace.read_bytes())


def test_causes_lead_to_the_files_and_the_trace_opens_in_playwright_s_viewer(
    browser: Browser, served: Served, tmp_path: Path
) -> None:
    traced = browser.new_context()
    traced.tracing.start(snapshots=True)
    traced.new_page().set_content("<h1>traced</h1>")
    traced.tracing.stop(path=tmp_path / "trace.zip")
    traced.close()
    served.add("run-begun", tasks=4)
    for number, error in enumerate(("total is '3', not '4'", "total is '5', not '6'", "no basket")):
        served.task(number, code="ASSERTION_FAILED", error=error)
    evidence(served, "SHOP-0000", tmp_path / "trace.zip")
    address, told = served.start(), list[str]()
    page = opened(browser, address, told, viewport=DESKTOP)
    causes = page.locator("#causes .cause")
    expect(causes).to_have_count(2, timeout=15_000)  # by message, without the values in it
    page.locator("#causes summary").first.focus()
    page.keyboard.press("Enter")
    expect(causes.first.get_by_role("link")).to_have_text(["report", "trace", "all files"])
    expect(causes.first).to_contain_text("its files are no longer there")  # of the other task
    causes.first.get_by_role("link", name="trace").focus()
    served.task(5, code="ASSERTION_FAILED", error="no basket at all")
    expect(causes).to_have_count(3)
    expect(causes.first.get_by_role("link", name="trace")).to_be_focused()  # what comes does not take it away
    with page.context.expect_page() as opening:
        page.keyboard.press("Enter")
    viewer = opening.value
    expect(viewer.get_by_text("Set content").first).to_be_visible(timeout=20_000)
    assert told == ["Failed to load resource: the server responded with a status of 404 (Not Found)"]
    page.context.close()


@pytest.mark.thorough
def test_the_video_of_a_failure_plays(browser: Browser, served: Served) -> None:
    served.add("run-begun", tasks=1)
    served.task(0, code="ASSERTION_FAILED", error="no basket")
    evidence(served, "SHOP-0000")
    video = served.root / "errors" / "SHOP-0000" / "video.webm"
    made = [
        str(find_ffmpeg()),
        "-f",
        "lavfi",
        "-i",
        "color=red:size=64x64:duration=1",
        "-c:v",
        "libvpx-vp9",
        str(video),
    ]
    subprocess.run(made, check=True, capture_output=True)
    page = opened(browser, served.start(), list[str](), viewport=DESKTOP)
    page.locator("#causes summary").first.click()
    with page.context.expect_page() as opening:
        page.locator("#causes .cause").first.get_by_role("link", name="video").click()
    opening.value.wait_for_function("document.querySelector('video')?.readyState >= 2")
    page.context.close()


def test_a_run_that_was_cut_off_and_an_old_file_are_not_taken_for_a_good_run(browser: Browser, tmp_path: Path) -> None:
    served = Served(tmp_path, OVER)
    served.add("run-begun", tasks=3)
    served.add("task-begun", "SHOP-0002", key="SHOP-0002", steps=3, worker="gw0")
    served.task(1)
    address, told = served.start(), list[str]()
    page = opened(browser, address, told, viewport=PHONE)
    expect(page.locator("h1")).to_have_text("1 of 3 tasks ended, then the run was cut off", timeout=15_000)
    expect(page.locator("#tiles .running")).to_have_text("0running")
    served.add("task", "SHOP-0002", final_state="failed", code="WORKER_CRASHED", seconds=1.0)  # as old files have it
    expect(page.locator("#tiles .running")).to_have_text("0running")
    expect(page.locator("#tiles")).not_to_contain_text("NaN")
    assert told == []
    page.context.close()
    served.end()


def test_it_goes_on_by_itself_after_its_server_was_killed(browser: Browser, served: Served) -> None:
    served.add("run-begun", tasks=4)
    served.task(1)
    address, told = served.start(), list[str]()
    page = opened(browser, address, told, viewport=DESKTOP)
    expect(page.locator("h1")).to_have_text("1 of 4 tasks ended", timeout=15_000)
    served.end(signal.SIGKILL)
    served.task(2)
    expect(page.locator("#link")).to_have_text("connecting", timeout=15_000)
    expect(page.locator("#notices")).to_contain_text("The server does not answer", timeout=15_000)
    served.start()  # it takes the port of the one that was killed
    served.task(3, code="NET_TIMEOUT")
    expect(page.locator("h1")).to_have_text("3 of 4 tasks ended, 1 failed", timeout=30_000)
    expect(page.locator("#link")).to_have_text("live")
    expect(page.locator("#notices")).to_be_hidden(timeout=15_000)
    assert page.evaluate("document.body.dataset.lines") == str(served.lines)  # each line once
    assert [each for each in told if not each.startswith("Failed to load resource")] == []
    page.context.close()


@pytest.mark.thorough
def test_a_file_that_is_cut_is_counted_anew(browser: Browser, served: Served) -> None:
    served.add("run-begun", tasks=4)
    for number in (1, 2, 3):
        served.task(number, code="NET_TIMEOUT")
    address, told = served.start(), list[str]()
    page = opened(browser, address, told, viewport=DESKTOP)
    expect(page.locator("h1")).to_have_text("3 of 4 tasks ended, 3 failed", timeout=15_000)
    served.events.write_text("", "utf-8")
    served.add("run-begun", tasks=2)
    served.task(1)
    expect(page.locator("h1")).to_have_text("1 of 2 tasks ended", timeout=15_000)
    expect(page.locator("#tiles li.attempts:not(.failed)")).to_have_text("3attempts")
    assert told == []
    page.context.close()


@pytest.mark.thorough
def test_a_run_whose_events_are_deleted_is_not_shown_as_going_on(browser: Browser, served: Served) -> None:
    """And the part of a divided suite that a run is has its number."""
    served.add("run-begun", tasks=2)
    served.task(1)
    served.add("task-begun", "SHOP-0002", key="SHOP-0002", steps=3)
    address, told = served.start(), list[str]()
    page = opened(browser, "about:blank", told, viewport=PHONE)
    listed = [{"run": RUN, "running": True, "ending": "", "shard": "2/3"}]
    page.route("**/api/runs", lambda route: route.fulfill(json=listed), times=1)
    page.goto(address)
    expect(page.locator("h1")).to_have_text("1 of 2 tasks ended", timeout=15_000)
    expect(page.locator("#meta")).to_contain_text("shard 2/3 of the tasks")
    expect(page.locator("#run option")).to_have_text(f"{RUN}, shard 2/3 (running)")
    served.events.unlink()
    expect(page.locator("#notices")).to_contain_text("The events of this run were deleted", timeout=15_000)
    expect(page.locator("#link")).to_have_text("deleted")
    expect(page.locator("#now")).to_contain_text("Nothing more is known of the run.")
    expect(page.locator("#tiles li.running")).to_have_text("0running")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    served.add("run-begun", tasks=5)
    expect(page.locator("h1")).to_have_text("0 of 5 tasks ended", timeout=15_000)
    expect(page.locator("#notices")).to_be_hidden()
    assert told == []
    page.context.close()


@pytest.mark.thorough
def test_a_page_of_one_run_offers_the_one_that_goes_on(browser: Browser, tmp_path: Path) -> None:
    served = Served(tmp_path, OVER)
    served.add("run-begun", tasks=1)
    served.task(1)
    address, told = served.start(), list[str]()
    page = opened(browser, f"{address}&run={OVER}", told, viewport=PHONE)
    expect(page.locator("h1")).to_have_text("1 task passed", timeout=15_000)
    expect(page.locator("#newest")).to_be_hidden()
    served.run, served.events = RUN, events_of(tmp_path, RUN)
    owner_file(served.events).write_text(Owner.this().label, "utf-8")
    served.add("run-begun", tasks=7)
    page.get_by_role("button", name="Show the run that goes on").click(timeout=15_000)
    expect(page.locator("h1")).to_have_text("0 of 7 tasks ended", timeout=15_000)
    assert "run=" not in page.url
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert told == []
    page.context.close()
    served.end()


@pytest.mark.thorough
def test_a_task_that_runs_again_is_counted_once(browser: Browser, served: Served) -> None:
    served.add("run-begun", tasks=2)
    served.add("task-begun", "SHOP-0002", key="SHOP-0002", steps=3, worker="gw0")  # and gw0 dies
    served.task(1, code="NET_TIMEOUT")
    served.add("task-begun", "SHOP-0001", key="SHOP-0001", steps=3)
    served.add("task-begun", "SHOP-0002", key="SHOP-0002", steps=3, worker="gw1")
    address, told = served.start(), list[str]()
    page = opened(browser, address, told, viewport=DESKTOP)
    expect(page.locator("h1")).to_have_text("0 of 2 tasks ended", timeout=15_000)
    expect(page.locator("#now tbody tr")).to_have_count(2)
    served.task(1)
    served.add("task", "SHOP-0002", final_state="aborted", code="INTERRUPTED", seconds=1.0, retries=0, expected=False)
    expect(page.locator("h1")).to_have_text("1 of 2 tasks ended")
    expect(page.locator("#tiles .interrupted")).to_have_text("1interrupted")
    expect(page.locator("#tiles .running")).to_have_text("0running")
    assert told == []
    page.context.close()


@pytest.mark.thorough
def test_each_execution_of_a_campaign_counts(browser: Browser, tmp_path: Path) -> None:
    """`harness chaos` runs a task several times, and does not tell how many tasks there are."""
    served = Served(tmp_path, OVER)
    for code in ("", "NET_TIMEOUT", "", "NET_TIMEOUT"):
        served.task(1, code=code, faulted=bool(code))
    address, told = served.start(), list[str]()
    page = opened(browser, address, told, viewport=PHONE, color_scheme="dark")
    expect(page.locator("h1")).to_have_text("2 of 4 executions failed", timeout=15_000)
    expect(page.locator("#done tbody tr")).to_have_count(4)
    expect(page.locator("#causes .count")).to_have_text("1 task")
    expect(page.locator("#done .state").last).to_have_text("failed, under a fault")
    assert page.evaluate(CONTRASTS)["poor"] == []
    assert told == []
    page.context.close()
    served.end()
