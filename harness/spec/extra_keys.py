"""`[tool.harness] extra_keys`: keys of one's own at the top of task files, each with a meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.spec.defaults import Meaning
from harness.spec.marks import TAKEN
from harness.spec.origin import Origin
from harness.spec.parts import Own
from harness.spec.problems import Problem, shown
from harness.spec.task import TAG


def own_of(data: Mapping[str, Any], keys: Mapping[str, Meaning]) -> Own:
    """What the file's own keys say. What does not fit is left out: `own_problems` tells of it."""
    given = [(key, meaning, data[key]) for key, meaning in keys.items() if data.get(key) not in (None, False, "")]
    skip = next((_reason(key, value) for key, meaning, value in given if meaning == "skip"), "")
    tags = [tag for _, meaning, value in given if meaning == "tag" for tag in _listed(value) if _is_tag(tag)]
    notes = [(key, _text(value)) for key, meaning, value in given if meaning == "note"]
    return Own(skip, tuple(dict.fromkeys(tags)), tuple(notes))


def own_problems(data: Mapping[str, Any], keys: Mapping[str, Meaning], origin: Origin) -> Iterator[Problem]:
    """Values that do not fit the meaning of their key."""
    for key, meaning in keys.items():
        value = data.get(key)
        if meaning == "skip" and not isinstance(value, str | bool | None):
            expected = "the reason as text, or true or false"
            yield origin.problem((key,), "this key skips the task", expected=expected, found=shown(value))
        if meaning == "tag" and value is not None and not all(map(_is_tag, _listed(value))):
            expected = "tags: a letter, then letters, digits, `_` and `-`, and no mark of pytest's own"
            hint = f'in [tool.harness.extra_keys], {key} = "note" or "ignore" takes any value'
            yield origin.problem((key,), "this key gives tags", expected=expected, found=shown(value), hint=hint)


def _reason(key: str, value: Any) -> str:
    return value if isinstance(value, str) else f"`{key}` is set in its file"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_tag(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(TAG, value) is not None and value not in TAKEN


def _text(value: Any) -> str:
    """One line: a list as its items, anything else as JSON has it."""
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
