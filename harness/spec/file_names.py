"""Which files are tasks, fault plans, step groups or gates, by their names alone: pytest asks about every file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

SPEC_FILE = "task_spec.json"
"""The main file of a task that is a folder."""
TRACE_FILE = "oracle_trace.json"
MEMORY_FILES = {"memory": "initial_memory.json", "expected_memory": "expected_memory.json"}
"""Files beside it: the task's steps, and the entries of its memory at the beginning and at the end."""
_TASK_SUFFIXES = (".task.yaml", ".task.yml", ".task.json")
NAMED_SUFFIXES = (".yaml", ".yml", ".json")
"""A file with such an ending may be a task if it is named on the command line."""
GROUP_SUFFIXES = (".steps.yaml", ".steps.yml", ".steps.json")
PLAN_SUFFIXES = (".faults.yaml", ".faults.yml", ".faults.json")
_GATE_SUFFIXES = (".gate.yaml", ".gate.yml", ".gate.json")


def is_task_file(path: Path, patterns: Sequence[str] = ()) -> bool:
    """Return whether a file found in a folder is a task. `patterns`: more names: `*.spec.yaml`, `flows/*.json`."""
    name = path.name
    return not (is_fault_plan(path) or is_step_group(path) or is_gate(path)) and (
        name.lower().endswith(_TASK_SUFFIXES)
        or name == SPEC_FILE
        or any(path.match(pattern) or fnmatch(name, pattern) for pattern in patterns)
    )


def task_name(path: Path) -> str:
    """The id of a task whose file gives none: the name of the file, or of the folder of a `task_spec.json`."""
    name = path.name
    if name == SPEC_FILE:
        return path.absolute().parent.name
    return next((name[: -len(end)] for end in (*_TASK_SUFFIXES, *NAMED_SUFFIXES) if name.lower().endswith(end)), name)


def is_step_group(path: Path) -> bool:
    """Return whether a file's name is that of a step group."""
    return path.name.lower().endswith(GROUP_SUFFIXES)


def is_use(step: Any) -> bool:
    """Return whether a step of a file stands for the steps of a group."""
    return isinstance(step, dict) and "use" in step


SHORT_ACTS = frozenset({
    "click", "tap", "hover", "check", "uncheck", "submit", "download", "type", "clear", "focus", "blur", "select",
    "upload", "drag", "wait", "scroll",
    "press", "dialog", "switch_page", "open", "back", "forward", "reload", "set",
    "api", "screenshot", "assert", "see", "tool", "accessibility",
})  # fmt: skip
"""The first keys of steps in the short form (`short_forms`)."""


def is_short(step: Any) -> bool:
    """Return whether a step of a file is in the short form: its first key is its act."""
    return isinstance(step, dict) and next(iter(step), None) in SHORT_ACTS and "act" not in step


HOOKS = ("before_each", "after_each")
"""The keys of a task, and of the settings, with the steps around it."""
INNER = "guards"
"""A key that only the expansion of step groups gives to steps: a file must not have it."""


def is_to_expand(step: Any) -> bool:
    """Return whether a step of a file is not yet what the models know: a use, a short one, one with an inner key."""
    return is_use(step) or is_short(step) or (isinstance(step, dict) and INNER in step)


def is_fault_plan(path: Path) -> bool:
    """Return whether a file's name is that of a fault plan."""
    return path.name.lower().endswith(PLAN_SUFFIXES)


def is_gate(path: Path) -> bool:
    """Return whether a file's name is that of the gate of an evaluation."""
    return path.name.lower().endswith(_GATE_SUFFIXES)


def find_files(paths: Iterable[Path], fits: Callable[[Path], bool]) -> list[Path]:
    """The files that fit: those named, and all in the folders named and below; sorted within a folder."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found |= dict.fromkeys(sorted(each for each in path.rglob("*") if fits(each) and _counts(each, path)))
        elif fits(path) and path.exists():
            found[path] = None
    return list(found)


def _counts(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") or part == "node_modules" for part in path.relative_to(folder).parts)
    return not hidden and path.is_file()
