"""Gate files: what they may have, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from harness.cli.schema import schemas
from harness.spec.evaluation_gate import load_gate
from harness.spec.problems import SpecError
from tests.unit.spec.files import write

WHOLE = """\
agents: [builder]
min_pass: 0.8
min_pass_k: {k: 3, share: 0.6}
max_cost: 0.05
no_worse_than: before/evaluation.json
margin: 0.1
"""


def test_every_key(tmp_path: Path) -> None:
    write(tmp_path, "{}", "before/evaluation.json")
    gate = load_gate(write(tmp_path, WHOLE, "ci.gate.yaml"))
    assert (gate.agents, gate.min_pass, gate.max_cost, gate.margin) == (("builder",), 0.8, 0.05, 0.1)
    assert gate.min_pass_k is not None
    assert (gate.min_pass_k.k, gate.min_pass_k.share) == (3, 0.6)
    assert gate.no_worse_than == str(tmp_path / "before/evaluation.json")
    Draft202012Validator(schemas()["evaluation_gate.schema.json"]).validate(gate.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("min_pas: 0.8\n", r"g\.yaml:1:1: min_pas: unknown key `min_pas`\n.*\n.*did you mean `min_pass`"),
        ("min_pass: 80\n", r"g\.yaml:1:11: min_pass: "),
        ("min_pass_k: {k: 0, share: 1}\n", r"g\.yaml:1:17: min_pass_k\.k: "),
        ("min_pass_k: {k: 1, shar: 1}\n", r"unknown key `shar`"),
        ("min_pass: 1\nmargin: 0.1\n", "`margin` has no effect without `no_worse_than`"),
        ("agents: [a]\n", "a gate needs a threshold"),
        ("min_pass: 1\nagents: []\n", r"g\.yaml:2:9: agents: "),
        ("min_pass: 1\nagents: [a, a]\n", r"g\.yaml:2:13: agents\[1\]: `a` is there twice"),
        ("max_cost: -1\n", r"g\.yaml:1:11: max_cost: "),
        ("no_worse_than: gone.json\n", r"g\.yaml:1:16: no_worse_than: there is no file gone\.json"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        load_gate(write(tmp_path, text, "g.yaml"))


def test_agents_that_the_project_does_not_have(tmp_path: Path) -> None:
    file = write(tmp_path, "min_pass: 1\nagents: [scripted, buider]\n", "g.yaml")
    assert load_gate(file).agents == ("scripted", "buider")
    with pytest.raises(SpecError, match=r"g\.yaml:2:20: agents\[1\]: there is no agent `buider`\n.*\n.*`builder`"):
        load_gate(file, ["builder"])
