"""The workflow of docs/faults.md is one: it parses, and its commands take the options and files that it gives them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from harness.cli.main import app

ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"```yaml\n# \.github/workflows/(?P<name>[\w-]+\.yml)\n(?P<text>.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    found = _BLOCK.search((ROOT / "docs" / "faults.md").read_text("utf-8"))
    assert found
    document: dict[Any, Any] = yaml.safe_load(found["text"])
    return document


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    (job,) = workflow["jobs"].values()
    assert job["runs-on"]
    found: list[dict[str, Any]] = job["steps"]
    return found


def commands(workflow: dict[Any, Any]) -> Iterator[list[str]]:
    for step in steps(workflow):
        for line in step.get("run", "").splitlines():
            yield shlex.split(line)


def test_it_has_what_a_workflow_needs(workflow: dict[Any, Any]) -> None:
    assert {"schedule", "workflow_dispatch"} <= set(workflow[True])  # YAML 1.1 reads the key `on` so
    used = [step["uses"].partition("@")[0] for step in steps(workflow) if "uses" in step]
    assert used == ["actions/checkout", "actions/setup-python", "actions/upload-artifact"]
    assert all(("run" in step) != ("uses" in step) for step in steps(workflow))


def test_its_commands_exist_and_take_their_options(workflow: dict[Any, Any]) -> None:
    group: Any = typer.main.get_command(app)
    ours = [words[1:] for words in commands(workflow) if words[0] == "harness"]
    assert [name for name, *_ in ours] == ["validate", "chaos"]
    for name, *arguments in ours:
        command = group.commands[name]
        with command.make_context(name, arguments):  # raises for an option that there is not
            assert _options(arguments) <= _known(command)


def _options(arguments: list[str]) -> set[str]:
    return {word for word in arguments if word.startswith("--")}


def _known(command: Any) -> set[str]:
    return {name for each in command.params for name in each.opts}


def test_what_its_commands_read_is_there(workflow: dict[Any, Any]) -> None:
    words = [word for command in commands(workflow) if command[0] == "harness" for word in command]
    assert [word for word in words if "tasks/" in word] == ["tasks/", "tasks/", "tasks/campaigns/e2e.faults.yaml"]
    assert all((ROOT / word).exists() for word in words if "tasks/" in word)
    assert ["pip", "install", "."] in list(commands(workflow))


def test_what_is_uploaded_is_what_the_campaign_writes(workflow: dict[Any, Any]) -> None:
    (chaos,) = (command for command in commands(workflow) if command[:2] == ["harness", "chaos"])
    written = {chaos[chaos.index(option) + 1] for option in ("--json", "--markdown")}
    upload = steps(workflow)[-1]["with"]
    assert set(upload["path"].split()) == {*written, ".harness/chaos"}
    assert upload["include-hidden-files"] is True
    (summary,) = (step for step in steps(workflow) if "GITHUB_STEP_SUMMARY" in step.get("run", ""))
    assert "hashFiles('chaos.md') != ''" in summary["if"]
