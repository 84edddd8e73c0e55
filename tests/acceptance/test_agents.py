"""Agents as users plug them in, with a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.acceptance.conftest import Project

DOCUMENT = Path(__file__).parents[2] / "docs" / "agents.md"
SHOP = "http://shop.local/"
QUICK = {"on_element_not_found": {"wait_seconds": 1}, "on_action_failed": "abort"}


def agent(project: Project, body: str, **settings: Any) -> None:
    """The project's only agent: a method `propose` with this body."""
    lines = "\n".join(f"        {line}" for line in body.strip("\n").splitlines())
    text = f"import time\n\n\nclass Mine:\n    def propose(self, plan, history, observe):\n{lines}\n"
    (project.path / "my_agent.py").write_text(text, "utf-8")
    more = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    extend(project, f'[tool.harness.agents.mine]\npython = "my_agent:Mine"\n{more}')


def extend(project: Project, toml: str) -> None:
    path = project.path / "pyproject.toml"
    path.write_text(f"{path.read_text('utf-8')}\n{toml}", "utf-8")


def ended(project: Project, task_id: str = "T", *args: str, **spec: Any) -> dict[str, Any]:
    """The error report of a task without steps that fails."""
    project.task(task_id, steps=[], **{"error_recovery": QUICK, **spec})
    project.run(*args).assert_outcomes(failed=1)
    return project.report(task_id)


def block(language: str, text: str) -> str:
    """The block of the document that contains this text."""
    return next(each for each in blocks(language) if text in each)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.thorough
def test_the_agent_of_the_documentation_passes_its_task(project: Project) -> None:
    (project.path / "goal_words.py").write_text(blocks("python")[0], "utf-8")
    extend(project, blocks("toml")[0])
    (project.path / "buy.task.yaml").write_text(blocks("yaml")[0], "utf-8")
    project.run().assert_outcomes(passed=1)


THEIRS = f"""
class Theirs:
    async def propose(self, plan, history, observe):
        seen = await observe()
        return None if seen.title.startswith('Home') else {{'act': 'open', 'url': '{SHOP}'}}
"""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> tuple[Project, str]:
    """One run of tasks with an agent each, and what it said."""
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=tmp_path_factory.mktemp("agents"))), sites)
    (project.path / "goal_words.py").write_text(blocks("python")[0], "utf-8")
    extend(project, block("toml", "[tool.harness.agents.builder-simple]"))
    (project.path / "buy.task.yaml").write_text(block("yaml", "BUY-WITH-STEPS"), "utf-8")
    (project.path / "their_agent.py").write_text(THEIRS, "utf-8")
    package = project.path / "theirs-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", "utf-8")
    (package / "entry_points.txt").write_text("[harness.agents]\ntheirs = their_agent:Theirs\n", "utf-8")
    project.task("THEIRS", agent="theirs", steps=[], success_criteria=["title() matches 'Home'"])
    agent(project, "raise LookupError('no model')")
    project.task("RAISES", agent="mine", steps=[], error_recovery=QUICK)
    extend(project, "[tool.harness.agents.monkey]\noptions = { steps = 5, quiet = 0.1 }\n")
    (project.path / "monkey.task.yaml").write_text(f"{blocks('yaml')[-1]}agent: monkey\n", "utf-8")
    return project, project.play("-v")


@pytest.mark.parametrize("task", ["BUY-WITH-STEPS", "THEIRS", "MONKEY"])
def test_the_agents_of_the_documentation_an_installed_one_and_the_monkey_pass_their_tasks(
    several: tuple[Project, str], task: str
) -> None:
    """The installed one is found by its entry point."""
    assert f"::{task} PASSED" in several[1], several[1]


def test_the_agent_of_the_documentation_goes_on_where_a_step_broke(several: tuple[Project, str]) -> None:
    said = " ".join(several[1].split())
    assert "BUY-WITH-STEPS step 1: `builder` went on in place of `scripted`: " in said
    assert "#renamed-since" in said


def test_an_agent_that_raises_is_to_blame_and_its_stack_trace_is_kept(several: tuple[Project, str]) -> None:
    report = several[0].report("RAISES")
    assert (report["code"], report["error_type"]) == ("AGENT_FAILED", "unknown")
    place = "my_agent.py:6, in propose: raise LookupError('no model')"
    assert report["error_message"] == f"Agent `mine` failed: LookupError: no model ({place})"
    assert "my_agent.py" in report["stack_trace"]


LOADED = """
import sys

def pytest_unconfigure():
    print("loaded:", *sys.modules)
"""
OF_AGENTS = ("harness.models", "harness.agents.llm", "pydantic_ai", "openai", "anthropic", "genai_prices")


@pytest.mark.thorough  # tests/unit/agents/test_registry.py makes the agents of such settings, and looks too
def test_a_run_without_agents_imports_nothing_of_them(project: Project) -> None:
    """Though the settings have models and agents: none of the tasks names one."""
    models = (
        '[tool.harness.models.claude]\nprovider = "anthropic"\nmodel = "claude-haiku-4-5"\nkey = "${env:CLAUDE_KEY}"\n'
    )
    extend(project, models + '[tool.harness.agents.builder]\nagent = "llm"\noptions = { model = "claude" }\n')
    (project.path / "conftest.py").write_text(LOADED, "utf-8")
    project.task("T")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-s"]
    found = subprocess.run(command, cwd=project.path, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    loaded = set(found.stdout.partition("loaded:")[2].split())
    assert "harness.runner.harness" in loaded
    assert loaded.isdisjoint(OF_AGENTS)


@pytest.mark.thorough
def test_the_command_line_gives_an_agent_tasks_that_have_steps(project: Project) -> None:
    (project.path / "goal_words.py").write_text(blocks("python")[0], "utf-8")
    extend(project, blocks("toml")[0])
    goal = f"Go to {SHOP}, choose SteelSeries QcK and press Add to cart"
    project.task("T", goal=goal, success_criteria=["text('#cart-count') == '1'"])
    project.run().assert_outcomes(failed=1)
    project.run("--agent", "words").assert_outcomes(passed=1)


@pytest.mark.thorough
def test_an_agent_that_is_late_does_not_hold_up_the_end(project: Project) -> None:
    agent(project, "time.sleep(600)", timeout=0.5)
    report = ended(project)
    assert report["code"] == "AGENT_TIMEOUT"
    assert "within 0.5s" in report["error_message"]


@pytest.mark.thorough
def test_an_agent_that_cannot_be_made_says_why(project: Project) -> None:
    extend(project, '[tool.harness.agents.mine]\npython = "not_there:Mine"\n')
    report = ended(project)
    assert report["code"] == "AGENT_UNAVAILABLE"
    assert "there is no module `not_there`" in report["error_message"]
    assert "[tool.harness.agents]" in report["hint"]


def test_an_agent_of_the_settings_that_there_is_not_is_told_before_anything_runs(project: Project) -> None:
    path = project.path / "pyproject.toml"
    path.write_text(path.read_text("utf-8").replace("[tool.harness]", '[tool.harness]\nagent = "wrds"'), "utf-8")
    project.task("T")
    found = project.run()
    found.stderr.fnmatch_lines(["*There is no agent `wrds`*"])
    assert found.parseoutcomes() == {}


def test_of_several_agents_none_is_chosen_and_the_hint_names_them(project: Project) -> None:
    extend(project, '[tool.harness.agents.words]\npython = "a:B"\n[tool.harness.agents.mine]\npython = "a:C"\n')
    project.task("T", steps=[])
    found = project.run()
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(['*there are 2 agents (words, mine): set agent = "words" in [[]tool.harness]*'])


@pytest.mark.thorough
def test_the_monkey_begins_where_the_tasks_own_steps_do(project: Project) -> None:
    extend(project, "[tool.harness.agents.monkey]\noptions = { steps = 2, quiet = 0.1 }\n")
    project.task("T", success_criteria=["url() matches 'shop.local'"])
    project.task("N", steps=[])
    found = project.run("--agent", "monkey")
    found.assert_outcomes(passed=1, failed=1)
    report = project.report("N")
    assert report["code"] == "AGENT_FAILED"
    assert report["error_message"].startswith("the monkey has no page to begin with: ")


@pytest.mark.thorough
def test_invalid_steps_are_in_the_trace_and_the_third_ends_the_task(project: Project) -> None:
    agent(project, f"return {{'act': 'clik' if history else 'open', 'url': '{SHOP}'}}")
    report = ended(project)
    assert report["code"] == "AGENT_INVALID_STEP"
    assert "did you mean `click`?" in report["error_message"]
    trace = json.loads((project.path / "errors" / "T" / "partial_trace.json").read_text("utf-8"))
    assert [line["act"] for line in trace["steps"]] == ["open", "invalid", "invalid", "invalid"]


@pytest.mark.thorough
def test_the_same_failing_step_three_times_is_stuck(project: Project) -> None:
    agent(project, f"return {{'act': 'click', 'selector': '#no'}} if history else {{'act': 'open', 'url': '{SHOP}'}}")
    report = ended(project)
    assert (report["code"], report["step_index"]) == ("AGENT_STUCK", 3)


@pytest.mark.thorough
def test_thirty_steps_and_no_more(project: Project) -> None:
    agent(
        project, f"return {{'act': 'scroll', 'value': len(history)}} if history else {{'act': 'open', 'url': '{SHOP}'}}"
    )
    report = ended(project)
    assert report["code"] == "BUDGET_EXCEEDED"
    assert (
        "`max_steps` allows 30 steps, the usual number for agents, and another one was to begin"
        in report["error_message"]
    )


@pytest.mark.thorough
def test_recovery_is_for_the_agents_steps_too(project: Project) -> None:
    body = f"""
steps = [
    {{"act": "open", "url": "{SHOP}"}},
    {{"act": "type", "selector": "#serch", "value": "tea"}},
]
return steps[len(history)] if len(history) < len(steps) else None
"""
    agent(project, body)
    rules = {
        "on_network_error": {"strategy": "retry", "max_retries": 3, "retry_delay_ms": 100},
        "on_element_not_found": {
            "strategy": "try_fallback_selector",
            "wait_seconds": 1,
            "fallback_selectors": {"#serch": ["#search-box"]},
        },
    }
    expect = {"final_state": "completed", "warnings": ["network_error_recovered", "fallback_selector_used"]}
    project.task(
        "T",
        steps=[],
        error_recovery=rules,
        faults=[{"kind": "refuse", "step": 0, "host": "shop.local", "connections": 1}],
        success_criteria=["value('#search-box') == 'tea'"],
        expect=expect,
    )
    project.run().assert_outcomes(passed=1)


@pytest.mark.thorough
def test_a_write_of_the_agent_is_not_done_twice(project: Project) -> None:
    """The shop breaks the connection off after it has taken the article: nobody can tell."""
    body = f"""
if not history:
    return {{"act": "open", "url": "{SHOP}product/MP-6001"}}
return {{"act": "submit", "selector": "#add-form"}}
"""
    agent(project, body)
    faults = [{"kind": "hang", "step": 1, "url": "http://shop.local/cart*"}]
    report = ended(project, faults=faults, step_timeout=2)
    assert report["code"] == "OUTCOME_UNKNOWN"
    trace = json.loads((project.path / "errors" / "T" / "partial_trace.json").read_text("utf-8"))
    assert [line["act"] for line in trace["steps"]] == ["open", "submit"]


@pytest.mark.thorough
def test_the_monkey_does_the_same_for_the_same_seed(project: Project) -> None:
    extend(project, "[tool.harness.agents.monkey]\noptions = { steps = 8, quiet = 1.0 }\n")

    def steps(task_id: str, seed: int) -> list[Any]:
        expect = {"success_criteria": ["exists('#never')"], "allowed_domains": ["shop.local"], "timeout": 100}
        report = ended(project, task_id, "--agent", "monkey", f"{task_id}.task.json", seed=seed, goal=SHOP, **expect)
        assert report["code"] == "CRITERIA_UNMET", report["error_message"]
        trace = json.loads((project.path / "errors" / task_id / "partial_trace.json").read_text("utf-8"))
        lines = [line for line in trace["steps"] if line["step_index"] < 8]
        return [(line["act"], line.get("note"), line.get("value"), line["step_index"]) for line in lines]

    first, again, other = steps("A", 7), steps("B", 7), steps("C", 8)
    assert first[0][0] == "open"
    assert len({step[-1] for step in first}) == 8
    assert first == again
    assert first != other
