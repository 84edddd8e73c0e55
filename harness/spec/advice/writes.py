"""Steps that change something for good, and how they are declared (docs/design/never-twice.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.spec.problems import Problem, Way
from harness.spec.source import Origin
from harness.spec.steps import Check, Click, Dialog, Open, Press, Select, Step, Type, Uncheck, Upload, Wait
from harness.spec.task import TaskSpec

# Whether a selector or a note speaks of an act that must not be done twice: words, not certainty.

VERBS = frozenset({"buy", "confirm", "delete", "pay", "purchase", "remove", "send", "submit"})
NAMES = frozenset({"book", "order", "transfer"})
"""Verbs that are names as well: of something to look at."""
LOOKS = frozenset({
    "by", "email", "field", "filter", "filters", "find", "history", "input", "list", "menu", "next", "open", "page",
    "pages", "panel", "password", "preview", "previous", "search", "show", "sort", "tab", "tabs", "toggle", "view",
})  # fmt: skip
"""Beside one of these it is about looking, or about filling something in."""
THINGS = frozenset({
    "address", "amount", "card", "cards", "cell", "column", "date", "detail", "details", "edit", "icon", "id", "image",
    "img", "info", "item", "items", "label", "link", "links", "message", "name", "number", "option", "options",
    "product", "row", "rows", "status", "summary", "table", "text", "title", "total", "track", "tracking",
})  # fmt: skip
"""Beside one of these `order` is a name: an order's row, its details."""
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
_ENCLOSED = re.compile(r"""\[(?:[^\[\]"']|"[^"]*"|'[^']*')*\]|\((?:[^()"']|"[^"]*"|'[^']*')*\)""")
_SHORT_NOTE = 5


def selector_says_write(selector: str) -> str:
    """The name or text of the element itself that says so; empty when none does."""
    return next((name for name in _names(_last(selector)) if _says_write(_words(name))), "")


def note_says_write(note: str) -> str:
    """The note, when its first words ask for such an act; empty otherwise."""
    words = _words(note)
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


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _last(selector: str) -> str:
    """The part that names the element itself, not those around it."""
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
    """Ids, classes, labels and texts of an element, as its selector gives them."""
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
    """Writes that cannot be asked about, acts that look like writes, and answers to dialogs that never come."""
    if spec.expect is None or spec.expect.code != "OUTCOME_UNKNOWN":
        yield from _of(spec.steps, ("steps",), origin)
        for number, repair in enumerate(spec.repairs):
            yield from _of(repair.steps, ("repairs", number, "steps"), origin)
    if spec.steps and isinstance(spec.steps[-1], Dialog):
        message = "the last step: no dialog comes after it"
        hint = "put it before the step that brings the dialog up"
        yield origin.problem(("steps", len(spec.steps) - 1), message, hint=hint, severity="warning")


def _of(steps: Sequence[Step], path: Way, origin: Origin) -> Iterator[Problem]:
    for number, step in enumerate(steps):
        if step.effect_class == "write" and step.done_when is None:
            message = "a `write` without `done_when`: when it fails halfway, the task ends with OUTCOME_UNKNOWN"
            hint = "say in `done_when` how to see that it took effect; or `effect: idempotent` when twice does no harm"
            yield origin.problem((*path, number), message, hint=hint, severity="warning")
        elif step.effect is None and (word := _words_of_write(step)) and not _brings_up_form(steps[number + 1 :]):
            yield _undeclared((*path, number), step, word, origin)


def _words_of_write(step: Step) -> str:
    """What makes an act look like one that must not be done twice; empty when nothing does."""
    sends = isinstance(step, Press) and step.value.rpartition("+")[2] in _SENDING_KEYS
    if not (sends or isinstance(step, Click)):
        return ""
    return selector_says_write(step.target or "") or note_says_write(step.note or "")


def _brings_up_form(after: Sequence[Step]) -> bool:
    """Whether what follows on the same page is the real write: a form that is filled in first, or a confirmation."""
    filled = False
    for step in after:
        if isinstance(step, Open):
            return False
        if isinstance(step, Type | Select | Check | Uncheck | Upload) or _FORM.search(_awaited(step)):
            filled = True
        elif (word := _words_of_write(step)) or step.effect_class == "write":
            return filled or "confirm" in (word or step.target or "").lower()
    return False


def _awaited(step: Step) -> str:
    return step.target or "" if isinstance(step, Wait) else ""


def _undeclared(path: Way, step: Step, word: str, origin: Origin) -> Problem:
    message = f"`{word}` looks like something that must not be done twice, and the step has no `effect`"
    hint = "say `effect: write` with a `done_when`; or `effect: idempotent` when doing it twice does no harm"
    return origin.problem(path, f"{message}: a retry would {step.act} again", hint=hint, severity="warning")
