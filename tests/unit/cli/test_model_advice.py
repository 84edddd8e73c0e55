"""`harness validate` on the models that a task's agents ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.validate import check_paths

SETTINGS = """
[tool.harness.models.claude]
provider = "anthropic"
model = "claude-haiku-4-5"
key = "${env:PLANTED_CLAUDE}"
fallback = ["local"]

[tool.harness.models.local]
provider = "openai-compatible"
base_url = "http://127.0.0.1:1/v1"
model = "no-model-of-this-name"

[tool.harness.models.other]
provider = "openai"
model = "gpt-4o"
key = "${env:PLANTED_OTHER}"

[tool.harness.agents.builder]
python = "no:Where"
options = { model = "claude" }
"""


def problems(folder: Path, budget: str = "") -> list[str]:
    (folder / "pyproject.toml").write_text(SETTINGS, "utf-8")
    (folder / "a.task.yaml").write_text(f"task_id: A\ngoal: g\n{budget}success_criteria: ['1 == 1']\n", "utf-8")
    found = check_paths([folder / "a.task.yaml"], strict=False).problems
    return [f"{each.severity} {Path(each.file).name} {each.path}: {each.message}" for each in found]


def test_a_key_that_is_not_set_is_a_warning_where_an_agent_asks_that_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = (
        "warning pyproject.toml tool.harness.models.claude.key: the variable PLANTED_CLAUDE is not set: model `claude` "
        "cannot be asked where it is missing"
    )
    assert problems(tmp_path) == [expected]

    monkeypatch.setenv("PLANTED_CLAUDE", "sk-it-is")
    assert problems(tmp_path) == []


def test_max_cost_with_a_model_of_unknown_price_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_CLAUDE", "sk-it-is")
    found = problems(tmp_path, "budget: {max_cost: 0.5, max_tokens: 1000, max_model_calls: 3}\n")
    assert found == [
        "error a.task.yaml budget.max_cost: `max_cost` needs the price of model `local`, which is not known"
    ]
