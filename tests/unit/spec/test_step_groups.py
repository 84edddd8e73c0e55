"""Step groups: `use` in a task, values for parameters, outputs, and problems with the places of both files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.file_names import find_files, is_step_group
from harness.spec.load import check_group, load_file
from harness.spec.problems import SpecError
from harness.spec.references import ReferenceScope, escape_references, interpolate_criterion
from harness.spec.rounds import fill, fill_criterion
from harness.spec.steps import Step
from tests.unit.spec.files import problems, write

GROUP = """description: Logs in.
parameters:
  user: {description: Who, default: ann}
  password:
  tries: {type: integer, default: 2}
steps:
  - {act: type, selector: "#user", value: "${with.user}"}
  - {act: type, selector: "#password", value: "${with.password}"}
  - {act: click, selector: "#in", timeout: "${with.tries}"}
outputs:
  name: text('#who')
"""
TASK = """task_id: T
steps:
  - {act: open, url: "http://shop.test/"}
  - {use: login, with: {password: "${env:PW}"}}
  - {act: click, selector: "#buy"}
"""


def steps(folder: Path, task: str = TASK, group: str = GROUP, where: str = "login.steps.yaml") -> tuple[Step, ...]:
    write(folder, group, where)
    return load_file(write(folder, task)).spec.steps


def told(folder: Path, task: str, **groups: str) -> list[str]:
    for name, text in groups.items():
        write(folder, text, f"{name}.steps.yaml")
    return [str(each) for each in problems(write(folder, task))]


def test_the_steps_stand_in_the_place_of_the_use(tmp_path: Path) -> None:
    found = [(step.act, getattr(step, "value", None)) for step in steps(tmp_path)]
    assert found == [("open", None), ("type", "ann"), ("type", "${env:PW}"), ("click", None), ("click", None)]
    assert steps(tmp_path)[3].timeout == 2
    assert steps(tmp_path)[3].remember == {"login.name": "text('#who')"}


def test_steps_of_a_group_have_sub_numbers_which_checkpoints_may_name(tmp_path: Path) -> None:
    write(tmp_path, GROUP, "login.steps.yaml")
    named = TASK.replace("steps:", 'checkpoints: [0, "1.3", 4, "1.1"]\nsteps:', 1)
    found = load_file(write(tmp_path, f"{named}  - type: {{label=A: a, label=B: b}}\n"))
    numbers = [place.number for _, place in sorted(found.origin.places.items())]
    assert numbers == ["", "1.1", "1.2", "1.3", "", "5.1", "5.2"]
    assert found.spec.checkpoints == (0, 3, 4, 1)
    for wrong, message in (
        ('"1.4"', "there is no step 1.4\n  expected: 1.1 to 1.3"),
        ('"4.1"', "there is no step 4.1\n  expected: a sub-number only where a step stands for several"),
        ("1.2", "wrong type\n  expected: a whole number or text\n  found: a number 1.2\n  hint: put it in quotes"),
    ):
        (problem,) = told(tmp_path, TASK.replace("steps:", f"checkpoints: [{wrong}]\nsteps:", 1))
        assert f":2:15: checkpoints[0]: {message}" in problem
    (problem,) = told(tmp_path, 'task_id: T\ncheckpoints: ["0.1"]\nsteps: [{act: open, url: "http://a.test/"}]\n')
    assert "there is no step 0.1" in problem


def test_an_output_may_be_kept_under_a_name_of_ones_own(tmp_path: Path) -> None:
    task = TASK.replace("{password:", "{tries: 5, password:").replace('}"}}', '}"}, remember: {who: name}}')
    assert steps(tmp_path, task)[3].remember == {"who": "text('#who')"}
    assert steps(tmp_path, task)[3].timeout == 5


@pytest.mark.parametrize("where", ["steps/login.steps.yaml", "../login.steps.yaml", "../steps/login.steps.yml"])
def test_a_group_is_found_up_to_the_project(tmp_path: Path, where: str) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "tasks").mkdir()
    assert len(steps(tmp_path / "tasks", where=where)) == 5


def test_a_group_above_the_project_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "pyproject.toml").touch()
    with pytest.raises(SpecError, match="there is no step group `login`"):
        steps(tmp_path / "tasks", where="../login.steps.yaml")


def test_groups_may_use_groups_and_all_places_are_told(tmp_path: Path) -> None:
    outer = 'parameters: {p: }\nsteps:\n  - {act: wait, value: 1}\n  - {use: login, with: {password: "${with.p}"}}\n'
    task = TASK.replace("use: login, with: {password:", "use: outer, with: {p:")
    assert told(tmp_path, task, outer=outer, login=GROUP) == []
    loaded = load_file(tmp_path / "t.task.yaml")
    assert [step.act for step in loaded.spec.steps] == ["open", "wait", "type", "type", "click", "click"]
    place = loaded.origin.place(("steps", 2))
    assert place.endswith(f"login.steps.yaml:7 (used in {tmp_path}/outer.steps.yaml:4, in {tmp_path}/t.task.yaml:4)")
    assert loaded.origin.place(("steps", 5)).endswith("t.task.yaml:5")


def test_groups_in_a_circle_are_refused(tmp_path: Path) -> None:
    one, two = "steps: [{use: two}]\n", "steps: [{use: one}]\n"
    (found,) = told(tmp_path, "task_id: T\nsteps: [{use: one}]\n", one=one, two=two)[:1]
    assert "step groups use each other: one -> two -> one" in found


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("{use: logn, with: {password: x}}", "t.task.yaml:4:11: steps[1].use: there is no step group `logn`"),
        ("{use: login}", "needs a value for its parameter `password`"),
        ("{use: login, with: {password: x, usr: y}}", "has no parameter `usr`\n  hint: did you mean `user`?"),
        ("{use: login, with: {password: 5}}", "steps[1].with.password: wrong type\n  expected: text"),
        ("{use: login, with: {password: x, tries: true}}", "steps[1].with.tries: wrong type"),
        ("{use: login, with: {password: x}, remember: {a: nam}}", "has no output `nam`\n  hint: did you mean `name`?"),
        ("{use: login, with: {password: x}, timeout: 5}", "steps[1].timeout: unknown key `timeout`"),
    ],
)
def test_a_wrong_use_is_told_with_its_place(tmp_path: Path, use: str, message: str) -> None:
    task = TASK.replace('{use: login, with: {password: "${env:PW}"}}', use)
    assert any(message in each for each in told(tmp_path, task, login=GROUP)), told(tmp_path, task, login=GROUP)


def test_a_wrong_step_of_a_group_names_both_files(tmp_path: Path) -> None:
    (found,) = told(tmp_path, TASK, login=GROUP.replace("act: click", "act: clik"))
    assert "login.steps.yaml:9:" in found
    assert f"(used in {tmp_path}/t.task.yaml:4)" in found
    assert "did you mean `click`?" in found
    (found,) = told(tmp_path, TASK, login=GROUP.replace("${with.user}", "${with.usr}"))
    assert "the group has no parameter `usr`" in found


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("steps: []\n", "steps: out of range"),
        ("name: other\nsteps: [{act: wait, value: 1}]\n", "the group calls itself 'other'"),
        ("parameters: {a b: }\nsteps: [{act: wait, value: 1}]\n", "not a name for a parameter"),
        ("parameters: {a: {type: number, default: x}}\nsteps: [{act: wait, value: 1}]\n", "default: wrong type"),
        ("parameters: {a: }\nsteps: [{act: wait, value: 1}]\n", "nothing refers to `${with.a}`"),
        ("steps: [{act: wait}]\n", "needs a `selector`"),
        ("step: [{act: wait}]\n", "unknown key `step`"),
    ],
)
def test_a_group_is_checked_on_its_own(tmp_path: Path, group: str, message: str) -> None:
    found = [str(each) for each in check_group(write(tmp_path, group, "g.steps.yaml"))]
    assert any(message in each for each in found), found


def test_a_sound_group_has_no_problems(tmp_path: Path) -> None:
    assert check_group(write(tmp_path, GROUP, "login.steps.yaml")) == []
    write(tmp_path, GROUP, ".hidden/x.steps.yaml")
    assert find_files([tmp_path], is_step_group) == [tmp_path / "login.steps.yaml"]


def test_a_repair_may_use_a_group(tmp_path: Path) -> None:
    write(tmp_path, GROUP, "login.steps.yaml")
    task = {"task_id": "T", "steps": [{"act": "wait", "value": 1}], "preconditions": ["exists('#a')"]}
    task |= {"repairs": [{"steps": [{"use": "login", "with": {"password": "x"}}]}]}
    task |= {"error_recovery": {"on_precondition_fail": "attempt_repair"}}
    assert len(load_file(write(tmp_path, task)).spec.repairs[0].steps) == 3


def test_a_value_keeps_its_type_and_references_of_the_task_stay() -> None:
    values = {"n": 5, "t": "${inputs.x}"}
    assert [fill(each, values) for each in ("${with.n}", "a ${with.n}", "${with.t}!")] == [5, "a 5", "${inputs.x}!"]
    assert fill("$${with.n}", values) == "$${with.n}"
    assert fill_criterion("text('#a') == ${with.t}", values) == "text('#a') == ${inputs.x}"


@given(st.text())
def test_a_text_in_a_criterion_is_a_literal_however_it_is_written(text: str) -> None:
    value: dict[str, Any] = {"x": escape_references(text)}
    for written in ("title() == ${with.x}", "title() == '${with.x}'", 'title() == "${with.x}"'):
        of_task = written.replace("with.", "inputs.")
        expected = interpolate_criterion(of_task, ReferenceScope(inputs={"x": text}))
        assert interpolate_criterion(fill_criterion(written, value), ReferenceScope(memory={})) == expected


def expanded(tmp_path: Path, *uses: str) -> list[dict[str, Any]]:
    """The steps of a task that uses `buy` and `all` in these ways."""
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "buy.steps.yaml").write_text(
        'parameters: {sku: {}}\nsteps:\n  - {click: "#${with.sku}"}\n  - {click: "#next"}\n',
        "utf-8",
    )
    (tmp_path / "all.steps.yaml").write_text(
        'steps:\n  - {use: buy, for_each: [p, q], with: {sku: "${each}"}}\n  - click: "#${each.name}"\n', "utf-8"
    )
    task = tmp_path / "t.task.yaml"
    task.write_text("steps:\n" + "".join(f"  - {use}\n" for use in uses), "utf-8")
    keys = {"selector", "guards"}
    return [step.model_dump(include=keys, exclude_defaults=True) for step in load_file(task).spec.steps]


def selectors(steps: list[dict[str, Any]]) -> list[str]:
    return [step["selector"] for step in steps]


def test_a_group_is_used_for_each_item_and_so_many_times(tmp_path: Path) -> None:
    found = expanded(tmp_path, '{use: buy, for_each: [a, b], with: {sku: "${each}"}, when: "exists(\'#${each}\')"}')
    assert selectors(found) == ["#a", "#next", "#b", "#next"]
    assert [step.get("guards") for step in found] == [{"2": "exists('#a')"}, None, {"2": "exists('#b')"}, None]
    assert selectors(expanded(tmp_path, '{use: buy, count: 2, with: {sku: "n${each}"}}'))[::2] == ["#n1", "#n2"]
    nested = expanded(tmp_path, "{use: all, for_each: [{name: x}, {name: y}]}")
    assert selectors(nested) == [*("#p", "#next", "#q", "#next", "#x"), *("#p", "#next", "#q", "#next", "#y")]


def test_a_list_that_is_read_later_has_steps_for_each_round(tmp_path: Path) -> None:
    use = '{use: buy, for_each: "mem(\'l\')", at_most: 2, with: {sku: "${each.id}"}, when: "${each.id} != \'x\'"}'
    found = expanded(tmp_path, use)
    assert selectors(found) == ["#${memory.for_each_1[0].id}", "#next", "#${memory.for_each_1[1].id}", "#next"]
    assert list(found[0]["guards"].items()) == [
        ("4 for_each_1 0 2", "mem('l')"),
        ("2", "${memory.for_each_1[0].id} != 'x'"),
    ]
    assert list(found[2]["guards"]) == ["2 for_each_1 1 2", "2"]


@pytest.mark.parametrize(
    ("use", "place", "said"),
    [
        ("{use: buy, for_each: [a], count: 2, with: {sku: b}}", 2, "either `for_each` or `count`"),
        ("{use: buy, for_each: [], with: {sku: b}}", 2, "`for_each` takes 1 to 100 items"),
        ("{use: buy, count: 101, with: {sku: b}}", 2, "count"),
        ("{use: buy, at_most: 3, with: {sku: b}}", 2, "`at_most` goes with a `for_each`"),
        ("{use: buy, when: \"exists('#a'\", with: {sku: b}}", 2, "ends too early"),
        ("{use: buy, for_each: \"mem('l'\", with: {sku: b}}", 2, "ends too early"),
        ("{use: all}", 3, "`${each.name}` has no value here"),
    ],
)
def test_rounds_that_cannot_be_are_told_with_their_place(tmp_path: Path, use: str, place: int, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        expanded(tmp_path, use)
    told = [each for each in caught.value.problems if said in f"{each.path} {each.message}"]
    assert told, caught.value.problems
    assert told[0].line == place


def test_the_steps_of_all_rounds_are_at_most_as_many_as_a_task_may_have(tmp_path: Path) -> None:
    many = "[" + ", ".join(["{click: '#a'}"] * 30) + "]"
    (tmp_path / "many.steps.yaml").write_text(f"steps: {many}\n", "utf-8")
    with pytest.raises(SpecError, match="too many steps"):
        expanded(tmp_path, "{use: many, count: 100}")
