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
from harness.cli.explain import excerpt, facts
from harness.recovery.catalog import CATALOG, Category, Row
from harness.spec.warnings import WARNINGS

_TITLES = {
    Category.INFRASTRUCTURE: "the machine, the network, the site",
    Category.EXECUTION: "the act on the page",
    Category.LOGIC: "the task, or what it checks",
    Category.CATASTROPHIC: "what ends a task in any case",
}
_HEAD = """# Error codes

This page is generated from the catalog by `python -m tools.docs.error_codes docs/error-codes.md`.
`harness explain CODE` prints the same.

The `error_type` of a report is one of 14 values. If none fits it is `unknown`, and `code` is more precise. *What the
harness does* names the rule in `error_recovery` that applies to the code, and what the rule does if the task does not
declare it. *Suspect* says where to look first: the `site` under test, the `task`'s file, the `machine` with its browser
and network, the `agent` with its model, or what the `project` provides (settings, services, accounts, data). Evidence
may change it: after an injected fault it is the task, after a crash of a service the site, on a login page the project,
in a step that an agent chose the agent. *Retryable* says whether the same step may pass when it is done again, and
*scope* says how far the failure reaches. The examples are excerpts of `errors/<task_id>/error_report.json`.
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
    parts = [_HEAD, _contents(ordered)]
    for category, of_category in groupby(ordered, lambda row: row.category):
        parts.append(f"## {category.capitalize()}: {_TITLES[category]}")
        parts += map(_section, of_category)
    return "\n".join([*parts, _bridge(), "", _warnings()]).rstrip() + "\n"


def _bridge() -> str:
    rows = [f"| `{each.code}` | {each.severity} | {each.summary} | {each.hint} |" for each in WIRE_CODES.values()]
    return "\n".join([_BRIDGE, "| code | severity | what it means | what you can do |", "|---|---|---|---|", *rows])


def _warnings() -> str:
    rows = [f"| `{name}` | {'yes' * each.to_act_on} | {each.means} | {each.hint} |" for name, each in WARNINGS.items()]
    return "\n".join([_WARNINGS, "| warning | act on | what it means | what you can do |", "|---|---|---|---|", *rows])


def _contents(rows: Iterable[Row]) -> str:
    lines = [
        f"| [`{row.code}`](#{row.code.lower()}) | `{row.error_type}` | {row.suspect} | {row.cause} |" for row in rows
    ]
    return "\n".join(["| code | error_type | suspect | cause |", "|---|---|---|---|", *lines, ""])


def _section(row: Row) -> str:
    labels = {"rule": "what the harness does", "do": "what you can do"}
    lines = [f"- **{labels.get(label, label)}**: {text}" for label, text in facts(row)]
    shown = json.dumps(excerpt(row), indent=2, ensure_ascii=False)
    return "\n".join([f"### {row.code}\n", *lines, f"\n```json\n{shown}\n```\n"])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), "utf-8")
