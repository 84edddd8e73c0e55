"""Steps that call tools, as files declare them: unknown servers, tools not allowed, and where `result(...)` stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.load import load_file
from harness.spec.problems import SpecError

SERVERS = {"mail": ("get_*",), "shop": ()}


def problems(folder: Path, *steps: str, more: str = "") -> str:
    file = folder / "a.task.yaml"
    file.write_text("\n".join(["task_id: T", "goal: g", more or "inputs: {n: 1}", "steps:", *steps]) + "\n", "utf-8")
    try:
        load_file(file, tools=SERVERS)
    except SpecError as error:
        return str(error).replace(f"{file}:", "")
    return ""


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("{act: tool, server: mial, tool: x}", "5:25: steps[0].server: unknown tool server `mial`"),
        ("{act: tool, server: mial, tool: x}", "did you mean `mail`?"),
        (
            "{act: tool, server: mail, tool: drop}",
            "5:37: steps[0].tool: `allow` of [tool.harness.tools.mail] does not name the tool `drop`",
        ),
        ("{act: tool, server: mail}", "steps[0].tool"),
        ("{act: tool, server: mail, tool: get_x, safe_statuses: [503]}", "a tool gives none: leave it out"),
        ("{act: tool, server: mail, tool: get_x, status: bad}", "steps[0].status"),
        ("{act: tool, server: mail, tool: get_x, arguments: [1]}", "steps[0].arguments"),
        ('{act: tool, server: mail, tool: get_x, arguments: {a: ["${inputs.m}"]}}', "`inputs` has no `m`"),
        ("{act: tool, server: mail, tool: get_x, expect: \"result('a'\"}", "steps[0].expect"),
        ("{act: tool, server: mail, tool: get_x, expect: \"result('[') == 1\"}", "bad path"),
        ("{act: tool, server: mail, tool: get_x, expect: \"result('a', 'b') == 1\"}", "takes 1 argument"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, step: str, told: str) -> None:
    assert told in problems(tmp_path, f"  - {step}")


@pytest.mark.parametrize(
    "step",
    [
        "{act: tool, server: mail, tool: get_code, expect: \"result('code') == 1\", remember: {a: result()}}",
        "{act: tool, server: shop, tool: anything}",
        "{act: tool, server: page, tool: anything}",
        '{act: tool, server: "${inputs.n}", tool: "${inputs.n}"}',
    ],
)
def test_what_can_be_called_is_accepted(tmp_path: Path, step: str) -> None:
    assert problems(tmp_path, f"  - {step}") == ""


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ("{act: assert, expr: \"result('a') == 1\"}", "steps[0].expr"),
        ("{act: open, url: /, remember: {a: result()}}", "steps[0].remember.a"),
        ("{act: tool, server: shop, tool: x, done_when: \"result('a') == 1\"}", "steps[0].done_when"),
    ],
)
def test_a_result_is_read_only_where_there_is_one(tmp_path: Path, step: str, place: str) -> None:
    told = problems(tmp_path, f"  - {step}")
    assert f"{place}: `result(...)` reads the answer of a step, and there is none here" in told
    told = problems(tmp_path, "  - {act: open, url: /}", more="success_criteria: [\"result('a') == 1\"]")
    assert "success_criteria[0]: `result(...)`" in told


def test_a_group_fills_arguments_in_as_values_and_criteria_as_literals(tmp_path: Path) -> None:
    (tmp_path / "read.steps.yaml").write_text(
        "parameters: {who: {type: text}, many: {type: integer}}\n"
        "steps:\n"
        "  - act: tool\n"
        "    server: shop\n"
        "    tool: read\n"
        '    arguments: {many: ["${with.many}"], expect: "${with.who}", expr: "of ${with.who}"}\n'
        "    expect: \"result('who') == ${with.who}\"\n",
        "utf-8",
    )
    file = tmp_path / "a.task.yaml"
    file.write_text("task_id: T\ngoal: g\nsteps:\n  - {use: read, with: {who: Ann, many: 2}}\n", "utf-8")
    (step,) = load_file(file, tools=SERVERS).spec.steps
    assert step.model_dump()["arguments"] == {"many": [2], "expect": "Ann", "expr": "of Ann"}
    assert step.model_dump()["expect"] == "result('who') == 'Ann'"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("tool mial.send", "3:18: allowed_writes[0]: unknown tool server `mial`"),
        ("tool mail.send", ""),
        ("tool *.send", ""),
        ("tool page.send", ""),
        ("POST http://shop.local/*", ""),
    ],
)
def test_a_tool_that_may_be_called_is_of_a_known_server(tmp_path: Path, entry: str, told: str) -> None:
    found = problems(tmp_path, "  - {act: open, url: /}", more=f'allowed_writes: ["{entry}"]')
    assert (told in found, bool(found)) == (True, bool(told))
