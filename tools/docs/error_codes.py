"""Generates docs/error-codes.md from the catalog.

Run as `python -m tools.docs.error_codes docs/error-codes.md`, in the folder of the project.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from harness.bridge.refusals import WIRE_CODES
from harness.cli.explain import excerpt, treatment
from harness.recovery.catalog import CATALOG, Category, Family, Row
from harness.spec.warnings import WARNINGS

_TITLES = {
    Category.INFRASTRUCTURE: "the machine, the network, the site",
    Category.EXECUTION: "the act on the page",
    Category.LOGIC: "the task, or what it checks",
    Category.CATASTROPHIC: "what ends a task in any case",
}
_TOLD = ("url", "server", "tool", "effect", "tool_call_id", "model")
"""Entries of `context` that name the step or the model once more."""
_HEAD = """# Error codes

This page is generated from the catalog by `python -m tools.docs.error_codes docs/error-codes.md`.
`harness explain CODE` prints the facts of one code, with a whole example.

Each code has, in this order: what happened; its `error_type` (one of 14 values, or `unknown` if none fits); the
*suspect*, where to look first: the `site` under test, the `task`'s file, the `machine` with its browser and network,
the `agent` with its model, or what the `project` provides (settings, services, accounts, data); whether the same step
may pass when it is done again; how severe it is, and how far it reaches (*scope*); and the rule in `error_recovery`
that answers it. Evidence may change the suspect: after an injected fault it is the task, after a crash of a service
the site, on a login page the project, in a step that an agent chose the agent. The examples are from
`errors/<task_id>/error_report.json`: `error_message`, and what `context` has beyond it.
"""
_ANSWERS = """## What the harness does

What a rule does if the task does not declare it:
"""

_BRIDGE = """## Codes of the bridge

The messages `error` and `connection_error` of the [bridge](bridge.md) have one of these codes, and so have the errors
that its clients raise. No task ends with one. `fatal` ends the connection, and what the code names is over.
"""

_WARNINGS = """## Warnings

A task that went on, or passed, may have these warnings. *Act on* are those that the end of a run lists.
"""


def document(rows: Iterable[Row] = CATALOG.values()) -> str:
    """The text of docs/error-codes.md."""
    ordered = sorted(rows, key=lambda row: list(Category).index(row.category))
    parts = [_HEAD]
    for category, of_category in groupby(ordered, lambda row: row.category):
        parts.append(f"## {category.capitalize()}: {_TITLES[category]}\n")
        parts += map(_section, of_category)
    return "\n".join([*parts, _answers(ordered), _bridge(), "", _warnings()]).rstrip() + "\n"


def _answers(rows: Iterable[Row]) -> str:
    """Each treatment once, with the codes that get it; the last row is for most codes, which it does not name."""
    codes: dict[str, list[str]] = {}
    for row in rows:
        codes.setdefault(treatment(row), []).append(row.code)
    *few, (most, _) = sorted(codes.items(), key=lambda each: len(each[1]))
    lines = [f"| {', '.join(f'`{code}`' for code in named)} | {words} |" for words, named in few]
    return "\n".join([_ANSWERS, "| codes | answer |", "|---|---|", *lines, f"| all others | {most} |", ""])


def _bridge() -> str:
    rows = [f"| `{each.code}` | {each.severity} | {each.summary} | {each.hint} |" for each in WIRE_CODES.values()]
    return "\n".join([_BRIDGE, "| code | severity | what it means | what you can do |", "|---|---|---|---|", *rows])


def _warnings() -> str:
    rows = [f"| `{name}` | {'yes' * each.to_act_on} | {each.means} | {each.hint} |" for name, each in WARNINGS.items()]
    return "\n".join([_WARNINGS, "| warning | act on | what it means | what you can do |", "|---|---|---|---|", *rows])


def _section(row: Row) -> str:
    rule = "" if row.family is Family.NONE else f", rule [`{row.family}`](#what-the-harness-does)"
    facts = f"{'' if row.retryable else 'not '}retryable, severity {row.severity}, scope {row.scope}{rule}"
    return f"""### {row.code}

{row.cause}

- `{row.error_type}`, suspect {row.suspect}, {facts}
- **what you can do**: {row.hint}
- **example**: {_example(row)}
"""


def _example(row: Row) -> str:
    """The message, and of the context what the message does not say."""
    shown = excerpt(row)
    message, context = shown["error_message"], shown.get("context", {})
    more = {name: value for name, value in context.items() if name not in _TOLD and str(value) not in message}
    return "; ".join(map(_code, [message, *([json.dumps(more, ensure_ascii=False)] if more else [])]))


def _code(text: str) -> str:
    """As code, whatever is in it: lines become one, and backticks are allowed."""
    line = " ".join(text.split())
    return f"`` {line} ``" if "`" in line else f"`{line}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), "utf-8")
