"""What an agent asks a model is recorded and replayed, and faults strike the answers, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.models.cassettes import RecordedExchange, read
from tests.acceptance.conftest import Project
from tests.acceptance.model_server import ModelServer, model_server
from tests.acceptance.warm import warm

AGENT = """
from harness.model.inference import Prompt, ToolDefinition

CLICK = ToolDefinition("click", "Click.", {"type": "object", "properties": {"target": {"type": "string"}}})


class Buyer:
    def __init__(self, models):
        self.models = models

    async def propose(self, plan, history, observe):
        if not history:
            return {"act": "open", "url": "http://shop.local/product/WM-5521"}
        if len(history) > 1:
            return None
        seen = await observe()
        prompt = Prompt("Click one element.", (f"Goal: {plan.spec.goal}", seen.aria), (CLICK,))
        answer = await self.models.ask("claude", prompt)
        return {"act": "click", "selector": f"aria-ref={answer.calls[0].arguments['target']}"}
"""
SETTINGS = """
[tool.harness.agents.buyer]
python = "buyer:Buyer"

[tool.harness.models.claude]
provider = "openai-compatible"
model = "m"
base_url = "{base_url}"
key = "${{env:MODEL_KEY}}"
fallback = ["other"]
limits = {{ first_token = 0.5, idle = 0.5, total = 20 }}
retry = {{ initial = 0.05 }}

[tool.harness.models.other]
provider = "openai-compatible"
model = "o"
base_url = "{base_url}"
key = "${{env:MODEL_KEY}}"
"""
KEY, WORD = "sk-planted-key-0815", "planted-word-4711"
KINDS = {
    "model_slow_first_token": "MODEL_TIMEOUT",
    "model_stall": "MODEL_TIMEOUT",
    "model_cut": "MODEL_GARBLED",
    "model_bad_arguments": "MODEL_GARBLED",
    "model_unknown_tool": "MODEL_GARBLED",
    "model_refusal": "MODEL_REFUSED",
    "model_overflow": "MODEL_CONTEXT_OVERFLOW",
    "model_empty": "MODEL_GARBLED",
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture
def shop(project: Project, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("MODEL_KEY", KEY)
    monkeypatch.setenv("WORD", WORD)
    monkeypatch.delenv("CI", raising=False)
    (project.path / "buyer.py").write_text(AGENT, "utf-8")
    file = project.path / "pyproject.toml"
    file.write_text(file.read_text("utf-8") + SETTINGS.format(base_url=server.base_url), "utf-8")
    buy(project, "BUY")
    return project


def buy(project: Project, task_id: str, goal: str = "Buy a mouse, ${env:WORD}", **more: Any) -> None:
    document = {
        "task_id": task_id,
        "goal": goal,
        "agent": "buyer",
        "success_criteria": ["json('env', 'shop.cart.WM-5521.qty') == 1"],
        **more,
    }
    (project.path / f"{task_id}.task.yaml").write_text(yaml.safe_dump(document), "utf-8")


def recorded(project: Project, task_id: str = "BUY") -> tuple[RecordedExchange, ...]:
    return read(project.path / "cassettes" / task_id / "buyer.jsonl")


def without_network(project: Project) -> None:
    """From now on nothing listens where the models are."""
    file = project.path / "pyproject.toml"
    text = file.read_text("utf-8")
    port = text.partition('base_url = "http://127.0.0.1:')[2].partition("/")[0]
    file.write_text(text.replace(f":{port}/v1", ":9/v1"), "utf-8")


def chaos(project: Project, *args: str, **environment: str) -> dict[str, Any]:
    """The document of a campaign."""
    arguments = ("chaos", ".", "--faults", "all.faults.yaml", "--json", "chaos.json", *args)
    done = warm().run("tests.acceptance.command", *arguments, cwd=project.path, timeout=200, **environment)
    assert (project.path / "chaos.json").is_file(), done.stdout + done.stderr
    document: dict[str, Any] = json.loads((project.path / "chaos.json").read_text("utf-8"))
    return document


def planted_in(folder: Path) -> list[Path]:
    """The files that have the key or the word; the run's own folders included."""
    files = (each for each in folder.rglob("*") if each.is_file())
    return [each for each in files if any(word.encode() in each.read_bytes() for word in (KEY, WORD))]


def test_a_run_is_replayed_without_the_server(
    shop: Project, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.refuses = 1
    shop.run("--models", "record").assert_outcomes(passed=1)
    assert [each.status for each in recorded(shop)] == [429, 200]
    assert [each.headers.get("retry-after") for each in recorded(shop)] == ["0.2", None]
    assert planted_in(shop.path) == []

    without_network(shop)
    shop.run("--task-models", "replay").assert_outcomes(passed=1)
    assert len(server.asked) == 2
    (trajectory,) = sorted((shop.path / ".harness/agents").glob("*/BUY/trajectory.jsonl"))[-1:]
    calls = [call for line in trajectory.read_text("utf-8").splitlines() for call in json.loads(line).get("asked", ())]
    assert [(call["replayed"], call["cost"], call["recording"]) for call in calls] == [
        (True, 0.0, each.key) for each in recorded(shop)
    ]

    buy(shop, "BUY", "Buy a house, ${env:WORD}")
    monkeypatch.setenv("CI", "true")  # nothing but recordings answers
    shop.run().assert_outcomes(failed=1)
    report = shop.report("BUY")
    assert report["code"] == "MODEL_CASSETTE_MISS"
    assert "Buy a mouse" in report["error_message"]
    assert "now " in report["error_message"]
    assert "Buy a house" in report["error_message"]
    assert "cassettes/BUY/buyer.jsonl" in report["error_message"]
    assert planted_in(shop.path) == []


@pytest.mark.thorough
def test_workers_record_each_task_and_case_in_a_file_of_its_own(shop: Project, server: ModelServer) -> None:
    buy(shop, "CASES", "Buy ${param.what}", parametrize={"what": ["one", "two"]})
    shop.run("-n", "2", "--task-workers", "2", "--models", "auto").assert_outcomes(passed=3)
    files = {file.parent.name: read(file) for file in (shop.path / "cassettes").glob("*/buyer.jsonl")}
    assert len(files) == 3
    assert all(len(exchanges) == 1 for exchanges in files.values())
    assert not list((shop.path / "cassettes").rglob(".*"))
    asked = len(server.asked)
    shop.run("-n", "2", "--models", "auto").assert_outcomes(passed=3)
    assert len(server.asked) == asked


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kinds",
    [("model_cut",), pytest.param(tuple(KINDS), marks=pytest.mark.thorough)],
    ids=["one", "all"],
)
def test_every_fault_of_a_model_is_recovered_from(shop: Project, server: ModelServer, kinds: tuple[str, ...]) -> None:
    faults = [
        {"kind": kind, "id": kind, "times": 1, "expect": {"code": KINDS[kind], "recovered": True}} for kind in kinds
    ]
    (shop.path / "all.faults.yaml").write_text(yaml.safe_dump({"faults": faults, "gate": {"recovery": 0.9}}), "utf-8")
    found = chaos(shop, "--trials", "1")
    trials = [trial for cell in found["cells"] for trial in cell["trials"]]
    assert {each["fault"]: each["seen"] for each in trials} == {kind: KINDS[kind] for kind in kinds}
    assert [(each["fault"], each["struck"], each["reached"]) for each in trials] == [(kind, 1, True) for kind in kinds]
    assert found["unmet"] == []


@pytest.mark.thorough
def test_three_trials_are_three_recordings(shop: Project, server: ModelServer) -> None:
    fault = {"kind": "model_cut", "times": 1, "expect": {"code": "MODEL_GARBLED", "recovered": True}}
    (shop.path / "all.faults.yaml").write_text(yaml.safe_dump({"faults": [fault]}), "utf-8")
    file = shop.path / "pyproject.toml"
    file.write_text(file.read_text("utf-8") + '\n[tool.harness.cassettes]\nmode = "record"\n', "utf-8")
    chaos(shop, "--trials", "3")
    assert {each.trial for each in recorded(shop)} == {0, 1, 2}
    assert len({each.body for each in recorded(shop)}) == 3
    without_network(shop)
    file.write_text(file.read_text("utf-8").replace('mode = "record"', 'mode = "replay"'), "utf-8")
    asked = len(server.asked)
    assert chaos(shop, "--trials", "3")["unmet"] == []
    assert len(server.asked) == asked


@pytest.mark.thorough
def test_a_broken_recording_is_named(shop: Project, server: ModelServer) -> None:
    shop.run("--models", "record").assert_outcomes(passed=1)
    file = shop.path / "cassettes/BUY/buyer.jsonl"
    file.write_text(file.read_text("utf-8") + "{}\n", "utf-8")
    checked = warm().run("tests.acceptance.command", "validate", ".", cwd=shop.path)
    assert checked.returncode == 1
    assert "cassettes/BUY/buyer.jsonl:2: is not a recorded exchange" in checked.stdout
    shop.run("--models", "replay").assert_outcomes(failed=1)
    assert "cassettes/BUY/buyer.jsonl:2: is not a recorded exchange" in shop.report("BUY")["error_message"]
    assert len(server.asked) == 1
