"""`users` of a task: who may be named where, and the places of what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.criteria import CriterionError, parse
from harness.model.settings import Settings
from harness.runner.compile import compile_plan
from harness.spec.load import check_group, load_file
from harness.spec.problems import SpecError
from harness.spec.steps import Click
from tests.unit.spec.files import write

BOTH = "users: {ann: {login: buyer}, bob: {login: seller, browser: {locale: de-DE}}}\n"
TASK = "task_id: T\n" + BOTH + "steps:\n  - {open: /x}\n"
AGENT = "an agent acts as one person, and the task has `users`: their steps stand in the file"
NAME = "a letter, then letters, digits, `_` and `-`, at most 40 characters"
LOGINS = ("buyer", "seller")


def told(folder: Path, text: str, **known: Any) -> list[str]:
    """Each problem as `line:column: message | expected`."""
    with pytest.raises(SpecError) as caught:
        load_file(write(folder, text, "t.task.yaml"), **known)
    return [f"{each.line}:{each.column}: {each.message} | {each.expected}" for each in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (TASK + "  - {click: '#a', as: bop}\n", "5:23: the task has no user `bop` | ann or bob"),
        (TASK + "  - {assert: \"visible('#a', as='bop')\"}\n", "5:33: the task has no user `bop` | ann or bob"),
        (TASK + "success_criteria: [\"url(as='zed') == 'x'\"]\n", "5:29: the task has no user `zed` | ann or bob"),
        (TASK + "  - {use: g, as: bop}\n", "5:18: the task has no user `bop` | ann or bob"),
        (TASK + "login: buyer\n", "5:1: the task has `users`, and each of them has a login of their own | "),
        (TASK + "agent: llm\n", f"5:1: {AGENT} | "),
        (TASK.replace("bob", "b o"), f"2:30: not a name of a user | {NAME}"),
        (TASK.replace("seller", "sellr"), "2:43: there is no login `sellr` | buyer or seller"),
        (TASK.replace("browser:", "browsr:"), "2:51: unknown key `browsr` | "),
        ("task_id: T\nsteps:\n  - {click: '#a', as: bob}\n", "3:23: `bob` is no user: the task has no `users` | "),
        ("task_id: T\nsteps: [{open: /}]\nsuccess_criteria: [\"visible('#a', as='bob')\"]\n",
         "3:39: `bob` is no user: the task has no `users` | "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_where_it_stands(tmp_path: Path, text: str, wrong: str) -> None:
    write(tmp_path, "steps: [{click: '#b'}]\n", "g.steps.yaml")
    assert told(tmp_path, text, logins=LOGINS) == [wrong]


def test_too_many_users_are_refused(tmp_path: Path) -> None:
    many = ", ".join(f"u{number}: {{}}" for number in range(11))
    (found,) = told(tmp_path, f"task_id: T\nusers: {{{many}}}\nsteps: [{{open: /}}]\n")
    assert found == "2:8: too many users | at most 10"


def test_a_criterion_names_the_user_in_what_reads_pages() -> None:
    criterion = parse(
        "text('#a', frame='#f', as='bob') == 'x' && dialogs(as='ann').length == 0 && cookie('c', as='bob')=='1'"
    )
    assert criterion.users == {"ann", "bob"}
    assert parse("url() == 'x'").users == frozenset()
    for wrong in ("mem('a', as='bob') == 1", "json('c', 'p', as='bob') == 1", "'a' as='bob'"):
        with pytest.raises(CriterionError):
            parse(wrong)


def test_the_first_user_does_what_names_nobody_and_a_group_is_done_by_whom_it_is_used_for(tmp_path: Path) -> None:
    write(tmp_path, "steps: [{type: {'#a': x, '#b': y}}, {click: '#c', as: ann}, {see: ok}]\n", "g.steps.yaml")
    handlers = "handlers: [{when: visible('#z'), steps: [{click: '#z'}]}]\n"
    text = TASK + "  - {type: {'#a': x, '#b': y}, as: bob}\n  - {use: g, as: bob}\n" + handlers
    loaded = load_file(write(tmp_path, text, "t.task.yaml"))
    login = {"check_url": "/x", "holds": "exists('#a')", "steps": [{"open": "/in"}]}
    settings = Settings.model_validate({"base_url": "http://x.test", "logins": {"buyer": login, "seller": login}})
    plan = compile_plan(loaded, settings=settings, run_id="r")
    assert [step.user for step in plan.steps] == ["ann", "bob", "bob", "bob", "bob", "ann", "bob"]
    assert plan.handlers[0].steps[0].user is None
    assert [(each.name, each.login and each.login.name, each.context.locale) for each in plan.users] == [
        ("ann", "buyer", None), ("bob", "seller", "de-DE")
    ]  # fmt: skip
    assert plan.steps[1].describe() == "type #a = 'x' as bob"
    assert plan.steps[1].model_dump(exclude_defaults=True)["as"] == "bob"
    with pytest.raises(SpecError, match="an agent acts as one person"):
        compile_plan(loaded, settings=settings, run_id="r", agent="manual")


def test_a_name_in_a_reference_is_checked_when_it_is_known(tmp_path: Path) -> None:
    text = "task_id: T\ninputs: {who: bop}\nusers: {ann: {}}\nsteps: [{open: /, as: '${inputs.who}'}]\n"
    loaded = load_file(write(tmp_path, text, "t.task.yaml"))
    with pytest.raises(SpecError, match="the task has no user `bop`"):
        compile_plan(loaded, settings=Settings(base_url="http://x.test"), run_id="r")


def test_a_group_may_name_users_of_the_tasks_that_use_it(tmp_path: Path) -> None:
    group = write(tmp_path, "steps: [{click: '#a', as: bob}, {assert: \"visible('#b', as='carl')\"}]\n", "g.steps.yaml")
    assert check_group(group) == []


def test_a_task_that_logs_in_for_others_has_no_users(tmp_path: Path) -> None:
    write(tmp_path, "task_id: IN\nusers: {ann: {}}\nsteps: [{open: /in}]\n", "in.task.yaml")
    login = {"check_url": "/x", "holds": "exists('#a')", "task": "in.task.yaml"}
    settings = Settings.model_validate({"base_url": "http://x.test", "root": tmp_path, "logins": {"buyer": login}})
    loaded = load_file(write(tmp_path, "task_id: T\nlogin: buyer\nsteps: [{open: /}]\n", "t.task.yaml"))
    with pytest.raises(SpecError, match="has `users`: a login is that of one person"):
        compile_plan(loaded, settings=settings, run_id="r")


def test_a_step_made_in_python_names_its_user() -> None:
    assert Click(selector="#a", **{"as": "bob"}).user == "bob"
    assert Click(selector="#a").user is None
