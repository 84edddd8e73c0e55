"""The names of agents in task files, with the place of each that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.load import load_file
from harness.spec.problems import SpecError

HEAD = "task_id: T\ngoal: g\n"
STEPS = "steps:\n  - {act: open, url: 'http://shop.local/'}\n"


def problem(tmp_path: Path, text: str, agents: tuple[str, ...] | None = ("builder", "simple")) -> str:
    file = tmp_path / "t.task.yaml"
    file.write_text(HEAD + text, "utf-8")
    try:
        load_file(file, agents=agents, needs_steps=True)
    except SpecError as error:
        return str(error)
    return ""


GOOD = [
    "agent: builder\n",
    "agent: builder\nagent_fallback: [simple, manual]\n",
    f"agent: builder\nagent_fallback: [scripted]\n{STEPS}",
    f"agent: monkey\nagent_fallback: []\n{STEPS}",
    f"agent_fallback: [builder]\nagent_fallback_if_unmet: true\n{STEPS}",
    f"agent: scripted\n{STEPS}",
]


@pytest.mark.parametrize("text", GOOD)
def test_known_names_in_any_order_are_accepted(tmp_path: Path, text: str) -> None:
    assert problem(tmp_path, text) == ""


BAD = [
    ("agent: bulder\n", "t.task.yaml:3:8: agent: there is no agent `bulder`", "did you mean `builder`?"),
    (f"agent_fallback: [simpel]\n{STEPS}", "t.task.yaml:3:18: agent_fallback[0]: there is no agent `simpel`", "simple"),
    ("agent: nobody\n", "expected: bridge, builder, llm, manual, monkey", "[tool.harness.agents.nobody]"),
    ("agent: scripted\n", "3:8: agent: the agent `scripted` executes the task's `steps`, and there are none", ""),
    ("agent: builder\nagent_fallback: [scripted]\n", "4:18: agent_fallback[0]: the agent `scripted` executes", ""),
    (
        "agent: builder\nagent_fallback: [simple, builder]\n",
        "4:26: agent_fallback[1]: the agent `builder` is there",
        "",
    ),
    (f"agent_fallback: [scripted]\n{STEPS}", "agent_fallback[0]: the agent `scripted` is there already", ""),
    (f"agent_fallback_if_unmet: true\n{STEPS}", "3:1: agent_fallback_if_unmet: `agent_fallback_if_unmet` has no", ""),
    ("agent: ''\n", "3:8: agent:", ""),
    ("agent_fallback: simple\n", "3:17: agent_fallback:", ""),
]


@pytest.mark.parametrize(("text", "said", "hint"), BAD)
def test_a_wrong_name_is_told_with_its_place(tmp_path: Path, text: str, said: str, hint: str) -> None:
    found = problem(tmp_path, text)
    assert said in found
    assert hint in found


def test_without_a_project_any_name_will_do(tmp_path: Path) -> None:
    assert problem(tmp_path, "agent: nobody\n", agents=None) == ""
