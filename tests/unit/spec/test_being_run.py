"""The keys that decide whether a task runs, how long it may take, and whether it may fail; and its repetitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.load import load_file
from harness.spec.marks import SkipIf
from harness.spec.parametrize import base_id, expand, task_named
from harness.spec.suite import by_name
from harness.spec.used_files import uses
from tests.unit.spec.files import HEAD, loaded, problems, task, write


@pytest.mark.parametrize(
    ("lines", "place", "words"),
    [
        ("skip: true", (5, 7), "must be the reason, as text"),
        ("skip: ' '", (5, 7), "must be the reason, as text"),
        ("skip: '${inputs.why}'", (5, 7), "takes no references"),
        ("skip_if: {platform: windows, reason: r}", (5, 21), "linux, darwin or win32"),
        ("skip_if: {platform: linux}", (5, 10), "`reason` is missing"),
        ("skip_if: {reason: r}", (5, 10), "needs `platform`, `profile` or `env`"),
        ("skip_if:\n  - {env: A B, reason: r}", (6, 5), "written NAME or NAME=value"),
        ("skip_if:\n  - {profile: fone, reason: r}", (6, 15), "no browser profile `fone`"),
        ("skip_if: {browser: firefox, reason: r}", (5, 11), "unknown key `browser`"),
        ("only: sure", (5, 7), "true or false"),
        ("expected_failure: ''", (5, 19), "must be the reason, as text"),
        ("expect: {final_state: completed}\nexpected_failure: r", (6, 19), "the task has an `expect`"),
        ("slow: 3", (5, 7), "true or false"),
        ("retries: 2", (5, 1), "pytest --reruns 2"),
        ("xfail: true", (5, 1), "write `expected_failure: REASON`"),
        ("skipif: win32", (5, 1), "write `skip_if:"),
        ("repeat_each: 3", (5, 1), "--task-repeat-each N"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    tmp_path: Path, lines: str, place: tuple[int, int], words: str
) -> None:
    (problem,) = problems(write(tmp_path, f"{HEAD}{lines}\n"), profiles=("phone",))
    assert (problem.line, problem.column) == place
    assert words in str(problem)
    assert problem.severity == "error"


@pytest.mark.parametrize(("ci", "refused"), [("true", True), ("1", True), ("false", False), ("0", False), ("", False)])
def test_only_is_refused_on_a_ci_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, refused: bool
) -> None:
    monkeypatch.setenv("CI", ci)
    found = problems(write(tmp_path, f"{HEAD}only: true\n"))
    assert [(each.line, each.column) for each in found] == ([(5, 7)] if refused else [])


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"platform": "linux"}, True),
        ({"platform": "win32"}, False),
        ({"profile": "phone"}, True),
        ({"profile": "desktop"}, False),
        ({"env": "STAGE"}, True),
        ({"env": "EMPTY"}, False),
        ({"env": "UNSET"}, False),
        ({"env": "STAGE=prod"}, True),
        ({"env": "STAGE=test"}, False),
        ({"env": "UNSET="}, True),
        ({"env": "EMPTY="}, True),
        ({"env": "STAGE="}, False),
        ({"platform": "linux", "profile": "phone", "env": "STAGE"}, True),
        ({"platform": "linux", "profile": "phone", "env": "UNSET"}, False),
    ],
)
def test_a_condition_holds_if_all_that_it_names_is_so(condition: dict[str, str], holds: bool) -> None:
    environ = {"STAGE": "prod", "EMPTY": ""}
    assert SkipIf(reason="r", **condition).holds("phone", environ, "linux") is holds


def test_the_first_reason_is_that_of_skip(tmp_path: Path) -> None:
    linux, phone = {"platform": "linux", "reason": "linux"}, {"profile": "phone", "reason": "phone"}
    one = loaded(tmp_path, task(skip_if=linux)).spec
    assert one.left_out({}, "linux") == "linux"
    assert one.left_out({}, "darwin") == ""
    own = loaded(tmp_path, task(skip_if=linux, old="quarantined"), extra_keys={"old": "skip"}).spec
    assert own.left_out({}, "linux") == "quarantined"
    both = loaded(tmp_path, task(skip_if=[phone, linux], skip="rebuilt"))
    assert both.spec.left_out({}, "linux") == "rebuilt"
    (case,) = expand(loaded(tmp_path, task(skip_if=[phone])), ["phone"])
    assert case.spec.left_out({}, "linux") == "phone"


def test_a_repetition_is_a_task_of_its_own_that_depends_on_its_like(tmp_path: Path) -> None:
    rows = [{"id": "a", "x": 1}, {"id": "b", "x": 2}]
    one = loaded(tmp_path, task(parametrize=rows, dependencies=["IN"], episode_id="E"))
    found = expand(one, ["phone"], 2)
    names = ["T-1[a][phone][1-2]", "T-1[a][phone][2-2]", "T-1[b][phone][1-2]", "T-1[b][phone][2-2]"]
    assert [each.spec.task_id for each in found] == names
    assert found[1].spec.dependencies == ("IN[phone][2-2]",)
    assert found[1].spec.episode_id == "E[phone][2-2]"
    assert base_id(found[1].spec) == "T-1[phone][2-2]"
    assert by_name(found)["T-1[phone][2-2]"] == (names[1], names[3])
    again = task_named(names[1], expand(one))
    assert again is not None
    assert (again.spec, again.spec.variant) == (found[1].spec, "[phone][2-2]")
    assert task_named("T-1[c][1-2]", expand(one)) is None


def test_a_group_through_which_steps_come_is_used_too(tmp_path: Path) -> None:
    write(tmp_path, "steps: [{act: wait, value: 0}]\n", "inner.steps.yaml")
    write(tmp_path, "steps: [{use: inner}]\n", "outer.steps.yaml")
    one = load_file(write(tmp_path, "task_id: A\nsteps: [{use: outer}]\n", "A.task.yaml"))
    names = ("A.task.yaml", "inner.steps.yaml", "outer.steps.yaml", "other.steps.yaml")
    assert [uses(one, tmp_path / name) for name in names] == [True, True, True, False]
