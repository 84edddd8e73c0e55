"""The words that all reports of a task share: places of steps, targets, shortened lines, compared values."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from harness.criteria import CriterionError, parse
from harness.criteria.syntax import Compare, oriented
from harness.masking import MARK
from harness.reporting.files import ARTIFACTS, printable
from harness.reporting.tool_lines import called
from harness.spec.steps import Step
from harness.task_secrets import hidden, is_secret_name


def shortened(text: str, width: int) -> str:
    """The text in one line of at most `width` characters, without control characters."""
    line = printable(hidden(text))
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"


CRITERION = 120
"""The number of characters of a criterion in the headline."""


# Places and steps.


def place(index: int, total: int, number: str = "") -> str:
    """`4`, or words for what comes before and after the steps. `number`: that of a step of a group, as `4.2`."""
    return "pre" if index < 0 else "end" if index >= total else number or str(index)


def step_label(index: int, total: int, number: str = "") -> str:
    """`step 2 (of 0-5)`, `step 4.2 (5 of 0-8)`: the count starts at 0."""
    return f"step {number} ({index} of 0-{total - 1})" if number else f"step {index} (of 0-{total - 1})"


_OF_TASK = {"pre": "at a precondition", "end": "at the success criteria"}
_CHOOSING = frozenset({
    "AGENT_FAILED", "AGENT_TIMEOUT", "AGENT_INVALID_STEP", "AGENT_GAVE_UP", "AGENT_LOST", "AGENTS_EXHAUSTED",
    "AGENT_UNAVAILABLE",
})  # fmt: skip


def fails_the_choice(code: str) -> bool:
    """Return whether a failure with this code means that no next step was chosen: by the agent, or by its model."""
    return code in _CHOOSING or code.startswith("MODEL_")


def failure_place(
    code: str, index: int | None, total: int | None, number: str = "", *, began: bool, hook: object = ""
) -> str:
    """`at step 4 (of 0-5)`: where a failure stands. `began`: something of the task was tried; `total` None: unknown.

    `number`: that of a step of a group, as `4.2`. `hook`: the key of the steps around the task of which it is one.
    """
    if code == "WORKER_CRASHED":
        return "at an unknown step"
    if fails_the_choice(code):
        return f"while choosing step {index}"
    if not began:
        return "before the first step"
    if code == "INCOMPLETE":
        return "at the end"
    where = -1 if index is None else index
    if total is None and where >= 0:
        return f"at step {where}"
    return (
        f"in `{hook}`"
        if hook
        else _OF_TASK.get(place(where, total or 0), f"at {step_label(where, total or 0, number)}")
    )


def called_at(step: Mapping[str, Any]) -> str:
    """File and line of a call in an ordinary test; empty for a step of a task."""
    return f"{step['file']}:{step['line']}" if step.get("file") and step.get("line") else ""


def step_target(step: Step) -> str:
    """The target of a step, and the user; a password is not shown."""
    return target_text({**vars(step), "act": step.act})


def target_text(step: Mapping[str, Any]) -> str:
    """The same of a step that is given as a document, as a report or a trace has it."""
    user = f"as {step['as']}" if step.get("as") else ""
    return f"{_target(step)} {user}".strip() if user else _target(step)


def _target(step: Mapping[str, Any]) -> str:
    if step.get("act") == "tool":
        return called(step.get("server"), step.get("tool"), step.get("arguments"))
    selector, value = step.get("selector"), step.get("value")
    if value and step.get("act") == "type" and is_secret_name(selector or ""):
        value = MARK
    if picture := step.get("screenshot"):
        return f"{selector or step.get('frame') or 'the page'} looks like {picture}"
    if step.get("aria"):
        return f"ARIA snapshot of {selector or 'the page'}"
    found = step.get("url") or step.get("expr") or selector or ""
    return f"{found} = {value!r}" if found and value is not None else str(found or (value if value is not None else ""))


def site_opened(steps: Iterable[Step], base_url: str | None = None) -> str | None:
    """The host of the first page that is opened; None if it is not known yet, or there is none."""
    url = next((str(getattr(step, "url", "")) for step in steps if step.act == "open"), None)
    if url is None or "${" in url:
        return None
    try:
        return urlsplit(urljoin(base_url or "", url)).hostname
    except ValueError:
        return None


def site_of(url: object) -> str:
    """`shop.local` of `http://shop.local/cart`; empty for a text that is no web address."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        return ""
    return parts.netloc.rpartition("@")[2] if parts.scheme in ("http", "https", "ws", "wss") else ""


# Compared values.


def shown_value(value: Any) -> str:
    """A text unchanged; any other value as JSON, as in the difference."""
    if isinstance(value, str):
        return value if value.strip() == value != "" else repr(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def repeats(expected: Any, actual: Any, diff: str) -> bool:
    """Return whether a difference is only the two values, which are shown above it."""
    told = (shown_value(expected), shown_value(actual))
    return diff == f"- {told[0]}\n+ {told[1]}" and all(each == " ".join(each.split()) for each in told)


def relation(expression: str) -> str:
    """How the expected value is compared, such as `to include `; empty for equality, or without a criterion."""
    try:
        tree = parse(expression).tree
    except CriterionError:
        return ""
    operator = oriented(tree)[0] if isinstance(tree, Compare) else "=="
    return {"==": "", "!=": "anything but ", "includes": "to include ", "matches": "to match "}.get(
        operator, f"{operator} "
    )


def reason_text(message: str, plain: str, criterion: str, others: Sequence[str]) -> str:
    """The message without the parts that the first line and the comparison below it show already.

    `plain`: its end, if that only repeats the compared values; `others`: what it says of other criteria.
    """
    text = message.removesuffix(f"; {'; '.join(others)}") if others else message
    if plain and text.endswith(plain):
        before = text.removesuffix(plain)
        if not before or (criterion and before.endswith(f": {criterion}: ")):
            return ""
    return text.partition(f": {criterion}: ")[2] or text if criterion else text


def other_reasons(criteria: Sequence[str], messages: Sequence[str]) -> list[str]:
    """The reasons why further criteria do not hold, without the criteria, which stand before them."""
    texts = [text.removeprefix("Assertion failed: ") for text in messages]
    return [
        text.removeprefix(f"{criterion}: ") if criterion else text
        for text, criterion in zip_longest(texts, criteria[: len(texts)], fillvalue="")
    ]


# What surrounded a failure.


def crash_lines(crashes: Mapping[str, str]) -> list[str]:
    """The services that crashed shortly before a failure, and where their last words are."""
    return [f"{text}; look: {service_log(name)}" for name, text in crashes.items()]


def service_log(name: str, command: str = "harness") -> str:
    """The command that shows the log of a service."""
    return f"{command} services logs {shlex.quote(printable(name))}"


def fold_lines(lines: Iterable[str], room: int | None = None) -> tuple[str, ...]:
    """Each line of the browser's console once, at its last place, with its count: each attempt repeats the lines.

    `room`: the number of characters of a line; the count is never cut.
    """
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.pop(line, 0) + 1
    ends = {line: f" ({count} times)" if count > 1 else "" for line, count in counts.items()}
    return tuple((shortened(line, room - len(end)) if room else line) + end for line, end in ends.items())


def fitting(hint: str, absent: Iterable[str]) -> str:
    """The hint without the parts with one of these words."""
    parts, words = hint.removesuffix(".").split("; "), tuple(absent)
    kept = [part for part in parts if not any(each in part for each in words)]
    if len(kept) == len(parts):
        return hint
    fits = "; ".join(kept)
    return f"{fits[0].upper()}{fits[1:]}." if fits else ""


def absent_words(folder: Path | None, diff: str) -> tuple[str, ...]:
    """The words of hints for evidence that does not exist. `folder`: the directory of the task's evidence."""
    found: list[str] = []
    if folder is not None and folder.is_dir():
        found += [each.hint_words for each in ARTIFACTS if each.hint_words and not (folder / each.name).is_file()]
    return tuple(found) if diff else (*found, "the diff")
