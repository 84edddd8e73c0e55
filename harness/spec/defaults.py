"""`[tool.harness.defaults]`: TaskSpec keys that a project sets for all its tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from harness.spec.checks import TAKEN
from harness.spec.file_names import HOOKS
from harness.spec.problems import Problem
from harness.spec.source import Origin, Source
from harness.spec.task import TAG, Own, TaskSpec
from harness.spec.validation import problems_of_error, unknown_key


def own_of(data: Mapping[str, Any], keys: Mapping[str, Meaning]) -> Own:
    """Read the project's own keys of a task. Values that do not fit are left out: `own_problems` reports them."""
    given = [(key, meaning, data[key]) for key, meaning in keys.items() if data.get(key) not in (None, False, "")]
    skips = ((key, value) for key, meaning, value in given if meaning == "skip")
    skip = next((value if isinstance(value, str) else f"`{key}` is set in its file" for key, value in skips), "")
    tags = [tag for _, meaning, value in given if meaning == "tag" for tag in _as_list(value) if _is_tag(tag)]
    notes = [(key, _text(value)) for key, meaning, value in given if meaning == "note"]
    return Own(skip, tuple(dict.fromkeys(tags)), tuple(notes))


def own_problems(data: Mapping[str, Any], keys: Mapping[str, Meaning], origin: Origin) -> Iterator[Problem]:
    """Yield problems for values that do not fit the meaning of their key."""
    for key, meaning in keys.items():
        value = data.get(key)
        if meaning == "skip" and not isinstance(value, str | bool | None):
            expected = "the reason as text, or true or false"
            yield origin.problem((key,), "this key skips the task", expected=expected, value=value)
        if meaning == "tag" and value is not None and not all(map(_is_tag, _as_list(value))):
            expected = "tags: a letter, then letters, digits, `_` and `-`, and no mark of pytest's own"
            hint = f'with {key} = "note" or "ignore" in [tool.harness.extra_keys] the key takes any value'
            yield origin.problem((key,), "this key gives tags", expected=expected, value=value, hint=hint)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_tag(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(TAG, value) is not None and value not in TAKEN


def _text(value: Any) -> str:
    """The value in one line: a list as its items, anything else as JSON."""
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


Meaning = Literal["skip", "tag", "note", "ignore"]
"""The meaning of a key that the project defines for its task files (`extra_keys`)."""
_OWN = ("task_id", "steps", "parametrize")
"""Keys that identify a task: a default for them would make all tasks the same."""
_MERGED = ("error_recovery", "budget", "inputs", "persona", "memory", "fallback_plan", "rubrics")
"""Keys whose mappings are merged entry by entry: a task sets one rule and takes others from the defaults."""


class Defaults(BaseModel):
    """One table of defaults, checked like the keys of a task file. `values` holds JSON."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    override: bool = Field(False, description="Whether these values override the values in a task.")
    values: dict[str, Any] = Field(default_factory=dict)
    _places: dict[str, Source] = PrivateAttr(default_factory=dict)

    @classmethod
    def of_hooks(cls, hooks: Mapping[str, Any], places: Mapping[str, Source]) -> Defaults:
        """The defaults that `before_each` and `after_each` of the settings are, with their places."""
        made = cls.model_construct(override=False, values=dict(hooks))
        made._places = dict(places)  # noqa: SLF001 - its own
        return made

    @property
    def places(self) -> Mapping[str, Source]:
        """Key -> the file that has it, for keys whose problems are told there."""
        return self._places

    @model_validator(mode="before")
    @classmethod
    def _taken_apart(cls, table: Any) -> Any:
        """Take all keys beside `override` as the values. Raises ValueError for keys that no task may have."""
        if not isinstance(table, dict):
            raise ValueError("must be a table, as in [tool.harness.defaults]")  # noqa: TRY004 - pydantic tells it
        values = {key: value for key, value in table.items() if key != "override"}
        if problem := _problem(values):
            raise ValueError(problem)
        return {"values": values, **({"override": table["override"]} if "override" in table else {})}

    def merge_into(self, data: dict[str, Any]) -> dict[str, Any]:
        """Merge these defaults with the keys of a task file; the file wins, or the defaults under `override`."""
        return {**data, **{key: self._join_value(key, value, data) for key, value in self.values.items()}}

    def _join_value(self, key: str, value: Any, data: dict[str, Any]) -> Any:
        if key not in data:
            return value
        said = data[key]
        if key in _MERGED and isinstance(value, dict) and isinstance(said, dict):
            return {**said, **value} if self.override else {**value, **said}
        return value if self.override else said


def as_tables(value: Any) -> Any:
    """The list of tables, whether written as `[tool.harness.defaults]` or `[[tool.harness.defaults]]`."""
    return (value,) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value


def with_defaults(data: dict[str, Any], tables: Iterable[Defaults]) -> dict[str, Any]:
    """Merge a task file's keys with its project's defaults; a later table fills in what earlier ones lack."""
    for table in tables:
        data = table.merge_into(data)
    return data


def _problem(values: dict[str, Any]) -> str:
    """The problem of these values in one line; empty if there is none."""
    for key in values:
        if key in HOOKS:
            return f"`{key}` stands in [tool.harness], not among the defaults"
        if key in _OWN:
            return f"`{key}` belongs to each task file, and cannot be a default"
    try:
        text = json.dumps({"task_id": "T", "goal": "g", **values})
    except TypeError:
        return "only text, numbers, booleans, lists and tables can be defaults: put dates in quotes"
    origin = Origin("pyproject.toml")
    if strays := [key for key in values if key not in TaskSpec.model_fields]:
        return _describe_problem(unknown_key((strays[0],), values, origin))
    try:
        TaskSpec.model_validate_json(text, strict=True)
    except ValueError as error:
        found = list(problems_of_error(error, values, origin))  # type: ignore[arg-type]
        return _describe_problem(found[0][2]) if found else str(error)
    return ""


def _describe_problem(problem: Any) -> str:
    parts = [f"{problem.path}: {problem.message}"]
    parts += [f"{name}: {text}" for name, text in (("expected", problem.expected), ("found", problem.found)) if text]
    return "; ".join([*parts, *([problem.hint] if problem.hint else [])])


def not_of_tasks(keys: dict[str, Meaning]) -> dict[str, Meaning]:
    """Return the project's own keys unchanged. Raises ValueError for a key that every task file has."""
    if taken := [key for key in keys if key in TaskSpec.model_fields]:
        raise ValueError(f"`{taken[0]}` is already a key of task files, with a meaning of its own")
    return keys
