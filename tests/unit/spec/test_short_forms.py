"""Short steps: what each stands for, where its problems are reported, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from harness.cli.schema import schemas
from harness.model.settings import LoginSettings, Settings
from harness.spec.file_names import SHORT_ACTS
from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from harness.spec.problems import SpecError
from harness.spec.short_forms import long_steps
from harness.spec.validation import ACTS

LONG: dict[str, list[dict[str, Any]]] = {
    "open: /login": [{"act": "open", "url": "/login"}],
    "back:": [{"act": "back"}],
    "forward:": [{"act": "forward"}],
    "reload:": [{"act": "reload"}],
    "set: {offline: true}": [{"act": "set", "offline": True}],
    "wait: {url: '*/cart'}": [{"act": "wait", "url": "*/cart"}],
    "api: /orders": [{"act": "api", "url": "/orders"}],
    "api: POST /orders": [{"act": "api", "method": "POST", "url": "/orders"}],
    "click: '#buy'": [{"act": "click", "selector": "#buy"}],
    "click: {role: button, name: Save}": [{"act": "click", "selector": {"role": "button", "name": "Save"}}],
    "hover: '#a'": [{"act": "hover", "selector": "#a"}],
    "tap: '#a'": [{"act": "tap", "selector": "#a"}],
    "clear: '#a'": [{"act": "clear", "selector": "#a"}],
    "focus: '#a'": [{"act": "focus", "selector": "#a"}],
    "blur: '#a'": [{"act": "blur", "selector": "#a"}],
    "check: label=Terms": [{"act": "check", "selector": "label=Terms"}],
    "uncheck: '#a'": [{"act": "uncheck", "selector": "#a"}],
    "submit: form": [{"act": "submit", "selector": "form"}],
    "download: '#pdf'": [{"act": "download", "selector": "#pdf"}],
    "type: {label=User: ann, label=Age: 7}": [
        {"act": "type", "selector": "label=User", "value": "ann"},
        {"act": "type", "selector": "label=Age", "value": 7},
    ],
    "select: {'#size': {index: 1}}": [{"act": "select", "selector": "#size", "value": {"index": 1}}],
    "upload: {'#file': a.txt}": [{"act": "upload", "selector": "#file", "value": "a.txt"}],
    "drag: {'#a': '#b'}": [{"act": "drag", "selector": "#a", "value": "#b"}],
    "drag: '#a'": [{"act": "drag", "selector": "#a"}],
    "scroll:": [{"act": "scroll"}],
    "wait: '#a'": [{"act": "wait", "selector": "#a"}],
    "wait: 2.5": [{"act": "wait", "value": 2.5}],
    "scroll: '#a'": [{"act": "scroll", "selector": "#a"}],
    "scroll: -200": [{"act": "scroll", "value": -200}],
    "press: Enter": [{"act": "press", "value": "Enter"}],
    "dialog: dismiss": [{"act": "dialog", "value": "dismiss"}],
    "switch_page: -1": [{"act": "switch_page", "value": -1}],
    "screenshot: cart": [{"act": "screenshot", "screenshot_id": "cart"}],
    "assert: count('.row') == 3": [{"act": "assert", "expr": "count('.row') == 3"}],
    "assert: {'#total': <= 30}": [{"act": "assert", "selector": "#total", "value": "<= 30"}],
    "see: Order's placed": [{"act": "assert", "expr": r"visible('text=Order\'s placed')"}],
    "see: role=alert": [{"act": "assert", "expr": "visible('role=alert')"}],
    "see: {role: heading, name: Done, exact: true}": [
        {"act": "assert", "expr": "visible('role=heading[name=\"Done\"]')"}
    ],
    "tool: shop.search": [{"act": "tool", "server": "shop", "tool": "search"}],
    "accessibility:": [{"act": "accessibility"}],
}


def loaded(folder: Path, steps: str) -> Loaded:
    file = folder / "buy.task.yaml"
    file.write_text(f"goal: g\nsuccess_criteria: [exists('h1')]\nsteps:\n{steps}", "utf-8")
    return load_file(file)


def refused(folder: Path, steps: str) -> list[str]:
    with pytest.raises(SpecError) as raised:
        loaded(folder, steps)
    return [f"{each.line}:{each.column} {each.message} {each.expected} {each.hint}" for each in raised.value.problems]


@pytest.mark.parametrize("short", LONG)
def test_a_short_step_stands_for_a_long_one(short: str) -> None:
    step = yaml.safe_load(short)
    assert [each.step for each in long_steps(step)] == LONG[short]
    document = {"goal": "g", "success_criteria": ["true"], "steps": [step]}
    jsonschema.Draft202012Validator(schemas()["task_spec.schema.json"]).validate(json.loads(json.dumps(document)))


def test_each_act_has_a_short_form() -> None:
    assert {next(iter(yaml.safe_load(short))) for short in LONG} == SHORT_ACTS == {*ACTS, "see"}


def test_both_forms_may_be_mixed_and_groups_too(tmp_path: Path) -> None:
    (tmp_path / "login.steps.yaml").write_text("parameters: {user: }\nsteps:\n  - type: {'#u': '${with.user}'}\n")
    steps = "  - {act: open, url: /}\n  - use: login\n    with: {user: ann}\n  - click: '#a'\n    effect: write\n"
    found = loaded(tmp_path, steps)
    assert [each.describe() for each in found.spec.steps] == ["open /", "type #u = 'ann'", "click #a"]
    assert found.spec.steps[2].effect == "write"
    places = [found.origin.place(("steps", number)) for number in range(3)]
    assert [place.rpartition("/")[2] for place in places] == ["buy.task.yaml:4", "buy.task.yaml:5)", "buy.task.yaml:7"]


def test_a_task_without_an_id_has_the_name_of_its_file(tmp_path: Path) -> None:
    assert loaded(tmp_path, "  - open: /\n").spec.task_id == "buy"
    spec = tmp_path / "folder" / "task_spec.json"
    spec.parent.mkdir()
    spec.write_text(json.dumps({"goal": "g", "success_criteria": ["exists('h1')"], "steps": [{"open": "/"}]}))
    assert load_file(spec).spec.task_id == "folder"


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("type: {'#a': x, '#b[': y}", "4:30 the selector `#b[` cannot be read"),
        ("click: {role: button, nmae: x}", "4:27 unknown key `nmae`"),
        ("clik: '#a'", "did you mean `click`?"),
        ("{effect: write, click: '#a'}", "in the short form the act stands first: `click`"),
        ("type: {selector: '#q', value: cam}", "`selector` is no selector"),
        ("{type: hello, keys: true}", "for the focused element `{act: type, keys: true, value: ...}`"),
        ("type: '#a'", "4:11 wrong type a mapping of selectors to values"),
        ("{click: '#a', selector: '#b'}", "4:29 `click` says the `selector` already"),
        ("{type: {'#a': x, '#b': y}, effect: write}", "`effect` goes with one field, and here are 2"),
        ("press: 5", "4:12 wrong type text put it in quotes"),
        ("tool: search", "4:11 not the name of a tool `SERVER.TOOL`"),
        ("see: {rol: button}", "unknown key css, role"),
        ("see: 5", "4:10 wrong type a text of the page, or a locator"),
        ("{click: '#a', tiemout: 3}", "did you mean `timeout`?"),
        ("accessibility: '#a'", "`accessibility` takes no value here"),
        ("{click: '#a', guards: {'1': exists('b')}}", "4:19 unknown key `guards`"),
        ("{act: click, selector: '#a', guards: {'1': exists('b')}}", "unknown key `guards`"),
        ("{act: type, value: x, keys: true, frame: '#f'}", "`frame` goes with a `selector`"),
        ("assert: {}", "wrong type a mapping of selectors to values"),
    ],
)
def test_a_wrong_short_step_is_reported_where_it_stands(tmp_path: Path, step: str, problem: str) -> None:
    assert problem in "\n".join(refused(tmp_path, f"  - {step}\n"))


def test_handlers_and_logins_take_short_steps_too(tmp_path: Path) -> None:
    found = loaded(tmp_path, "  - open: /\nhandlers: [{when: exists('#b'), steps: [{click: '#b'}]}]\n")
    assert [each.describe() for each in found.spec.handlers[0].steps] == ["click #b"]
    login = LoginSettings(check_url="/", holds="exists('#out')", steps=[{"type": {"#u": "ann", "#p": "x"}}])  # type: ignore[arg-type]
    assert [each.describe() for each in login.steps] == ["type #u = 'ann'", "type #p = 'x'"]
    with pytest.raises(ValueError, match="step 0: wrong type, expected: a mapping of selectors"):
        LoginSettings(check_url="/", holds="exists('#out')", steps=[{"type": "x"}])  # type: ignore[arg-type]
    steps: list[Any] = [{"click": "#b", "modifiers": ["Shift"]}]
    settings = Settings(handlers=[{"when": "exists('#b')", "steps": steps}])  # type: ignore[list-item]
    assert [each.describe() for each in settings.handlers[0].steps] == ["click #b"]
