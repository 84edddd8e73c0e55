"""Sites that are killed, restarted, crash or find their port taken in the middle of tasks; with and without xdist."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.supervised import free_base, pyproject, site_pid

CART = "json('env', 'shop.cart.WM-5521.qty') == 1"
ADD = {"act": "click", "selector": "#add-to-cart", "effect": "write", "done_when": CART}


@pytest.fixture
def base(project: Project) -> int:
    base = free_base()
    (project.path / "pyproject.toml").write_text(pyproject(base), "utf-8")
    return base


def shopping(project: Project, task_id: str, *faults: dict[str, Any]) -> Path:
    """The cart is filled, its site is struck, and the cart is looked at: it must be as it was."""
    steps = [
        {"act": "open", "url": "http://shop.local/product/WM-5521"},
        ADD,
        {"act": "open", "url": "http://shop.local/cart"},
        {"act": "wait", "selector": ".cart-item"},
    ]
    return project.task(
        task_id,
        steps=steps,
        faults=list(faults),
        success_criteria=[CART],
        error_recovery={"on_network_error": {"strategy": "exponential_backoff", "max_retries": 5}},
    )


def killed(kind: str = "service_killed", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "service": "demo", "step": 2, **more}


def log(project: Project) -> list[str]:
    text = (project.path / ".harness" / "logs" / "demo.log").read_text("utf-8")
    return [line for line in text.splitlines() if line.startswith("[harness]")]


def eventually(check: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := check():
            return found
        time.sleep(0.05)
    return None


def left_behind(project: Project) -> list[str]:
    lines = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if process.info["cwd"] == str(project.path) and process.pid != os.getpid():
            lines.append(" ".join(process.info["cmdline"] or ()))
    return lines


@pytest.mark.thorough
def test_a_killed_a_restarted_and_a_displaced_site_come_back_with_their_state(project: Project, base: int) -> None:
    files = [
        shopping(project, "A-KILLED", killed()),
        shopping(project, "B-RESTARTED", killed("service_restarted")),
        shopping(project, "C-DISPLACED", killed("port_taken", seconds=2)),
        shopping(project, "D-AGAIN", killed(times=2)),
        shopping(project, "E-AFTERWARDS"),
    ]
    result = project.run(*map(str, files))
    result.assert_outcomes(passed=5)
    assert "inconsistent: " not in result.stdout.str()
    assert log(project) == ["[harness] ended on purpose: started again"] * 5
    assert site_pid(base) is None
    assert left_behind(project) == []


@pytest.mark.thorough
def test_workers_kill_what_their_controller_keeps(project: Project, base: int) -> None:
    looks = [{"act": "open", "url": f"http://shop.local{path}"} for path in ("/", "/cart", "/orders", "/")]
    patient = {"on_network_error": {"strategy": "exponential_backoff", "max_retries": 6}}
    files = [project.task(f"T-{number}", steps=looks, faults=[killed()], error_recovery=patient) for number in range(4)]
    (project.path / "test_z_idle.py").write_text(IDLE.format(base=base), "utf-8")
    result = project.run("-n", "2", *map(str, files), "test_z_idle.py")
    result.assert_outcomes(passed=5)
    assert "inconsistent: " not in result.stdout.str()
    notes = log(project)
    assert notes.count("[harness] ended on purpose: started again") >= 2  # two kills may meet one process
    assert notes.count("[harness] crash 1 of 3: started again") == 1
    assert site_pid(base) is None
    assert left_behind(project) == []


IDLE = """
import os, signal, time
from tests.acceptance.supervised import site_pid

def pid(but=None):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = site_pid({base})
        if found and found != but:
            return found
        time.sleep(0.05)

def test_a_crash_while_no_task_runs_here_is_healed_too():
    first = pid()
    os.kill(first, signal.SIGKILL)
    assert pid(but=first)
"""


def test_a_site_that_others_have_started_is_not_killed(project: Project) -> None:
    shopping(project, "T-1", killed())
    project.run("T-1.task.json").assert_outcomes(failed=1)
    report = project.report("T-1")
    assert report["code"] == "INVALID_INPUT"
    assert re.search(r"service `demo` was not ended, because this run did not start it: it is pid \d+ \(", str(report))


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "1"), marks=pytest.mark.thorough)])
def test_the_third_crash_is_permanent_and_the_next_task_says_so(
    project: Project, base: int, workers: tuple[str, ...]
) -> None:
    waits = [{"act": "wait", "value": 4}, {"act": "open", "url": "http://shop.local/"}]
    once = {"on_network_error": {"strategy": "retry", "max_retries": 1, "retry_delay_ms": 100}}
    project.task("A-1", steps=[*waits * 4], error_recovery=once)
    project.task("B-2")
    run = project.start(*workers, "A-1.task.json", "B-2.task.json")
    before: int | None = None
    services = project.path / ".harness" / "services"
    owned = lambda: [each.read_text("utf-8") for each in services.glob("*/demo.owner.json")]  # noqa: E731
    assert eventually(lambda: any('"up"' in text for text in owned())), "the sites were not started"
    for _ in range(3):
        pid = eventually(lambda: (found := site_pid(base)) != before and found)  # noqa: B023 - called at once
        assert pid, "it was not started again"
        os.kill(pid, signal.SIGKILL)
        before = pid
    output, _ = run.communicate(timeout=120)
    assert run.returncode == 1
    report = project.report("B-2")
    assert (report["code"], report["severity"], report["step_index"]) == ("SERVICE_DOWN", "critical", -1)
    message = report["error_message"]
    assert "service `demo` is permanently_failed: it crashed 3 times within 5 minutes" in message, output
    assert "demo.log" in message
    assert log(project)[-1] == "[harness] crash 3 of 3: permanently_failed"
    assert left_behind(project) == []
