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

    monkeypatch.setenv("PLANTED_CLAUDE", "")
    assert problems(tmp_path) == [expected.replace("is not set", "is set, but empty")]

    monkeypatch.setenv("PLANTED_CLAUDE", "sk-it-is")
    assert problems(tmp_path) == []


def test_max_cost_with_a_model_of_unknown_price_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_CLAUDE", "sk-it-is")
    found = problems(tmp_path, "budget: {max_cost: 0.5, max_tokens: 1000, max_model_calls: 3}\n")
    assert found == [
        "error a.task.yaml budget.max_cost: `max_cost` needs the price of model `local`, which is not known"
    ]


BUILDER = """
[tool.harness.models.local]
provider = "openai-compatible"
base_url = "http://127.0.0.1:1/v1"
model = "no-model-of-this-name"
key = "${env:PLANTED_LOCAL}"

[tool.harness.agents.first]
agent = "llm"
options = { model = "local" }

[tool.harness.agents.builder]
agent = "first"
"""


def of_builder(folder: Path, options: str, settings: str = BUILDER) -> list[str]:
    (folder / "pyproject.toml").write_text(f"{settings}options = {options}\n", "utf-8")
    (folder / "a.task.yaml").write_text("task_id: A\ngoal: g\nagent: builder\nsuccess_criteria: ['1 == 1']\n", "utf-8")
    found = check_paths([folder / "a.task.yaml"], strict=False).problems
    return [f"{each.severity} {each.path}: {each.message}" for each in found]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ('{ model = "locla" }', "there is no model `locla`: did you mean `local`?"),
        ("{ max_chars = 10 }", "failed while it was created: ValueError: `max_chars` must be a whole number"),
        ("{ qiet = 1 }", "does not take the options that are set: got an unexpected keyword argument 'qiet'; it takes"),
        ("{ models = 1 }", "gets `models` from the harness"),
    ],
)
def test_options_that_the_agent_of_the_harness_does_not_take_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, why: str
) -> None:
    monkeypatch.setenv("PLANTED_LOCAL", "sk-it-is")
    (found,) = of_builder(tmp_path, options)
    assert found.startswith("error tool.harness.agents.builder.options: ")
    assert why in found


def test_an_agent_of_another_one_has_its_model(tmp_path: Path) -> None:
    (found,) = of_builder(tmp_path, "{ looks = 1 }")
    assert found.startswith("warning tool.harness.models.local.key: the variable PLANTED_LOCAL is not set")


@pytest.mark.parametrize("more", ["", "agent: builder\n", "agent_fallback: [builder]\nlogin: ann\n"])
def test_settings_that_cannot_be_read_are_the_only_error_of_a_task_without_steps(tmp_path: Path, more: str) -> None:
    broken = BUILDER.replace("openai-compatible", "opnai")
    (tmp_path / "pyproject.toml").write_text(broken, "utf-8")
    (tmp_path / "a.task.yaml").write_text(f"task_id: A\ngoal: g\n{more}success_criteria: ['1 == 1']\n", "utf-8")
    (found,) = check_paths([tmp_path / "a.task.yaml"], strict=False).problems
    assert found.path == "tool.harness.models.local.provider"
    assert (found.file.endswith("pyproject.toml"), found.line, found.column) == (True, 3, 1)
