"""One run of agents that ask models, on a stranger's site; all outputs are read and show the same figures."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.reporting.history.reading import load_run, recent_runs
from tests.acceptance.conftest import INI
from tests.acceptance.model_server import model_server
from tests.acceptance.test_figures import site as site  # noqa: PLC0414 - a fixture
from tests.acceptance.warm import warm

ROOT = Path(__file__).parents[2]
AGENTS = """
from harness.model.inference import Prompt, ToolDefinition

CLICK = ToolDefinition("click", "Click.", {"type": "object", "properties": {"target": {"type": "string"}}})


class Asker:
    def __init__(self, models, model="priced"):
        self.models, self.model = models, model

    async def propose(self, plan, history, observe):
        if len(history) > 1:
            return None
        seen = await observe()
        await self.models.ask(self.model, Prompt("Click.", (seen.aria,), (CLICK,)))
        return {"act": "open", "url": plan.spec.inputs["page"]}


class Breaks:
    def propose(self, plan, history, observe):
        raise RuntimeError("a defect")
"""
SETTINGS = """
[tool.harness.agents.asker]
python = "asker:Asker"

[tool.harness.agents.guesser]
python = "asker:Asker"
options = {{ model = "unpriced" }}

[tool.harness.agents.breaks]
python = "asker:Breaks"
retry = 0
fallback = ["asker"]

[tool.harness.models.priced]
provider = "openai-compatible"
model = "m"
base_url = "{url}"
price = {{ input = 10, output = 100 }}
retry = {{ initial = 0.05 }}

[tool.harness.models.unpriced]
provider = "openai-compatible"
model = "o"
base_url = "{url}"
"""
TASKS: dict[str, dict[str, Any]] = {
    "A-RETRIED": {"agent": "asker"},
    "B-UNPRICED": {"agent": "guesser"},
    "C-TAKEN-OVER": {"agent": "breaks"},
    "D-FAILED": {"agent": "asker", "success_criteria": ["text('h1') == 'Elsewhere'"]},
}
CALLS, FAILED_CALLS, TOKENS_IN, TOKENS_OUT, COST, UNPRICED = 9, 1, 800, 80, 0.012, 2
BY_TASK = {"A-RETRIED": 3, "B-UNPRICED": 2, "C-TAKEN-OVER": 2, "D-FAILED": 2}


@pytest.fixture(scope="module")
def run(site: str, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """One run with its dashboard: the folder, and what the terminal showed."""
    folder = tmp_path_factory.mktemp("agents")
    with model_server() as server:
        server.refuses = 1
        (folder / "pyproject.toml").write_text(f"[tool.harness]\n{SETTINGS.format(url=server.base_url)}", "utf-8")
        (folder / "pytest.ini").write_text(INI, "utf-8")
        (folder / "asker.py").write_text(AGENTS, "utf-8")
        for task_id, spec in TASKS.items():
            document = {"task_id": task_id, "goal": task_id, "inputs": {"page": f"{site}/login"}, "timeout": 30}
            (folder / f"{task_id}.task.json").write_text(json.dumps({**document, **spec}), "utf-8")
        plain = {"task_id": "E-PLAIN", "goal": "none", "steps": [{"act": "open", "url": f"{site}/login"}]}
        (folder / "E-PLAIN.task.json").write_text(json.dumps(plain), "utf-8")
        asked = ("-v", "--alluredir=allure", "--junitxml=junit.xml", "--task-summary=summary.md", "--task-models=live")
        shown = warm().run("pytest", "-p", "no:cacheprovider", *asked, cwd=folder, timeout=120).stdout
    warm().run("tests.acceptance.command", "dashboard", "--output", "dashboard.html", cwd=folder, timeout=60)
    return SimpleNamespace(folder=folder, shown=shown)


def sums(found: dict[str, Any]) -> tuple[Any, ...]:
    names = ("calls", "failed_calls", "input_tokens", "output_tokens", "cost_usd", "unpriced_calls")
    return tuple(found[name] for name in names)


ALL = (CALLS, FAILED_CALLS, TOKENS_IN, TOKENS_OUT, COST, UNPRICED)


def test_terminal(run: SimpleNamespace) -> None:
    assert "models: 9 calls, 1 failed, 800 in, 80 out, $0.0120, 2 unpriced\n" in run.shown
    assert re.search(r"asker thought \d\.\d s \(priced, failed: MODEL_RATE_LIMITED\) \[A-RETRIED step 0\]", run.shown)
    assert re.search(r"guesser thought \d\.\d s \(unpriced, 100/10 tokens, unpriced\) \[B-UNPRICED step 1\]", run.shown)
    assert re.search(r"Retrying 1/3 in \d\.\d s: .*\[A-RETRIED step 0\]", run.shown)
    assert "agent asker goes on in place of breaks: " in run.shown


def test_metrics(run: SimpleNamespace) -> None:
    found = json.loads((run.folder / ".harness/metrics.json").read_text("utf-8"))["models"]
    assert sums(found) == ALL
    assert {name: used["calls"] for name, used in found["by_model"].items()} == {"priced": 7, "unpriced": 2}


def test_junit(run: SimpleNamespace) -> None:
    cases = ET.parse(run.folder / "junit.xml").getroot().iter("testcase")
    found = [{each.get("name"): each.get("value") for each in case.iter("property")} for case in cases]
    assert {each["task_id"]: int(each["model_calls"] or 0) for each in found if "model_calls" in each} == BY_TASK
    for name, total in (("input_tokens", TOKENS_IN), ("output_tokens", TOKENS_OUT), ("unpriced_calls", UNPRICED)):
        assert sum(int(each.get(name) or 0) for each in found) == total
    assert sum(float(each.get("cost_usd") or 0) for each in found) == pytest.approx(COST)
    assert {each["task_id"]: each["agent"] for each in found if "agent" in each}["C-TAKEN-OVER"] == "asker"
    assert next(each for each in found if each["task_id"] == "E-PLAIN").keys().isdisjoint({"agent", "model_calls"})


def test_allure(run: SimpleNamespace) -> None:
    results = [json.loads(path.read_text("utf-8")) for path in (run.folder / "allure").glob("*-result.json")]
    shown: Counter[str] = Counter()
    thinking = 0
    for each in results:
        values = {parameter["name"]: parameter["value"].strip("'") for parameter in each["parameters"]}
        for name in ("model calls", "input tokens", "output tokens", "unpriced calls"):
            shown[name] += int(values.get(name, 0))
        shown["cost"] += round(1e6 * float(values.get("cost (USD)", 0)))
        thinking += sum(" thought " in step["name"] for step in each["steps"])
    assert thinking == CALLS
    assert shown == {
        "model calls": CALLS,
        "input tokens": TOKENS_IN,
        "output tokens": TOKENS_OUT,
        "unpriced calls": UNPRICED,
        "cost": round(1e6 * COST),
    }
    labels = {label["value"] for each in results for label in each["labels"] if label["name"] in ("agent", "model")}
    assert labels == {"asker", "guesser", "breaks", "priced", "unpriced"}


def test_history(run: SimpleNamespace) -> None:
    (summary,) = recent_runs(run.folder)
    assert sums(summary.used.model_dump()) == ALL
    assert (summary.takeovers, summary.cost_per_success) == (1, None)  # two calls have no known price
    assert sums(load_run(run.folder).used.model_dump()) == ALL
    shown = warm().run("tests.acceptance.command", "history", cwd=run.folder, timeout=60).stdout.splitlines()
    assert shown[0].split()[-4:] == ["calls", "tokens", "cost", "commit"]
    assert shown[1].split()[-3:] == ["9", "880", "$0.0120+?"]


def test_dashboard(run: SimpleNamespace) -> None:
    page = (run.folder / "dashboard.html").read_text("utf-8")
    facts = dict(re.findall(r"<dt>([\w ]+)</dt><dd>([^<]*)</dd>", page))
    assert facts["calls of models"] == "9, 1 failed"
    assert facts["tokens"] == "800 in, 80 out"
    assert " ".join(facts["cost"].split()) == "$0.0120 2 calls unpriced"
    assert (facts["takeovers"], facts["tasks with an agent"], facts["cost per success"]) == (
        "1",
        "4, 3 passed",
        "not known",
    )
    assert page.count('class="thinking" x=') == CALLS


def test_summary_of_a_job(run: SimpleNamespace) -> None:
    text = (run.folder / "summary.md").read_text("utf-8")
    assert r"- models: 9 calls, 1 failed, 800 in, 80 out, \$0.0120, 2 unpriced" in text
    assert "- C-TAKEN-OVER: " in text


def test_report_of_a_failure(run: SimpleNamespace) -> None:
    folder = run.folder / "errors/D-FAILED"
    report = json.loads((folder / "error_report.json").read_text("utf-8"))
    assert (report["agent"], report["models_total"]["calls"], len(report["model_calls"])) == ("asker", 2, 2)
    schema = json.loads((ROOT / "schemas/error_report.schema.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(report)
    kept = run.folder / ".harness/agents"
    assert (folder / "trajectory.jsonl").read_bytes() == next(kept.glob("*/D-FAILED/trajectory.jsonl")).read_bytes()
    assert [*(folder / "snapshots").iterdir()]


def test_events(run: SimpleNamespace) -> None:
    lines = (run.folder / ".harness/events.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    answered = [each for each in found if each["type"] == "model-answered"]
    assert len([each for each in found if each["type"] == "model-asked"]) == len(answered) == CALLS
    assert sum(each["input_tokens"] for each in answered) == TOKENS_IN
    assert sum(each["cost_usd"] is None for each in answered) == UNPRICED
    ended = [used for each in found if each["type"] == "task" for used in each["models"].values()]
    assert sum(used["calls"] for used in ended) == CALLS


def test_trajectories(run: SimpleNamespace) -> None:
    found = {}
    schema = json.loads((ROOT / "schemas/trajectory.schema.json").read_text("utf-8"))
    for file in (run.folder / ".harness/agents").glob("*/*/trajectory.jsonl"):
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for line in lines:
            Draft202012Validator(schema).validate(line)
        found[lines[0]["task_id"]] = sum(len(line.get("asked", ())) for line in lines)
        assert all((file.parent / seen["file"]).is_file() for line in lines for seen in line.get("seen", ()))
    assert found == BY_TASK


def test_the_way_of_an_agent_in_the_terminal(run: SimpleNamespace) -> None:
    command = ("tests.acceptance.command", "show", "A-RETRIED", "--agent")
    shown = warm().run(*command, cwd=run.folder, timeout=60).stdout
    head, models, step, *rest = shown.splitlines()
    assert head.startswith("A-RETRIED completed in ")
    assert models == "  models: 3 calls, 1 failed, 200 in, 20 out, $0.0040"
    assert step.startswith("  step 0  asker: open http://127.0.0.1:")
    assert rest[0].startswith("      saw about:blank (snapshots/")
    assert rest[1].endswith(", $0.00, failed MODEL_RATE_LIMITED")
    assert rest[2].startswith("      asked priced, attempt 2: ")
    assert rest[3] == '      said click {"target": "none", "answer": 2}'
