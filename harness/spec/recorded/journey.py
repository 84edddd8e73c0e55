"""Recorded actions as the steps of a task and its criteria."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from harness.spec.recorded.actions import Action, GivenAnswer
from harness.spec.recorded.locators import Target, UnwritableError


class WrittenStep(Struct, frozen=True):
    """A step as its file shows it; without keys, only the comment in its place."""

    keys: dict[str, Any]
    notes: tuple[str, ...] = ()
    """Lines of the comment before it."""


class Omission(Struct, frozen=True):
    """Something that was recorded and is not in the task."""

    what: str
    why: str
    place: str = ""
    """`file:line` of the source, if there is one."""


class Journey(Struct, frozen=True):
    """What a task does and what must be true at its end."""

    steps: tuple[WrittenStep, ...]
    criteria: tuple[str, ...]
    missing: tuple[Omission, ...] = ()


def journey_of(actions: Sequence[Action]) -> Journey:
    """The steps of recorded actions. The assertions at the end become the criteria."""
    ending = _ending(actions)
    steps, missing, page = list[WrittenStep](), list[Omission](), 0
    for action in actions[: len(actions) - len(ending)]:
        try:
            if action.page != page and action.name != "missing":
                steps.append(
                    WrittenStep({"act": "switch_page", "value": -1 if action.newest and action.page else action.page})
                )
                page = action.page
            steps += _steps(action)
        except UnwritableError as error:
            found = Omission(action.text or action.name, action.why or str(error))
            missing.append(found)
            notes = (f"MISSING: {found.why}", *(f"  {line}" for line in found.what.splitlines()))
            steps.append(WrittenStep({}, notes))
    return Journey(tuple(steps), tuple(map(_criterion_of, ending)), tuple(missing))


def _ending(actions: Sequence[Action]) -> Sequence[Action]:
    """The assertions after the last act, as far as criteria can say them."""
    page = actions[-1].page if actions else 0
    found = list(takewhile(lambda action: action.page == page and _is_criterion(action), reversed(actions)))
    switched = len(found) < len(actions) and found and actions[-len(found) - 1].page != page
    return [] if switched else list(reversed(found))


def _is_criterion(action: Action) -> bool:
    if not action.asserts or action.name == "assertSnapshot":
        return False
    try:
        _criterion_of(action)
    except UnwritableError:
        return False
    return True


def _steps(action: Action) -> Iterator[WrittenStep]:
    """The step of an action, after those that it needs. Raises UnwritableError."""
    if action.name == "missing":
        raise UnwritableError(action.why)
    step = _asserting(action) if action.asserts else _acting(action)
    yield from map(_answering, action.dialogs)
    upload = ("The file must lie in the folder of this task, or below it.",) if action.name == "setInputFiles" else ()
    yield _of_write(action, step) if action.sent else WrittenStep(step, upload)


def _answering(given: GivenAnswer) -> WrittenStep:
    """The `dialog` step before the step that opens the dialog."""
    said = {} if given.message is None else {"message": given.message}
    text = {} if given.text is None else {"text": given.text}
    return WrittenStep({"act": "dialog", "value": "accept" if given.accepted else "dismiss", **text, **said})


def _of_write(action: Action, step: dict[str, Any]) -> WrittenStep:
    path = urlsplit(action.reached).path
    sign = f"url() matches {literal(re.escape(path) + '$')}" if len(path) > 1 else "exists('#what-it-makes')"
    notes = (
        f"This step sent {', '.join(action.sent)}, so it is never done twice. For recovery after a failure,",
        f'say how to tell that it took effect, for example  done_when: "{sign}"',
    )
    return WrittenStep({**step, "effect": "write"}, notes)


def _acting(action: Action) -> dict[str, Any]:
    if action.name == "click" and action.download is not None:
        return {"act": "download", **_at(action), **({"value": action.download} if action.download else {})}
    return _ACTS[action.name](action)


def _one_or_all(values: Sequence[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)


def _optional_at(action: Action) -> dict[str, str]:
    return _at(action) if action.locator or action.element else {}


_ACTS: Mapping[str, Callable[[Action], dict[str, Any]]] = {
    "navigate": lambda action: {"act": "open", "url": action.text},
    **dict.fromkeys(("click", "check", "uncheck", "hover"), lambda action: {"act": action.name, **_at(action)}),
    "fill": lambda action: {"act": "type", **_at(action), "value": action.text},
    "press": lambda action: {"act": "press", **_optional_at(action), "value": action.text},
    "select": lambda action: {"act": "select", **_at(action), "value": _one_or_all(action.values)},
    "setInputFiles": lambda action: {"act": "upload", **_at(action), "value": _one_or_all(action.values)},
}


_LOOKS_LIKE_MORE = re.compile(r"\s*(?:(?:==|!=|<=|>=|<|>)\s*-?\d+(?:\.\d+)?|(?:mem|json)\(.*\))\s*", re.DOTALL)
"""A text that an `assert` would not take literally."""


def _asserting(action: Action) -> dict[str, Any]:
    if action.name == "assertSnapshot":
        return {"act": "assert", **_optional_at(action), "aria": action.text}
    if action.name == "assertText" and action.exact and not _LOOKS_LIKE_MORE.fullmatch(action.text):
        return {"act": "assert", **_at(action), "value": action.text}
    return {"act": "assert", "expr": _criterion_of(action)}


def _at(action: Action) -> dict[str, str]:
    target = action.target
    return {"selector": target.selector, **({"frame": target.frame} if target.frame else {})}


# What a person does on the way and would not write.


def tidied(actions: Sequence[Action]) -> list[Action]:
    """Recorded actions without clicks into a field that is then filled, the Tab key between fields, and the like."""
    kept: list[Action] = []
    after: Action | None = None
    for number, action in reversed(list(enumerate(actions))):
        if not _is_idle(action, actions[number - 1] if number else None, after):
            kept.append(action)
            after = action
    return kept[::-1]


def _is_idle(action: Action, before: Action | None, after: Action | None) -> bool:
    if action.sent or action.dialogs or action.download is not None:
        return False
    if action.name == "press":
        return _is_idle_key(action, before, after)
    if action.name != "click" or after is None or after.page != action.page:
        return action.name == "click" and _is_background(action)
    return _is_background(action) or _leads_into(action, after)


_FIELDS = ("fill", "select", "check", "uncheck")


def _is_idle_key(action: Action, before: Action | None, after: Action | None) -> bool:
    """Return whether a key only goes on to the next field, or marks a text that is then replaced."""
    if action.text in ("Tab", "Shift+Tab"):
        return before is not None and before.name in _FIELDS and after is not None and not after.asserts
    marks = action.text in ("Control+a", "Meta+a") and after is not None and _leads_into(action, after)
    return marks or action.text == "CapsLock"


def _is_background(action: Action) -> bool:
    return len(action.locator) == 1 and action.locator[0].kind == "css" and action.locator[0].body in ("html", "body")


def _leads_into(click: Action, after: Action) -> bool:
    """Return whether a click only goes into the field, or on the label of the box, that the next action is about."""
    if after.name == "fill":
        return click.locator == after.locator and click.element == after.element
    if after.name not in ("check", "uncheck") or not click.locator or not after.locator:
        return False
    label, box = click.locator[-1], after.locator[-1]
    return label.kind in ("text", "label") and box.kind in ("role", "label") and label.body == (box.name or box.body)


# Recorded assertions as criteria.

_ESCAPED = re.compile(r"\\(?=[nrtu\\'\"]|$)")
_CHECKED = (':is(:checked, [aria-checked="true"])', ':not(:checked, [aria-checked="true"])')
"""The condition in CSS that a box is ticked, and that it is not."""


def _criterion_of(action: Action) -> str:
    """The criterion that says what an assertion says. Raises UnwritableError."""
    target = action.target
    match action.name:
        case "assertText" | "assertValue":
            read = _read("text" if action.name == "assertText" else "value", target)
            return f"{read} {'==' if action.exact else 'includes'} {literal(action.text)}"
        case "assertVisible":
            return _read("visible", target)
        case "assertChecked":
            return _read("exists", Target(target.inside(_CHECKED[action.negated]), target.frame))
    raise UnwritableError("no criterion says this")


def _read(function: str, target: Target) -> str:
    """A call that reads the element, in its frame."""
    frame = "" if target.frame is None else f", frame={literal(target.frame)}"
    return f"{function}({literal(target.selector)}{frame})"


def literal(text: str) -> str:
    """A text as the assertion language writes it."""
    quote = '"' if "'" in text and '"' not in text else "'"
    escaped = _ESCAPED.sub(r"\\\\", text).replace(quote, f"\\{quote}").replace("\n", "\\n")
    return f"{quote}{escaped}{quote}"
