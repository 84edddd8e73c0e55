"""What a test reads from a page and compares by itself, as expressions of criteria."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.spec.imported.acts import at, read_of
from harness.spec.imported.expecting import address, escaped, text_criterion
from harness.spec.imported.locating import bind
from harness.spec.imported.script import TestScript
from harness.spec.imported.values import (
    LineOfTest,
    NeedsValueError,
    Opaque,
    PageCheck,
    PageRead,
    PlaceInTest,
    Quiet,
    Ref,
    Regex,
    SourcePage,
    Unknown,
    UnknownValueError,
    named,
    said,
)
from harness.spec.recorded.journey import literal
from harness.spec.recorded.locators import UnwritableError
from harness.values import replace

_TEXTS = {
    "inner_text": "text",
    "text_content": "text_content",
    "input_value": "value",
}
_LISTS = ("all_inner_texts", "all_text_contents")
STATES = {
    "is_visible": ("visible", False),
    "is_hidden": ("visible", True),
    "is_checked": ("checked", False),
    "is_enabled": ("enabled", False),
    "is_disabled": ("enabled", True),
    "is_editable": ("editable", False),
}
"""Question about an element -> the function of criteria, and whether it asks for the opposite."""
READS = frozenset({*_TEXTS, *_LISTS, *STATES, "get_attribute", "count"})
"""The methods that read an element."""


def of_element(
    script: TestScript, place: PlaceInTest, method: str, args: list[Any], kwargs: dict[str, Any]
) -> PageRead | PageCheck:
    """What a method reads from an element. Raises UnwritableError."""
    at(place)  # it raises for a locator that has no form
    exists = read_of("exists", place)
    if method == "get_attribute":
        name = said(bind(args, kwargs, ("name",), ("timeout",))["name"])
        return script.read(read_of("attr", place, name), place.page, ready=exists)
    bind(args, kwargs, (), ("timeout",), 0)
    if method in STATES:
        function, opposite = STATES[method]
        text = read_of(function, place)
        return script.checking(f"NOT[{text}]" if opposite else text, place.page)
    if method == "count":
        return script.read(read_of("count", place), place.page, "number")
    if method in _LISTS:
        return script.read(read_of("texts", place), place.page, "list")
    return script.read(read_of(_TEXTS[method], place), place.page, ready=exists)


def of_page(script: TestScript, page: SourcePage, name: str) -> PageRead:
    """The URL or the title of a page."""
    return script.read(f"{name}()", page.index)


# What is made of a value that is read.

_SAME = ("strip", "lstrip", "rstrip", "trim", "__format__", "to_string")
"""Methods after which a text is compared in the same way: criteria do not count white space at its ends."""
_FOLDED = ("lower", "upper", "casefold", "to_lower_case", "to_upper_case")


def method_of(script: TestScript, read: PageRead, method: str, args: list[Any]) -> Any:
    """What a method of a text or list gives that was read. Raises UnwritableError."""
    characters = str(args[0]) if args and isinstance(args[0], str) else ""
    if (method in _SAME and not any(args)) or method in ("json", "inner_text", "text"):
        return read
    if method in (*_SAME, "replace") and characters and set(characters) <= set("$€£₹,%") and args[1:] in ([], [""]):
        return number_of(read)
    if method in _FOLDED and not args:
        return PageRead("{0}", None, (read,), "folded", read.page)
    if method in _WITHIN and args:
        return check(script, read, lambda text: _WITHIN[method](text, args[0], read.kind == "folded"))
    if method == "get" and read.kind in ("answer", "document") and args:
        return item_of(script, read, args[0])
    raise UnwritableError(f"what `{method}` makes of a text that a page showed cannot be said in a task")


def _starts(text: str, value: Any, folded: bool) -> str:
    return f"{text} matches " + literal(_CASELESS * folded + "^" + escaped(said(value)))


def _ends(text: str, value: Any, folded: bool) -> str:
    return f"{text} matches " + literal(_CASELESS * folded + escaped(said(value)) + "$")


_CASELESS = "(?i)"
_WITHIN: Mapping[str, Callable[[str, Any, bool], str]] = {
    "startswith": _starts,
    "starts_with": _starts,
    "endswith": _ends,
    "ends_with": _ends,
    "includes": lambda text, value, folded: text_criterion(text, value, whole=False, ignore_case=folded),
}


def number_of(read: PageRead) -> PageRead:
    """`int(text)` or `float(text)` of what was read."""
    return read if read.kind == "number" else PageRead("number({0})", None, (read,), "number", read.page)


def length_of(read: PageRead) -> PageRead:
    """`len(...)` of what was read."""
    if read.text.startswith("texts("):
        return replace(read, text=f"count({read.text.removeprefix('texts(')}", kind="number")
    return PageRead("{0}.length", None, (read,), "number", read.page)


def item_of(script: TestScript, read: PageRead, key: Any) -> Any:
    """An item of a list or a JSON document that was read. Raises UnwritableError."""
    if read.kind == "answer":
        inside = read.text[len("result(") : -1].strip("'")
        path = f"{inside}[{key}]" if isinstance(key, int) else f"{inside}.{said(key)}".lstrip(".")
        return PageRead(f"result('{path}')", read.line, (), "answer", read.page)
    if read.kind == "document":
        return PageRead(
            f"{read.text}[{key}]" if isinstance(key, int) else f"{read.text}.{said(key)}", read.line, (), read.kind
        )
    if read.kind == "list" and isinstance(key, int) and not read.made_from:
        return PageRead(f"{read.text}[{key}]", read.line, (), "text", read.page, read.ready)
    raise UnwritableError("a part of what a page showed cannot be said in a task")


def arithmetic(sign: str, left: Any, right: Any) -> Any:
    """The sum or difference of numbers of which a page showed one. Raises UnwritableError."""
    for each in (left, right):
        if isinstance(each, Unknown):
            return each
        if isinstance(each, Ref):
            raise NeedsValueError(f"the value of `{each.text}` is known only when the task runs")
    signs = {"Add": "+", "Sub": "-"}
    if sign not in signs or not isinstance(left, PageRead) or (isinstance(left, PageRead) and left.kind != "number"):
        raise UnwritableError(f"what is computed from {named(left)} and {named(right)} cannot be said in a task")
    if isinstance(right, PageRead) and right.kind == "number":
        return PageRead(f"{{0}} {signs[sign]} {{1}}", None, (left, right), "number", left.page)
    return PageRead(f"{{0}} {signs[sign]} {said(right)}", None, (left,), "number", left.page)


# Comparisons.

_SIGNS = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">="}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def check(script: TestScript, read: PageRead, say: Callable[[str], str]) -> PageCheck:
    """A condition about a value that was read."""
    text = say(script.expression(read))
    return script.checking(text, read.page, read.line if read.kind == "answer" else None)


def compared(script: TestScript, sign: str, left: Any, right: Any) -> Any:
    """A comparison in which one side is a symbol. Raises UnwritableError."""
    for each in (left, right):
        if isinstance(each, Unknown | Quiet):
            raise UnknownValueError(each.why if isinstance(each, Unknown) else "it is not in the source")
    if (
        isinstance(left, Opaque)
        or isinstance(right, Opaque)
        or (isinstance(left, Ref) and not isinstance(right, PageRead))
    ):
        return _of_symbol(sign, left, right)
    if isinstance(left, PageCheck) and isinstance(right, bool):
        same = right == (sign in ("Eq", "Is"))
        return left if same else PageCheck(f"NOT[{left.text}]", left.line, left.page, left.api)
    if isinstance(left, PageRead):
        return _status(left, sign, right) if left.kind == "status" else _of_read(script, sign, left, right)
    if isinstance(right, PageRead):
        return _of_other(script, sign, left, right)
    if isinstance(right, Ref):
        return _of_symbol(sign, right, left)
    raise UnwritableError("only comparisons and states of pages and locators can be checked")


def _of_symbol(sign: str, left: Any, right: Any) -> bool:
    if isinstance(left, Opaque) and sign in ("IsNot", "NotEq") and right is None:
        return True
    if isinstance(left, Ref) and not isinstance(right, PageRead):
        raise NeedsValueError(f"the value of `{said(left)}` is known only when the task runs")
    raise UnwritableError("this comparison cannot be said in a task")


def _status(read: PageRead, sign: str, right: Any) -> bool:
    """The statuses that a step wants: it is written at the step."""
    line, wanted = read.line or LineOfTest(), right
    if sign == "In" and isinstance(wanted, list | tuple) and wanted:
        line.keys["status"] = sorted(map(int, wanted))
    elif sign == "Eq" and isinstance(wanted, int) and "expect_request" in line.keys:
        line.keys["expect_request"]["status"] = wanted
    elif sign == "Eq" and isinstance(wanted, int):
        line.keys["status"] = wanted
    elif sign not in ("truth",) and not (sign == "Lt" and wanted == 400):
        raise UnwritableError("`status` of a step names the statuses that are wanted")
    return True


def _filled(script: TestScript, read: PageRead, empty: bool) -> PageCheck:
    """Whether there is something in what was read, or with `empty` nothing."""
    forms = {"number": ("{} > 0", "{} == 0"), "list": ("{}.length > 0", "{}.length == 0")}
    return check(script, read, forms.get(read.kind, ("{} != ''", "{} == ''"))[empty].format)


def _of_read(script: TestScript, sign: str, read: PageRead, other: Any) -> PageCheck:
    if sign in ("truth", "false"):
        return _filled(script, read, sign == "false")
    if sign in ("In", "NotIn"):
        if isinstance(other, PageRead):
            found = check(script, other, lambda text: f"{text} includes {script.expression(read)}")
            return found if sign == "In" else PageCheck(f"NOT[{found.text}]", found.line, found.page, found.api)
        if not isinstance(other, list | tuple):
            raise UnwritableError("only `in` a list that is written out can be checked")
        texts = [_equal(script.expression(read), each, read) for each in other]
        text = f"ANY[{', '.join(texts)}]"
        return script.checking(f"NOT[{text}]" if sign == "NotIn" else text, read.page)
    if other is None:
        word = "==" if sign in ("Is", "Eq") else "!="
        return check(script, read, lambda text: f"{text} {word} null")
    return _measured(script, sign, read, other)


def _measured(script: TestScript, sign: str, read: PageRead, other: Any) -> PageCheck:
    if other == [] and read.kind == "list":
        read, other = length_of(read), 0
    if sign not in _SIGNS:
        raise UnwritableError("only `==`, `!=`, `<`, `>` and `in` can be checked")
    if sign in ("Eq", "NotEq"):
        said_so = _equal(script.expression(read), _other(script, other), read)
        opposite = f"NOT[{said_so}]"
        return script.checking(said_so if sign == "Eq" else opposite, read.page, _api(read))
    value = _other(script, other)
    return check(script, read, lambda text: f"{text} {_SIGNS[sign]} {_operand(value)}")


def _api(read: PageRead) -> LineOfTest | None:
    return read.line if read.kind == "answer" else None


def _other(script: TestScript, value: Any) -> Any:
    """The other side of a comparison; what was read is an expression by now."""
    return PageRead(script.expression(value), None, (), value.kind) if isinstance(value, PageRead) else value


def _operand(value: Any) -> str:
    if isinstance(value, PageRead):
        return value.text
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_operand, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return said(value) if isinstance(value, int | float) else literal(said(value))


def _equal(text: str, value: Any, read: PageRead) -> str:
    """That a value is another one, by text and by case as the test does it."""
    if text == "url()" and isinstance(value, str | Ref) and not said(value).startswith("${env:"):
        return address(value)
    if read.kind == "folded":
        return text_criterion(text, value, whole=True, ignore_case=True)
    return f"{text} == {_operand(value)}"


def _of_other(script: TestScript, sign: str, left: Any, read: PageRead) -> PageCheck:
    """`"a" in text`, `"a" == text`, `3 < count`."""
    if sign in ("In", "NotIn"):
        if isinstance(left, Regex):
            raise UnwritableError("this comparison cannot be said in a task")
        folded = read.kind == "folded"
        found = check(script, read, lambda text: text_criterion(text, left, whole=False, ignore_case=folded))
        return found if sign == "In" else PageCheck(f"NOT[{found.text}]", found.line, found.page, found.api)
    if sign in ("Eq", "NotEq"):
        return _of_read(script, sign, read, left)
    if sign not in _SIGNS:
        raise UnwritableError("only `==`, `!=`, `<`, `>` and `in` can be checked")
    return check(script, read, lambda text: f"{text} {_TURNED[_SIGNS[sign]]} {_operand(left)}")
