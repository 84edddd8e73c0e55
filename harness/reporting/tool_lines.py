"""The calls of tools in words: for the text of a failure, `harness show`, and attachments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.task_secrets import masked_fields

_LOG_LINES = 5
"""The number of lines of a server's log that a screen shows, the last ones."""


def called(server: object, tool: object, arguments: object) -> str:
    """`mail.get_code {"to": "ann@shop.local"}`, without the values of arguments with the name of a secret."""
    return f"{server}.{tool}{f' {as_text(masked_fields(arguments))}' if arguments else ''}"


def as_text(value: Any) -> str:
    """A text unchanged; any other value as JSON in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def call_lines(call: Mapping[str, Any], clean: Callable[[str], str] = str) -> Iterator[str]:
    """A call of the trace (`model.tool_evidence.call_document`) in a few lines: what was sent and what came back.

    `clean` redacts a text before it is cut anywhere.
    """
    yield clean(called(call.get("server"), call.get("tool"), call.get("arguments")))
    yield f"  {', '.join(filter(None, (call.get('effect'), _ended(call))))}"
    if "result" in call:
        cut = f" (cut: it has {call['result_cut_from']} characters)" if call.get("result_cut_from") else ""
        yield f"  {clean(as_text(masked_fields(call['result'])))}{cut}"
    log = [line for line in str(call.get("stderr", "")).splitlines() if line.strip()]
    if log or call.get("exit_code") is not None:
        code = call.get("exit_code")
        yield f"  its process ended{'' if code is None else f' with exit code {code}'}{', its log:' if log else ''}"
        yield from (f"  | {clean(line)}" for line in log[-_LOG_LINES:])


_REFUSALS = ("TOOL_UNKNOWN", "TOOL_INVALID", "TOOL_AUTH")
"""The codes of calls that a server has answered with a refusal."""


def _ended(call: Mapping[str, Any]) -> str:
    """`answered in 0.3 s`, `no answer after 4 tries in 3.6 s (TOOL_UNAVAILABLE)`."""
    tries = call.get("tries")
    times = f" after {tries} tries" if isinstance(tries, int) and tries > 1 else ""
    took = f"{times} in {call.get('seconds', 0):.1f} s"
    match call.get("outcome"):
        case "answered":
            return f"answered{took}:"
        case "error":
            return f"answered that it failed{took}:"
        case "cancelled":
            return f"cancelled{took}"
        case _:
            code = call.get("code")
            how = "refused" if code in _REFUSALS else "no answer"
            return f"not sent ({code})" if tries == 0 else f"{how}{took} ({code})"
