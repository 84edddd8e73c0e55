"""Loads TaskSpecs from files, and reports every problem of a file at once (docs/design/task-files.md)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from harness.spec.checks import check_spec, login_problems, logins_of, profile_problems, strict_problems, tool_problems
from harness.spec.defaults import Defaults, Meaning, own_of, own_problems, with_defaults
from harness.spec.file_names import HOOKS, SPEC_FILE, is_task_file, is_to_expand, task_name
from harness.spec.loaded import Gathered, Loaded
from harness.spec.parametrize import expand
from harness.spec.problems import Problem, SpecError
from harness.spec.source import Origin, Source, file_label, read_mapping
from harness.spec.suite import by_name
from harness.spec.task import TaskSpec
from harness.spec.validation import idle_settings, partial_task, problems_of_error, stray_keys, too_many_items
from harness.values import replace


def tasks_in_folder(folder: Path, defaults: Sequence[Defaults] = ()) -> Callable[[str], Loaded | None]:
    """Return a function that finds a task by its id in `folder` and below; the files are read at its first call.

    `T[case]` is one case of a task. For a `T` with several cases the function reports that one must be chosen.
    """

    @cache
    def tasks() -> dict[str, Loaded]:
        found = _readable(folder, defaults)
        return {each.spec.task_id: each for loaded in found for each in (loaded, *expand(loaded))}

    return lambda task_id: tasks().get(task_id)


def _readable(folder: Path, defaults: Sequence[Defaults]) -> list[Loaded]:
    found = []
    for path in find_tasks([folder]):
        try:
            found.append(load_file(path, needs_steps=False, defaults=defaults))
        except SpecError:
            continue  # a neighbouring file with errors is reported where it is collected
    return found


def exists(name: str, folders: Iterable[Path], patterns: Sequence[str] = ()) -> bool:
    """Return whether a task file in one of these folders, or below, has a task of this name.

    Only files that may contain the name are parsed.
    """
    files = dict.fromkeys(path for folder in folders if folder.is_dir() for path in find_tasks([folder], patterns))
    return any(mentions(path, [name]) and name in _names(path) for path in files)


def mentions(path: Path, names: Iterable[str]) -> bool:
    """Return whether a file may contain a task of one of these names; most files need not be parsed."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return False
    return any(
        base in text or base in (path.parent.name, task_name(path))
        for base in (name.partition("[")[0] for name in names)
    )


def _names(path: Path) -> Iterable[str]:
    try:
        return by_name(expand(load_file(path, needs_steps=False)))
    except SpecError:
        return ()


_SKIPPED = ("__pycache__", "node_modules")


def find_tasks(paths: Iterable[Path | str], patterns: Sequence[str] = ()) -> list[Path]:
    """The task files, sorted: those named, and all in named folders and below. Raises SpecError for a missing path."""
    found: dict[Path, None] = {}
    missing: list[Problem] = []
    for path in map(Path, paths):
        if path.is_dir():
            found |= dict.fromkeys(sorted(_task_files_below(path, patterns)))
        elif path.exists():
            found[path] = None
        else:
            missing.append(Problem(file_label(path), None, None, "", "there is no such file or folder"))
    if missing:
        raise SpecError(missing)
    return list(found)


def _task_files_below(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        for name in files:
            path = Path(here, name)
            if is_task_file(path, patterns):
                yield path


def load_file(
    path: Path | str,
    strict: bool = False,
    known_channels: frozenset[str] | None = None,
    needs_steps: bool = True,
    agents: Sequence[str] | None = None,
    defaults: Sequence[Defaults] = (),
    extra_keys: Mapping[str, Meaning] = MappingProxyType({}),
    logins: Collection[str] | None = None,
    tools: Mapping[str, tuple[str, ...]] | None = None,
    profiles: Collection[str] | None = None,
) -> Loaded:
    """Load one task, from a file or a directory with a `task_spec.json`. Raises SpecError with all its problems.

    `strict`: a warning becomes an error, and so does a missing `required` key (validation.REQUIRED). `needs_steps` is
    False if an agent may choose the steps of a task that has none. `defaults` are the project's values for keys that
    the file omits. `extra_keys` are the project's own keys, with their meaning; `agents` and `logins` are its agents
    and logins, `tools` its tool servers with what they allow, and `profiles` its browser profiles; None: any name is
    accepted.
    """
    path = Path(path)
    if path.is_dir():
        path = path / SPEC_FILE
    main = read_mapping(path)
    gathered = _with_its_files(main, path)
    data = with_defaults({"task_id": task_name(path), **gathered.data}, defaults)
    gathered = _with_hooks(replace(gathered, data=data), defaults)
    gathered = _with_its_cases(gathered, path.parent)
    gathered, of_groups = _with_groups(gathered, path.parent)
    spec, problems = _check_gathered(gathered, path.parent, known_channels, needs_steps, agents, extra_keys)
    problems += of_groups
    if spec is not None and logins is not None:
        problems += (each for named in logins_of(spec) for each in login_problems(*named, gathered.origin, logins))
    if spec is not None and tools is not None:
        problems += tool_problems(spec, gathered.origin, tools)
    if spec is not None and profiles is not None:
        problems += profile_problems(spec, gathered.origin, profiles)
    if spec is not None and strict:
        problems = [replace(each, severity="error") for each in problems]
        problems += strict_problems(spec, gathered.origin)
    errors = [each for each in problems if each.severity == "error"]
    if spec is None or errors:
        raise SpecError(sorted(errors, key=lambda each: (each.file != main.file, each.line or 0, each.column or 0)))
    return Loaded(spec, path, gathered.origin, tuple(problems))


def _with_groups(gathered: Gathered, folder: Path) -> tuple[Gathered, list[Problem]]:
    """The task with the steps of the groups that it uses, all in their long form, and their problems."""
    parts = [gathered.data.get(key) for key in ("repairs", "handlers")]
    lists = [gathered.data, *(each for part in parts if isinstance(part, list) for each in part)]
    steps = [each.get("steps") for each in lists if isinstance(each, dict)]
    steps += [gathered.data.get(key) for key in HOOKS]
    if not any(is_to_expand(step) for each in steps if isinstance(each, list) for step in each):
        return gathered, []
    from harness.spec.step_groups import expand_groups  # few tasks use groups

    return expand_groups(gathered, folder)


def _with_hooks(gathered: Gathered, defaults: Sequence[Defaults]) -> Gathered:
    """The task with the steps around it, where a text is the name of a step group; the project's have their place."""
    hooks = {key: each for key in HOOKS if isinstance(each := gathered.data.get(key), list)}
    if not hooks:
        return gathered
    uses = {key: [{"use": each} if isinstance(each, str) else each for each in hook] for key, hook in hooks.items()}
    written = gathered.origin.main.data if gathered.origin.main else {}
    places = {key: place for each in defaults for key, place in each.places.items() if key not in written}
    parts = {**gathered.origin.parts, **{key: (place, (key,)) for key, place in places.items()}}
    return replace(gathered, data={**gathered.data, **uses}, origin=replace(gathered.origin, parts=parts))


def _with_its_files(main: Source, path: Path) -> Gathered:
    """The files of the task as one document. Raises SpecError, also for more entries than a task may have."""
    gathered = Gathered(main.data, Origin(main.file, main), ())
    if path.name == SPEC_FILE:
        from harness.spec.documents import gather

        gathered = gather(main, path.parent)
    if problems := list(too_many_items(gathered.data, gathered.origin)):
        raise SpecError(problems)
    return gathered


def _with_its_cases(gathered: Gathered, folder: Path) -> Gathered:
    """The same, with the cases of the data file that `parametrize` names. Raises SpecError."""
    declared = gathered.data.get("parametrize")
    if not isinstance(declared, dict) or not isinstance(declared.get("file"), str):
        return gathered
    from harness.spec.data_file import with_rows  # few tasks have data files

    return with_rows(gathered, folder)


def _check_gathered(
    gathered: Gathered,
    folder: Path,
    channels: frozenset[str] | None,
    needs_steps: bool,
    agents: Sequence[str] | None,
    extra_keys: Mapping[str, Meaning],
) -> tuple[TaskSpec | None, list[Problem]]:
    """The task, or None if its types are wrong, and all its problems and warnings."""
    origin = gathered.origin
    data, idle = idle_settings(gathered.data, origin)
    problems = [*gathered.warnings, *idle]
    strays = [key for key in data if key not in TaskSpec.model_fields and key not in extra_keys]
    problems += [*stray_keys(strays, data, origin), *own_problems(data, extra_keys, origin)]
    spec, rest = None, None
    try:
        rest = spec = validated(data).with_own_keys(own_of(data, extra_keys))
    except ValidationError as error:
        found = list(problems_of_error(error, data, origin))
        problems += [problem for _, _, problem in found]
        rest = partial_task(data, [(path, kind) for path, kind, _ in found])
    if rest is not None:
        problems += check_spec(rest, origin, folder, channels, needs_steps=needs_steps, agents=agents)
    return spec, problems


def validated(data: dict[str, Any]) -> TaskSpec:
    """Validate strictly, as JSON: `"300"` is no number and `1` is not true. Raises ValidationError."""
    return TaskSpec.model_validate_json(json.dumps(data), strict=True)


_USER = re.compile(r"""\bas(?:": "|\s*=\s*(?:'|\\"))([\w-]+)""")
"""A user in the JSON of steps: `"as": "bob"`, or `as='bob'` in a criterion."""


def check_group(path: Path) -> list[Problem]:
    """Return the problems and warnings of a step group, checked with sample values for its parameters."""
    from harness.spec.step_groups import expand_groups, load_group, sample_use, unused_parameters

    try:
        loaded = load_group(path)
        data: dict[str, Any] = {"task_id": loaded.name, "steps": [sample_use(loaded)]}
        if named := _USER.findall(json.dumps(loaded.group.steps)):  # the tasks that use the group have them
            data["users"] = {name: {} for name in named}
        gathered, problems = expand_groups(Gathered(data, loaded.origin, ()), path.parent)
    except SpecError as error:
        return list(error.problems)
    _, found = _check_gathered(gathered, path.parent, None, True, (), {})
    return [*problems, *found, *unused_parameters(loaded)]
