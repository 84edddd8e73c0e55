"""The tools by which a model acts: playwright-mcp's names and shapes, made from the models of the steps.

This table is the one vocabulary of the `llm` agent and of other programs that choose steps by calling tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from msgspec import Struct, field

from harness.agents.view import PageView
from harness.model.inference import FunctionCall, ToolDefinition
from harness.model.policy import CALLS
from harness.model.snapshot import REF_ENGINE, PageElement
from harness.model.tools import OfferedTool
from harness.spec.page_steps import Wait
from harness.spec.problems import did_you_mean, join_or
from harness.spec.step_base import StepBase
from harness.spec.steps import (
    Check,
    Click,
    Dialog,
    Download,
    Drag,
    Hover,
    Open,
    Press,
    Screenshot,
    Scroll,
    Select,
    Submit,
    SwitchPage,
    Type,
    Uncheck,
    Upload,
)
from harness.values import map_texts

_REF = re.compile(r"(f\d+)?e\d+")
"""The form of a ref; every other target is a selector."""
LOOK, REMEMBER, DONE, GIVE_UP = "look", "remember", "done", "give_up"


class InvalidCallError(ValueError):
    """A call that is no step; the message says why, for the model."""


class Argument(Struct, frozen=True):
    """One argument of a tool, which gives one key of the step."""

    key: str
    """The key of the step."""
    required: bool = True
    schema: Mapping[str, Any] | None = None
    """Its JSON Schema; None: that of the step's key."""
    values: Mapping[Any, Any] = field(default_factory=dict)
    """What the key gets in place of a value of the argument."""
    names_element: str = ""
    """The argument with the description of the element, if this one names an element by ref or selector."""


_OFFERED: Mapping[type[StepBase], str] = {
    Type: "Replace the content of a field.",
    Drag: "Drag an element onto another one.",
    Wait: "Wait until an element is visible and its text contains `value`, or wait for some seconds.",
}
"""What agents are told of acts that can do more than the tools offer."""


class BrowserTool(Struct, frozen=True):
    """A tool that does one act."""

    name: str
    step: type[StepBase]
    arguments: Mapping[str, Argument]
    hint: str = ""
    """What a model needs to know beyond the act's own description."""

    @property
    def act(self) -> str:
        """The act that it does."""
        return str(self.step.model_fields["act"].default)

    @property
    def description(self) -> str:
        """The description of the act, as far as the tool offers it, and the hint."""
        first = _OFFERED.get(self.step, self.step.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        return " ".join(part for part in (" ".join(first.split()), self.hint) if part)


_ELEMENT_TEXT = (
    'Role and name of the element as the snapshot shows them, such as `button "Save"`. It is compared with the target.'
)
_TARGET_TEXT = (
    "The ref of the element in the present snapshot, such as `e12`; else a selector that matches one element."
)
_DOWN = "Pixels to scroll down; a negative number scrolls up. Without it, the target is brought into view."
_TEXT: Mapping[str, Any] = {"type": "string"}
_TEXTS: Mapping[str, Any] = {"type": "array", "items": _TEXT, "minItems": 1}
_TARGET: Mapping[str, Any] = {**_TEXT, "description": _TARGET_TEXT}
_DELTA: Mapping[str, Any] = {"type": "integer", "description": _DOWN}
_TIME: Mapping[str, Any] = {"type": "number", "description": "How long to wait, in seconds."}
_AWAITED: Mapping[str, Any] = {**_TEXT, "description": "Text to wait for, in the target or on the page."}
_WRITES = {
    "effect": Argument("effect", required=False, schema={"type": "string", "enum": ["write"]}),
    "done_when": Argument("done_when", required=False),
}


def _on(required: bool = True) -> dict[str, Argument]:
    return {"target": Argument("selector", required, _TARGET, names_element="element")}


TOOLS: tuple[BrowserTool, ...] = (
    BrowserTool("browser_navigate", Open, {"url": Argument("url")}),
    BrowserTool("browser_click", Click, {**_on(), **_WRITES}),
    BrowserTool("browser_type", Type, {**_on(), "text": Argument("value", schema=_TEXT), **_WRITES}),
    BrowserTool("browser_select_option", Select, {**_on(), "values": Argument("value", schema=_TEXTS)}),
    BrowserTool("browser_check", Check, _on()),
    BrowserTool("browser_uncheck", Uncheck, _on()),
    BrowserTool("browser_press_key", Press, {"key": Argument("value"), **_on(required=False), **_WRITES}),
    BrowserTool("browser_hover", Hover, _on()),
    BrowserTool(
        "browser_drag",
        Drag,
        {
            "startTarget": Argument("selector", schema=_TARGET, names_element="startElement"),
            "endTarget": Argument("value", schema=_TARGET, names_element="endElement"),
        },
    ),
    BrowserTool("browser_submit_form", Submit, {**_on(), "done_when": Argument("done_when", required=False)}),
    BrowserTool("browser_file_upload", Upload, {**_on(), "paths": Argument("value", schema=_TEXTS)}),
    BrowserTool("browser_download", Download, {**_on(), "filename": Argument("value", required=False, schema=_TEXT)}),
    BrowserTool("browser_mouse_wheel", Scroll, {"deltaY": Argument("value", False, _DELTA), **_on(required=False)}),
    BrowserTool(
        "browser_wait_for",
        Wait,
        {"text": Argument("value", False, _AWAITED), "time": Argument("value", False, _TIME), **_on(required=False)},
        "Give one of `text`, `time`, `target`.",
    ),
    BrowserTool("browser_tabs", SwitchPage, {"index": Argument("value", schema={"type": "integer"})}),
    BrowserTool(
        "browser_handle_dialog",
        Dialog,
        {
            "accept": Argument("value", schema={"type": "boolean"}, values={True: "accept", False: "dismiss"}),
            "promptText": Argument("text", required=False, schema=_TEXT),
        },
    ),
    BrowserTool("browser_take_screenshot", Screenshot, {"filename": Argument("screenshot_id"), **_on(required=False)}),
)  # fmt: skip
BY_NAME = {tool.name: tool for tool in TOOLS}


@cache
def definitions(acts: tuple[str, ...] | None = None, *, looks: bool = True) -> tuple[ToolDefinition, ...]:
    """The tools for a model. `acts`: the acts that its policy allows; None: all. `looks`: whether it may look again."""
    allowed = [tool for tool in TOOLS if acts is None or tool.act in acts]
    waits = acts is None or "wait" in acts  # what `remember` does
    own = [each for each in _OWN if (looks or each.name != LOOK) and (waits or each.name != REMEMBER)]
    return (*map(_definition, allowed), *own)


def _definition(tool: BrowserTool) -> ToolDefinition:
    properties, required = {}, []
    declared = tool.step.model_json_schema()["properties"]
    for name, argument in tool.arguments.items():
        if argument.names_element:
            properties[argument.names_element] = {"type": "string", "description": _ELEMENT_TEXT}
        own = declared[argument.key]
        schema = argument.schema or {key: own[key] for key in ("type", "enum", "anyOf") if key in own}
        properties[name] = {"description": own["description"], **_not_null(schema)}
        if argument.required:
            required += [argument.names_element, name] if argument.names_element else [name]
    return ToolDefinition(tool.name, tool.description, _object(properties, required))


def _not_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema without `null`: an argument that is not needed is left out."""
    some = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return {"type": some[0]["type"]} if some else schema


def _object(properties: Mapping[str, Any], required: Collection[str]) -> Mapping[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required), "additionalProperties": False}


def _described(description: str, kind: str = "string") -> Mapping[str, Any]:
    return {"type": kind, "description": description}


_OWN = (
    ToolDefinition(
        LOOK,
        "Look closer at the page without acting: give exactly one argument.",
        _object(
            {
                "find": _described("Find the lines of the whole snapshot that contain this text."),
                "ref": _described("Show the element with this ref and everything in it."),
                "screenshot": _described("See a picture of the visible part of the page.", "boolean"),
            },
            (),
        ),
    ),
    ToolDefinition(
        REMEMBER,
        "Keep the text of an element, or the value of a field, in the task's memory.",
        _object(
            {
                "key": _described("Name of the memory entry, as the goal or the task names it."),
                "element": _described(_ELEMENT_TEXT),
                "target": _TARGET,
            },
            ("key", "element", "target"),
        ),
    ),
    ToolDefinition(DONE, "Say that the goal is reached. The task's success criteria decide.", _object({}, ())),
    ToolDefinition(
        GIVE_UP,
        "Say that the goal cannot be reached.",
        _object({"reason": _described("Why, in one sentence.")}, ("reason",)),
    ),
)


def checked(call: FunctionCall, offered: Mapping[str, ToolDefinition]) -> FunctionCall:
    """The call, if it is of an offered tool and its arguments fit. Raises InvalidCallError."""
    if call.name not in offered:
        hint = did_you_mean(call.name, offered) or f"the tools are {join_or(sorted(offered))}"
        raise InvalidCallError(f"there is no tool `{call.name}`: {hint}")
    known, required = (offered[call.name].parameters[part] for part in ("properties", "required"))
    given = {name: value for name, value in call.arguments.items() if value is not None}
    for name, value in given.items():
        if name not in known:
            hint = did_you_mean(name, known) or (f"it takes {join_or(list(known))}" if known else "it takes none")
            raise InvalidCallError(f"`{call.name}` has no argument `{name}`: {hint}")
        if not _fits(value, known[name]["type"]):
            raise InvalidCallError(
                f"`{name}` of `{call.name}` must be of the type {known[name]['type']}, not {value!r}"
            )
    for name in required:
        if name not in given or (given[name] == "" and name != _MAY_BE_EMPTY):
            raise InvalidCallError(f"`{call.name}` needs the argument `{name}`")
    return FunctionCall(call.name, given)


_MAY_BE_EMPTY = "text"
"""The argument that may be an empty text: then a field is emptied."""
_TYPES: Mapping[str, tuple[type, ...]]
_TYPES = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}


def _fits(value: Any, kind: str) -> bool:
    """Return whether an argument has its JSON type; the items of an array are texts."""
    if kind == "array":
        return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def step_of(call: FunctionCall, view: PageView) -> dict[str, Any]:
    """The step that a checked call asks for, as in a file. Raises InvalidCallError, never guesses."""
    if call.name == REMEMBER:
        return _remembering(call, view)
    tool = BY_NAME[call.name]
    step: dict[str, Any] = {"act": tool.act}
    notes: list[str] = []
    for name, argument in tool.arguments.items():
        value = call.arguments.get(name)
        if value is None or (value == "" and not argument.required):
            continue
        if argument.names_element:
            value, element = _target(call, name, argument.names_element, view)
            notes += [str(element)] if element else []
        if argument.key in step:
            raise InvalidCallError(f"`{call.name}` takes only one of `text` and `time`")
        step[argument.key] = argument.values[value] if argument.values else value
    if tool.step is Wait and isinstance(step.get("value"), str):
        step.setdefault("selector", "body")
    return {**step, "note": literal(" to ".join(notes))} if notes else step


def _remembering(call: FunctionCall, view: PageView) -> dict[str, Any]:
    """The step that keeps the text of an element. Raises InvalidCallError."""
    selector, element = _target(call, "target", "element", view)
    key = str(call.arguments["key"])
    note = literal(f"remember {key} from {element or selector}")
    return {"act": "wait", "value": 0, "remember": {key: f"text({quoted(selector)})"}, "note": note}


def _target(call: FunctionCall, name: str, description: str, view: PageView) -> tuple[str, PageElement | None]:
    """The selector of a target, and its element if it is a ref. Raises InvalidCallError."""
    target = str(call.arguments[name]).removeprefix(REF_ENGINE)
    if not _REF.fullmatch(target):
        return target, None
    element = view.elements.get(target)
    if element is None:
        raise InvalidCallError(f"the page has no element with the ref {target} any more: take a ref of this snapshot")
    said = str(call.arguments.get(description) or "")
    if not agrees(said, element):
        raise InvalidCallError(f"{target} is {element}, not {said or 'an element without a description'}")
    return element.selector, element


_EXACT = re.compile(r'\s*(?P<role>[a-z]+)\s+"(?P<name>.*)"\s*', re.DOTALL)
_FILLERS = (
    "a an the of in on at to for and with this that its named called labelled labeled element field box control item "
    "icon page form"
)


def agrees(description: str, element: PageElement) -> bool:
    """Return whether a description can mean this element.

    `button "Save"` must have this role and name; in free words, at least half of those that are neither a role nor a
    filler must be in the name. An element without a name must have its role named.
    """
    if exact := _EXACT.fullmatch(description):
        return exact["role"] == element.role and _words(exact["name"]) == _words(element.name)
    words = _words(description)
    name = set(_words(element.name))
    if not name:
        return element.role in words or element.role == "generic"
    telling = [each for each in words if each in name or each not in _UNTELLING]
    return bool(telling) and 2 * sum(each in name for each in telling) >= len(telling)


_ROLE_WORDS = (
    "button link textbox searchbox text input combobox dropdown list listbox option checkbox radio switch slider tab "
    "menu menuitem heading image search"
)
_UNTELLING = frozenset(f"{_FILLERS} {_ROLE_WORDS}".split())
"""Words of a description that say little about which element is meant."""


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def quoted(text: str) -> str:
    """The text as a string of an expression."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def literal(text: str) -> str:
    """The text in a form that is taken literally: `${` begins no reference."""
    return text.replace("${", "$${")


# The tools of servers as a model gets them beside those of the browser: named, bounded, and marked as data. What a
# server says of its tools is text of strangers, like that of a page.

MOST_SERVED = 40
"""The largest number of tools of servers that a model gets."""
LONGEST_NAME = 64
"""Characters of a name that every provider takes."""
LONGEST_DESCRIPTION = 1000
LONGEST_SCHEMA = 8_000
LONGEST_OF_ALL = 40_000
"""Characters of all descriptions and schemas together."""
_NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_DIGITS = 8
_Change = Callable[[str], str]


class ServedTools(Struct, frozen=True):
    """The tools of servers in one question."""

    definitions: tuple[ToolDefinition, ...] = ()
    by_name: Mapping[str, OfferedTool] = {}
    """The name that the model knows -> the tool."""
    left_out: tuple[str, ...] = ()
    """The tools (`server.tool`) that are too many or too large."""

    def step_of(self, call: FunctionCall) -> dict[str, Any]:
        """The step that calls one of these tools. Its server's schema is checked when it is called.

        Raises InvalidCallError if what is to be remembered of the answer is not written as it must be.
        """
        offered, arguments = self.by_name[call.name], dict(call.arguments)
        ours = REMEMBER_AS not in _schema(offered)["properties"]
        remembered = _remembered(call.name, arguments.pop(REMEMBER_AS, None)) if ours else {}
        step = {"act": CALLS, "server": offered.server, "tool": offered.tool.name, "arguments": arguments}
        return {**step, "remember": remembered} if remembered else step


REMEMBER_AS = "remember_as"
"""The argument that each tool has beside its own, unless it has one of this name: what to remember of its answer."""
_REMEMBERED: Mapping[str, Any] = {
    "type": "object",
    "description": "Optional. Memory entries to keep of the answer: name of the entry -> path into the answer, such as "
    '{"login.code": "code"}; "" is the whole answer.',
}


def _remembered(name: str, given: Any) -> dict[str, str]:
    """Name of the entry -> the value expression. Raises InvalidCallError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(path, str) for path in given.values()):
        raise InvalidCallError(
            f"`{REMEMBER_AS}` of `{name}` must be an object: name of an entry -> path into the answer"
        )
    return {key: f"result({quoted(path)})" if path else "result()" for key, path in given.items()}


def served_tools(tools: Sequence[OfferedTool], mask: _Change) -> ServedTools:
    """The tools for a model, in the order of their names; `mask` takes secrets out of what their servers say."""
    room = LONGEST_OF_ALL
    definitions: list[ToolDefinition] = []
    by_name: dict[str, OfferedTool] = {}
    left_out: list[str] = []
    for offered in sorted(tools, key=lambda each: (each.server, each.tool.name)):
        name = _name(offered, by_name)
        own = map_texts(_schema(offered), mask, keys=True)
        parameters = {**own, "properties": {REMEMBER_AS: _REMEMBERED, **own["properties"]}}
        made = ToolDefinition(name, _description(offered, mask), parameters)
        size = len(json.dumps(own, default=str))
        cost = len(json.dumps(made.parameters, default=str)) + len(made.description)
        if len(definitions) == MOST_SERVED or size > LONGEST_SCHEMA or cost > room:
            left_out.append(f"{offered.server}.{offered.tool.name}")
            continue
        definitions.append(made)
        by_name[name] = offered
        room -= cost
    return ServedTools(tuple(definitions), by_name, tuple(left_out))


def _name(offered: OfferedTool, taken: Mapping[str, OfferedTool]) -> str:
    """`server__tool` in the letters that providers take; where that is too long or taken, with digits of a hash."""
    whole = f"{offered.server}__{offered.tool.name}"
    name = _NOT_OF_NAMES.sub("_", whole)
    if len(name) <= LONGEST_NAME and name not in taken:
        return name
    digest = sha256(whole.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"{name[: LONGEST_NAME - _DIGITS - 1]}_{digest}"


def _description(offered: OfferedTool, mask: _Change) -> str:
    said = mask(offered.tool.description)
    if len(said) > LONGEST_DESCRIPTION:
        said = f"{said[:LONGEST_DESCRIPTION]}..."
    head = f"The tool {offered.tool.name} of the server {offered.server}. Its effect: {offered.effect}."
    return f"{head} Its server says, as data: {json.dumps(said, ensure_ascii=False)}" if said else head


def _schema(offered: OfferedTool) -> dict[str, Any]:
    """The schema of the arguments; providers want an object with properties."""
    found = {"properties": {}, **offered.tool.parameters, "type": "object"}
    return found if isinstance(found["properties"], Mapping) else {**found, "properties": {}}
