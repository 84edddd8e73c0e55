"""The faults of `--faults` become part of a task's plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.model.plan import Plan
from harness.spec.problems import SpecError
from tests.unit.runner.test_compile import compiled


def planned(folder: Path, *faults: str, environ: dict[str, str] | None = None, **fields: Any) -> Plan:
    file = folder / "p.faults.yaml"
    file.write_text("name: p\nseed: 9\nfaults:\n" + "".join(f"  - {each}\n" for each in faults), "utf-8")
    return compiled({"faults": (file,)}, environ, **fields)


def test_faults_of_a_plan_come_after_the_tasks_own_and_bring_their_seed(tmp_path: Path) -> None:
    own = [{"kind": "refuse", "host": "own.local", "connections": 1}]
    fault = "{tasks: T-1, kind: refuse, host: '${inputs.host}', connections: 2}"
    plan = planned(tmp_path, fault, faults=own, inputs={"host": "shop.local"}, seed=4)
    assert [(each.target, each.id) for each in plan.faults] == [("own.local", ""), ("shop.local", "p/refuse-0")]
    assert plan.fault_seed == 9


def test_a_plan_that_does_not_strike_the_task_changes_nothing(tmp_path: Path) -> None:
    plan = planned(tmp_path, "{tasks: X, kind: page_crash}", seed=4)
    assert (plan.faults, plan.fault_seed) == ((), 4)


def test_what_a_plan_refers_to_is_known_with_the_task(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"p\.faults\.yaml:4:5: faults\[0\]: in T-1, which it strikes: .*has no `host`"):
        planned(tmp_path, "{kind: refuse, host: '${inputs.host}', connections: 2}")


def test_variables_that_a_plan_refers_to_are_secrets(tmp_path: Path) -> None:
    assert planned(tmp_path, "{kind: refuse, host: '${env:HOST}', connections: 2}").secrets == ("shop.local",)
