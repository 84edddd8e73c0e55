"""States that exclude each other in a run of pytest: told where everything is told, and once."""

from __future__ import annotations

import json
from typing import Any

from tests.acceptance.conftest import Project
from tests.acceptance.supervised import free_base, pyproject

BLIND = """
import threading

from harness.pytest_plugin.state import STATE
from harness.services import coherence

coherence.LOOK, coherence.GRACE = 0.2, 0.4

def pytest_taskspec_event(event, config):
    if event.event.type == "task" and event.task_id == "A-1":
        harness = config.stash[STATE].harness()
        let_go = harness._harness.services._kept["demo"].let_go  # nobody looks after the sites any more
        loop = harness._loop._loop  # in the middle of the next task: its start would look after them again
        threading.Timer(1.5, lambda: loop.call_soon_threadsafe(let_go)).start()
"""
RULE = "Polling must be `running` if extension is `connected`"


def test_a_service_that_is_used_and_not_looked_after_any_more(project: Project) -> None:
    file = project.path / "pyproject.toml"
    file.write_text(pyproject(free_base()).replace("health =", "health_interval = 0.1\nhealth ="), "utf-8")
    (project.path / "conftest.py").write_text(BLIND, "utf-8")
    shop = {"act": "open", "url": "http://shop.local/"}
    project.task("A-1")
    project.task("B-2", steps=[shop, {"act": "wait", "value": 3}, {"act": "press", "value": "Home"}])
    run = project.run("--alluredir=allure")
    run.assert_outcomes(passed=2)
    words = "inconsistent: `demo` answers, but nobody is monitoring it any more"
    told = f"{words} (of=demo, server=up, extension=connected, polling=stopped, *"
    run.stdout.fnmatch_lines([told, "*= tasks =*", told])
    assert sum(line.startswith("inconsistent: ") for line in run.outlines) == 2, "once as it is seen, once at the end"
    text = (project.path / ".harness" / "events.jsonl").read_text("utf-8")
    (found,) = [each for each in map(json.loads, text.splitlines()) if each["type"] == "invariant-violated"]
    assert (found["rule"], found["level"], found["task_id"]) == (RULE, "WARNING", "")
    assert (found["states"]["polling"], found["states"]["service"]) == ("stopped", "up (health_ok)")
    assert "B-2" in found["states"]["tasks"]
    assert words in attached(project)


def attached(project: Project) -> str:
    """What the tests of Allure have of events."""
    folder = project.path / "allure"
    results: list[dict[str, Any]] = [json.loads(file.read_text("utf-8")) for file in folder.glob("*-result.json")]
    sources = [
        each["source"]
        for result in results
        for each in result.get("attachments", [])
        if each["name"] == "resilience events"
    ]
    return "\n".join((folder / source).read_text("utf-8") for source in sources)
