"""Parses selectors as Playwright does, without a browser: what neither it nor Chromium can read is found at loading.

Only what is surely wrong is refused. A selector that is accepted here may still match nothing. Playwright has no public
engine for what its `get_by_label`, `get_by_test_id` and `filter` find: tasks write `label=`, `testid=` and `has-text=`,
and `playwright_selector` translates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from harness.recovery.locators import test_id_body, text_body
from harness.spec.problems import did_you_mean, is_misspelt, nearest


class SelectorError(ValueError):
    """A selector that cannot be read, with the character that is wrong."""

    def __init__(self, problem: str, offset: int, hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.offset = offset
        self.hint = hint


# The chain: `engine=body >> engine=body`.

_OWN_NESTED = ("has", "has-not", "and", "or")
_NESTED = frozenset({*_OWN_NESTED, *(f"internal:{name}" for name in (*_OWN_NESTED, "chain"))})
_BESIDE = frozenset({"left-of", "right-of", "above", "below", "near"})
_LIGHT = ("css", "xpath", "text", "id", "data-testid", "data-test-id", "data-test")
_ENGINES = frozenset({
    *_LIGHT, *(f"{name}:light" for name in _LIGHT), *_BESIDE, "_react", "_vue", "nth", "visible", "role", "aria-ref",
})  # fmt: skip
"""Playwright's engines; those that begin with `internal:` are its own."""
_ATTRIBUTE_TEXTS = ("placeholder", "alt", "title")
_TEXT_ENGINES = ("text", "label", *_ATTRIBUTE_TEXTS, "testid", "has-text", "has-not-text")
"""Engines whose body is a text: plain (a part of the text), `"exact"`, `"a part"i` or `/pattern/`."""
_NAME = re.compile(r"[a-zA-Z_0-9\-+:*]+")
_XPATH = re.compile(r"\(*//|\.\.")
_TEXT = re.compile(rf"\s*(?:{'|'.join(_TEXT_ENGINES)})\s*=\s*")
_TRANSLATED = re.compile(rf"(?:^|>>|\")\s*\*?(?:{'|'.join((*_TEXT_ENGINES, *_OWN_NESTED))})\s*=")
"""Whether a selector may need a translation; most do not."""
_BODY = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"(?P<how>[is]?)', re.DOTALL)
_PATTERN = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\[])+/[dgimsuy]*")
TEST_ID = "data-testid"
"""The attribute that `testid=` looks at, if the project names no other (`test_id_attribute`)."""
_DEEPEST = 50
_INSIDE = " >>> "
"""Separates nested frames in the `frame` of a task."""


class _Part(Struct, frozen=True):
    engine: str
    body: str
    offset: int
    """Where the body begins in the selector."""


def check_selector(selector: str) -> None:
    """Raise SelectorError if Playwright, or Chromium, cannot read the selector."""
    parts = [_part(selector, start, end) for start, end in _pieces(selector)]
    for part in parts:
        _check_part(part)
    if parts[0].engine in _NESTED | _BESIDE:
        raise SelectorError(f"`{parts[0].engine}` cannot be the first part of a selector", 0)


def check_frame(frame: str) -> None:
    """The same for the `frame` of a step: frames inside frames."""
    offset = 0
    for part in frame.split(_INSIDE):
        try:
            check_selector(part)
        except SelectorError as error:
            raise SelectorError(error.problem, offset + error.offset, error.hint) from None
        offset += len(part) + len(_INSIDE)


def _pieces(selector: str) -> Iterator[tuple[int, int]]:
    """Beginning and end of each piece between `>>`, which may stand in quotes too."""
    start, index, quote = 0, 0, ""
    while ">>" in selector and index < len(selector):
        letter = selector[index]
        if letter == "\\":
            index += 1
        elif letter == quote:
            quote = ""
        elif not quote and letter in "\"'`" and not ((text := _TEXT.match(selector, start)) and index > text.end()):
            quote = letter
        elif not quote and selector.startswith(">>", index):
            yield start, index
            start = index + 2
            index += 1
        index += 1
    yield start, len(selector)


def _part(selector: str, start: int, end: int) -> _Part:
    text = selector[start:end]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    name, equals, body = text.partition("=")
    if equals and _NAME.fullmatch(name.strip()):
        engine = name.strip().removeprefix("*")
        return _Part(engine, body, start + len(name) + 1)
    if len(text) > 1 and text[0] in "\"'" and text[0] == text[-1]:
        return _Part("text", text, start)
    return _Part("xpath" if _XPATH.match(text) else "css", text, start)


def _check_part(part: _Part) -> None:
    try:
        if part.engine in _NESTED | _BESIDE:
            _check_nested(part)
        elif part.engine in _CHECKS:
            _CHECKS[part.engine](part.body)
        elif part.engine not in _ENGINES and not part.engine.startswith("internal:"):
            raise SelectorError(f"unknown selector engine `{part.engine}`", -len(part.engine) - 1, _instead(part))
    except SelectorError as error:
        raise SelectorError(error.problem, max(0, part.offset + error.offset), error.hint) from None


def _check_nested(part: _Part) -> None:
    inner, *more = _nested(part.body)
    if not isinstance(inner, str) or len(more) > (part.engine in _BESIDE):
        raise SelectorError(f"`{part.engine}=` needs a selector in double quotes", 0)
    try:
        check_selector(inner)
    except SelectorError as error:
        raise SelectorError(error.problem, 1 + error.offset, error.hint) from None


def _nested(body: str) -> list[Any]:
    """A selector in quotes, and the largest distance if there is one; a selector that cannot be read is None."""
    try:
        return list(json.loads(f"[{body}]")) or [None]
    except ValueError:
        return [None]


_TEST_IDS = ("test_id", "test-id")
_ATTRIBUTES = ("name", "type", "href", "value", "for", "src", "aria-label", "data-cy", "data-qa")
_ROLES = (
    "button", "link", "heading", "checkbox", "radio", "textbox", "tab", "option", "menuitem", "row", "cell", "img",
)  # fmt: skip


def _instead(part: _Part) -> str:
    """What to write in place of an engine that people expect to be there."""
    name, body = part.engine, part.body.strip().strip("\"'")
    quoted = json.dumps(body, ensure_ascii=False)
    if name in _TEST_IDS:
        return f"write `testid={body}`"
    if name in _ROLES:
        return f"write `role={name}[name={quoted}]`"
    if name in _ATTRIBUTES:
        return f"write `[{name}={quoted}]`"
    if name == "class":
        return f"write `.{'.'.join(body.split())}`"
    if near := did_you_mean(name, sorted({*_ENGINES, *_TEXT_ENGINES, *_OWN_NESTED})):
        return near
    known = f"css, xpath, role, {', '.join(_TEXT_ENGINES)}, has, has-not, and, or, nth and visible"
    return f'the engines are {known}; a `=` in CSS belongs into brackets, as in `[name="x"]`'


def names_an_engine(text: str) -> bool:
    """Return whether a text is a selector that begins with the name of an engine, as `label=User` does."""
    engine = _part(text, 0, len(text)).engine
    return engine in (*_ENGINES, *_TEXT_ENGINES) and text.lstrip().startswith(engine)


# Translation into what Playwright itself understands.


@lru_cache(4096)
def playwright_selector(selector: str, test_id: str = TEST_ID) -> str:
    """The selector as Playwright takes it: `label=User name` as `internal:label="User name"i`."""
    if not _TRANSLATED.search(selector):
        return selector
    return " >> ".join(_translated(selector, _part(selector, *piece), piece, test_id) for piece in _pieces(selector))


def _translated(selector: str, part: _Part, piece: tuple[int, int], test_id: str) -> str:
    whole = selector[slice(*piece)].strip()
    captured = "*" if whole.startswith("*") else ""
    if part.engine in _NESTED | _BESIDE:
        inner, *more = _nested(part.body)
        if not isinstance(inner, str):
            return whole
        name = f"internal:{part.engine}" if part.engine in _OWN_NESTED else part.engine
        given = ",".join(json.dumps(each, ensure_ascii=False) for each in (playwright_selector(inner, test_id), *more))
        return f"{captured}{name}={given}"
    if part.engine not in _TEXT_ENGINES or (part.engine == "text" and not part.body.strip().endswith('"i')):
        return whole
    try:
        _check_text(part.body)
    except SelectorError:
        return whole  # Playwright refuses it, as it has no such engine
    name, body = part.engine, _in_quotes(part.body.strip(), exact=part.engine == "testid")
    if name in _ATTRIBUTE_TEXTS or name == "testid":
        kind, attribute = ("testid", test_id) if name == "testid" else ("attr", name)
        return f"{captured}internal:{kind}=[{attribute}={body}]"
    return f"{captured}internal:{name}={body}"


def _in_quotes(body: str, *, exact: bool) -> str:
    """A text in quotes with the letter that says how it is compared, or a pattern as it is."""
    if body.startswith("/"):
        return body
    if found := _BODY.fullmatch(body):
        return f'"{found["text"]}"{found["how"] or "s"}'
    return json.dumps(body, ensure_ascii=False) + ("s" if exact else "i")


_INTERNAL = re.compile(r"internal:(?P<name>label|text|has-text|has-not-text|role|attr|testid)=(?P<body>.*)", re.DOTALL)
_INTERNAL_ATTRIBUTE = re.compile(r"\[(?P<name>[\w-]+)=(?P<value>.*)\]", re.DOTALL)
_INTERNAL_ROLE = re.compile(r"\[name=(?P<name>\"(?:[^\"\\]|\\.)*\")(?P<how>[is])\]")


def readable_selector(selector: str, test_id: str = TEST_ID) -> str:
    """A selector that Playwright made, as a task writes it: the opposite of `playwright_selector`."""
    pieces = (selector[slice(*piece)].strip() for piece in _pieces(selector))
    return " >> ".join(_readable(piece, test_id) for piece in pieces)


def _readable(piece: str, test_id: str) -> str:
    found = _INTERNAL.fullmatch(piece)
    if found is None:
        return piece
    name, body = found["name"], found["body"]
    if name == "role":
        return "role=" + _INTERNAL_ROLE.sub(
            lambda at: f"[name={at['name']}]" if at["how"] == "s" else f"[name*={at['name']}i]", body
        )
    if name in ("attr", "testid"):
        attribute = _INTERNAL_ATTRIBUTE.fullmatch(body)
        if attribute is None or attribute["name"] not in (*_ATTRIBUTE_TEXTS, test_id):
            return piece
        name, body = "testid" if name == "testid" else attribute["name"], attribute["value"]
    quotes = _BODY.fullmatch(body)
    if quotes is None:
        return f"{name}={body}"
    text = re.sub(r"\\(.)", r"\1", quotes["text"], flags=re.DOTALL)  # it escapes only quotes and backslashes
    return f"{name}={test_id_body(text) if name == 'testid' else text_body(text, exact=quotes['how'] != 'i')}"


# The bodies of single engines.


def _check_text(body: str) -> None:
    """Check what stands after `label=` and the like."""
    text = body.strip()
    start = len(body) - len(body.lstrip())
    if not text:
        raise SelectorError("the text is empty", 0)
    if text[0] == '"' and not _BODY.fullmatch(text):
        raise SelectorError("a text in quotes ends with its quote, or with `i` behind it", start)
    if text[0] == "/" and not _PATTERN.fullmatch(text):
        raise SelectorError("a pattern is closed with `/`, after which only flags stand, as in `/save/i`", start)


def _check_nth(body: str) -> None:
    if not re.fullmatch(r"\s*-?\d+\s*", body):
        raise SelectorError("`nth=` needs a whole number: 0 is the first match, -1 the last", 0)


def _check_visible(body: str) -> None:
    if body.strip() not in ("true", "false"):
        raise SelectorError("`visible=` needs true or false", 0)


_PAIRS = {"(": ")", "[": "]"}
_IN_XPATH = re.compile(r"\"[^\"]*\"|'[^']*'|[\"'()\[\]]")
"""Texts, which have no escapes in XPath, quotes that are not closed, and brackets."""


def _check_xpath(body: str) -> None:
    """Check brackets and quotes."""
    open_: list[re.Match[str]] = []
    for found in _IN_XPATH.finditer(body):
        mark = found.group()
        if mark in "\"'":
            raise SelectorError(f"the quote {mark} is not closed", found.start())
        if mark in _PAIRS:
            open_.append(found)
        elif mark in _PAIRS.values() and (not open_ or _PAIRS[open_.pop().group()] != mark):
            raise SelectorError(f"`{mark}` closes nothing", found.start())
    if open_:
        raise SelectorError(f"`{open_[-1].group()}` is not closed", open_[-1].start())
    if not body.strip():
        raise SelectorError("the selector is empty", 0)


_ROLE_ATTRIBUTES = (
    "name", "description", "checked", "disabled", "expanded", "include-hidden", "level", "pressed", "selected",
)  # fmt: skip
_ROLE = re.compile(r"\s*(?P<role>[\w\-\x80-\U0010ffff]*)\s*")
_ROLE_ATTRIBUTE = re.compile(
    r"""\[\s*(?P<name>[\w\-\x80-\U0010ffff]+|"[^"]*"|'[^']*')\s*"""
    r"""(?:[*^$|~]?=\s*(?:/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\[])*/[dgimsuvy]*"""
    r"""|"(?:\\.|[^"\\])*"\s*[iIsS]?|'(?:\\.|[^'\\])*'\s*[iIsS]?|[\w\-+.\x80-\U0010ffff]*)\s*)?\]\s*""",
    re.DOTALL,
)


def _check_role(body: str) -> None:
    start = _ROLE.match(body)
    assert start is not None
    place = start.end()
    if not start["role"]:
        raise SelectorError("`role=` needs a role, such as `role=button`", place)
    while place < len(body):
        found = _ROLE_ATTRIBUTE.match(body, place)
        if found is None:
            what = "a condition in brackets that is not complete" if body[place] == "[" else "no condition in brackets"
            hint = f'write `role={start["role"]}[name="..."]`'
            raise SelectorError(f"after the role there is {what}", place, hint)
        name = found["name"].strip("\"'")
        if name not in _ROLE_ATTRIBUTES and is_misspelt(name, _ROLE_ATTRIBUTES):
            hint = did_you_mean(name, _ROLE_ATTRIBUTES)
            raise SelectorError(f"a role has no condition `{name}`", found.start("name"), hint)
        place = found.end()


# CSS with Playwright's extensions.

_LETTER = r"(?:[a-zA-Z_\x80-\U0010ffff]|\\[0-9a-fA-F]{1,6}\s?|\\[^\n0-9a-fA-F]|\\\Z)"
_IDENT = rf"(?:--|-?{_LETTER})(?:{_LETTER}|[0-9-])*"
_TOKENS = re.compile(
    rf"(?P<space>(?:\s|/\*.*?(?:\*/|\Z))+)|(?P<string>\"(?:\\.|[^\"\\\n])*(?:\"|\Z)|'(?:\\.|[^'\\\n])*(?:'|\Z))"
    rf"|(?P<hash>\#(?:{_LETTER}|[0-9-])+)|(?P<function>{_IDENT}\()|(?P<ident>{_IDENT})"
    r"|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)%?)|(?P<delimiter>.)",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(
    rf"\s*(?:(?:{_IDENT}|\*)?\|(?!=))?{_IDENT}\s*(?:(?P<operator>[~|^$*]?=)\s*"
    rf"(?P<value>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|{_IDENT}))?(?:\s*[iIsS])?\s*",
    re.DOTALL,
)
_ONE_TEXT = frozenset({"has-text", "text", "text-is"})
_TEXTS = _ONE_TEXT | {"text-matches"}
_OWN = frozenset({"not", "is", "where", "has", "scope", "light", "visible", "nth-match", *_BESIDE, *_TEXTS})
"""Pseudo-classes whose brackets Playwright reads itself."""
_PSEUDO = _OWN | {
    "active", "any-link", "autofill", "checked", "default", "defined", "dir", "disabled", "empty", "enabled",
    "first-child", "first-of-type", "focus", "focus-visible", "focus-within", "fullscreen", "hover", "host",
    "in-range", "indeterminate", "invalid", "lang", "last-child", "last-of-type", "link", "modal", "nth-child",
    "nth-last-child", "nth-last-of-type", "nth-of-type", "only-child", "only-of-type", "open", "optional",
    "out-of-range", "placeholder-shown", "popover-open", "read-only", "read-write", "required", "root", "target",
    "user-invalid", "user-valid", "valid", "visited",
}  # fmt: skip
_CLAUSE_ENDS = frozenset({",", ")", ">", "+", "~"})


class _Css:
    """A parser of one CSS selector, after Playwright's own."""

    def __init__(self, text: str) -> None:
        found = _TOKENS.finditer(text)
        self._tokens = [(str(each.lastgroup), each.group(), each.start()) for each in found]
        self._tokens.append(("end", "", len(text)))
        self._text = text
        self._at = 0
        self._depth = 0

    def check(self) -> None:
        self._arguments("")
        if self._kind != "end":
            self._unexpected()

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _value(self) -> str:
        return self._tokens[self._at][1]

    @property
    def _offset(self) -> int:
        return self._tokens[self._at][2]

    def _skip_space(self) -> None:
        while self._kind == "space":
            self._at += 1

    def _unexpected(self) -> None:
        if self._kind == "end":
            empty = not self._text.strip()
            raise SelectorError("the selector is empty" if empty else "the selector ends too early", self._offset)
        raise SelectorError(f"`{self._value}` cannot stand here in CSS", self._offset)

    def _arguments(self, of: str) -> None:
        kinds = [self._argument(of)]
        self._skip_space()
        while self._value == ",":
            self._at += 1
            kinds.append(self._argument(of))
            self._skip_space()
        if of in _ONE_TEXT and kinds != ["string"]:
            raise SelectorError(f"`:{of}(...)` needs one text in quotes", self._offset, f'write `:{of}("...")`')
        if not of and "string" in kinds:
            raise SelectorError(
                "a text in quotes is no CSS", 0, 'write `text="..."`, or `:has-text("...")` after an element'
            )

    def _argument(self, of: str) -> str:
        self._skip_space()
        kind = self._kind
        if kind in ("string", "number"):
            self._at += 1
            return kind
        if of in _ONE_TEXT and kind != "end":  # whatever it is, Playwright wants a text
            raise SelectorError(f"`:{of}(...)` needs its text in quotes", self._offset, f'write `:{of}("...")`')
        self._complex()
        return "selector"

    def _complex(self) -> None:
        self._skip_space()
        if self._value in (">", "+", "~"):  # relative to the scope
            self._at += 1
            self._skip_space()
        self._simple()
        while True:
            self._skip_space()
            if self._value in (">", "+", "~"):
                self._at += 1
                self._skip_space()
            elif self._ends_clause():
                return
            self._simple()

    def _ends_clause(self) -> bool:
        return self._kind in ("space", "end") or (self._kind == "delimiter" and self._value in _CLAUSE_ENDS)

    def _simple(self) -> None:
        began = self._at
        while not self._ends_clause():
            match self._kind, self._value:
                case ("ident", _) | ("delimiter", "*"):
                    self._at += 1
                case "hash", value:
                    self._id(value)
                case "delimiter", ".":
                    self._class()
                case "delimiter", ":":
                    self._pseudo()
                case "delimiter", "[":
                    self._attribute()
                case _:
                    self._unexpected()
        if self._at == began:
            self._unexpected()

    def _id(self, value: str) -> None:
        if not re.fullmatch(_IDENT, value[1:]):
            hint = f'write `[id="{value[1:]}"]`'
            raise SelectorError(f"in CSS the id in `{value}` cannot begin like that", self._offset, hint)
        self._at += 1

    def _class(self) -> None:
        self._at += 1
        if self._kind != "ident":
            self._unexpected()
        self._at += 1

    def _pseudo(self) -> None:
        start = self._offset
        self._at += 1
        if self._value == ":":  # a pseudo-element, which only Chromium knows
            self._at += 1
        if self._kind not in ("ident", "function"):
            self._unexpected()
        function = self._kind == "function"
        name = self._value.removesuffix("(").lower()
        self._at += 1
        if name not in _PSEUDO and is_misspelt(name, _PSEUDO):
            hint = f"did you mean `:{nearest(name, sorted(_PSEUDO))}`?"
            raise SelectorError(f"unknown pseudo-class `:{name}`", start, hint)
        if function:
            self._in_brackets(name)

    def _in_brackets(self, name: str) -> None:
        bracket = self._tokens[self._at - 1][2]
        if name in _OWN:
            self._depth += 1
            if self._depth > _DEEPEST:
                raise SelectorError(f"nested more than {_DEEPEST} levels deep", bracket)
            self._skip_space()
            self._arguments(name)
            self._depth -= 1
        else:
            self._balanced()
        self._skip_space()
        if self._kind == "end":
            raise SelectorError(f"`:{name}(` is not closed", bracket)
        if self._value != ")":
            self._unexpected()
        self._at += 1

    def _balanced(self) -> None:
        depth = 1
        while self._kind != "end":
            depth += (self._kind == "function" or self._value == "(") - (self._value == ")")
            if not depth:
                return
            self._at += 1

    def _attribute(self) -> None:
        start = self._offset
        self._at += 1
        while self._kind != "end" and self._value != "]":
            self._at += 1
        if self._kind == "end":
            raise SelectorError("`[` is not closed", start)
        body = self._text[start + 1 : self._offset]
        if not _ATTRIBUTE.fullmatch(re.sub(r"/\*.*?\*/", " ", body, flags=re.DOTALL)):
            _, equals, value = body.partition("=")
            plain = value.strip().strip("\"'")
            quote = (
                f'put the value in quotes: `[{body.partition("=")[0].strip()}="{plain}"]`' if equals and plain else ""
            )
            raise SelectorError(f"`[{body}]` is no condition on an attribute", start, quote)
        self._at += 1


_CHECKS: Mapping[str, Callable[[str], None]] = {
    "css": lambda body: _Css(body).check(),
    "css:light": lambda body: _Css(body).check(),
    "xpath": _check_xpath,
    "xpath:light": _check_xpath,
    "nth": _check_nth,
    "visible": _check_visible,
    "role": _check_role,
    **dict.fromkeys((name for name in _TEXT_ENGINES if name != "text"), _check_text),
}
