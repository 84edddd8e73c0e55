"""The file formats of memory entries and traces; and a task as a directory with such files, as one document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from harness.recovery.declaration import Declaration
from harness.spec.file_names import MEMORY_FILES, TRACE_FILE
from harness.spec.loaded import Gathered
from harness.spec.problems import JsonPath, Problem, SpecError, describe_value
from harness.spec.source import Origin, Source, read_mapping, read_source
from harness.spec.validation import problems_of_error


class MemoryKV(Declaration):
    """One entry: what is known, since when, from whom, how surely."""

    key: str = Field(min_length=1)
    value: JsonValue
    ts: str | None = Field(None, description="When it was written, ISO 8601.")
    source: str | None = Field(None, description="Who wrote it: a task id, a step.")
    confidence: float = Field(1.0, ge=0, le=1)


def plain_values(entries: dict[str, Any]) -> dict[str, Any]:
    """Key -> value, from MemoryKV entries, plain values, or a mixture."""
    return {key: entry["value"] if is_entry(entry) else entry for key, entry in entries.items()}


def is_entry(value: Any) -> bool:
    """Return whether a value is a MemoryKV entry rather than a structured value."""
    return isinstance(value, dict) and {"key", "value"} <= set(value) <= set(MemoryKV.model_fields)


class _TracePart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)


class TraceStep(_TracePart):
    """One line: a step, and what was seen of it. Further keys are the step's own."""

    act: str
    t: float | None = Field(None, description="Seconds since the start.")
    url: str | None = None
    selector: str | None = None
    value: JsonValue = None
    note: str | None = None


class _Noted(_TracePart):
    type: str
    step_index: int | None = None
    message: str | None = None


class TraceWarning(_Noted):
    """Something the run got over."""


class TraceError(_Noted):
    """What ended the run."""


class Trace(_TracePart):
    """A whole trace; `oracle_trace.json` beside a `task_spec.json` is one."""

    task_id: str | None = None
    steps: tuple[TraceStep, ...]
    warnings: tuple[TraceWarning, ...] = ()
    error: TraceError | None = None


_TRACE = '{"task_id": ..., "steps": [...]}, or the list of steps'


def gather(main: Source, folder: Path) -> Gathered:
    """Take the steps from the trace and memory from its files, unless the spec has its own. Raises SpecError."""
    data: dict[str, Any] = dict(main.data)
    parts: dict[str, tuple[Source, JsonPath]] = {}
    warnings: list[Problem] = []
    for name, file in {"steps": TRACE_FILE, **MEMORY_FILES}.items():
        path = folder / file
        if not path.is_file():
            continue
        if name in data:
            message, here = f"{file} is not used, because `{name}` is given here", Origin(main.file, main)
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
    """The steps of a trace, which may be only the list of them.

    A trace may have keys of its own; a trace of another task is worth a warning.
    """
    origin = Origin(trace.file, trace)
    if isinstance(trace.data, list):
        return trace.data
    if not isinstance(trace.data, dict):
        raise SpecError([origin.problem((), "not a trace", expected=_TRACE, value=trace.data)])
    if "steps" not in trace.data:
        raise SpecError([origin.problem(("steps",), "the key `steps` is missing", expected=_TRACE)])
    theirs, ours = trace.data.get("task_id"), data.get("task_id")
    if theirs is not None and theirs != ours:
        message, expected = "the trace is of another task", describe_value(ours)
        warning = origin.problem(("task_id",), message, expected=expected, value=theirs, severity="warning")
        warnings.append(warning)
    return trace.data["steps"]


def _memory(source: Source, warnings: list[Problem]) -> dict[str, Any]:
    origin = Origin(source.file, source)
    if problems := list(_bad_entries(source.data, origin)):
        raise SpecError(problems)
    for key, entry in source.data.items():
        if is_entry(entry) and entry["key"] != key:
            message, path = f"the entry `{key}` calls itself {describe_value(entry['key'])}", (key, "key")
            warnings.append(origin.problem(path, message, severity="warning"))
    return plain_values(source.data)


def _bad_entries(entries: dict[str, Any], origin: Origin) -> Iterator[Problem]:
    for key, entry in entries.items():
        if not is_entry(entry):
            continue
        try:
            MemoryKV.model_validate(entry, strict=True)
        except ValidationError as error:
            for path, _, problem in problems_of_error(error, entry, origin):
                yield origin.problem((key, *path), problem.message, expected=problem.expected, found=problem.found)
