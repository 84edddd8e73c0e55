"""From files to TaskSpecs, with every problem of a file told at once (DESIGN 4.1)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from harness.spec.checks import check_spec, strict_problems
from harness.spec.complaints import complaints, stray_keys
from harness.spec.defaults import Defaults, Meaning, with_defaults
from harness.spec.directory import Gathered, gather
from harness.spec.extra_keys import own_of, own_problems
from harness.spec.fault_plan import is_fault_plan
from harness.spec.loaded import SPEC_FILE, Loaded
from harness.spec.origin import Origin
from harness.spec.problems import Problem, SpecError
from harness.spec.salvage import idle_settings, salvaged
from harness.spec.source import file_label, read_mapping
from harness.spec.task import TaskSpec

__all__ = ["Loaded", "find_tasks", "is_task_file", "load_file"]

SUFFIXES = (".task.yaml", ".task.yml", ".task.json")
_SKIPPED = ("__pycache__", "node_modules")


def is_task_file(path: Path, patterns: Sequence[str] = ()) -> bool:
    """Whether a file found in a folder is a task. `patterns`: more names, such as `*.spec.yaml` or `flows/*.json`."""
    name = path.name
    return not is_fault_plan(path) and (
        name.lower().endswith(SUFFIXES)
        or name == SPEC_FILE
        or any(path.match(pattern) or fnmatch(name, pattern) for pattern in patterns)
    )


def find_tasks(paths: Iterable[Path | str], patterns: Sequence[str] = ()) -> list[Path]:
    """Task files, sorted: those named, and all below the folders named. Raises SpecError for a path that is not."""
    found: dict[Path, None] = {}
    missing: list[Problem] = []
    for path in map(Path, paths):
        if path.is_dir():
            found |= dict.fromkeys(sorted(_below(path, patterns)))
        elif path.exists():
            found[path] = None
        else:
            missing.append(Problem(file_label(path), None, None, "", "there is no such file or folder"))
    if missing:
        raise SpecError(missing)
    return list(found)


def _below(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
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
    agents: Sequence[str] = (),
    defaults: Sequence[Defaults] = (),
    extra_keys: Mapping[str, Meaning] = MappingProxyType({}),
) -> Loaded:
    """One task, from a file or from a directory with a `task_spec.json`. Raises SpecError with all of its problems.

    `strict`: what is otherwise a warning is an error, and so is a missing `required` key of specs/003 2.1.
    `needs_steps` is False where an agent may choose the steps of a task that has none; `agents` are those that could.
    `defaults` are the project's: what the file does not say. `extra_keys` are keys of its own, with their meaning.
    """
    path = Path(path)
    if path.is_dir():
        path = path / SPEC_FILE
    main = read_mapping(path)
    alone = Gathered(main.data, Origin(main.file, main), ())
    gathered = gather(main, path.parent) if path.name == SPEC_FILE else alone
    gathered = replace(gathered, data=with_defaults(gathered.data, defaults))
    spec, problems = _checked(gathered, path.parent, known_channels, needs_steps, agents, extra_keys)
    if spec is not None and strict:
        problems = [replace(each, severity="error") for each in problems]
        problems += strict_problems(spec, gathered.origin)
    errors = [each for each in problems if each.severity == "error"]
    if spec is None or errors:
        raise SpecError(sorted(errors, key=lambda each: (each.file != main.file, each.line or 0, each.column or 0)))
    return Loaded(spec, path, gathered.origin, tuple(problems))


def _checked(
    gathered: Gathered,
    folder: Path,
    channels: frozenset[str] | None,
    needs_steps: bool,
    agents: Sequence[str],
    extra_keys: Mapping[str, Meaning],
) -> tuple[TaskSpec | None, list[Problem]]:
    """The task, unless its types are wrong, and all that is wrong or odd."""
    origin = gathered.origin
    data, idle = idle_settings(gathered.data, origin)
    problems = [*gathered.warnings, *idle]
    strays = [key for key in data if key not in TaskSpec.model_fields and key not in extra_keys]
    problems += [*stray_keys(strays, data, origin), *own_problems(data, extra_keys, origin)]
    try:
        spec = validated(data).owned(own_of(data, extra_keys))
    except ValidationError as error:
        found = list(complaints(error, data, origin))
        problems += [problem for _, _, problem in found]
        rest = salvaged(data, [(path, kind) for path, kind, _ in found])
        if rest is not None:
            problems += check_spec(rest, origin, folder, channels, needs_steps=needs_steps, agents=agents)
        return None, problems
    checked = check_spec(spec, origin, folder, channels, needs_steps=needs_steps, agents=agents)
    return spec, [*problems, *checked]


def validated(data: dict[str, Any]) -> TaskSpec:
    """Strict, as JSON: `"300"` is no number and `1` is not true. Raises ValidationError."""
    return TaskSpec.model_validate_json(json.dumps(data), strict=True)
