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
from harness.values import replace


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
            found = Omission(action.text or action.name, action.why or str(error), action.place)
            missing.append(found)
            where = f"{found.place}: " if found.place else ""
            notes = (f"MISSING: {where}{found.why}", *(f"  {line}" for line in found.what.splitlines()))
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
    upload = "The file must lie in the folder of this task, or below it." if action.name == "setInputFiles" else ""
    notes = tuple(filter(None, (action.note, upload)))
    yield _of_write(action, step) if action.sent else WrittenStep(step, notes)


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
    forced = {"force": True} if action.force else {}
    return {**_ACTS[action.name](action), **forced, **({"timeout": action.timeout} if action.timeout else {})}


def _one_or_all(values: Sequence[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)


def _chosen(action: Action) -> Any:
    if not action.by:
        return _one_or_all(action.values)
    return {action.by: int(action.values[0]) if action.by == "index" else action.values[0]}


def _optional_at(action: Action) -> dict[str, str]:
    return _at(action) if action.locator or action.element else {}


def _arrival(action: Action) -> dict[str, Any]:
    statuses = list(action.statuses)
    until = {"until": action.until} if action.until else {}
    return until | ({"status": statuses[0] if len(statuses) == 1 else statuses} if statuses else {})


_ACTS: Mapping[str, Callable[[Action], dict[str, Any]]] = {
    "navigate": lambda action: {"act": "open", "url": action.text, **_arrival(action)},
    **dict.fromkeys(
        ("click", "check", "uncheck", "hover", "scroll"), lambda action: {"act": action.name, **_at(action)}
    ),
    "fill": lambda action: {"act": "type", **_at(action), "value": action.text},
    "press": lambda action: {"act": "press", **_optional_at(action), "value": action.text},
    "select": lambda action: {"act": "select", **_at(action), "value": _chosen(action)},
    "setInputFiles": lambda action: {"act": "upload", **_at(action), "value": _one_or_all(action.values)},
    "drag": lambda action: {
        "act": "drag",
        **_at(action),
        "value": replace(action, locator=action.onto).target.selector,
    },
    "wait": lambda action: {"act": "wait", "value": float(action.text)},
    "waitFor": lambda action: {"act": "wait", **_at(action)},
    "screenshot": lambda action: {"act": "screenshot", **_optional_at(action), "screenshot_id": action.text},
}


_LOOKS_LIKE_MORE = re.compile(r"\s*(?:(?:==|!=|<=|>=|<|>)\s*-?\d+(?:\.\d+)?|(?:mem|json)\(.*\))\s*", re.DOTALL)
"""A text that an `assert` would not take literally."""


def _asserting(action: Action) -> dict[str, Any]:
    if action.name == "assertSnapshot":
        return {"act": "assert", **_optional_at(action), "aria": action.text}
    plain = not action.negated and not action.pattern and action.timeout is None
    if action.name == "assertText" and plain and action.exact and not _LOOKS_LIKE_MORE.fullmatch(action.text):
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
_STATES = {
    "assertChecked": (':is(:checked, [aria-checked="true"])', ':not(:checked, [aria-checked="true"])'),
    "assertEnabled": (':not(:disabled, [aria-disabled="true"])', ':is(:disabled, [aria-disabled="true"])'),
    "assertFocused": (":focus", ":not(:focus)"),
}
"""Assertion -> the condition in CSS for it, and for its opposite."""


def _criterion_of(action: Action) -> str:
    """The criterion that says what an assertion says. Raises UnwritableError."""
    read = {"assertUrl": "url()", "assertTitle": "title()"}.get(action.name)
    said = _compared(read, action, action.text) if read else _of_element(action, action.target)
    return f"WITHIN({action.timeout:g}, {said})" if action.timeout else said


def _of_element(action: Action, target: Target) -> str:
    match action.name:
        case "assertText":
            return _of_text(action, "text", target)
        case "assertValue":
            return _of_text(action, "value", target)
        case "assertAttribute":
            return _compared(_read("attr", target, action.text), action, action.values[0])
        case "assertVisible" | "assertExists":
            read = _read("visible" if action.name == "assertVisible" else "exists", target)
            return f"NOT[{read}]" if action.negated else read
        case "assertCount":
            return f"{_read('count', target)} {'!=' if action.negated else '=='} {action.text}"
        case "assertChecked" | "assertEnabled" | "assertFocused":
            return _read("exists", Target(target.inside(_STATES[action.name][action.negated]), target.frame))
    raise UnwritableError("no criterion says this")


def _read(function: str, target: Target, *names: str) -> str:
    """A call that reads the element, in its frame."""
    frame = "" if target.frame is None else f", frame={literal(target.frame)}"
    return f"{function}({', '.join(map(literal, (target.selector, *names)))}{frame})"


def _of_text(action: Action, function: str, target: Target) -> str:
    said = _compared(_read(function, target), action, action.text)
    return f"ALL[{_read('exists', target)}, {said}]" if said.startswith("NOT[") else said


def _compared(read: str, action: Action, text: str) -> str:
    """A comparison. A missing value satisfies neither `==` nor `!=`."""
    if action.exact and not action.pattern:
        return f"{read} {'!=' if action.negated else '=='} {literal(text)}"
    said = f"{read} {'matches' if action.pattern else 'includes'} {literal(text)}"
    return f"NOT[{said}]" if action.negated else said


def literal(text: str) -> str:
    """A text as the assertion language writes it."""
    quote = '"' if "'" in text and '"' not in text else "'"
    escaped = _ESCAPED.sub(r"\\\\", text).replace(quote, f"\\{quote}").replace("\n", "\\n")
    return f"{quote}{escaped}{quote}"
