"""The workflow files for other projects: they parse, and say nothing that does not exist."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer
import yaml

from harness.cli.main import app
from harness.pytest_plugin.options import TASK_OPTIONS
from tests.acceptance.documented import ROOT

FOLDER = ROOT / "examples" / "ci"
FILES = sorted(FOLDER.glob("*.yml"))
OF_PYTEST = {"--junit-xml", "--alluredir"}
OF_OTHERS = ("pip install -r requirements-tasks.txt", "playwright install --with-deps chromium-headless-shell")
OF_THE_SHELL = ("cd", "cp", "mkdir")
_EXPRESSION = re.compile(r"\$\{\{ ?([\w.]+) ?\}\}")


def jobs(document: dict[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document.get("jobs") or {
        name: job for name, job in document.items() if isinstance(job, dict) and "script" in job
    }
    return found


def commands(job: dict[str, Any]) -> list[str]:
    scripts = [line for key in ("before_script", "script", "after_script") for line in job.get(key, ())]
    return scripts + [step["run"] for step in job.get("steps", ()) if "run" in step]


def unknown(command: str) -> list[str]:
    """The words of a command that its program does not know."""
    program, *words = shlex.split(_EXPRESSION.sub("1", command))
    options = {word for word in words if word.startswith("--")}
    if program == "pytest":
        return sorted(options - {option.name for option in TASK_OPTIONS} - OF_PYTEST)
    if program == "harness":
        known = getattr(typer.main.get_command(app), "commands", {})
        taken = {option for param in known[words[0]].params for option in param.opts} if words[0] in known else set()
        return sorted(options - taken) + ([] if words[0] in known else [words[0]])
    return [] if command in OF_OTHERS or program in OF_THE_SHELL else [command]


def test_there_is_one_for_each_of_the_two_systems() -> None:
    assert [file.name for file in FILES] == ["github.yml", "gitlab.yml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_its_jobs_run_what_exists(file: Any) -> None:
    found = jobs(yaml.safe_load(file.read_text("utf-8")))
    assert set(found) == {"tasks", "merge"}
    lines = [line for job in found.values() for line in commands(job)]
    assert [word for line in lines for word in unknown(line)] == []
    assert any("--task-shard" in line for line in lines)
    assert any(line.startswith("harness merge") for line in lines)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_as_many_folders_are_merged_as_there_are_parts(file: Any) -> None:
    found = jobs(yaml.safe_load(file.read_text("utf-8")))
    tasks = found["tasks"]
    parts = tasks.get("parallel") or len(tasks["strategy"]["matrix"]["part"])
    (merge,) = (line for line in commands(found["merge"]) if line.startswith("harness merge"))
    assert re.findall(r"shard-(\d)", merge) == [str(number + 1) for number in range(parts)]


def test_a_job_of_github_uses_an_action_or_runs_a_command() -> None:
    document = yaml.safe_load((FOLDER / "github.yml").read_text("utf-8"))
    steps = [step for job in document["jobs"].values() for step in job["steps"]]
    assert all(("run" in step) != ("uses" in step) for step in steps)
    assert {step["uses"].partition("@")[0] for step in steps if "uses" in step} == {
        f"actions/{name}" for name in ("checkout", "setup-python", "upload-artifact", "download-artifact")
    }


def test_the_requirements_name_this_package_and_its_version() -> None:
    text = (FOLDER / "requirements-tasks.txt").read_text("utf-8")
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    (version,) = re.findall(r'^version = "(.+)"$', project, re.MULTILINE)
    assert f"pytest-taskspec.git@v{version}" in text
    assert f"pytest_taskspec-{version}-py3-none-any.whl" in text


def test_an_option_that_does_not_exist_is_found() -> None:
    assert unknown("pytest tasks/ --task-shrad 1/3") == ["--task-shrad"]
    assert unknown("harness merg shard-1") == ["merg"]
    assert unknown("harness merge shard-1 --stric") == ["--stric"]
    assert unknown("pip install something") == ["pip install something"]
