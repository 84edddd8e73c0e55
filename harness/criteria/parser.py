"""Parses a text into a criterion; the entry point of the language."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from harness.criteria.builder import Branch, condition, value
from harness.criteria.lalr import UnexpectedError, tables
from harness.criteria.lists import check_lists
from harness.criteria.syntax import (
    FUNCTIONS,
    HAPPENINGS,
    MEMORY_FUNCTIONS,
    OPERATORS,
    PAGE_FUNCTIONS,
    SELECTOR_FUNCTIONS,
    SINCE_STEPS,
    Compare,
    Condition,
    CriterionError,
    Every,
    Read,
    Selected,
    Stable,
    Value,
    Within,
    denials,
    suggestion,
    walk,
)

_ANYTHING = ("a value such as text('#id'), 'done' or 5",)
_CLOSING = {"RPAR": "`)`", "RSQB": "`]`", "RBRACE": "`}`"}
_MARKS = {"COMMA": "`,`", **_CLOSING, "LPAR": "`(`", "COLON": "`:`", "$END": "the end"}
_LOOKS = (  # the text at the place, and the hint for it
    (re.compile(r"[\u2018\u2019\u201c\u201d]"), "use straight quotes"),
    (re.compile(r"=>|=<"), "write `>=` or `<=`"),
    (re.compile(r"=~|~"), "use `matches`"),
    (re.compile(r"="), "use `==`"),
    (re.compile(r"&"), "use `&&` or ALL[...]"),
    (re.compile(r"\|"), "use `||` or ANY[...]"),
    (re.compile(r"[*/%]"), "the only arithmetic is `+` and `-`"),
    (re.compile(r"[$#`]"), "text goes in quotes"),
)
_QUOTE = re.compile(r"['\"]")
_EQUALS = re.compile(r"=(?!=)")
_WORD = re.compile(r"[^\W\d]\w*")


def _bad_character(text: str, offset: int) -> CriterionError:
    """Make the error for a character that begins nothing in the language."""
    if _QUOTE.match(text, offset):
        return CriterionError(text, offset, "the quoted text that starts here never ends", ("a closing quote",))
    if (operator := text[offset - 2 : offset + 1]) in ("===", "!=="):
        shorter = f"{text[:offset]}{text[offset + 1 :]}"
        return CriterionError(text, offset - 2, f"unexpected `{operator}`", hint=f"write `{shorter}`")
    return CriterionError(text, offset, f"unexpected `{text[offset]}`", hint=_look(text, offset))


def _look(text: str, offset: int) -> str:
    return next((hint for shape, hint in _LOOKS if shape.match(text, offset)), "")


def _bad_token(text: str, offset: int, accepted: frozenset[str]) -> CriterionError:
    """Make the error for a word or mark in a place where another one is required."""
    word = _WORD.match(text, offset)
    found = word.group() if word else text[offset : offset + 1].strip()
    problem = f"unexpected `{found}`" if found else "the text ends too early"
    return CriterionError(text, offset, problem, _expected(accepted), _hint(text, offset, found, accepted))


def _expected(accepted: frozenset[str]) -> tuple[str, ...]:
    if "STRING" in accepted and "COLON" not in accepted:
        return _ANYTHING + tuple(mark for name, mark in _CLOSING.items() if name in accepted)
    operators = (f"an operator ({' '.join(OPERATORS)})",) if "OPERATOR" in accepted else ()
    joints = ("`&&` or `||`",) if "_AND" in accepted else ()
    return operators + joints + tuple(mark for name, mark in _MARKS.items() if name in accepted)


def _hint(text: str, offset: int, found: str, accepted: frozenset[str]) -> str:
    before = text[:offset].split()[-1:]
    if before and (hint := suggestion(before[0], ()) if before[0].isalpha() else ""):
        return hint
    if re.match(r"[=!<>]=?", text[offset:]) and "OPERATOR" not in accepted and "_AND" in accepted:
        return "one comparison at a time: join two with ALL[...]"
    return suggestion(found, ()) or (_look(text, offset) if found else "")


@dataclass(frozen=True, slots=True)
class _Expression:
    text: str
    tree: Value | Condition = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def _first_arguments(self, functions: frozenset[str]) -> frozenset[str]:
        return frozenset(
            node.arguments[0] for node in walk(self.tree) if isinstance(node, Read) and node.function in functions
        )

    @property
    def channels(self) -> frozenset[str]:
        """The environment channels that it reads."""
        return self._first_arguments(frozenset({"json"}))

    @property
    def memory_keys(self) -> frozenset[str]:
        """The memory keys that it reads, as written: a key may be a path into a structured entry."""
        return self._first_arguments(MEMORY_FUNCTIONS)

    @property
    def selectors(self) -> frozenset[Selected]:
        """The selectors of the elements that it reads, each with its frame."""
        reads = (node for node in walk(self.tree) if isinstance(node, Read) and node.function in SELECTOR_FUNCTIONS)
        return frozenset((node.arguments[0], node.frame) for node in reads)

    @property
    def denied(self) -> frozenset[Selected]:
        """The selectors of which it says only that no element is there, or none is to be seen."""
        found = list(denials(self.tree))
        return frozenset(each for each, says in found if says) - {each for each, says in found if not says}

    @property
    def users(self) -> frozenset[str]:
        """The users whose pages it reads, beside those of the one who acts."""
        return frozenset(node.user for node in walk(self.tree) if isinstance(node, Read) and node.user is not None)

    @property
    def patterns(self) -> frozenset[tuple[str, str]]:
        """The patterns of what it reads of requests, messages and the console, each with its function."""
        reads = (node for node in walk(self.tree) if isinstance(node, Read))
        return frozenset(
            (each.function, each.arguments[0]) for each in reads if FUNCTIONS[each.function] == ("pattern",)
        )

    @property
    def reads_since_steps(self) -> str:
        """A function that it reads and that has nothing to read before the first step; empty if there is none."""
        reads = (node.function for node in walk(self.tree) if isinstance(node, Read))
        return next((name for name in reads if name in SINCE_STEPS), "")

    @property
    def reads_result(self) -> bool:
        """Whether it reads the answer of its step: of a tool, or of an `api` step."""
        return any(isinstance(node, Read) and node.function == "result" for node in walk(self.tree))

    @property
    def looks_at_page(self) -> bool:
        """Whether it reads the page or what it has done, and not only memory and channels."""
        read = PAGE_FUNCTIONS | HAPPENINGS.keys()
        return any(isinstance(node, Read) and node.function in read for node in walk(self.tree))

    @property
    def waits(self) -> bool:
        """Whether its evaluation may take time: WITHIN, EVENTUALLY, STABLE."""
        return any(isinstance(node, Within | Stable) for node in walk(self.tree))


@dataclass(frozen=True, slots=True)
class Criterion(_Expression):
    """A condition that holds or does not."""

    tree: Condition = field(repr=False)

    @property
    def instant(self) -> tuple[str, ...]:
        """The parts that are about a single moment, as criteria of their own; empty if there are none.

        WITHIN, EVENTUALLY and STABLE are about a period that is over when they are settled. The other parts of an ALL
        are kept; an ANY or NOT that contains such a part is left out with it.
        """
        return tuple(part.alone if isinstance(part, Compare) else part.source for part in _instant(self.tree))

    def holds_part(self, expression: str) -> bool:
        """Return whether the criterion or one of its parts has exactly this text."""
        return any(node.source == expression for node in walk(self.tree))


def _instant(condition: Condition) -> list[Condition]:
    if not any(isinstance(node, Within | Stable) for node in walk(condition)):
        return [condition]
    return [left for part in condition.parts for left in _instant(part)] if isinstance(condition, Every) else []


@dataclass(frozen=True, slots=True)
class ValueExpression(_Expression):
    """An expression that has a value, as `remember` takes it."""

    tree: Value = field(repr=False)


def text_comparison(selector: str, frame: str | None, operator: str, expected: Value) -> Criterion:
    """The criterion that compares the text which an element shows, as an `assert` with `selector` and `value` does."""
    where = repr(selector) if frame is None else f"{selector!r}, frame={frame!r}"
    read = Read("text", (selector,), frame, source=f"text({where})")
    text = f"{read.source} {operator} {expected.source}"
    return Criterion(text, Compare(operator, read, expected, source=text))


_LONGEST = 10_000


@lru_cache(maxsize=16_384)
def parse(text: str) -> Criterion:
    """Parse a criterion: a comparison, a yes-or-no function, or a combination of those. Raises CriterionError."""
    tree = condition(_branch(text, "a criterion such as text('#id') == 'done'"))
    check_lists(text, tree)
    return Criterion(text, tree)


@lru_cache(maxsize=4096)
def parse_value(text: str) -> ValueExpression:
    """Parse a value: a function, a constant, `.length`, or a comparison (true or false). Raises CriterionError."""
    tree = value(_branch(text, "a value such as text('#id')"))
    check_lists(text, tree)
    return ValueExpression(text, tree)


def _branch(text: str, wanted: str) -> Branch:
    if len(text) > _LONGEST:
        raise CriterionError(text, _LONGEST, f"a criterion has at most {_LONGEST} characters, this has {len(text)}")
    if not text.strip():
        raise CriterionError(text, 0, "the text is empty", (wanted,))
    try:
        return Branch(tables().parse(text), text)
    except UnexpectedError as error:
        if error.accepted is None or _EQUALS.match(text, error.offset):
            raise _bad_character(text, error.offset) from None
        raise _bad_token(text, error.offset, error.accepted) from None
