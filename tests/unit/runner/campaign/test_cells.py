"""What a campaign tries, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.runner.campaign.trials import staged, turns
from harness.spec.problems import SpecError
from tests.unit.runner.campaign.stage import made


def test_each_task_as_it_is_and_with_each_of_its_faults(tmp_path: Path) -> None:
    assert [each.label for each in made(tmp_path)] == [
        "A clean",
        "A refuse-0",
        "A crash",
        "A slow-2",
        "B clean",
        "B crash",
    ]


def test_a_fault_is_added_to_the_task_with_its_references_filled_in(tmp_path: Path) -> None:
    slow = made(tmp_path)[3]
    (fault,) = slow.plan.faults
    assert (fault.target, fault.id) == ("http://shop.local/*", "small/slow-2")


def test_a_reference_that_the_task_cannot_fill_in(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"faults\[0\]: in B, which it strikes: .*`inputs` has no `host`"):
        made(tmp_path, "faults:\n  - {tasks: B, kind: refuse, host: '${inputs.host}', connections: 1}\n")


def test_clean_and_faulted_trials_take_turns_with_a_seed_each(tmp_path: Path) -> None:
    found = list(turns(made(tmp_path), trials=2, clean=1, seed=40))
    assert [(each.attack.label, each.seed) for each in found[:4]] == [
        ("A clean", 40), ("A refuse-0", 40), ("A crash", 40), ("A slow-2", 40),
    ]  # fmt: skip
    assert [(each.attack.label, each.number, each.seed) for each in found[6:]] == [
        ("A refuse-0", 1, 41), ("A crash", 1, 41), ("A slow-2", 1, 41), ("B crash", 1, 41),
    ]  # fmt: skip


def test_every_trial_has_a_world_and_a_folder_of_its_own(tmp_path: Path) -> None:
    plans = [staged(each, "run")[0] for each in turns(made(tmp_path), trials=3, clean=3, seed=0)]
    assert len(plans) == len({plan.key for plan in plans}) == len({plan.world for plan in plans}) == 18
    assert {plan.fault_seed for plan in plans} == {0, 1, 2}


@pytest.mark.parametrize(("episode", "same"), [(None, False), ("e", True)])
def test_what_a_task_depends_on_runs_before_it_without_the_fault(
    tmp_path: Path, episode: str | None, same: bool
) -> None:
    found = made(tmp_path, episode_id=episode)
    crash = next(each for each in turns(found, trials=1, clean=0, seed=0) if each.attack.label == "B crash")
    plan, (prelude,) = staged(crash, "run")
    assert (prelude.task_id, prelude.faults) == ("A", ())
    assert (prelude.world == plan.world) is same
    assert prelude.key != plan.key
