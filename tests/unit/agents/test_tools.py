"""The tools of a model: their shapes come from the steps, and their calls become steps or are refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.agents.tools import BY_NAME, TOOLS, InvalidCallError, agrees, checked, definitions, step_of
from harness.agents.view import PageView
from harness.model.inference import FunctionCall
from harness.model.snapshot import PageElement
from harness.spec.steps import Step
from harness.spec.validation import ACTS

STEP: TypeAdapter[Step] = TypeAdapter(Step)
VIEW = PageView(
    '- generic [ref=e1]:\n  - button "Save" [ref=e2]\n  - textbox "Your name" [ref=e3]\n  - textbox [ref=e4]\n'
    '  - listitem "Bin" [ref=e5]\n  - combobox "Speed" [ref=f1e6]\n  - text: Save'
)
OFFERED = {each.name: each for each in definitions()}


def step(name: str, **arguments: Any) -> dict[str, Any]:
    return step_of(checked(FunctionCall(name, arguments), OFFERED), VIEW)


def refused(name: str, **arguments: Any) -> str:
    with pytest.raises(InvalidCallError) as told:
        step(name, **arguments)
    return str(told.value)


def test_each_tool_is_an_act_and_its_arguments_are_keys_of_that_act() -> None:
    for tool in TOOLS:
        assert ACTS[tool.act] is tool.step
        assert {each.key for each in tool.arguments.values()} <= set(tool.step.model_fields)
        needed = {name for name, each in tool.step.model_fields.items() if each.is_required()} - {"act"}
        assert needed <= {each.key for each in tool.arguments.values() if each.required}


def test_the_definitions_are_json_schemas_of_objects() -> None:
    for each in definitions():
        properties = each.parameters["properties"]
        assert each.description
        assert set(each.parameters["required"]) <= set(properties)
        assert all(facts["description"] and facts["type"] for facts in properties.values()), each.name
    click = next(each for each in definitions() if each.name == "browser_click")
    assert click.description == "Click an element."
    assert click.parameters["required"] == ["element", "target"]


def test_only_allowed_acts_are_offered_and_looks_only_while_some_are_left() -> None:
    names = [each.name for each in definitions(("open", "click"), looks=False)]
    assert names == ["browser_navigate", "browser_click", "done", "give_up"]
    assert "remember" in [each.name for each in definitions(("wait",))]


SAVE: dict[str, Any] = {"element": 'button "Save"', "target": "e2"}
FIELD: dict[str, Any] = {"element": "Your name field", "target": "e3"}


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("browser_navigate", {"url": "http://a.test/"}, {"act": "open", "url": "http://a.test/"}),
        ("browser_click", SAVE, {"act": "click", "selector": "aria-ref=e2", "note": 'button "Save"'}),
        ("browser_click", {"element": "x", "target": "#save"}, {"act": "click", "selector": "#save"}),
        (
            "browser_click",
            {**SAVE, "effect": "write", "done_when": "json('env', 'x') == 1"},
            {
                "act": "click",
                "selector": "aria-ref=e2",
                "effect": "write",
                "done_when": "json('env', 'x') == 1",
                "note": 'button "Save"',
            },
        ),
        (
            "browser_type",
            {**FIELD, "text": ""},
            {"act": "type", "selector": "aria-ref=e3", "value": "", "note": 'textbox "Your name"'},
        ),
        (
            "browser_select_option",
            {"element": "Speed", "target": "f1e6", "values": ["same day"]},
            {"act": "select", "selector": "aria-ref=f1e6", "value": ["same day"], "note": 'combobox "Speed"'},
        ),
        ("browser_press_key", {"key": "Enter"}, {"act": "press", "value": "Enter"}),
        (
            "browser_drag",
            {"startElement": "Save", "startTarget": "e2", "endElement": "Bin", "endTarget": "e5"},
            {
                "act": "drag",
                "selector": "aria-ref=e2",
                "value": "aria-ref=e5",
                "note": 'button "Save" to listitem "Bin"',
            },
        ),
        ("browser_wait_for", {"text": "Done"}, {"act": "wait", "value": "Done", "selector": "body"}),
        ("browser_wait_for", {"time": 1.5}, {"act": "wait", "value": 1.5}),
        ("browser_tabs", {"index": 1}, {"act": "switch_page", "value": 1}),
        ("browser_handle_dialog", {"accept": False}, {"act": "dialog", "value": "dismiss"}),
        (
            "browser_handle_dialog",
            {"accept": True, "promptText": "hi"},
            {"act": "dialog", "value": "accept", "text": "hi"},
        ),
        ("browser_mouse_wheel", {"deltaY": 300}, {"act": "scroll", "value": 300}),
        ("browser_take_screenshot", {"filename": "end"}, {"act": "screenshot", "screenshot_id": "end"}),
        (
            "remember",
            {"key": "order", **SAVE},
            {
                "act": "wait",
                "value": 0,
                "remember": {"order": "text('aria-ref=e2')"},
                "note": 'remember order from button "Save"',
            },
        ),
    ],
)
def test_a_call_becomes_a_step(name: str, arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    made = step(name, **arguments)
    assert made == expected
    STEP.validate_python({**made, "value": tuple(made["value"])} if isinstance(made.get("value"), tuple) else made)


def test_every_tool_has_a_call_above() -> None:
    simple = {"browser_check", "browser_uncheck", "browser_hover", "browser_submit_form", "browser_download"}
    for name in simple:
        assert step(name, **SAVE)["act"] == BY_NAME[name].act
    assert step("browser_file_upload", **FIELD, paths=["a.txt"])["value"] == ["a.txt"]


def test_what_is_no_call_is_refused_with_what_would_be_one() -> None:
    assert refused("browser_clik", **SAVE) == "there is no tool `browser_clik`: did you mean `browser_click`?"
    assert refused("browser_click", **SAVE, selector="#a").startswith("`browser_click` has no argument `selector`")
    assert refused("browser_click", element="Save") == "`browser_click` needs the argument `target`"
    assert refused("done", reason="x") == "`done` has no argument `reason`: it takes none"
    assert refused("browser_wait_for", text="a", time=1) == "`browser_wait_for` takes only one of `text` and `time`"


def test_an_argument_of_another_type_is_refused_and_not_guessed() -> None:
    assert refused("browser_tabs", index="1") == "`index` of `browser_tabs` must be of the type integer, not '1'"
    assert "must be of the type boolean" in refused("browser_handle_dialog", accept="yes")
    assert "must be of the type array" in refused("browser_select_option", element="Speed", target="f1e6", values=[1])
    assert "must be of the type integer" in refused("browser_tabs", index=True)


def test_a_ref_of_another_page_is_refused() -> None:
    message = "the page has no element with the ref e77 any more: take a ref of this snapshot"
    assert refused("browser_click", element="Save", target="e77") == message
    assert refused("browser_click", element="Save", target="aria-ref=e77") == message


def test_a_target_that_is_not_what_is_described_is_refused() -> None:
    assert (
        refused("browser_click", element='button "Delete"', target="e2") == 'e2 is button "Save", not button "Delete"'
    )
    assert refused("browser_click", element="the delete button", target="e2").endswith("not the delete button")


@pytest.mark.parametrize(
    ("description", "role", "name", "expected"),
    [
        ('button "Save"', "button", "Save", True),
        ('button "save "', "button", "Save", True),
        ('link "Save"', "button", "Save", False),
        ('button "Save all"', "button", "Save", False),
        ("Save", "button", "Save", True),
        ("the button to save the form", "button", "Save", True),
        ("Add Logitech M185 to the cart", "button", "Add to cart", True),
        ("Submit order", "button", "Cancel order", True),
        ("Submit", "button", "Cancel", False),
        ("button", "button", "Save", False),
        ("", "button", "Save", False),
        ("name textbox", "textbox", "", True),
        ("button", "textbox", "", False),
        ("anything", "generic", "", True),
    ],
)
def test_descriptions_agree_with_elements(description: str, role: str, name: str, expected: bool) -> None:
    assert agrees(description, PageElement(role, name, "e1")) is expected
