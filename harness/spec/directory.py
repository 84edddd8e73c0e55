"""A task as a directory: `task_spec.json`, `oracle_trace.json`, `initial_memory.json`, `expected_memory.json`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.spec.complaints import complaints
from harness.spec.memory import MemoryKV, is_entry, plain_values
from harness.spec.origin import Origin
from harness.spec.problems import Problem, SpecError, Way, shown
from harness.spec.source import Source, read_mapping, read_source

TRACE_FILE = "oracle_trace.json"
_TRACE = '{"task_id": ..., "steps": [...]}, or the list of steps'
MEMORY_FILES = {"memory": "initial_memory.json", "expected_memory": "expected_memory.json"}


@dataclass(frozen=True, slots=True)
class Gathered:
    """The files of a directory as one document."""

    data: dict[str, Any]
    origin: Origin
    warnings: tuple[Problem, ...]


def gather(main: Source, folder: Path) -> Gathered:
    """Steps out of the trace and memory out of its files, where the spec itself has none. Raises SpecError."""
    data: dict[str, Any] = dict(main.data)
    parts: dict[str, tuple[Source, Way]] = {}
    warnings: list[Problem] = []
    for name, file in {"steps": TRACE_FILE, **MEMORY_FILES}.items():
        path = folder / file
        if not path.is_file():
            continue
        if name in data:
            message, here = f"{file} is not used: `{name}` stands here", Origin(main.file, main)
            warnings.append(here.problem((name,), message, key=True, severity="warning"))
            continue
        if name == "steps":
            part = read_source(path)
            parts[name] = (part, () if isinstance(part.data, list) else ("steps",))
            data[name] = _steps(part, data, warnings)
        else:
            part = read_mapping(path)
            parts[name] = (part, ())
            data[name] = _memory(part, warnings)
    return Gathered(data, Origin(main.file, main, parts), tuple(warnings))


def _steps(trace: Source, data: dict[str, Any], warnings: list[Problem]) -> Any:
    """The steps of a trace, which may be the plain list of them.

    A trace may carry keys of its own; that it is the trace of another task is worth a word.
    """
    origin = Origin(trace.file, trace)
    if isinstance(trace.data, list):
        return trace.data
    if not isinstance(trace.data, dict):
        raise SpecError([origin.problem((), "not a trace", expected=_TRACE, found=shown(trace.data))])
    if "steps" not in trace.data:
        raise SpecError([origin.problem(("steps",), "the key `steps` is missing", expected=_TRACE)])
    theirs, ours = trace.data.get("task_id"), data.get("task_id")
    if theirs is not None and theirs != ours:
        message, expected = "the trace is of another task", shown(ours)
        warning = origin.problem(("task_id",), message, expected=expected, found=shown(theirs), severity="warning")
        warnings.append(warning)
    return trace.data["steps"]


def _memory(source: Source, warnings: list[Problem]) -> dict[str, Any]:
    origin = Origin(source.file, source)
    if problems := list(_bad_entries(source.data, origin)):
        raise SpecError(problems)
    for key, entry in source.data.items():
        if is_entry(entry) and entry["key"] != key:
            message, path = f"the entry `{key}` calls itself {shown(entry['key'])}", (key, "key")
            warnings.append(origin.problem(path, message, severity="warning"))
    return plain_values(source.data)


def _bad_entries(entries: dict[str, Any], origin: Origin) -> Iterator[Problem]:
    for key, entry in entries.items():
        if not is_entry(entry):
            continue
        try:
            MemoryKV.model_validate(entry, strict=True)
        except ValidationError as error:
            for path, _, problem in complaints(error, entry, origin):
                yield origin.problem((key, *path), problem.message, expected=problem.expected, found=problem.found)
