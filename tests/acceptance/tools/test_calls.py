"""Each row of the table of tests/requirements/tools.md, over stdio and HTTP, for reads and writes, in both eras.

The servers are real, and count in SQLite what reaches them and what takes effect: a write once, always.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Wanted
from tests.acceptance.tools.counting import books_of, closed_port, serving, stdio_command, stranger
from tests.acceptance.tools.counting_server import Books

GET, SET, PLACE = "get_order", "set_order", "place_order"
UNKNOWN, UNAVAILABLE, PROTOCOL = "OUTCOME_UNKNOWN", "TOOL_UNAVAILABLE", "TOOL_PROTOCOL"
NEVER = {"on_network_error": "abort"}
AGAIN = {"on_network_error": {"strategy": "retry", "max_retries": 1, "retry_delay_ms": 1}}
WAITED = {"on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 0}}

BOOKS = """
[tool.harness.channels.books]
tool = "books.get_books"

[tool.harness.tools.books]
url = "{address}/new/books"

"""


@dataclass(frozen=True)
class Case:
    """How calls of a tool misbehave, and what must come of them."""

    tool: str
    does: str
    calls: int
    """How many calls reached the server."""
    effects: int
    code: str | None = None
    """The code with which the task fails; None: it passes."""
    times: int = 1
    """How many calls misbehave; 0: all."""
    place: str = "http"
    """`http`, `stdio`, `closed` (a port without a listener), `missing` (a command that there is not)."""
    era: str = "new"
    habit: str = ""
    done_when: bool = False
    rules: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)


def _cases() -> dict[str, Case]:
    """The rows, by `row-effect-transport-era`."""
    cases: dict[str, Case] = {}
    for place, era in (("stdio", "new"), ("stdio", "old"), ("http", "new"), ("http", "old")):
        at: dict[str, Any] = {"place": place, "era": era}
        cases |= {
            f"{row}-{place}-{era}": case
            for row, case in {
                "lost-read": Case(GET, "lose", 2, 2, **at),
                "lost-idempotent": Case(SET, "lose", 2, 2, **at),
                "lost-write": Case(PLACE, "lose", 1, 1, UNKNOWN, **at),
                "lost-write-known": Case(PLACE, "lose", 1, 1, done_when=True, **at),
                "undone-write": Case(PLACE, "die", 1, 0, UNKNOWN, **at),
                "undone-write-known": Case(PLACE, "die", 2, 1, done_when=True, rules=AGAIN, **at),
                "slow-read": Case(GET, "hang", 2, 2, **at),
                "slow-write": Case(PLACE, "hang", 1, 1, UNKNOWN, **at),
                "slow-write-known": Case(PLACE, "hang", 1, 1, done_when=True, **at),
                "fails-read": Case(GET, "fail", 1, 0, "TOOL_FAILED", **at),
                "fails-write": Case(PLACE, "fail", 1, 0, "TOOL_FAILED", **at),
                "fails-read-rule": Case(GET, "fail", 2, 1, rules=WAITED, **at),
                "fails-write-rule": Case(PLACE, "fail", 1, 0, UNKNOWN, rules=WAITED, **at),
                "fails-write-rule-known": Case(PLACE, "fail", 2, 1, rules=WAITED, done_when=True, **at),
                "garbled-read": Case(GET, "garble", 1, 1, PROTOCOL, **at),
                "garbled-write": Case(PLACE, "garble", 1, 1, PROTOCOL, **at),
                "garbled-write-known": Case(PLACE, "garble", 1, 1, done_when=True, **at),
                "unknown-tool": Case(PLACE, "unknown", 1, 0, "TOOL_UNKNOWN", **at),
                "unfit-write": Case(PLACE, "", 0, 0, "TOOL_INVALID", arguments={"times": "twice"}, **at),
            }.items()
        }
    for era in ("new", "old"):
        at = {"era": era}
        cases |= {
            f"{row}-http-{era}": case
            for row, case in {
                "late-read": Case(GET, "", 1, 1, habit="late", **at),
                "late-write": Case(PLACE, "", 1, 1, habit="late", **at),
                "busy-write": Case(PLACE, "busy", 2, 1, **at),
                "limited-read": Case(GET, "limited", 2, 1, **at),
                "busy-always": Case(PLACE, "busy", 4, 0, UNAVAILABLE, times=0, rules=NEVER, **at),
                "unauthorized-read": Case(GET, "unauthorized", 1, 0, "TOOL_AUTH", **at),
                "unauthorized-write": Case(PLACE, "unauthorized", 1, 0, "TOOL_AUTH", **at),
                "forbidden-write": Case(PLACE, "forbidden", 1, 0, "TOOL_AUTH", **at),
                "lost-always": Case(GET, "lose", 4, 4, UNAVAILABLE, times=0, rules=NEVER, **at),
            }.items()
        }
    return cases | {
        "closed-read": Case(GET, "", 0, 0, UNAVAILABLE, place="closed", rules=NEVER),
        "closed-write": Case(PLACE, "", 0, 0, UNAVAILABLE, place="closed", rules=NEVER),
        "missing-write": Case(PLACE, "", 0, 0, UNAVAILABLE, place="missing"),
        "dies-always": Case(GET, "lose", 3, 3, UNAVAILABLE, times=0, place="stdio", rules=NEVER),
        "input-read": Case(GET, "input", 1, 0, "TOOL_FAILED", era="new"),
        "forgotten-write": Case(PLACE, "forget", 2, 1, era="old"),
    }


CASES = _cases()
ORDINARY = {
    "lost-read-stdio-new",
    "lost-write-stdio-old",
    "lost-write-known-http-new",
    "late-write-http-old",
    "busy-write-http-new",
    "unauthorized-write-http-old",
    "garbled-write-known-http-old",
    "fails-write-rule-known-http-new",
}
"""The others are played in a full run."""


def _table(name: str, case: Case, folder: Path, address: str) -> str:
    match case.place:
        case "http":
            where = f'url = "{"/".join(part for part in (address, case.era, name, case.habit) if part)}"'
        case "closed":
            where = f'url = "http://127.0.0.1:{closed_port()}/mcp"'
        case "missing":
            where = 'command = ["/no/such/program"]'
        case _:
            where = f"command = {json.dumps(stdio_command(folder, case.era))}"
    return f'[tool.harness.tools."{name}"]\n{where}\ntimeout = 1.5\nhealth_interval = 0\n'


def _step(name: str, case: Case) -> dict[str, Any]:
    arguments = {"case": name, "does": case.does, "times": case.times, **case.arguments}
    done = {"done_when": f"json('books', 'effects.{name}') == 1"} if case.done_when else {}
    return {"act": "tool", "server": name, "tool": case.tool, "arguments": arguments, **done}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, wanted: Wanted[Case]) -> tuple[dict[str, Any], Books]:
    folder = tmp_path_factory.mktemp("shop")
    cases = wanted(CASES, "test_a_row_of_the_table")
    with serving(folder) as (address, _):
        tables = BOOKS.format(address=address) + "".join(
            _table(name, case, folder, address) for name, case in cases.items()
        )
        project = stranger(folder, tables)
        for name, case in cases.items():
            project.task(name, steps=[_step(name, case)], error_recovery=dict(case.rules), step_timeout=30)
        project.play("--task-workers", "6")
    document = json.loads((folder / ".harness" / "last-run.json").read_text("utf-8"))
    return {each["task_id"]: each for each in document["results"]}, books_of(folder)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ORDINARY else pytest.mark.thorough) for name in CASES]
)
def test_a_row_of_the_table(played: tuple[dict[str, Any], Books], name: str) -> None:
    case, record, books = CASES[name], played[0][name], played[1]
    told = f"{record['code']}: {record['message']}; {record['warnings']}"
    assert (record["code"], books.count("call", name), books.count("effect", name)) == (
        case.code,
        case.calls,
        case.effects,
    ), told
    if case.tool == PLACE:
        assert books.count("effect", name) <= 1
