"""Another agent goes on when one fails: with agents of a project, a real browser and a real shop."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import Struct

from tests.acceptance.conftest import Project

MODULE = '''
class Follows:
    """Does the steps of the file one after the other, and breaks at one of them."""

    def __init__(self, breaks=None, error=None):
        self.breaks, self.error = breaks, error

    def note(self, plan, history):
        with open("asked.txt", "a") as file:
            file.write(f"{plan.task_id} {plan.agent} {len(history)} {[each.agent for each in history[-1:]]}\\n")

    def propose(self, plan, history, observe):
        self.note(plan, history)
        if len(history) == self.breaks:
            raise RuntimeError(self.error)
        done = [each for each in history if each.passed]
        return plan.steps[len(done)] if len(done) < len(plan.steps) else None


class Knows(Follows):
    """Knows where the button is."""

    def propose(self, plan, history, observe):
        self.note(plan, history)
        if history and history[-1].passed and history[-1].agent == plan.agent:
            return None
        return {"act": "click", "selector": "#add-to-cart"}
'''
SETTINGS = """
[tool.harness.agents.follows]
python = "crew:Follows"
[tool.harness.agents.builder]
agent = "follows"
fallback = ["builder-simple", "manual"]
options = { breaks = 7, error = "the model is confused" }
[tool.harness.agents.builder-simple]
agent = "follows"
[tool.harness.agents.broken]
agent = "follows"
options = { breaks = 7, error = "no idea either" }
[tool.harness.agents.knows]
python = "crew:Knows"
[tool.harness.agents.waits]
python = "crew:Waits"
[tool.harness.agents.early]
agent = "follows"
fallback = ["anew"]
options = { breaks = 2, error = "lost" }
[tool.harness.agents.anew]
agent = "follows"
takeover = "restart"
[tool.harness.agents.weak]
agent = "follows"
options = { breaks = 0, error = "down" }
retry = 0
breaker = { failure_threshold = 1, reset_seconds = 3600 }
"""
ORDER: list[dict[str, Any]] = [
    {"act": "open", "url": "http://shop.local/product/WM-5521"},
    {"act": "wait", "selector": "#product-title"},
    {"act": "click", "selector": "#add-to-cart"},
    {"act": "click", "selector": "#checkout-button"},
    {"act": "wait", "selector": "#checkout-form"},
    {"act": "submit", "selector": "#checkout-form", "effect": "write"},
    {"act": "wait", "selector": "#order-id"},
    {"act": "assert", "selector": "#order-status", "value": "confirmed"},
]
ONE_ORDER = "json('env', 'shop.orders').length == 2"
"""The shop has one order from the start."""
BROKEN_SCRIPT = [ORDER[0], {"act": "click", "selector": "#buy-me"}]
IN_CART = "json('env', 'shop.cart.WM-5521.qty') == 1"


SLOW = '''
class Waits:
    """Calls for what never comes, and writes down how that is told."""

    def propose(self, plan, history, observe):
        if not history:
            return {"act": "open", "url": "http://shop.local/"}
        if len(history) == 1:
            return {"act": "wait", "selector": "#never"}
        failure = history[-1].failure
        with open("told.txt", "w") as file:
            file.write(f"{failure.code} {failure.type} {failure.retryable}")
        return None
'''


def crew(project: Project) -> None:
    (project.path / "crew.py").write_text(MODULE + SLOW, "utf-8")
    file = project.path / "pyproject.toml"
    file.write_text(file.read_text("utf-8") + SETTINGS, "utf-8")


class Played(Struct):
    """The one run that most tests look at."""

    folder: Path
    written: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Played:
    folder = tmp_path_factory.mktemp("crew")
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=folder)), sites)
    crew(project)
    project.task("B", steps=ORDER, agent="builder", success_criteria=[ONE_ORDER])
    project.task("E", steps=ORDER, agent="builder", agent_fallback=["broken", "manual"])
    project.task("S", steps=BROKEN_SCRIPT, agent_fallback=["knows"], success_criteria=[IN_CART])
    project.task("T", steps=[], agent="waits", step_timeout=1, success_criteria=["url() includes 'shop.local'"])
    project.task("A", steps=ORDER[:2], agent="early", success_criteria=["exists('#never')"])
    for name in ("W1", "W2"):
        project.task(name, steps=ORDER[:3], agent="weak", agent_fallback=["builder-simple"], success_criteria=[IN_CART])
    return Played(folder, project.play())


def asked(folder: Path, task_id: str) -> list[str]:
    """What the agents of a task were asked: `agent length-of-history [agent of the last record]`."""
    lines = (folder / "asked.txt").read_text("utf-8").splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{task_id} ")]


def results(folder: Path) -> dict[str, dict[str, Any]]:
    document = json.loads((folder / ".harness" / "last-run.json").read_text("utf-8"))
    return {each["task_id"]: each for each in document["results"]}


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / ".harness" / "events.jsonl").read_text("utf-8").splitlines()]


def test_fallback_a_agente_mas_simple(played: Played) -> None:
    assert "2 failed, 5 passed" in played.written
    # When se agota retry, then se intenta builder-simple: it goes on at step 7, and the shop has one order.
    assert asked(played.folder, "B")[7:] == ["builder 7 ['builder']"] * 2 + [
        "builder-simple 7 ['builder']",
        "builder-simple 8 ['builder-simple']",
    ]
    passed = results(played.folder)["B"]
    assert (passed["final_state"], passed["fallbacks"]) == ("completed", 1)
    (warning,) = (each for each in passed["warnings"] if each["type"] == "agent_fallback_used")
    assert {key: warning[key] for key in ("from", "to", "code", "step_index")} == {
        "from": "builder", "to": "builder-simple", "code": "AGENT_FAILED", "step_index": 7,
    }  # fmt: skip
    assert re.search("B step 7: `builder-simple` went on in place of `builder`:.*confused", played.written)
    # And si falla, se notifica al usuario: each agent, and how it failed.
    report = json.loads((played.folder / "errors/E/error_report.json").read_text("utf-8"))
    assert (report["code"], report["step_index"]) == ("AGENTS_EXHAUSTED", 7)
    tried = report["context"]["tried"]
    assert [(each["agent"], each["code"]) for each in tried] == [
        ("builder", "AGENT_FAILED"), ("broken", "AGENT_FAILED"), ("manual", "AGENT_UNAVAILABLE"),
    ]  # fmt: skip
    assert (
        "Every agent failed: `builder` at step 7 (AGENT_FAILED), `broken` at step 7 (AGENT_FAILED), `manual` at"
        in (report["error_message"])
    )
    assert "Every agent failed: `builder` at step 7 (AGENT_FAILED), `broken` at step 7" in played.written
    told = [event for event in events(played.folder) if event.get("task_id") in {"B", "E"}]
    retries = [event for event in told if event["type"] == "retry"]
    assert [(each["task_id"], each["name"]) for each in retries] == [
        ("B", "agent builder"), ("E", "agent builder"), ("E", "agent broken"),
    ]  # fmt: skip
    handed = [(each["task_id"], each["from"], each["to"]) for each in told if each["type"] == "fallback"]
    assert handed == [("B", "builder", "builder-simple"), ("E", "builder", "broken"), ("E", "broken", "manual")]


def test_the_trace_says_where_an_agent_began_anew_although_the_step_before_had_passed(played: Played) -> None:
    trace = json.loads((played.folder / "errors/A/partial_trace.json").read_text("utf-8"))
    notes = [(each["act"], each.get("agent"), each.get("note")) for each in trace["steps"]][:4]
    back = "ATTEMPT 1: SUCCESS; WENT BACK from step 1 to the checkpoint before step 0"
    assert notes == [("open", "early", None), ("wait", "early", back), ("open", "anew", None), ("wait", "anew", None)]


def test_an_agent_takes_over_where_a_script_broke(played: Played) -> None:
    assert asked(played.folder, "S") == ["knows 2 ['scripted']", "knows 3 ['knows']"]


@pytest.mark.thorough
def test_no_heal_refuses_that_an_agent_takes_over(project: Project) -> None:
    crew(project)
    project.task("S", steps=BROKEN_SCRIPT, agent_fallback=["knows"], success_criteria=[IN_CART])
    project.run("--task-no-heal").assert_outcomes(failed=1)
    assert project.report("S")["code"] == "ELEMENT_NOT_FOUND"


def test_an_agent_whose_circuit_is_open_is_passed_over_without_being_asked(played: Played) -> None:
    assert [line for line in asked(played.folder, "W1") if line.startswith("weak")] == ["weak 0 []"]
    assert not [line for line in asked(played.folder, "W2") if line.startswith("weak")]
    codes = [each["code"] for each in results(played.folder)["W2"]["warnings"] if each["type"] == "agent_fallback_used"]
    assert codes == ["AGENT_UNAVAILABLE"]


def test_timeout_en_tool_execution(played: Played) -> None:
    # Given un tool call ejecutándose, when excede its limit, then se cancela, y se clasifica como retryable.
    assert (played.folder / "told.txt").read_text("utf-8") == "STEP_TIMEOUT timeout_step True"
    failed = [event for event in events(played.folder) if event["type"] == "failed" and event["task_id"] == "T"]
    assert [each["code"] for each in failed] == ["STEP_TIMEOUT"]


COMPLETE = {
    "family": "B",
    "inputs": {},
    "error_recovery": {
        "on_timeout": "abort",
        "on_network_error": "abort",
        "on_assertion_fail": "abort_silent",
        "on_element_not_found": "abort",
    },
}
"""What a strict run wants in a file."""


def test_strict_runs_refuse_a_takeover(project: Project) -> None:
    crew(project)
    project.task("B", steps=ORDER, agent="builder", success_criteria=[ONE_ORDER], **COMPLETE)
    strict = project.run("--taskspec-strict")
    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines(["tasks: 1: 1 refused takeover", "*B was ended by the agent `builder-simple`*"])


@pytest.mark.thorough
def test_without_recovery_no_agent_goes_on(project: Project) -> None:
    crew(project)
    project.task("B", steps=ORDER, agent="builder", success_criteria=[ONE_ORDER])
    project.run("--task-no-recovery").assert_outcomes(failed=1)
    assert project.report("B")["code"] == "AGENT_FAILED"
    assert len(asked(project.path, "B")) == 8


STRANGER = """
[tool.harness]
isolation = "reset"
agent = "buyer"
[tool.harness.services.shop]
command = ["{python}", "app.py", "--port", "{port}"]
hosts = ["shop.test"]
health = "http://shop.test/health"
[tool.harness.channels.state]
url = "http://shop.test/test-state"
[tool.harness.agents.buyer]
python = "buying:Buyer"
fallback = ["finisher"]
[tool.harness.agents.finisher]
python = "buying:Finisher"
"""
BUYING = '''
class Buyer:
    """Orders the pen, and then does not know what to do."""

    def propose(self, plan, history, observe):
        if not history:
            return {"act": "open", "url": "http://shop.test/buy?item=pen"}
        if len(history) == 1:
            return {"act": "click", "selector": "#post"}
        raise ValueError(f"what is {observe().url}?")


class Finisher:
    def propose(self, plan, history, observe):
        ordered = any(each.passed and each.wrote for each in history)
        if not ordered:
            return {"act": "click", "selector": "#post"}
        return None if history[-1].agent == "finisher" else {"act": "wait", "selector": "body"}
'''


def test_on_the_site_of_a_stranger_the_order_is_placed_once(project: Project) -> None:
    shutil.copy(Path(__file__).with_name("stranger_app.py"), project.path / "app.py")
    (project.path / "pyproject.toml").write_text(STRANGER, "utf-8")
    (project.path / "buying.py").write_text(BUYING, "utf-8")
    project.task("PEN", steps=[], success_criteria=["json('state', 'orders').length == 1"])
    found = project.run()
    found.assert_outcomes(passed=1)
    found.stdout.fnmatch_lines(["*PEN step 2: `finisher` went on in place of `buyer`*"])
