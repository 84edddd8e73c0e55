"""Selectors are parsed when a file is loaded: where they are wrong, and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.settings import Settings
from harness.runner.compile import compile_plan
from harness.spec.problems import SpecError
from harness.spec.selectors import SelectorError, check_frame, check_selector
from harness.spec.task import TaskSpec
from tests.unit.spec.files import HEAD, problems, write
from tests.unit.spec.selectors import GOOD, MALFORMED


@pytest.mark.parametrize("selector", GOOD)
def test_what_playwright_reads_is_accepted(selector: str) -> None:
    check_selector(selector)
    check_frame(f"iframe >>> {selector}")


@pytest.mark.parametrize("selector", MALFORMED)
def test_what_is_surely_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(SelectorError) as raised:
        check_selector(selector)
    assert 0 <= raised.value.offset <= len(selector)


@pytest.mark.parametrize(
    ("selector", "offset", "problem", "hint"),
    [
        ("lable=User name", 0, "unknown selector engine `lable`", "did you mean `label`?"),
        ("label=", 6, "the text is empty", ""),
        ('a >> label="Us', 11, "ends with its quote", ""),
        ("button=Save", 0, "unknown selector engine `button`", 'role=button[name="Save"]'),
        ("test_id=x", 0, "unknown selector engine `test_id`", "write `testid=x`"),
        ("xpth=//a", 0, "unknown selector engine `xpth`", "did you mean `xpath`?"),
        ("name='q'", 0, "unknown selector engine `name`", '[name="q"]'),
        ("button[name=", 6, "`[` is not closed", ""),
        ("a:has-text(Save)", 11, "needs its text in quotes", ':has-text("...")'),
        ("a:has-txt('x')", 1, "unknown pseudo-class `:has-txt`", "did you mean `:has-text`?"),
        ("[data-id=5]", 0, "no condition on an attribute", '[data-id="5"]'),
        ("p #5a", 2, "cannot begin like that", '[id="5a"]'),
        ('role=button[nmae="x"]', 12, "no condition `nmae`", "did you mean `name`?"),
        ("a >> nth=last", 9, "`nth=` needs a whole number", ""),
        ("a >> visible=yes", 13, "`visible=` needs true or false", ""),
        ("a >> ", 5, "the selector is empty", ""),
        ("//a[@x='y]", 7, "the quote ' is not closed", ""),
    ],
)
def test_a_problem_names_its_character_and_what_to_write(selector: str, offset: int, problem: str, hint: str) -> None:
    with pytest.raises(SelectorError) as raised:
        check_selector(selector)
    assert (raised.value.offset, problem in str(raised.value), hint in raised.value.hint) == (offset, True, True)


STEP = "steps:\n  - {act: open, url: 'http://shop.local/'}\n  - "
HOVER = f"{STEP}{{act: hover, selector: a}}\n"
REPAIR = """preconditions: ["exists('a')"]
repairs: [{precondition: "exists('a')", steps: [{act: click, selector: 'b['}]}]
"""
PLACES = {
    "steps[1].selector": f"{STEP}{{act: click, selector: 'a >> b['}}\n",
    "steps[1].frame": f"{STEP}{{act: click, selector: a, frame: 'f >>> b['}}\n",
    "steps[1].value": f"{STEP}{{act: drag, selector: a, value: 'b['}}\n",
    "steps[1].mask[1]": f"{STEP}{{act: assert, screenshot: a.png, mask: [a, 'b[']}}\n",
    "steps[1].ignore[0]": f"{STEP}{{act: accessibility, ignore: ['b[']}}\n",
    "steps[1].remember.k": f"{STEP}{{act: hover, selector: a, remember: {{k: \"text('b[')\"}}}}\n",
    "repairs[0].steps[0].selector": f"{REPAIR}{HOVER}",
    "success_criteria[0]": f"success_criteria: [\"NOT[exists('b[')]\"]\n{HOVER}",
    "error_recovery.on_element_not_found.fallback_selectors.a[0]": "error_recovery: "
    f"{{on_element_not_found: {{fallback_selectors: {{a: ['b[']}}}}}}\n{HOVER}",
    "allowed_writes[0].selector": f"allowed_writes: [{{selector: 'b['}}]\n{HOVER}",
}


@pytest.mark.parametrize(("path", "text"), PLACES.items(), ids=PLACES)
def test_every_selector_of_a_file_is_parsed_where_it_stands(tmp_path: Path, path: str, text: str) -> None:
    whole = f"task_id: T-1\n{text}"
    before = whole[: whole.index("b[") + 1]
    place = (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)
    found = [each for each in problems(write(tmp_path, whole)) if "cannot be read" in each.message]
    assert [(each.path, (each.line, each.column)) for each in found] == [(path, place)]


def test_a_selector_with_a_reference_is_parsed_once_it_is_filled_in(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD.replace("'#buy'", "'#${inputs.n}'") + "inputs: {n: 5a}\n")
    assert problems(path) == ()
    spec = TaskSpec(task_id="T", inputs={"n": "5a"}, steps=[{"act": "click", "selector": "#${inputs.n}"}])
    with pytest.raises(SpecError, match="`#5a` cannot be read"):
        compile_plan(spec, settings=Settings(), run_id="r", environ={})
