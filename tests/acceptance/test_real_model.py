"""The agent `llm` with a real language model that cannot do the task: what it says ends as the agent's failure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from tests.acceptance.conftest import Project
from tests.acceptance.documented import ROOT
from tests.acceptance.real_model import real_model

SETTINGS = """
[tool.harness.models.smollm2]
provider = "{provider}"
model = "smollm2"
base_url = "{address}"
max_output = 48
limits = {{ first_token = 240, idle = 120, total = 300 }}
retry = {{ retries = 0 }}
price = {{ input = 1, output = 1 }}

[tool.harness.agents.builder]
agent = "llm"
options = {{ model = "smollm2", max_chars = 1000, looks = 0 }}
"""
TASK = ROOT / "tasks/agents/B1-2025-001-AGENT.task.yaml"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with real_model() as running:
        yield running


def counted(address: str) -> dict[str, int]:
    """What the server has counted since its start: name -> number of tokens."""
    with urlopen(f"{address}/metrics") as answer:
        lines = answer.read().decode()
    return {
        name: int(float(number)) for name, number in re.findall(r"^llamacpp:(\w+_total) (\S+)$", lines, re.MULTILINE)
    }


@pytest.mark.thorough
@pytest.mark.parametrize(("provider", "path"), [("openai-compatible", "/v1"), ("anthropic", "")])
def test_a_model_without_skill_is_the_failure_of_the_agent(
    project: Project, address: str, provider: str, path: str
) -> None:
    file = project.path / "pyproject.toml"
    settings = SETTINGS.format(provider=provider, address=address + path)
    file.write_text(file.read_text("utf-8") + settings, "utf-8")
    document = yaml.safe_load(TASK.read_text("utf-8"))
    document |= {"timeout": 900, "budget": {"max_steps": 10, "max_model_calls": 20}}
    (project.path / "B1.task.yaml").write_text(yaml.safe_dump(document), "utf-8")
    before = counted(address)

    project.run(timeout=1000).assert_outcomes(failed=1)

    report = project.report(document["task_id"])
    assert report["code"].startswith(("AGENT_", "MODEL_")), report
    calls = asked(project)
    used = {name: number - before[name] for name, number in counted(address).items()}
    assert calls
    assert not any(call["usage"]["estimated"] for call in calls)
    assert sum(call["usage"]["output"] for call in calls) == used["tokens_predicted_total"]
    assert sum(call["usage"]["input"] - call["usage"]["cache_read"] for call in calls) == used["prompt_tokens_total"]


def asked(project: Project) -> list[dict[str, Any]]:
    """The requests of the run, as the ledger has them."""
    (file,) = (project.path / ".harness/agents").glob("*/*/trajectory.jsonl")
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [call for line in lines for call in line.get("asked", ())]
