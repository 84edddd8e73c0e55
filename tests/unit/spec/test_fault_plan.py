"""`*.faults.yaml`: read, checked, matched."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from harness.cli.schema import schemas
from harness.spec.fault_plan import LoadedFaultPlan, idle_patterns, load_fault_plan
from harness.spec.file_names import find_files, is_fault_plan, is_task_file
from harness.spec.load import find_tasks
from harness.spec.problems import SpecError
from tests.unit.spec.files import HEAD, loaded, write

GOOD = """
name: nightly
seed: 7
faults:
  - {tasks: "T-*", kind: refuse, host: shop.local, connections: 2, expect: {code: NET_DNS, recovered: true}}
  - {tasks: [T-1, U-1], id: slow, kind: slow, url: "http://shop.local/*", seconds: 2}
  - {kind: page_crash, step: 1}
gate: {recovery: 0.9}
"""
HANG = "{kind: hang, url: 'http://shop.local/*'}"


def plan(folder: Path, text: str = GOOD, name: str = "n.faults.yaml") -> LoadedFaultPlan:
    return load_fault_plan(write(folder, text, name), frozenset({"env"}))


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as raised:
        plan(folder, text)
    return [str(each).split("n.faults.yaml:", 1)[1] for each in raised.value.problems]


def test_a_plan_holds_faults_and_the_tasks_that_they_strike(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert (found.name, found.plan.seed, found.plan.gate and found.plan.gate.recovery) == ("nightly", 7, 0.9)
    assert [each.tasks for each in found.plan.faults] == [("T-*",), ("T-1", "U-1"), ("*",)]
    assert [found.name_of(number) for number in range(3)] == ["refuse-0", "slow", "page_crash-2"]


def test_without_a_name_it_is_called_as_its_file(tmp_path: Path) -> None:
    assert plan(tmp_path, f"faults: [{HANG}]").name == "n"


def test_what_strikes_a_task(tmp_path: Path) -> None:
    found = plan(tmp_path)
    task = loaded(tmp_path, HEAD)
    other = loaded(tmp_path, HEAD.replace("T-1", "U-1"), "u.task.yaml")
    assert [number for number, _ in found.plan.of(task.spec)] == [0, 1, 2]
    assert [number for number, _ in found.plan.of(other.spec)] == [1, 2]


def test_brackets_are_those_of_a_case(tmp_path: Path) -> None:
    from harness.spec.parametrize import expand

    cases = expand(loaded(tmp_path, HEAD + "goal: '${param.x}'\nparametrize: [{id: a, x: 1}, {id: b, x: 2}]\n"))
    found = plan(tmp_path, f"faults: [{{tasks: 'T-1[a]', {HANG[1:]}, {{tasks: T-1, {HANG[1:]}]")
    assert [[number for number, _ in found.plan.of(case.spec)] for case in cases] == [[0, 1], [1]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nam: x\nfaults: [" + HANG + "]", ("1:1: nam: unknown key `nam`\n"
         "  expected: name, goal, seed, faults or gate\n  hint: did you mean `name`?")),
        ("faults: []", "1:9: faults: out of range\n  expected: at least 1 item(s)"),
        ("name: x", "1:1: faults: the key `faults` is missing"),
        ("seed: '3'\nfaults: [" + HANG + "]", "1:7: seed: wrong type\n  expected: a whole number"),
        ("faults:\n  - {kind: refus}", "2:12: faults[0].kind: not a known kind"),
        ("faults:\n  - {host: a}", "2:5: faults[0]: the key `kind` is missing"),
        ("faults:\n  - {kind: refuse, hots: a, connections: 1}", "2:20: faults[0].hots: unknown key `hots`"),
        ("faults:\n  - {taks: a, kind: page_crash}", "2:6: faults[0].taks: unknown key `taks`"),
        ("faults:\n  - {kind: page_crash, expect: {cod: X}}", ("2:33: faults[0].expect.cod: unknown key `cod`\n"
         "  expected: code or recovered\n  hint: did you mean `code`?")),
        ("faults:\n  - {kind: page_crash, tasks: 5}", ("2:31: faults[0].tasks: not a task id\n"
         "  expected: the id of a task, or a list of ids\n  found: a whole number 5")),
        ("faults:\n  - {kind: page_crash, tasks: []}", "2:31: faults[0].tasks: not a task id"),
        ("faults:\n  - {kind: page_crash, tasks: [1]}", "2:31: faults[0].tasks: not a task id"),
        ("faults:\n  - {kind: page_crash}\ngate: {recovry: 1}", "3:8: gate.recovry: unknown key `recovry`"),
        ("faults:\n  - {kind: page_crash}\ngate: {recovery: 90}", "3:18: gate.recovery: out of range"),
    ],
)  # fmt: skip
def test_wrong_types_are_told_with_their_place(tmp_path: Path, text: str, said: str) -> None:
    assert any(each.startswith(said) for each in problems(tmp_path, text)), problems(tmp_path, text)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("{kind: refuse, host: 'http://a', connections: 1}", "faults[0].host: not a host name"),
        ("{kind: hang, url: 'shop.local/*'}", "faults[0].url: no URL matches"),
        ("{kind: delayed_state, channel: evn, path: a, value: 1, seconds: 1}", "faults[0].channel: unknown channel"),
        ("{kind: page_crash, expect: {code: PAGE_CRASHD}}", ("faults[0].expect.code: there is no code `PAGE_CRASHD`\n"
         "  hint: did you mean `PAGE_CRASHED`?")),
        ("{kind: missing, selector: '#a', act: clik}", ("2:42: faults[0].act: there is no act `clik`\n"
         "  hint: did you mean `click`?")),
        ("{kind: page_crash, act: xyzzy}", "there is no act `xyzzy`\n  hint: acts are: accessibility, api"),
        ("{kind: hang, url: 'http://${input.x}/'}", "faults[0].url: ${input.x}: not a known reference"),
        ("{kind: hang, url: 'http://${memory.x}/'}", "faults[0].url: memory can be used in steps and criteria only"),
    ],
)  # fmt: skip
def test_what_the_types_cannot_see(tmp_path: Path, fault: str, said: str) -> None:
    (found,) = problems(tmp_path, f"faults:\n  - {fault}")
    assert said in found
    assert found.startswith("2:")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "{kind: missing, selector: '#x[['}",
            "2:35: faults[0].selector: not a CSS selector: there is a `[` inside a `[`",
        ),
        ("{kind: covered, selector: text=Foo}", "2:31: faults[0].selector: not a CSS selector: `text=` names"),
        ("{kind: database_locked, path: ../../etc/passwd, seconds: 1}", "2:35: faults[0].path: the path leads out of"),
        ("{kind: database_locked, path: a/../../b, seconds: 1}", "2:35: faults[0].path: the path leads out of"),
    ],
)
def test_faults_that_could_never_work(tmp_path: Path, fault: str, said: str) -> None:
    (found,) = problems(tmp_path, f"faults:\n  - {fault}")
    assert found.startswith(said)


def test_what_is_odd_is_a_warning(tmp_path: Path) -> None:
    text = "faults:\n  - {kind: page_crash, expect: {}}\n  - {kind: dialog, expect: {code: null, recovered: false}}\n"
    found = plan(tmp_path, text)
    assert [(each.line, each.path, each.severity) for each in found.warnings] == [
        (2, "faults[0].expect", "warning"),
        (3, "faults[1].expect", "warning"),
    ]
    assert "causes no failure" in found.warnings[1].message


def test_with_a_hint_the_kinds_are_not_listed(tmp_path: Path) -> None:
    near, far = problems(tmp_path, "faults:\n  - {kind: refus}\n  - {kind: xyzzy}\n")
    assert "expected" not in near
    assert "expected: refuse, tls, offline" in far


def test_wrong_entries_do_not_hide_what_is_wrong_with_the_others(tmp_path: Path) -> None:
    text = "faults:\n  - {kind: refus}\n  - {kind: hang, url: x}\n  - {kind: missing, selector: 'a['}\nsede: 1\n"
    found = problems(tmp_path, text)
    assert [each.split(": ")[1] for each in found] == [
        "faults[0].kind", "faults[1].url", "faults[2].selector", "sede"
    ]  # fmt: skip


def test_a_list_of_wrong_items_is_not_called_too_short(tmp_path: Path) -> None:
    found = problems(tmp_path, "faults:\n  - {kind: refus}\n  - {kind: hang, url: 5}\n")
    assert [each.split(": ")[1] for each in found] == ["faults[0].kind", "faults[1].url"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("clean", "`clean` is what the trials without a fault are called"),
        ("page_crash-0", "the id `page_crash-0` is what faults[0] is called, which has no id"),
    ],
)
def test_an_id_that_means_other_trials(tmp_path: Path, name: str, why: str) -> None:
    """Two trials of one name would have one folder, and an evaluation would make only one of them."""
    (found,) = problems(tmp_path, f"faults:\n  - {{kind: page_crash}}\n  - {{id: {name}, kind: page_crash}}\n")
    assert found.startswith(f"3:10: faults[1].id: {why}")


def test_two_faults_of_one_id(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "faults:\n  - {id: a, kind: page_crash}\n  - {id: a, kind: page_crash}\n")
    assert found.startswith("3:10: faults[1].id: the id `a` is taken by faults[0]")


@pytest.mark.parametrize("text", ["faults: *x", "a: 1\na: 2", "[]", ""])
def test_yaml_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text)


def test_patterns_that_match_nothing_are_worth_a_warning(tmp_path: Path) -> None:
    tasks = [loaded(tmp_path, HEAD)]
    found = plan(tmp_path, "faults:\n  - {kind: page_crash, tasks: T-2}\n  - {kind: page_crash, tasks: [T-1, 'X*']}\n")
    said = [str(each).split("n.faults.yaml:", 1)[1] for each in idle_patterns(found, tasks)]
    assert said == [
        "2:31: faults[0].tasks: no task matches `T-2`\n  hint: did you mean `T-1`?",
        "3:37: faults[1].tasks[1]: no task matches `X*`",
    ]


def test_a_step_that_no_task_has(tmp_path: Path) -> None:
    found = plan(tmp_path, "faults:\n  - {kind: page_crash, step: 2}\n")
    (problem,) = idle_patterns(found, [loaded(tmp_path, HEAD)])
    assert (problem.path, problem.severity, problem.expected) == ("faults[0].step", "warning", "0 to 1")


def test_a_step_that_a_named_task_has_not(tmp_path: Path) -> None:
    more = HEAD.replace("T-1", "U-1") + "  - {act: wait, value: 0}\n"
    short, long = loaded(tmp_path, HEAD), loaded(tmp_path, more, "u.task.yaml")
    text = "faults:\n  - {kind: page_crash, step: 2, tasks: [T-1, U-1]}\n  - {kind: page_crash, step: 2, tasks: '*'}\n"
    (problem,) = idle_patterns(plan(tmp_path, text), [short, long])
    assert (problem.path, problem.message) == ("faults[0].step", "T-1 has no step 2: it would never strike there")


def test_an_act_that_no_struck_task_has(tmp_path: Path) -> None:
    text = "faults:\n  - {kind: page_crash, act: click}\n  - {kind: page_crash, act: drag}\n"
    (problem,) = idle_patterns(plan(tmp_path, text), [loaded(tmp_path, HEAD)])
    assert (problem.line, problem.path, problem.severity) == (3, "faults[1].act", "warning")


CALL = "  - {act: tool, server: mail, tool: get_code}\n"


def test_a_tool_that_no_struck_task_calls(tmp_path: Path) -> None:
    kinds = ("{kind: tool_slow, tool: 'get_*'}", "{kind: tool_slow, step: 3}", "{kind: tool_error, server: shop}")
    found = plan(tmp_path, "faults:\n" + "".join(f"  - {each}\n" for each in kinds))
    tasks = [loaded(tmp_path, HEAD + CALL + "  - {act: wait, value: 0}\n")]
    assert [(each.path, each.message, each.severity) for each in idle_patterns(found, tasks)] == [
        ("faults[1].kind", "no task that it strikes has a step from step 3 on that calls a tool", "warning"),
        ("faults[2].kind", "no task that it strikes has a step from step 0 on that calls `shop`", "warning"),
    ]
    tasks.append(
        loaded(
            tmp_path,
            HEAD.replace("T-1", "T-2") + CALL.replace("mail", "'${inputs.s}'") + "inputs: {s: shop}\n",
            "u.task.yaml",
        )
    )
    assert [each.path for each in idle_patterns(found, tasks)] == ["faults[1].kind"]


def test_a_tool_that_the_task_itself_does_not_call(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, HEAD + CALL + "faults: [{kind: tool_killed, server: mail, tool: send}, {kind: tool_slow}]\n"
    )
    (problem,) = found.warnings
    assert problem.path == "faults[0].kind"
    assert problem.message == "no step from step 0 on calls `mail.send`: the fault would never strike"


def test_a_plan_is_no_task(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, "sub/n.faults.yaml")
    task = write(tmp_path, HEAD)
    assert not is_task_file(path, ("*.yaml",))
    assert find_tasks([tmp_path], ("*.yaml",)) == [task]
    assert find_files([tmp_path, task], is_fault_plan) == [path]


def test_the_schema_takes_what_the_reader_takes(tmp_path: Path) -> None:
    schema = schemas()["fault_plan.schema.json"]
    Draft202012Validator.check_schema(schema)
    found = plan(tmp_path)
    assert found.origin.main is not None
    Draft202012Validator(schema).validate(found.origin.main.data)
    for bad in ({"faults": []}, {"faults": [{"kind": "refus"}]}, {"faults": [{"kind": "page_crash", "x": 1}]}):
        assert not Draft202012Validator(schema).is_valid(bad)
