"""The calls of tools as evidence: which step made them, with arguments and results of a size that reports can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from harness.model.record import TaskResult
from harness.model.tool_use import ToolErrorDetails, ToolErrorPayload, ToolErrorReport, call_code
from harness.model.tools import LONGEST_DOCUMENT, ToolCall
from harness.recovery.failure import Failure
from harness.spec.steps import Tool

_LIMITS: Final = (16_384, 4_096, 1_024, 256, 64, 16)
"""Characters of a text, and sixteenths of it entries of a list or an object, that are kept; the first that fits."""
_ROUGHLY: Final = 16 * LONGEST_DOCUMENT
"""Characters of a document that is not redacted yet: what a first cut leaves of a secret is cut off by the second."""
_DEEPEST: Final = 40
"""Levels of a document that are kept."""


def bounded(document: Any, longest: int = LONGEST_DOCUMENT) -> tuple[Any, int | None]:
    """The document, and None; of one over `longest` what fits, and the number of its characters.

    Texts and lists are cut where they stand, so that the rest keeps its structure; each cut says how much is missing.
    """
    size = _size(document)
    if size <= longest:
        return document, None
    for limit in _LIMITS:
        shorter = _cut(document, limit * longest // LONGEST_DOCUMENT)
        if _size(shorter) <= longest:
            return shorter, size
    return f"(left out: {size} characters)", size


def bounded_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a call with arguments and result of a size that reports can hold. Redact it before."""
    found = dict(call)
    for name in ("arguments", "result"):
        if name in found:
            found[name], size = bounded(found[name])
            if size is not None:
                found.setdefault(f"{name}_cut_from", size)
    return found


def _size(document: Any) -> int:
    try:
        return len(json.dumps(document, ensure_ascii=False, default=str))
    except (RecursionError, ValueError):
        return _ROUGHLY + 1


def _cut(value: Any, limit: int, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]}… ({len(value)} characters)"
    if not isinstance(value, Mapping | list | tuple):
        return value
    most, size = max(2, limit // 16), len(value)
    if depth == _DEEPEST:
        return f"(left out: {size} entries)"
    if isinstance(value, Mapping):
        kept = {str(key)[:limit]: _cut(item, limit, depth + 1) for key, item in list(value.items())[:most]}
        return kept if size <= most else {**kept, "…": f"({size} entries)"}
    items = [_cut(item, limit, depth + 1) for item in value[:most]]
    return items if size <= most else [*items, f"… ({size} entries)"]


def call_document(call: ToolCall) -> dict[str, Any]:
    """The call with its arguments and its result, for the trace. It is not redacted, and bounded only roughly."""
    arguments, arguments_size = bounded(dict(call.arguments), _ROUGHLY)
    result, result_size = bounded(call.result, _ROUGHLY)
    found: dict[str, Any] = {
        "id": call.id,
        "server": call.server,
        "tool": call.tool,
        "arguments": arguments,
        "effect": call.effect,
        "outcome": call.outcome,
        "tries": call.tries,
        "seconds": round(call.seconds, 3),
    }
    if call.outcome in ("answered", "error"):
        found["result"] = result
    sizes = {"arguments_cut_from": arguments_size, "result_cut_from": result_size}
    ended = {"code": call_code(call), "message": call.message, "exit_code": call.exit_code, "stderr": call.stderr}
    return {**found, **{name: value for name, value in (ended | sizes).items() if value not in (None, "")}}


def calls_of_attempts(result: TaskResult) -> dict[int, tuple[ToolCall, ...]]:
    """The `id()` of an attempt of the result's history -> the calls that its step made during it."""
    found: dict[int, list[ToolCall]] = {}
    for call in result.tool_calls:
        made = [
            each
            for record in result.history
            for each in record.attempts
            if record.index == call.step and isinstance(each.step, Tool)
        ]
        before = [each for each in made if each.started <= call.at]
        if made:
            found.setdefault(id(before[-1] if before else made[0]), []).append(call)
    return {key: tuple(calls) for key, calls in found.items()}


def failed_call(result: TaskResult) -> ToolCall | None:
    """The call of a tool behind the failure of a task; None if the failure is another one.

    It is one of the task's own calls: those of the tasks inside it have step numbers of their own.
    """
    failure = result.failure
    if failure is None or not _is_of_tools(failure, result):
        return None
    calls = [each for each in result.tool_calls if each.outcome != "answered"]
    own = [each for each in calls if each.step == result.failed_index]
    return next(reversed(own or [each for each in calls if each.step is None]), None)


def _is_of_tools(failure: Failure, result: TaskResult) -> bool:
    """Return whether the failure is that of a call: a criterion that does not hold after an answer is not."""
    if failure.code.startswith("TOOL_"):
        return True
    steps = (each.step for each in result.history if each.index == result.failed_index)
    return failure.code == "OUTCOME_UNKNOWN" and any(isinstance(step, Tool) for step in steps)


def tool_error(call: ToolCall) -> ToolErrorReport:
    """The document `tool_error` for a call that failed. It is not redacted."""
    arguments, _ = bounded(dict(call.arguments), _ROUGHLY)
    result, _ = bounded(call.result, _ROUGHLY)
    answered = call.outcome == "error"
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    return ToolErrorReport(
        payload=ToolErrorPayload(
            tool_call_id=call.id,
            tool=f"{call.server}.{call.tool}",
            arguments=json.loads(json.dumps(arguments if isinstance(arguments, dict) else {}, default=str)),
            code=call_code(call),
            message=call.message or ("The tool answered that it failed" if answered else ""),
            details=ToolErrorDetails(
                exit_code=call.exit_code,
                stderr=call.stderr,
                stdout=text if answered else "",
                execution_time_ms=round(1000 * call.seconds),
            ),
            retryable=call.retryable,
            max_retries=call.max_retries,
        )
    )
