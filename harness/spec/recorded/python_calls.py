"""Calls in the source of a test: what it does, and what it expects."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, cast

from msgspec import Struct

from harness.spec.recorded.actions import Action, ActionName
from harness.spec.recorded.locators import LocatorPart, UnwritableError
from harness.spec.recorded.python_values import Names, PlaceInTest, Places, arguments
from harness.values import replace

_IDLE = frozenset({"wait_for_load_state", "bring_to_front", "close"})
"""Calls for which a task needs no step: each step waits by itself, and the run closes what is open."""
_HARMLESS = ("no_wait_after", "delay", "wait_until")
"""Options that change nothing in what is done."""
_EARLIER = ("commit", "domcontentloaded")
"""Values of `wait_until` at which `open` does not wait for the load event, as it usually does."""
_SIMPLE: Mapping[str, ActionName] = {
    "click": "click",
    "check": "check",
    "uncheck": "uncheck",
    "hover": "hover",
    "scroll_into_view_if_needed": "scroll",
}
_SELECTOR_FIRST = frozenset(
    {
        *("click", "fill", "type", "press", "check", "uncheck", "hover", "select_option", "set_input_files"),
        *("set_checked", "drag_and_drop", "wait_for_selector"),
    }
)
"""Old methods of a page that take a selector first."""
_APPENDED = "`type` replaces what is in the field; the test has typed it behind what was there."

_Given = Mapping[str, ast.expr]
"""The arguments of a call by name."""


class _Method(Struct, frozen=True):
    """The arguments that a method may have, and the action that they make of the one that is known so far."""

    names: tuple[str, ...]
    options: tuple[str, ...]
    make: Callable[[_Given, Action, Places], Action]
    least: int = 1

    def action(self, call: ast.Call, known: Action, places: Places) -> Action:
        given = arguments(call, self.names, self.options, least=self.least)
        return _with_options(self.make(given, known, places), given, places.names)


# What a test does.


def action_of_call(call: ast.Call, places: Places) -> Action | None:
    """The action of a call; None for one that is no step. Raises UnwritableError."""
    if not isinstance(call.func, ast.Attribute):
        raise UnwritableError("a function of the project is not carried over: what it does must stand in the task")
    method, owner = call.func.attr, call.func.value
    if isinstance(owner, ast.Attribute) and owner.attr == "keyboard":
        return _of_keyboard(method, call, places)
    place = places.of(owner)
    if place is None:
        raise UnwritableError(f"a task has no act for `{ast.unparse(call.func)}`")
    if method in _IDLE:
        return None
    if place.locator:
        return _of_element(method, call, place, places)
    return _of_page(method, call, place, places)


def _of_keyboard(method: str, call: ast.Call, places: Places) -> Action:
    if method != "press":
        raise UnwritableError(f"a task has no act for `keyboard.{method}`")
    page = places.of(cast("ast.Attribute", cast("ast.Attribute", call.func).value).value)
    text = places.names.text(arguments(call, ("key",), _HARMLESS)["key"])
    return Action(name="press", text=text, page=page.page if page else 0)


def _of_page(method: str, call: ast.Call, place: PlaceInTest, places: Places) -> Action:
    names = places.names
    match method:
        case "goto":
            given = arguments(call, ("url",), ("timeout", *_HARMLESS))
            until = names.text(given["wait_until"]) if "wait_until" in given else ""
            opened = Action(name="navigate", text=names.text(given["url"]) or "/", page=place.page)
            return _with_options(replace(opened, until=until if until in _EARLIER else ""), given, names)
        case "wait_for_timeout":
            seconds = float(names.plain(arguments(call, ("timeout",))["timeout"])) / 1000
            return Action(name="wait", text=f"{seconds:g}", page=place.page)
        case "wait_for_url":
            given = arguments(call, ("url",), ("timeout", *_HARMLESS))
            return _with_options(_address(given["url"], names, Action(name="assertUrl", page=place.page)), given, names)
        case "screenshot":
            return _screenshot(call, place, names)
        case _ if method in _SELECTOR_FIRST and call.args:
            selector = LocatorPart("css", names.text(call.args[0]))
            rest = ast.Call(func=call.func, args=call.args[1:], keywords=call.keywords)
            return _of_element(_NEW_NAMES.get(method, method), rest, PlaceInTest(place.page, (selector,)), places)
    raise UnwritableError(f"a task has no act for `page.{method}`")


_NEW_NAMES = {"drag_and_drop": "drag_to", "wait_for_selector": "wait_for"}


def _of_element(method: str, call: ast.Call, place: PlaceInTest, places: Places) -> Action:
    known = Action(name="click", locator=place.locator, page=place.page)
    if method in _SIMPLE:
        given = arguments(call, (), ("force", "timeout", "button", "click_count", *_HARMLESS), least=0)
        if "button" in given and places.names.text(given["button"]) != "left":
            raise UnwritableError("a task has no act for a click with another button than the left one")
        if "click_count" in given and places.names.plain(given["click_count"]) != 1:
            raise UnwritableError("a task has no act for a double click")
        return _with_options(replace(known, name=_SIMPLE[method]), given, places.names)
    if method == "screenshot":
        return _screenshot(call, place, places.names)
    if method not in _ELEMENT:
        raise UnwritableError(f"a task has no act for `{method}`")
    return _ELEMENT[method].action(call, known, places)


def _with_options(action: Action, given: Mapping[str, ast.expr], names: Names) -> Action:
    timeout = float(names.plain(given["timeout"])) / 1000 if "timeout" in given else None
    force = "force" in given and bool(names.plain(given["force"]))
    return replace(action, timeout=timeout or None, force=force)


def _by_text(name: ActionName, key: str) -> Callable[[_Given, Action, Places], Action]:
    return lambda given, known, places: replace(known, name=name, text=places.names.text(given[key]))


def _set_checked(given: _Given, known: Action, places: Places) -> Action:
    return replace(known, name="check" if places.names.plain(given["checked"]) else "uncheck")


def _type(given: _Given, known: Action, places: Places) -> Action:
    return replace(known, name="fill", text=places.names.text(given["text"]), note=_APPENDED)


def _select(given: _Given, known: Action, places: Places) -> Action:
    named = [name for name in ("value", "label", "index") if name in given]
    if len(named) != 1:
        raise UnwritableError("an option is named by exactly one of `value`, `label`, `index`")
    values = tuple(_texts(given[named[0]], places.names))
    if len(values) != 1 and named[0] != "value":
        raise UnwritableError(f"several options by `{named[0]}` cannot be said in a task")
    by = "" if named[0] == "value" else named[0]
    return replace(known, name="select", values=values, by=by)


def _texts(node: ast.expr, names: Names) -> Iterable[str]:
    return map(names.text, node.elts) if isinstance(node, ast.List | ast.Tuple) else [names.text(node)]


def _upload(given: _Given, known: Action, places: Places) -> Action:
    files = tuple(_texts(given["files"], places.names))
    if not files:
        raise UnwritableError("a task has no act that empties a file field")
    return replace(known, name="setInputFiles", values=files)


def _drag(given: _Given, known: Action, places: Places) -> Action:
    target = places.of(given["target"])
    onto = target.locator if target else (LocatorPart("css", places.names.text(given["target"])),)
    return replace(known, name="drag", onto=onto)


def _wait_for(given: _Given, known: Action, places: Places) -> Action:
    state = places.names.text(given["state"]) if "state" in given else "visible"
    if state == "visible":
        return replace(known, name="waitFor")
    name: ActionName = "assertExists" if state in ("attached", "detached") else "assertVisible"
    return replace(known, name=name, negated=state in ("detached", "hidden"))


def _screenshot(call: ast.Call, place: PlaceInTest, names: Names) -> Action:
    path = names.text(arguments(call, ("path",))["path"])
    return Action(name="screenshot", locator=place.locator, page=place.page, text=PurePosixPath(path).stem)


_TIMED = ("timeout", *_HARMLESS)
_FORCED = ("force", *_TIMED)
_ELEMENT: Mapping[str, _Method] = {
    "fill": _Method(("value",), _FORCED, _by_text("fill", "value")),
    "type": _Method(("text",), _TIMED, _type),
    "press_sequentially": _Method(("text",), _TIMED, _type),
    "clear": _Method((), _FORCED, lambda _, known, __: replace(known, name="fill", text=""), least=0),
    "press": _Method(("key",), _TIMED, _by_text("press", "key")),
    "set_checked": _Method(("checked",), _FORCED, _set_checked),
    "select_option": _Method(("value",), ("label", "index", *_FORCED), _select, least=0),
    "set_input_files": _Method(("files",), _TIMED, _upload),
    "drag_to": _Method(("target",), _FORCED, _drag),
    "wait_for": _Method((), ("state", "timeout"), _wait_for, least=0),
}

# What a test expects.

_STATES: Mapping[str, tuple[ActionName, bool]] = {
    "to_be_visible": ("assertVisible", False),
    "to_be_hidden": ("assertVisible", True),
    "to_be_checked": ("assertChecked", False),
    "to_be_enabled": ("assertEnabled", False),
    "to_be_disabled": ("assertEnabled", True),
    "to_be_focused": ("assertFocused", False),
    "to_be_attached": ("assertExists", False),
}
"""The assertion about a state -> the action, and whether it claims the opposite."""
_WITH_OPTION = ("to_be_visible", "to_be_checked", "to_be_enabled", "to_be_attached")
"""Assertions with an option of the name of their state: `to_be_checked(checked=False)`."""
_TEXTS: Mapping[str, tuple[ActionName, bool]] = {
    "to_have_text": ("assertText", True),
    "to_contain_text": ("assertText", False),
    "to_have_value": ("assertValue", True),
    "to_have_title": ("assertTitle", True),
}
"""The assertion about a text -> the action, and whether it is about the whole text."""


def action_of_expect(call: ast.Call, places: Places) -> Action | None:
    """The action of `expect(...).to_...(...)`; None if the call is none. Raises UnwritableError."""
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Call):
        return None
    inner = call.func.value
    if not isinstance(inner.func, ast.Name) or inner.func.id != "expect":
        return None
    place = places.of(arguments(inner, ("actual",))["actual"])
    if place is None:
        raise UnwritableError(f"`{ast.unparse(inner.args[0])}` is neither a page nor a locator of this test")
    negated = call.func.attr.startswith("not_")
    known = Action(name="assertVisible", locator=place.locator, page=place.page, negated=negated)
    return _expected(call.func.attr.removeprefix("not_"), call, known, places)


def _expected(method: str, call: ast.Call, known: Action, places: Places) -> Action:
    names = places.names
    if method in _STATES:
        return _of_state(method, call, known, names)
    if method in _TEXTS:
        name, exact = _TEXTS[method]
        given = arguments(call, ("expected",), ("timeout", "use_inner_text"))
        return _with_options(_text(given["expected"], names, replace(known, name=name, exact=exact)), given, names)
    if method not in _OTHERS:
        raise UnwritableError(f"no criterion says `{method}`")
    return _OTHERS[method].action(call, known, places)


def _of_state(method: str, call: ast.Call, known: Action, names: Names) -> Action:
    option = method.removeprefix("to_be_")
    given = arguments(call, (), ("timeout", *((option,) if method in _WITH_OPTION else ())), least=0)
    name, opposite = _STATES[method]
    if option in given:
        opposite = not names.plain(given[option])
    return _with_options(replace(known, name=name, negated=known.negated != opposite), given, names)


def _text(node: ast.expr, names: Names, action: Action) -> Action:
    if isinstance(node, ast.List | ast.Tuple):
        raise UnwritableError("a list of texts cannot be compared; check each element, or their number")
    if (found := names.regex(node)) is not None:
        return replace(action, pattern=True, text=(f"(?{found[1]})" if found[1] else "") + found[0])
    return replace(action, text=names.text(node))


def _address(node: ast.expr, names: Names, action: Action) -> Action:
    """An address: a pattern with `*`, one relative to the base URL, or a whole one."""
    found = _text(node, names, action)
    if found.pattern or ("://" in found.text and "*" not in found.text):
        return found
    begins = "" if "://" in found.text or found.text.startswith("*") else "^[a-z]+://[^/]+"
    pieces = (_GLOBS.get(piece, re.escape(piece)) for piece in re.split(r"(\*\*/?|\*)", found.text))
    return replace(found, pattern=True, text=f"{begins}{''.join(pieces)}$")


_GLOBS = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*"}


def _attribute(given: _Given, known: Action, places: Places) -> Action:
    value = _text(given["value"], places.names, replace(known, name="assertAttribute"))
    return replace(value, text=places.names.text(given["name"]), values=(value.text,))


def _snapshot(given: _Given, known: Action, places: Places) -> Action:
    if known.negated:
        raise UnwritableError("a snapshot that must not match cannot be said in a task")
    return replace(known, name="assertSnapshot", text=places.names.text(given["expected"]))


_OTHERS: Mapping[str, _Method] = {
    "to_have_url": _Method(
        ("url",),
        ("timeout",),
        lambda given, known, places: _address(given["url"], places.names, replace(known, name="assertUrl")),
    ),
    "to_have_count": _Method(("count",), ("timeout",), _by_text("assertCount", "count")),
    "to_have_attribute": _Method(("name", "value"), ("timeout",), _attribute, least=2),
    "to_match_aria_snapshot": _Method(("expected",), ("timeout",), _snapshot),
}

# Plain `assert` statements.


def statuses_of_assert(
    test: ast.expr, responses: Mapping[str, int], names: Names
) -> tuple[int, tuple[int, ...]] | None:
    """The place of the action that a response came from, and its wanted statuses; none if any below 400 will do.

    None if the assertion is not about a response. Raises UnwritableError.
    """
    match test:
        case ast.Compare(
            left=ast.Attribute(value=ast.Name(id=name), attr="status"), ops=[operator], comparators=[other]
        ):
            if name not in responses:
                return None
            wanted = names.plain(other)
            if isinstance(operator, ast.Eq):
                return responses[name], (int(wanted),)
            if isinstance(operator, ast.In):
                return responses[name], tuple(map(int, wanted))
            raise UnwritableError("`status` of a step names the statuses that are wanted")
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name), attr="ok") if name in responses:
            return responses[name], ()
        case ast.Compare(left=ast.Name(id=name), ops=[ast.IsNot()]) if name in responses:
            return responses[name], ()
    return None


def action_of_assert(test: ast.expr, places: Places) -> Action:
    """The action of `assert ...` about a page or a locator. Raises UnwritableError."""
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    inner: Any = test.operand if isinstance(test, ast.UnaryOp) else test
    if isinstance(inner, ast.Compare) and len(inner.ops) == 1 and not negated:
        return _compared(inner, places)
    place, method = _read(inner, places)
    if method not in _ASSERTED_STATES:
        raise UnwritableError("only comparisons and states of pages and locators can be checked")
    name, opposite = _ASSERTED_STATES[method]
    return Action(name=name, locator=place.locator, page=place.page, negated=negated != opposite)


def _compared(test: ast.Compare, places: Places) -> Action:
    operator, other = test.ops[0], test.comparators[0]
    if isinstance(operator, ast.In):
        place, method = _read(other, places)
        return _of_read(place, method, places.names.text(test.left), exact=False)
    place, method = _read(test.left, places)
    if not isinstance(operator, ast.Eq | ast.NotEq):
        raise UnwritableError("only `==`, `!=` and `in` can be checked")
    read = _of_read(place, method, places.names.text(other), exact=True)
    return replace(read, negated=isinstance(operator, ast.NotEq))


def _of_read(place: PlaceInTest, method: str, text: str, *, exact: bool) -> Action:
    if method not in _READ:
        raise UnwritableError(f"no criterion reads `{method}`")
    return Action(name=_READ[method], locator=place.locator, page=place.page, text=text, exact=exact)


def _read(node: ast.expr, places: Places) -> tuple[PlaceInTest, str]:
    inner = node.value if isinstance(node, ast.Await) else node
    read = inner.func if isinstance(inner, ast.Call) and not inner.args and not inner.keywords else inner
    if isinstance(read, ast.Attribute) and (place := places.of(read.value)) is not None:
        return place, read.attr
    raise UnwritableError(f"`{ast.unparse(node)}` does not read a page or a locator of this test")


_ASSERTED_STATES = {
    f"is_{state}": _STATES[f"to_be_{state}"] for state in ("visible", "hidden", "checked", "enabled", "disabled")
}
_READ: Mapping[str, ActionName] = {
    "url": "assertUrl",
    "title": "assertTitle",
    "inner_text": "assertText",
    "text_content": "assertText",
    "input_value": "assertValue",
    "count": "assertCount",
}
