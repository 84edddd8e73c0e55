"""`harness validate` on the gates of evaluations."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.validate import Checked, Format, check_paths, show
from harness.spec.file_names import is_task_file
from tests.unit.spec.files import write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path, '[tool.harness.agents.builder]\npython = "no:Where"\n', "pyproject.toml")
    write(tmp_path, "min_pass: 0.5\nagents: [builder]\n", "good.gate.yaml")
    return tmp_path


def said(checked: Checked) -> list[str]:
    return [f"{Path(each.file).name}:{each.line}: {each.path}: {each.message}" for each in checked.problems]


def test_gates_in_a_folder_are_checked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, "min_pas: 0.5\n", "typo.gate.yml")
    write(project, "min_pass: 1\nagents: [nobody]\n", "below/who.gate.json.gate.yaml")
    write(project, "min_pas: 0.5\n", ".hidden/typo.gate.yaml")
    checked = check_paths([project], strict=False)
    assert [Path(each).name for each in checked.gates] == ["who.gate.json.gate.yaml", "good.gate.yaml", "typo.gate.yml"]
    assert said(checked)[0] == "who.gate.json.gate.yaml:2: agents[0]: there is no agent `nobody`"
    assert "typo.gate.yml:1: min_pas: unknown key `min_pas`" in said(checked)
    assert checked.files == ()
    show(checked, Format.TEXT)
    assert capsys.readouterr().out.endswith("3 gates, 2 with errors\n")
    show(checked, Format.JSON)
    assert '"valid": true' in capsys.readouterr().out


def test_a_named_gate_is_no_task(project: Path) -> None:
    file = project / "good.gate.yaml"
    assert said(check_paths([file], strict=False)) == []
    assert not is_task_file(file, ["*.yaml"])


def test_the_earlier_evaluation_must_be_one(project: Path) -> None:
    write(project, "{}", "before.json")
    file = write(project, "min_pass: 1\nno_worse_than: before.json\n", "ci.gate.yaml")
    (problem,) = said(check_paths([file], strict=False))
    assert problem.startswith("ci.gate.yaml:2: no_worse_than: ")
    assert "before.json: is no evaluation: " in problem


def test_outside_of_a_project_any_agent_will_do(tmp_path: Path) -> None:
    assert said(check_paths([write(tmp_path, "min_pass: 1\nagents: [nobody]\n", "a.gate.yaml")], strict=False)) == []
