"""A recording as a task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from harness.spec.recorded.actions import Action, Recording
from harness.spec.recorded.journey import Journey, journey_of, literal, tidied
from harness.spec.recorded.text import TaskText
from harness.values import replace

_LEAST_SECRET = 4
"""Characters from which on a password is also searched inside other texts."""
_PROPOSED = (
    "Proposed from the page at the end. Say here what must be true if the task did what it is for,",
    "for example  \"text('#order-status') == 'confirmed'\"",
)


def recorded_task(recording: Recording, url: str, keys: Mapping[str, Any]) -> tuple[TaskText, Journey]:
    """The task of a recording that began at `url`, and what is not in it. `keys` come first, before its domains."""
    variables = variables_of(recording.passwords)
    actions = [_without_passwords(action, variables) for action in _from(url, recording.actions)]
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
    for password, field in passwords.items():
        name = re.sub(r"\W+", "_", field, flags=re.ASCII).strip("_").upper() or "PASSWORD"
        name = name if name[0].isalpha() else f"PASSWORD_{name}"
        taken = set(found.values())
        found[password] = next(each for each in (name, *(f"{name}_{n}" for n in range(2, 99))) if each not in taken)
    return found


def _from(url: str, actions: Sequence[Action]) -> list[Action]:
    """The actions, beginning with the URL that was given: the page may have redirected to another one."""
    first = Action(name="navigate", text=url.replace("${", "$${"))
    rest = actions[1:] if actions and actions[0].name == "navigate" else actions
    return [first, *rest]


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
