"""A recording as a task: what Playwright's recorder tells of an action, as one that a task can say, and all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct, field

from harness.spec.recorded.actions import Action, ActionName, GivenAnswer, Recording
from harness.spec.recorded.journey import Journey, journey_of, literal, tidied
from harness.spec.recorded.locators import Locator, Target, UnwritableError, raw_target, recorded_locator
from harness.spec.recorded.text import TaskText
from harness.spec.references import escape_references
from harness.values import replace

_MODIFIERS = ((1, "Alt"), (2, "Control"), (4, "Meta"), (8, "Shift"))


class Effects(Struct):
    """What followed from an action."""

    sent: list[str] = field(default_factory=list)
    """Method and path of its unsafe requests."""
    dialogs: list[GivenAnswer] = field(default_factory=list)
    download: str | None = None
    """The name of the file that was downloaded."""
    reached: str = ""
    """The address of the page to which it led."""


class RecordedEvent(Struct):
    """An action of the recorder."""

    data: Mapping[str, Any]
    """The recorder's own description of it."""
    described: Mapping[str, Any] | None
    """Its element, as the recorder's JSON lines describe it."""
    page: int
    newest: bool
    at: float
    """When it was told, on the clock of the run."""
    effects: Effects = field(default_factory=Effects)
    files: tuple[str, ...] = ()
    """The names of the files that were put into a field."""


def action_of(event: RecordedEvent) -> Action:
    """The action as a task can say it; `missing` if it cannot."""
    data, effects = event.data, event.effects
    locator, element = _element(data, event.described)
    known = Action(
        name="missing",
        locator=locator,
        element=element,
        page=event.page,
        newest=event.newest,
        sent=tuple(effects.sent),
        dialogs=tuple(effects.dialogs),
        download=effects.download,
        reached=effects.reached,
    )
    if problem := _problem(data):
        what = f"{data['name']} on {data['selector']}" if data.get("selector") else data["name"]
        return replace(known, text=str(what), why=problem)
    if event.files:
        return replace(known, name="setInputFiles", values=event.files)
    said = _SAID[data["name"]](data) if data["name"] in _SAID else {}
    return replace(known, name=cast("ActionName", data["name"]), **said)


def _problem(data: Mapping[str, Any]) -> str:
    """Why a task cannot say it; empty if it can."""
    name = data["name"]
    if name == "openPage":
        return (
            "a task opens no tab by itself, only by a click: what was done in the new tab is written for the first one"
        )
    if name not in _SAID and name not in _BARE:
        return f"a task has no act for the recorder's `{name}`"
    if name != "click":
        return ""
    if data.get("button", "left") != "left":
        return f"a task has no act for a click with the {data['button']} button"
    if held := _held(data):
        return f"a task has no act for a click with {' and '.join(held)} held down"
    return "a task has no act for a double click" if data.get("clickCount", 1) > 1 else ""


_BARE = frozenset({"click", "check", "uncheck", "hover", "assertVisible"})
"""The recorder's actions that have only an element."""
_SAID: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "navigate": lambda data: {"text": escape_references(data["url"])},
    "fill": lambda data: {"text": escape_references(data["text"])},
    "press": lambda data: {"text": "+".join((*_held(data), {" ": "Space"}.get(data["key"], data["key"])))},
    "select": lambda data: {"values": tuple(map(escape_references, data["options"]))},
    "assertText": lambda data: {"text": escape_references(data["text"]), "exact": not data.get("substring", False)},
    "assertValue": lambda data: {"text": escape_references(data["value"])},
    "assertChecked": lambda data: {"negated": not data.get("checked", True)},
    "assertSnapshot": lambda data: {"text": escape_references(data["ariaSnapshot"])},
}
"""The recorder's action -> its texts, as fields of an Action."""


def _held(data: Mapping[str, Any]) -> list[str]:
    return [name for bit, name in _MODIFIERS if data.get("modifiers", 0) & bit]


def _element(data: Mapping[str, Any], described: Mapping[str, Any] | None) -> tuple[Locator, Target | None]:
    if described is not None:
        try:
            return recorded_locator(described, data.get("ariaSnapshot") or "", data.get("ref") or ""), None
        except UnwritableError:
            pass
    return (), raw_target(data["selector"]) if data.get("selector") else None


# All actions as a task.

_LEAST_SECRET = 4
"""Characters from which on a password is also searched inside other texts."""
_PROPOSED = (
    "Proposed from the page at the end. Say here what must be true if the task did what it is for,",
    "for example  \"text('#order-status') == 'confirmed'\"",
)


def recorded_task(recording: Recording, url: str, keys: Mapping[str, Any]) -> tuple[TaskText, Journey]:
    """The task of a recording that began at `url`, and what is not in it. `keys` come first, before its domains."""
    variables = variables_of(recording.passwords)
    first, said = Action(name="navigate", text=url.replace("${", "$${")), recording.actions
    rest = said[1:] if said and said[0].name == "navigate" else said  # the page may have redirected to another URL
    actions = [_without_passwords(action, variables) for action in (first, *rest)]
    journey = journey_of(tidied(actions))
    hosts = (*recording.visited, *recording.loaded)
    notes = {}
    if recording.loaded:
        notes["allowed_domains"] = f"the pages load from {', '.join(recording.loaded)}; leave out what they do not need"
    text = TaskText(
        head=tuple(f"It needs the environment variable {name}." for name in variables.values()),
        keys={**keys, "allowed_domains": list(hosts), "expect_timeout": 5},
        steps=journey.steps,
        criteria=journey.criteria or _proposed(recording.address),
        criteria_notes=() if journey.criteria else _PROPOSED,
        notes=notes,
    )
    return text, journey


def variables_of(passwords: Mapping[str, str]) -> dict[str, str]:
    """Password -> the name of the environment variable that stands for it, after its field."""
    found: dict[str, str] = {}
    for password, name_of_field in passwords.items():
        name = re.sub(r"\W+", "_", name_of_field, flags=re.ASCII).strip("_").upper() or "PASSWORD"
        name = name if name[0].isalpha() else f"PASSWORD_{name}"
        taken = set(found.values())
        found[password] = next(each for each in (name, *(f"{name}_{n}" for n in range(2, 99))) if each not in taken)
    return found


def _without_passwords(action: Action, variables: Mapping[str, str]) -> Action:
    """The action with references in place of passwords."""
    values = tuple(_hidden(value, variables) for value in action.values)
    reached = "" if any(password in action.reached for password in variables) else action.reached
    return replace(action, text=_hidden(action.text, variables), values=values, reached=reached)


def _hidden(text: str, variables: Mapping[str, str]) -> str:
    for password, name in variables.items():
        written, reference = password.replace("${", "$${"), f"${{env:{name}}}"
        if text == written:
            return reference
        if len(password) >= _LEAST_SECRET:
            text = text.replace(written, reference)
    return text


def _proposed(address: str) -> tuple[str, ...]:
    parts = urlsplit(address)
    shown = parts.path if len(parts.path) > 1 else parts.netloc
    return (f"url() includes {literal(shown)}",) if shown else ()
