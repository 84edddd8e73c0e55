"""Short steps: `- click: "#buy"` stands for `{act: click, selector: "#buy"}`. The first key of a step is its act.

Files may mix both forms. Everything behind the loading of a file knows the long form only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from pydantic import ValidationError

from harness.recovery.locators import Locator, text_body
from harness.spec.file_names import is_short
from harness.spec.problems import JsonPath, join_or
from harness.spec.references import quoted
from harness.spec.selectors import names_an_engine

Keys = Mapping[str, JsonPath]
"""Key of the long form -> the path of its value in the short one."""


class ShortFormError(ValueError):
    """A short step that cannot be read, with the key that is wrong."""

    def __init__(self, problem: str, path: JsonPath, expected: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path
        self.expected = expected


class LongStep(Struct, frozen=True):
    """A step in the long form, and where its values stand in the short one."""

    step: dict[str, Any]
    keys: Keys


def long_steps(step: dict[str, Any]) -> list[LongStep]:
    """The steps that a short one stands for: one, or one for each field. Raises ShortFormError."""
    act, value = next(iter(step.items()))
    rest = {key: each for key, each in step.items() if key != act}
    found = list(_FORMS[act](act, value))
    if len(found) > 1 and (others := [key for key in rest if key not in _OF_ALL]):
        problem = f"`{others[0]}` goes with one field, and here are {len(found)}"
        raise ShortFormError(problem, (others[0],), "a step for each field")
    for each in found:
        if said := next((key for key in rest if key in each.step), None):
            raise ShortFormError(f"`{act}` says the `{said}` already", (said,))
    return [LongStep({**each.step, **rest}, each.keys) for each in found]


def in_long_form(steps: Any) -> Any:
    """A list of steps with each in its long form; anything else as it is. Raises ValueError, with the number."""
    if not isinstance(steps, list) or not any(map(is_short, steps)):
        return steps
    found: list[Any] = []
    for number, step in enumerate(steps):
        try:
            found += [each.step for each in long_steps(step)] if is_short(step) else [step]
        except ShortFormError as error:
            expected = f", expected: {error.expected}" if error.expected else ""
            raise ValueError(f"step {number}: {error.problem}{expected}") from None
    return found


_KEYS_OF_STEPS = frozenset({
    "act", "selector", "value", "frame", "timeout", "note", "optional", "force", "effect", "done_when", "remember",
    "keys", "delay", "until", "at_most", "when", "expect_request", "status", "as",
})  # fmt: skip
"""Keys that people put where the selectors of fields stand. No element has such a tag."""
_OF_ALL = ("frame", "timeout", "force", "optional", "note", "as")
"""Keys that each of several fields in one step takes over."""
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_AIMS = frozenset({"url", "state", "request", "expr"})
"""What `wait` waits for beside an element and seconds."""
_Form = Callable[[str, Any], Iterator[LongStep]]


def _as(key: str) -> _Form:
    """The value is that of one key."""

    def form(act: str, value: Any) -> Iterator[LongStep]:
        yield LongStep({"act": act, key: value}, {"act": (), key: (act,)})

    return form


def _selector_or_number(act: str, value: Any) -> Iterator[LongStep]:
    yield from _as("value" if isinstance(value, int | float) else "selector")(act, value)


def _scroll(act: str, value: Any) -> Iterator[LongStep]:
    """An element, a number of pixels, or nothing: the end of the page."""
    yield from (_alone if value is None else _selector_or_number)(act, value)


def _drag(act: str, value: Any) -> Iterator[LongStep]:
    """A mapping of selectors to where they go; or an element, which goes `by` some pixels."""
    yield from (_as("selector") if isinstance(value, str) else _pairs)(act, value)


def _keys(act: str, value: Any) -> Iterator[LongStep]:
    """A mapping of the act's own keys."""
    if not isinstance(value, dict) or not value:
        raise ShortFormError("wrong type", (act,), f"a mapping, as in `{act}: {{offline: true}}`")
    yield LongStep({"act": act, **value}, {"act": (), **{key: (act, key) for key in value}})


def _wait(act: str, value: Any) -> Iterator[LongStep]:
    """A selector or a number of seconds; or what else is waited for, as `wait: {url: "*/cart"}`."""
    aims = isinstance(value, dict) and bool(value) and set(value) <= _AIMS
    yield from (_keys if aims else _selector_or_number)(act, value)


def _pairs(act: str, value: Any) -> Iterator[LongStep]:
    """A mapping of selectors to values: a step for each."""
    if not isinstance(value, dict) or not value:
        keys = "; for the focused element `{act: type, keys: true, value: ...}`" if act == "type" else ""
        told = f"a mapping of selectors to values, as in `{act}: {{'#a': x}}`{keys}"
        raise ShortFormError("wrong type", (act,), told)
    if stray := next((key for key in value if key in _KEYS_OF_STEPS), None):
        expected = f"selectors as keys, as in `{act}: {{'#a': x}}`; `{stray}` stands beside `{act}`, or in a long step"
        raise ShortFormError(f"`{stray}` is no selector", (act, stray), expected)
    for selector, each in value.items():
        at = (act, selector)
        yield LongStep({"act": act, "selector": selector, "value": each}, {"act": (), "selector": at, "value": at})


def _assert(act: str, value: Any) -> Iterator[LongStep]:
    yield from (_pairs if isinstance(value, dict) else _as("expr"))(act, value)


def _see(act: str, value: Any) -> Iterator[LongStep]:
    """A text that is shown on the page, or an element."""
    if isinstance(value, dict):
        try:
            selector = str(Locator.model_validate(value, strict=True))
        except ValidationError as error:
            first = error.errors()[0]
            problem = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
            raise ShortFormError(problem, (act, *first["loc"]), join_or(Locator.model_fields)) from None
    elif isinstance(value, str):
        selector = value if names_an_engine(value) else f"text={text_body(value)}"
    else:
        raise ShortFormError("wrong type", (act,), "a text of the page, or a locator")
    yield LongStep({"act": "assert", "expr": f"visible('{quoted(selector, chr(39))}')"}, {"act": (), "expr": (act,)})


def _tool(act: str, value: Any) -> Iterator[LongStep]:
    server, dot, tool = str(value).partition(".")
    if not (server and dot and tool):
        raise ShortFormError("not the name of a tool", (act,), "`SERVER.TOOL`")
    yield LongStep({"act": act, "server": server, "tool": tool}, {"act": (), "server": (act,), "tool": (act,)})


def _api(act: str, value: Any) -> Iterator[LongStep]:
    """An address, after a method and a space if it is not GET."""
    method, space, url = value.partition(" ") if isinstance(value, str) else ("", "", value)
    if space and method in _METHODS:
        yield LongStep({"act": act, "method": method, "url": url}, {"act": (), "method": (act,), "url": (act,)})
    else:
        yield from _as("url")(act, value)


def _alone(act: str, value: Any) -> Iterator[LongStep]:
    if value is not None:
        raise ShortFormError(f"`{act}` takes no value here", (act,), "nothing after the colon")
    yield LongStep({"act": act}, {"act": ()})


KEYS: Mapping[str, str] = {
    **dict.fromkeys(
        ("click", "tap", "clear", "focus", "blur", "hover", "check", "uncheck", "submit", "download"), "selector"
    ),
    **dict.fromkeys(("press", "dialog", "switch_page"), "value"),
    **dict.fromkeys(("open", "api"), "url"),
    "screenshot": "screenshot_id",
}
"""Act -> the key that its value in the short form is that of. The other acts have a form of their own."""
PAIRS = ("type", "select", "upload", "drag")
"""Acts whose short form is a mapping of selectors to values."""
_ALONE = ("accessibility", "back", "forward", "reload")
_FORMS: Mapping[str, _Form] = {
    **{act: _as(key) for act, key in KEYS.items()},
    **dict.fromkeys(PAIRS, _pairs),
    "drag": _drag,
    "api": _api,
    "scroll": _scroll,
    "assert": _assert,
    "see": _see,
    "tool": _tool,
    **dict.fromkeys(_ALONE, _alone),
    "set": _keys,
    "wait": _wait,
}


# From the long form to the short one.

_VISIBLE = re.compile(r"visible\('((?:[^'\\]|\\.)*)'\)")


def short_step(step: Mapping[str, Any]) -> dict[str, Any] | None:
    """The short form of a step, which means exactly the same; None if it has none, or is short as it can be."""
    if is_short(step):
        try:
            found = long_steps(dict(step))
        except ShortFormError:
            return None
        return short_step(found[0].step) if len(found) == 1 else None
    rest = {key: value for key, value in step.items() if key != "act"}
    for act, used in _heads(str(step.get("act")), rest):
        said = rest.keys() - used
        short = {**act, **{key: value for key, value in rest.items() if key in said}}
        with suppress(ShortFormError):
            if is_short(short) and same_steps([each.step for each in long_steps(short)], [step]):
                return short
    return None


def same_steps(some: Any, others: Any) -> bool:
    """Return whether two lists of steps in the long form mean the same: keys in any order, locators as their texts."""
    return _meaning(some) == _meaning(others)


def _meaning(steps: Any) -> str:
    told = [
        {**each, "selector": _as_text(each["selector"])} if isinstance(each, dict) and "selector" in each else each
        for each in steps
    ]
    return json.dumps(told, sort_keys=True)


def _as_text(selector: Any) -> Any:
    try:
        return str(Locator.model_validate(selector, strict=True)) if isinstance(selector, dict) else selector
    except ValidationError:
        return selector


def _no_heads(_act: str, _keys: Mapping[str, Any]) -> Iterator[_Head]:
    yield from ()


def _head_of(*names: str, between: str) -> _OwnHeads:
    """The values of some keys as one text."""

    def heads(act: str, keys: Mapping[str, Any]) -> Iterator[_Head]:
        if all(name in keys for name in names):
            yield {act: between.join(str(keys[name]) for name in names)}, names

    return heads


def _head_of_keys(of_act: Callable[[str], bool]) -> _OwnHeads:
    """Those of the act's own keys as a mapping."""

    def heads(act: str, keys: Mapping[str, Any]) -> Iterator[_Head]:
        if own := {key: value for key, value in keys.items() if of_act(key)}:
            yield {act: own}, own

    return heads


def _heads_of_assert(act: str, keys: Mapping[str, Any]) -> Iterator[_Head]:
    if found := _VISIBLE.fullmatch(str(keys.get("expr"))):
        selector = re.sub(r"\\(.)", r"\1", found[1])
        yield from (({"see": text}, ("expr",)) for text in (selector.removeprefix("text="), selector))
    yield {act: keys.get("expr")}, ("expr",)


_Head = tuple[dict[str, Any], Collection[str]]
"""What stands first in the short form, and the keys of the long one that it says."""
_OwnHeads = Callable[[str, Mapping[str, Any]], Iterator[_Head]]
_OWN_HEADS: Mapping[str, _OwnHeads] = {
    "api": _head_of("method", "url", between=" "),
    "tool": _head_of("server", "tool", between="."),
    "set": _head_of_keys(lambda key: key not in _KEYS_OF_STEPS),
    "wait": _head_of_keys(_AIMS.__contains__),
    "assert": _heads_of_assert,
}


def _heads(act: str, keys: Mapping[str, Any]) -> Iterator[_Head]:
    """What may stand first in the short form, the best first."""
    yield from _OWN_HEADS.get(act, _no_heads)(act, keys)
    if act in (*PAIRS, "assert") and {"selector", "value"} <= keys.keys():
        yield {act: {_as_text(keys["selector"]): keys["value"]}}, ("selector", "value")
    usual = (KEYS[act],) if act in KEYS else ("selector", "value")
    yield from (({act: keys[key]}, (key,)) for key in usual if key in keys)
    yield {act: None}, ()
