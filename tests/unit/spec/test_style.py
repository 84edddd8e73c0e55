"""`harness fmt`: the one style says the same, loses nothing, and is the style of what it has written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.spec.load import load_file
from harness.spec.short_forms import short_step
from harness.spec.style import in_style, means_the_same
from harness.spec.task import TaskSpec
from harness.spec.validation import ACTS

STEPS: list[dict[str, Any]] = [
    {"act": "open", "url": "/login"},
    {"act": "open", "url": "http://site.test/a?b=1#c", "status": 404},
    {"act": "click", "selector": "#buy", "effect": "write", "done_when": "visible('#done')"},
    {"act": "click", "selector": {"role": "button", "name": "Save", "exact": True}},
    {"act": "click", "selector": "li, [data-a='{x}']", "count": 2, "modifiers": ["Shift"]},
    {"act": "type", "selector": "label=User name", "value": "ann, the #1: {a}"},
    {"act": "type", "selector": {"label": "Age"}, "value": 7},
    {"act": "type", "selector": "#note", "value": "two\nlines  \n"},
    {"act": "type", "selector": "#search", "value": "it's \"so\"", "keys": True, "note": "key by key"},
    {"act": "type", "value": "where the cursor is", "keys": True},
    {"act": "select", "selector": "#size", "value": {"index": 1}},
    {"act": "upload", "selector": "#file", "value": "a.txt", "drop": True},
    {"act": "drag", "selector": "#a", "value": "#b"},
    {"act": "drag", "selector": "#knob", "by": {"x": 100, "y": 0}},
    {"act": "scroll"},
    {"act": "scroll", "value": -200},
    {"act": "wait", "selector": "#state", "value": "ready"},
    {"act": "wait", "value": 0.5},
    {"act": "wait", "url": "*/cart", "timeout": 3},
    {"act": "set", "offline": True, "note": "in the tunnel"},
    {"act": "press", "value": "Enter", "selector": "#search"},
    {"act": "reload"},
    {"act": "tool", "server": "shop", "tool": "get.order", "arguments": {"id": "O-1"}},
    {"act": "api", "url": "/orders", "method": "POST", "value": {"a": [1, "2", None]}},
    {"act": "assert", "expr": "visible('text=Hello')"},
    {"act": "assert", "expr": r"visible('text=Order\'s placed')"},
    {"act": "assert", "expr": "visible('role=alert')", "soft": True},
    {"act": "assert", "expr": "visible('#css')"},
    {"act": "assert", "expr": "count('.row') == 3"},
    {"act": "assert", "selector": "#total", "value": "<= 30", "timeout": 2.5},
    {"act": "assert", "selector": "#menu", "aria": '- link "Cart"'},
    {"act": "screenshot", "screenshot_id": "cart"},
    {"act": "accessibility", "impact": "serious"},
]  # fmt: skip


def flow(value: Any, quotes: str) -> str:
    """A value in braces and brackets, with texts in the quotes that are asked for, if they can be."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key, quotes)}: {flow(each, quotes)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(flow(each, quotes) for each in value)}]"
    if not isinstance(value, str):
        return json.dumps(value)
    if quotes == "" and re.fullmatch(r"[A-Za-z/.][\w /=.'?*-]*(?<! )", value):
        return value if value not in ("yes", "no", "on", "off", "null") else f"'{value}'"
    return "'" + value.replace("'", "''") + "'" if quotes == "'" and "\n" not in value else json.dumps(value)


@st.composite
def written(draw: st.DrawFn, step: dict[str, Any], column: int) -> str:
    """A step as one of many people would write it, at this column."""
    quotes = draw(st.sampled_from(["", "'", '"']))
    names = draw(st.permutations(list(step)))
    form = draw(st.sampled_from(["braces", "block", "block", "short"]))
    if form == "short" and (short := short_step(step)):
        step, names = short, list(short)
    note = draw(st.sampled_from(["", "", "  # a note", " #odd: {note}"]))
    gap = draw(st.sampled_from([" ", " ", "   "]))
    lead = f"{' ' * column}-{gap}"
    if form == "braces":
        return f"{lead}{flow({name: step[name] for name in names}, quotes)}{note}\n"
    lines = []
    for number, name in enumerate(names):
        value = step[name]
        if isinstance(value, dict) and value and draw(st.booleans()):
            deep = " " * (column + 1 + len(gap) + draw(st.integers(1, 4)))
            lines += [f"{name}:", *(f"{deep}{flow(key, quotes)}: {flow(each, quotes)}" for key, each in value.items())]
        elif isinstance(value, str) and value.endswith("\n"):
            deep = " " * (column + 1 + len(gap) + 2)
            lines += [f"{name}: |", *(f"{deep}{line}" for line in value.splitlines())]
        else:
            lines.append(f"{name}: {flow(value, quotes)}" + (note if number == draw(st.integers(0, 2)) else ""))
            if draw(st.integers(0, 9)) == 0:
                lines.append("# between")
    indent = " " * (column + 1 + len(gap))
    lines = [line if number == 0 or line.startswith(indent) else indent + line for number, line in enumerate(lines)]
    return lead + "\n".join(lines) + "\n"


@st.composite
def files(draw: st.DrawFn) -> str:
    """A task file in any style, with comments and blank lines."""
    column = draw(st.sampled_from([0, 2, 4]))
    between = st.sampled_from(["", "", "\n", "\n\n\n", f"{' ' * column}# a comment\n"])
    steps = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6))
    text = draw(st.sampled_from(["", "# the file\n\n", "\n\n"])) + "task_id: T   \ngoal: 'a  goal'\nsteps:\n"
    for step in steps:
        text += draw(between) + draw(written(step, column))
    inner = draw(st.sampled_from([1, 2, 5]))
    text += "before_each:\n" + draw(written({"act": "click", "selector": {"label": "OK"}}, inner))
    text += f"handlers:\n{' ' * inner}- when: visible('#c')\n{' ' * inner}  steps:\n"
    text += draw(written({"act": "click", "selector": "#c"}, inner + 2))
    return text + draw(st.sampled_from(["", "\n\n", "success_criteria: [\"text('#a') == 'b'\"]", "# the end"]))


def spec_of(text: str, folder: Path) -> TaskSpec:
    file = folder / "T.task.yaml"
    file.write_text(text, "utf-8")
    (folder / "a.txt").touch()
    return load_file(file, needs_steps=False).spec


def comments(text: str) -> list[str]:
    return sorted(re.findall(r"# ?(?:the file|a comment|the end|between|a note)|#odd: \{note\}", text))


@settings(max_examples=40, deadline=None)
@given(files())
@example("steps: [{act: click, selector: '#a'}, {act: open, url: /x}]\n")
@example("{steps: [{act: click, selector: '#a'}]}\n")
@example("steps:\n- &a {act: click, selector: '#a'}\n- *a\n- {act: type, selector: &s '#a', value: *s}\n")
@example("steps: &all\n- act: click\n  selector: '#a'\nhandlers: [{when: visible('#c'), steps: *all}]")
def test_the_style_means_the_same_and_is_its_own_style(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    before, made, long = spec_of(text, folder), in_style(text), in_style(text, long=True)
    assert spec_of(made, folder) == before == spec_of(long, folder)
    assert means_the_same(text, made)
    assert comments(made) == comments(text) == comments(long)
    assert in_style(made) == made
    assert in_style(long, long=True) == long
    assert not re.search(r"[ \t]\n|\n\n\n|\A\n", re.sub(r"\|\n( +).*\n(\1.*\n)+", "a text\n", made))


def test_every_act_has_a_short_form_whose_first_key_is_the_act() -> None:
    shown = [each["act"] for each in STEPS if (short := short_step(each)) and next(iter(short)) in (each["act"], "see")]
    assert set(ACTS) - set(shown) == {
        "back", "blur", "check", "clear", "dialog", "download", "focus", "forward", "hover", "submit", "switch_page",
        "tap", "uncheck",
    }  # fmt: skip
    for act in set(ACTS) - set(shown):
        value = {"dialog": "accept", "switch_page": -1}.get(act, "#a")
        key = "value" if act in ("dialog", "switch_page") else "selector"
        keys = {} if act in ("back", "forward") else {key: value}
        assert short_step({"act": act, **keys}) == {act: value if keys else None}
    assert short_step({"act": "assert", "selector": "#menu", "aria": "x"}) is None
    assert short_step({"act": "type", "value": "x", "keys": True}) is None


WRITTEN = """\
goal: Buy   # all of it
steps:
- {act: open, url: /login}
- act: type
  selector: label=User
  value: ann
- {act: type, selector: "#pw", value: '${env:PW}'}

# then
- act: click   # the blue one
  selector: "#in"
  effect: write


- act: assert
  expr: "visible('text=Hello')"
- {act: assert, selector: "#menu", aria: '- link "Cart"'}
"""
STYLED = """\
goal: Buy   # all of it
steps:
  - open: /login
  - type: {label=User: ann, "#pw": '${env:PW}'}

  # then
  - click: "#in"  # the blue one
    effect: write

  - see: Hello
  - {act: assert, selector: "#menu", aria: '- link "Cart"'}
"""


def test_it_looks_as_a_person_would_write_it() -> None:
    assert in_style(WRITTEN) == STYLED
    assert "- {act: type, selector: label=User, value: ann}\n" in in_style(STYLED, long=True)


@pytest.mark.parametrize(
    "text",
    [
        "steps:\n  - act: click\n    # which one\n    # of many\n    selector: '#a'\n",
        "steps:\n  - act: type\n    selector: '#a'\n    value: |+\n      a\n\n",
        "steps:\n  - type:\n      '#a': 1\n      '#b': 2\n  - type: {'#a': 3}\n  - type: {'#a': 4}\n",
    ],
)
def test_what_cannot_be_moved_without_a_loss_stays(text: str) -> None:
    assert in_style(text) == text


def test_another_meaning_is_noticed() -> None:
    assert means_the_same("steps: [{act: open, url: /a}]", "steps: [{open: /a}]")
    assert not means_the_same("steps: [{act: open, url: /a}]", "steps: [{open: /b}]")
    assert not means_the_same("steps: [{act: open, url: /a}]", "steps: [{open: /a}, {open: /a}]")
    assert not means_the_same("goal: a\nsteps: []", "goal: b\nsteps: []")
