"""Warnings about steps that change something for good, and how they are declared (docs/design/never-twice.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.spec.problems import JsonPath, Problem
from harness.spec.source import Origin
from harness.spec.steps import Check, Click, Dialog, Open, Press, Select, Step, Tool, Type, Uncheck, Upload, Wait
from harness.spec.task import TaskSpec

# Judges whether a selector or a note suggests an act that must not be done twice: by its words, so without certainty.

VERBS = frozenset({"buy", "confirm", "delete", "pay", "purchase", "remove", "send", "submit"})
NAMES = frozenset({"book", "order", "transfer"})
"""Verbs that are also nouns for something to look at."""
LOOKS = frozenset({
    "by", "email", "field", "filter", "filters", "find", "history", "input", "list", "menu", "next", "open", "page",
    "pages", "panel", "password", "preview", "previous", "search", "show", "sort", "tab", "tabs", "toggle", "view",
})  # fmt: skip
"""A selector with one of these words is about looking, or about filling in a field."""
THINGS = frozenset({
    "address", "amount", "card", "cards", "cell", "column", "date", "detail", "details", "edit", "icon", "id", "image",
    "img", "info", "item", "items", "label", "link", "links", "message", "name", "number", "option", "options",
    "product", "row", "rows", "status", "summary", "table", "text", "title", "total", "track", "tracking",
})  # fmt: skip
"""With one of these words `order` is a noun: an order's row, its details."""
_FILLERS = frozenset({
    "and", "click", "finally", "hit", "now", "please", "press", "push", "tap", "the", "then", "to",
})  # fmt: skip
_NAMING = re.compile(
    r"""\[\s*(?:aria-label|title|name|id|alt|value|data-(?:test|testid|test-id|action|qa|cy))\s*[*^$~|]?=
                         \s*(?:"([^"]*)"|'([^']*)'|([\w-]+))""",
    re.VERBOSE,
)
_TEXT = re.compile(r""":(?:has-text|text|text-is)\(\s*(?:"([^"]*)"|'([^']*)')""")
_ENGINE = re.compile(r"""^(?:text|role|id|data-testid|data-test-id)\s*=\s*(.*)$""", re.DOTALL)
_ROLE_NAME = re.compile(r"""\[\s*name\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_NAMES = re.compile(r"[#.](-?[A-Za-z_][\w-]*)")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NUMBERED = re.compile(r"\b(?:book|order)\s+#?[0-9]+[^0-9A-Za-z]*$", re.IGNORECASE)
"""`Book 7` is one of several books, and `Order #12` an order."""
_ENCLOSED = re.compile(r"""\[(?:[^\[\]"']|"[^"]*"|'[^']*')*\]|\((?:[^()"']|"[^"]*"|'[^']*')*\)""")
_SHORT_NOTE = 5


def selector_says_write(selector: str) -> str:
    """The name or text of the element itself that suggests a write; empty if none does."""
    return next((name for name in _names(_last_selector_part(selector)) if _says_write(_split_words(name))), "")


def note_says_write(note: str) -> str:
    """Return the note if its first words ask for a write, else ""."""
    words = _split_words(note)
    while words and words[0] in _FILLERS:
        words = words[1:]
    first = words[:_SHORT_NOTE]
    if first[:1] == ["place"] and "order" in first:
        first = first[first.index("order") :]
    return note if first and _says_write(first[:1]) and _says_write(first) else ""


def _says_write(words: Sequence[str]) -> bool:
    if LOOKS.intersection(words):
        return False
    return bool(VERBS.intersection(words) or (NAMES.intersection(words) and not THINGS.intersection(words)))


def _split_words(text: str) -> list[str]:
    """The words in small letters, without a noun with its number."""
    return [word.lower() for word in _WORD.findall(_NUMBERED.sub(" ", text))]


def _last_selector_part(selector: str) -> str:
    """The part of a selector that names the element itself, not its ancestors."""
    if selector.startswith(("//", "xpath=", "(")):
        return selector
    parts = (part.strip() for part in reversed(selector.split(">>")))
    selector = next((part for part in parts if not part.startswith(("nth=", "visible="))), "")
    if _ENGINE.match(selector):
        return selector
    hidden = _ENCLOSED.sub(lambda found: "x" * len(found[0]), selector)
    cut = max(hidden.rfind(mark) for mark in " >+~")
    return selector[cut + 1 :]


def _names(part: str) -> Iterator[str]:
    """The ids, classes, labels and texts of an element that its selector contains."""
    if part.startswith(("//", "xpath=", "(")):
        yield from (first or second for first, second in _QUOTED.findall(part))
        return
    if engine := _ENGINE.match(part):
        named = _ROLE_NAME.search(part)
        yield (named[1] or named[2] or "") if named else "" if part.startswith("role") else engine[1]
        return
    yield from _NAMES.findall(_ENCLOSED.sub("", part))
    for pattern in (_NAMING, _TEXT):
        yield from ("".join(found) for found in pattern.findall(part))


_SENDING_KEYS = frozenset({"Enter", "NumpadEnter", "Space", " "})
_FORM = re.compile(r"form|modal|dialog|popup", re.IGNORECASE)


def write_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for writes without `done_when`, acts that look like writes, and answers to unopened dialogs."""
    if spec.expect is None or spec.expect.code != "OUTCOME_UNKNOWN":
        yield from _of(spec.steps, ("steps",), origin)
        for number, repair in enumerate(spec.repairs):
            yield from _of(repair.steps, ("repairs", number, "steps"), origin)
    if spec.steps and isinstance(spec.steps[-1], Dialog):
        message = "this is the last step, so no dialog follows it"
        hint = "put it before the step that opens the dialog"
        yield origin.problem(("steps", len(spec.steps) - 1), message, hint=hint, severity="warning")


def _of(steps: Sequence[Step], path: JsonPath, origin: Origin) -> Iterator[Problem]:
    for number, step in enumerate(steps):
        if isinstance(step, Tool) and step.effect is None:
            continue  # the settings or the server say what it does
        if step.effect_class == "write" and step.done_when is None:
            message = "a `write` without `done_when`: when it fails halfway, the task ends with OUTCOME_UNKNOWN"
            hint = (
                "say in `done_when` how to tell that it took effect, or use `effect: idempotent` if twice does no harm"
            )
            yield origin.problem((*path, number), message, hint=hint, severity="warning")
        elif step.effect is None and (word := _words_of_write(step)) and not _brings_up_form(steps[number + 1 :]):
            yield _undeclared((*path, number), step, word, origin)


def _words_of_write(step: Step) -> str:
    """The word that makes an act look like one that must not be repeated; empty if there is none."""
    sends = isinstance(step, Press) and step.value.rpartition("+")[2] in _SENDING_KEYS
    if not (sends or isinstance(step, Click)):
        return ""
    return selector_says_write(step.target or "") or note_says_write(step.note or "")


def _brings_up_form(after: Sequence[Step]) -> bool:
    """Return whether a later step on the same page is the real write: a form filled in first, or a confirmation."""
    filled = False
    for step in after:
        if isinstance(step, Open):
            return False
        if isinstance(step, Type | Select | Check | Uncheck | Upload) or _FORM.search(_awaited_selector(step)):
            filled = True
        elif (word := _words_of_write(step)) or step.effect_class == "write":
            return filled or "confirm" in (word or step.target or "").lower()
    return False


def _awaited_selector(step: Step) -> str:
    return step.target or "" if isinstance(step, Wait) else ""


def _undeclared(path: JsonPath, step: Step, word: str, origin: Origin) -> Problem:
    message = f"`{word}` looks like something that must not be done twice, and the step has no `effect`"
    hint = "add `effect: write` with a `done_when`, or `effect: idempotent` if doing it twice does no harm"
    return origin.problem(path, f"{message}: a retry would {step.act} again", hint=hint, severity="warning")
