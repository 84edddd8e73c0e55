"""`[tool.harness.defaults]`: TaskSpec keys that a project sets for all its tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, PrivateAttr, WithJsonSchema, model_validator

from harness.spec.checks import TAKEN
from harness.spec.file_names import HOOKS
from harness.spec.problems import Problem, did_you_mean
from harness.spec.source import Origin, Source
from harness.spec.task import TAG, Own, TaskSpec
from harness.spec.validation import problems_of_error, unknown_key

# The project's own keys (`extra_keys`).

Meaning = Literal["skip", "tag", "note", "ignore"]
"""The meaning of a key that the project defines for its task files."""
_MEANINGS: tuple[str, ...] = get_args(Meaning)


def _meaning_of(value: Any) -> Any:
    """Check a value of `extra_keys`. Raises ValueError."""
    if isinstance(value, str) and value in _MEANINGS:
        return value
    if not isinstance(value, dict):
        raise ValueError(f"must be {', '.join(_MEANINGS[:-1])} or {_MEANINGS[-1]}")  # noqa: TRY004 - pydantic tells it
    for key, patterns in value.items():
        if not isinstance(patterns, list) or not patterns or not all(isinstance(each, str) for each in patterns):
            raise ValueError(f'.{key}: must be a list of values or patterns, as in ["old", "deprecated_*"]')
    return {key: tuple(patterns) for key, patterns in value.items()}


_Values = Mapping[str, tuple[str, ...]]
"""Key -> patterns of the values with which a task is skipped."""
OwnMeaning = Annotated[Any, PlainValidator(_meaning_of), WithJsonSchema({"enum": [*_MEANINGS]})]
"""The meaning of a key; at `skip` it may be a table of keys and values."""
OwnKeys = Mapping[str, Meaning | _Values]


def own_of(data: Mapping[str, Any], keys: OwnKeys) -> Own:
    """Read the project's own keys of a task. Values that do not fit are left out: `own_problems` reports them."""
    given = [(key, meaning, data[key]) for key, meaning in keys.items() if data.get(key) not in (None, False, "")]
    skips = ((key, value) for key, meaning, value in given if meaning == "skip")
    skip = next((value if isinstance(value, str) else f"`{key}` is set in its file" for key, value in skips), "")
    tags = (_tag(key, each) for key, meaning, value in given if meaning == "tag" for each in _items(value))
    notes = [(key, _text(value)) for key, meaning, value in given if meaning == "note"]
    return Own(skip or _skipped_by_value(data, keys), tuple(dict.fromkeys(filter(None, tags))), tuple(notes))


def own_problems(data: Mapping[str, Any], keys: OwnKeys, origin: Origin) -> Iterator[Problem]:
    """Yield problems for values that do not fit the meaning of their key."""
    for key, meaning in keys.items():
        value = data.get(key)
        if meaning == "skip" and not isinstance(value, str | bool | None):
            expected = "the reason as text, or true or false"
            yield origin.problem((key,), "this key skips the task", expected=expected, value=value)
        if meaning == "tag" and value is not None and not all(_tag(key, each) for each in _items(value)):
            expected = "tags: texts or numbers, with at least one letter or digit"
            hint = f'with {key} = "note" or "ignore" in [tool.harness.extra_keys] the key takes any value'
            yield origin.problem((key,), "this key gives tags", expected=expected, value=value, hint=hint)


def names_of(keys: OwnKeys) -> tuple[str, ...]:
    """All keys that the project declares."""
    single = (key for key, meaning in keys.items() if isinstance(meaning, str))
    return tuple(dict.fromkeys((*single, *_values_that_skip(keys))))


def _values_that_skip(keys: OwnKeys) -> _Values:
    found = keys.get("skip")
    return found if isinstance(found, Mapping) else {}


def _skipped_by_value(data: Mapping[str, Any], keys: OwnKeys) -> str:
    """The reason why a value skips the task; empty: none does."""
    for key, patterns in _values_that_skip(keys).items():
        values = map(_text, _items(data[key]) if data.get(key) is not None else [])
        if found := next((text for text in values if any(fnmatchcase(text, each) for each in patterns)), ""):
            return f"`{key}` is {found}"
    return ""


_NO_TAG = re.compile(r"[^A-Za-z0-9_-]+")


def _tag(key: str, value: Any) -> str:
    """The value as a tag: `check out` is `check_out`, and `2fa` of the key `area`, which is no tag, `area_2fa`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = _NO_TAG.sub("_", str(value)).strip("_-")
    named = _NO_TAG.sub("_", f"{key}_{text}")
    return next((each for each in (str(value), text, named, f"tag_{named}") if text and _is_tag(each)), "")


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_tag(text: str) -> bool:
    return re.fullmatch(TAG, text) is not None and text not in TAKEN and not text.startswith("allure_")


def _text(value: Any) -> str:
    """The value in one line: a list as its items, anything else as JSON."""
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def not_of_tasks(keys: OwnKeys) -> OwnKeys:
    """Return the project's own keys unchanged. Raises ValueError for a key that every task file has."""
    for key, meaning in keys.items():
        if isinstance(meaning, Mapping) and key != "skip":
            raise ValueError(f".{key}: only `skip` takes a table, of keys with the values that skip a task")
    if taken := [key for key in names_of(keys) if key in TaskSpec.model_fields]:
        raise ValueError(f"`{taken[0]}` is already a key of task files, with a meaning of its own")
    return keys


# Keys of task files that the project sets for all its tasks.

_OWN = ("task_id", "steps", "parametrize")
"""Keys that identify a task: a default for them would make all tasks the same."""
_MERGED = ("error_recovery", "budget", "inputs", "persona", "memory", "fallback_plan", "rubrics")
"""Keys whose mappings are merged entry by entry: a task sets one rule and takes others from the defaults."""


_LISTS = frozenset(
    name
    for name, field in TaskSpec.model_fields.items()
    if any(get_origin(each) is tuple for each in (field.annotation, *get_args(field.annotation)))
)
"""Keys with lists, to which `{add = [...]}` adds."""
_ADD = "add"


class Defaults(BaseModel):
    """One table of defaults, checked like the keys of a task file. `values` and `added` hold JSON."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    override: bool = Field(False, description="Whether these values override the values in a task.")
    unset: tuple[str, ...] = Field((), description="Keys that are taken away from the tasks, such as `episode_id`.")
    values: dict[str, Any] = Field(default_factory=dict)
    added: dict[str, list[Any]] = Field(default_factory=dict)
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
        """Take all other keys as the values. Raises ValueError for keys that no task may have."""
        if not isinstance(table, dict):
            raise ValueError("must be a table, as in [tool.harness.defaults]")  # noqa: TRY004 - pydantic tells it
        values = {key: value for key, value in table.items() if key not in ("override", "unset")}
        added = {key: value[_ADD] for key, value in values.items() if _adds(key, value)}
        idle = next((f".{key}: it adds nothing" for key, more in added.items() if not more), "")
        if problem := _problem({**values, **added}) or _unset_problem(table.get("unset", []), values) or idle:
            raise ValueError(problem)
        own = {key: table[key] for key in ("override", "unset") if key in table}
        return {**own, "values": {key: each for key, each in values.items() if key not in added}, "added": added}

    def merge_into(self, data: dict[str, Any]) -> dict[str, Any]:
        """Merge these defaults with the keys of a task file; the file wins, or the defaults under `override`."""
        data = {key: value for key, value in data.items() if key not in self.unset}
        joined = {key: self._join_value(key, value, data) for key, value in self.values.items()}
        longer = {key: with_more for key, more in self.added.items() if (with_more := _longer(key, more, data))}
        return {**data, **joined, **longer}

    def _join_value(self, key: str, value: Any, data: dict[str, Any]) -> Any:
        if key not in data:
            return value
        said = data[key]
        if key in _MERGED and isinstance(value, dict) and isinstance(said, dict):
            return {**said, **value} if self.override else {**value, **said}
        return value if self.override else said


def _adds(key: str, value: Any) -> bool:
    return key in _LISTS and isinstance(value, dict) and [*value] == [_ADD]


def _longer(key: str, more: list[Any], data: dict[str, Any]) -> Any:
    """The task's list with what it lacks; empty if nothing is added to it."""
    said = data.get(key) or []
    if key == "allowed_domains" and not said:
        return []  # all hosts are allowed
    said = [said] if key == "skip_if" and isinstance(said, dict) else said
    return [*said, *(each for each in more if each not in said)] if isinstance(said, list) else said


def as_tables(value: Any) -> Any:
    """The list of tables, whether written as `[tool.harness.defaults]` or `[[tool.harness.defaults]]`."""
    return (value,) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value


def with_defaults(data: dict[str, Any], tables: Iterable[Defaults]) -> dict[str, Any]:
    """Merge a task file's keys with its project's defaults; a later table fills in what earlier ones lack."""
    own = data.get("repairs")
    for table in tables:
        data = table.merge_into(data)
    if not isinstance(repairs := data.get("repairs"), list) or repairs is own:
        return data
    kept = [each for each in repairs if each in (own or ()) or _repairs_one_of(data.get("preconditions"), each)]
    return {**{key: value for key, value in data.items() if key != "repairs"}, **({"repairs": kept} if kept else {})}


def _repairs_one_of(preconditions: Any, repair: Any) -> bool:
    """Return whether a repair of the defaults is one for this task: of a precondition that it has."""
    meant = repair.get("precondition") if isinstance(repair, dict) else None
    return bool(preconditions) and (meant is None or meant in preconditions)


def idle_repairs(tables: Iterable[Defaults], tasks: Collection[TaskSpec]) -> Iterator[str]:
    """Yield the preconditions that repairs of the defaults are for, and that none of the tasks has."""
    known = {each for task in tasks for each in task.preconditions}
    for table in tables:
        for repair in (*table.values.get("repairs", ()), *table.added.get("repairs", ())):
            if repair.get("precondition") is not None and repair["precondition"] not in known:
                yield repair["precondition"]


def _problem(values: dict[str, Any]) -> str:
    """The problem of these values in one line; empty if there is none."""
    for key in values:
        if key in HOOKS:
            return f".{key}: `{key}` stands in [tool.harness], not among the defaults"
        if key in _OWN:
            return f".{key}: `{key}` belongs to each task file, and cannot be a default"
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


def _unset_problem(unset: Any, values: Mapping[str, Any]) -> str:
    """The problem of `unset`; empty if there is none, or if it is no list of texts, which its type tells."""
    for key in unset if isinstance(unset, list) else ():
        if key in _OWN:
            return f".unset: `{key}` belongs to each task file, and cannot be taken away"
        if key in values:
            return f".unset: `{key}` is set in the same table: with `override = true` its value replaces that of a task"
        if isinstance(key, str) and key not in TaskSpec.model_fields:
            meant = did_you_mean(key, TaskSpec.model_fields)
            return f".unset: no task has a key `{key}`{f' ({meant})' if meant else ''}"
    return ""


def _describe_problem(problem: Any) -> str:
    parts = [f".{problem.path}: {problem.message}"]
    parts += [f"{name}: {text}" for name, text in (("expected", problem.expected), ("found", problem.found)) if text]
    return "; ".join([*parts, *([problem.hint] if problem.hint else [])])
