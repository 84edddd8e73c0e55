"""What a test expects, as criteria."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from harness.spec.imported.locating import bind, checked
from harness.spec.imported.values import Ref, Regex, plain, said
from harness.spec.recorded.journey import literal
from harness.spec.recorded.locators import UnwritableError

_GLOBS = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*"}
_ORIGIN = "^[a-z]+://[^/]+"


def address(value: Any) -> str:
    """The criterion that the URL is this one: a pattern with `*`, one relative to the base URL, or a whole one."""
    if isinstance(value, Regex):
        return f"url() matches {literal(expression_of(value))}"
    text = said(value)
    if text.startswith("${env:") and "*" not in text:
        return f"url() == {literal(text)}"
    if "://" in text and "*" not in text:
        bare = urlsplit(text)
        return f"url() == {literal(text if bare.path or '${' in text else f'{text}/')}"
    begins = "" if "://" in text or text.startswith("*") else _ORIGIN
    pieces = (_GLOBS.get(piece, escaped(piece)) for piece in re.split(r"(\*\*/?|\*)", text))
    whole = "".join(pieces)
    return f"url() matches {literal(f'{begins}{whole}$' if begins else f'^{whole}$')}"


def from_glob(text: str) -> str:
    """A glob of Playwright as the pattern of a task, in which `*` matches anything. Raises UnwritableError."""
    if "{" in text.replace("${", "") or "?" in text.partition("?")[2]:
        raise UnwritableError("this pattern for a URL cannot be said in a task")
    found = text.replace("**/", "*/").replace("**", "*")
    return found if "://" in found or found.startswith("*") else f"*{found}"


def escaped(text: str) -> str:
    """A text for a regular expression; references in it stay."""
    return "".join(each if each.startswith("${") else re.escape(each) for each in re.split(r"(\$\{[^}]*\})", text))


def expression_of(regex: Regex) -> str:
    """A regular expression as the assertion language has it. Raises UnwritableError."""
    found = checked(regex)
    return (f"(?{found.flags})" if found.flags else "") + found.body


def text_criterion(read: str, value: Any, *, whole: bool, ignore_case: bool = False) -> str:
    """That a text that is read is this one, contains it, or matches it. Raises UnwritableError."""
    if isinstance(value, Regex):
        return f"{read} matches {literal(expression_of(value))}"
    if ignore_case:
        text = escaped(said(value))
        return f"{read} matches {literal(f'(?i)^{text}$' if whole else f'(?i){text}')}"
    return f"{read} {'==' if whole else 'includes'} {literal(said(value))}"


Reader = Callable[..., str]
"""A call that reads an element: `reader("attr", "href")`."""


def _text(whole: bool) -> Callable[[Reader, Mapping[str, Any]], str]:
    def said_of(read: Reader, given: Mapping[str, Any]) -> str:
        value, case = given["expected"], bool(plain(given.get("ignore_case", False)))
        function = "text" if plain(given.get("use_inner_text", False)) else "text_content"
        if not isinstance(value, list | tuple):
            return text_criterion(read(function), value, whole=whole, ignore_case=case)
        if whole and not case and all(isinstance(each, str | Ref) for each in value):
            return f"{read('texts')} == [{', '.join(literal(said(each)) for each in value)}]"
        if not whole:
            raise UnwritableError("write for each text that `texts(...)` includes it, in the order that matters")
        each_one = (
            text_criterion(read(function, nth=number), each, whole=True, ignore_case=case)
            for number, each in enumerate(value)
        )
        count = f"{read('count')} == {len(value)}"
        return f"ALL[{', '.join([count, *each_one])}]"

    return said_of


def _attribute(read: Reader, given: Mapping[str, Any]) -> str:
    call = read("attr", said(given["name"]))
    if "value" not in given:
        return f"{call} != null"
    return text_criterion(call, given["value"], whole=True, ignore_case=bool(plain(given.get("ignore_case", False))))


def _values(read: Reader, given: Mapping[str, Any]) -> str:
    raise UnwritableError("no criterion reads the options that are chosen")


def _classes(read: Reader, given: Mapping[str, Any]) -> str:
    """`to_have_class`: the whole attribute."""
    value = given["expected"]
    if isinstance(value, list | tuple):
        raise UnwritableError("check the classes of each element by itself")
    return text_criterion(read("attr", "class"), value, whole=True)


def _contained(read: Reader, given: Mapping[str, Any]) -> str:
    if isinstance(given["expected"], list | tuple):
        raise UnwritableError("check the classes of each element by itself")
    wanted = said(given["expected"]).split()
    each_one = [f"{read('class')} includes {literal(each)}" for each in wanted]
    return each_one[0] if len(each_one) == 1 else f"ALL[{', '.join(each_one)}]"


def _state(function: str, option: str = "", *, opposite: bool = False) -> Callable[[Reader, Mapping[str, Any]], str]:
    def said_of(read: Reader, given: Mapping[str, Any]) -> str:
        other = opposite != (option in given and not plain(given[option]))
        return f"NOT[{read(function)}]" if other else read(function)

    return said_of


def _read_text(function: str, name: str) -> Callable[[Reader, Mapping[str, Any]], str]:
    return lambda read, given: text_criterion(read(function), given[name], whole=True)


ELEMENT: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Reader, Mapping[str, Any]], str], int]] = {
    "to_be_visible": ((), ("visible",), _state("visible", "visible"), 0),
    "to_be_hidden": ((), (), _state("visible", opposite=True), 0),
    "to_be_checked": ((), ("checked",), _state("checked", "checked"), 0),
    "to_be_enabled": ((), ("enabled",), _state("enabled", "enabled"), 0),
    "to_be_disabled": ((), (), _state("enabled", opposite=True), 0),
    "to_be_editable": ((), ("editable",), _state("editable", "editable"), 0),
    "to_be_focused": ((), (), _state("focused"), 0),
    "to_be_empty": ((), (), _state("empty"), 0),
    "to_be_attached": ((), ("attached",), _state("exists", "attached"), 0),
    "to_be_in_viewport": ((), (), _state("in_viewport"), 0),
    "to_have_text": (("expected",), ("use_inner_text", "ignore_case"), _text(True), 1),
    "to_contain_text": (("expected",), ("use_inner_text", "ignore_case"), _text(False), 1),
    "to_have_value": (("value",), (), _read_text("value", "value"), 1),
    "to_have_values": (("values",), (), _values, 1),
    "to_have_count": (("count",), (), lambda read, given: f"{read('count')} == {said(given['count'])}", 1),
    "to_have_attribute": (("name", "value"), ("ignore_case",), _attribute, 1),
    "to_have_id": (("id",), (), lambda read, given: text_criterion(read("attr", "id"), given["id"], whole=True), 1),
    "to_have_class": (("expected",), (), _classes, 1),
    "to_contain_class": (("expected",), (), _contained, 1),
    "to_have_css": (
        ("name", "value"),
        (),
        lambda read, given: text_criterion(read("css", said(given["name"])), given["value"], whole=True),
        2,
    ),
    "to_have_role": (("role",), (), _read_text("role", "role"), 1),
    "to_have_accessible_name": (("name",), (), _read_text("accessible_name", "name"), 1),
}
"""Assertion about an element -> its parameters, further options, the criterion, the number of required parameters."""


def of_element(method: str, read: Reader, args: list[Any], kwargs: dict[str, Any]) -> str:
    """The criterion for `expect(locator).METHOD(...)`. Raises UnwritableError."""
    if method not in ELEMENT:
        raise UnwritableError(f"no criterion says `{method}`")
    names, options, say, least = ELEMENT[method]
    return say(read, bind(args, kwargs, names, ("timeout", *options), least))


def of_page(method: str, args: list[Any], kwargs: dict[str, Any]) -> str:
    """The criterion for `expect(page).METHOD(...)`. Raises UnwritableError."""
    given = bind(args, kwargs, ("expected",), ("url", "timeout", "ignore_case", "url_or_reg_exp"), 0)
    value = given.get("expected", given.get("url"))
    if value is None:
        raise UnwritableError(f"`{method}` has no value")
    if method == "to_have_url":
        return address(value)
    if method == "to_have_title":
        return text_criterion("title()", value, whole=True)
    raise UnwritableError(f"no criterion says `{method}`")
