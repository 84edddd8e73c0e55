"""Trials side by side: what begins when, what is kept of them, and how they end."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path

import pytest

from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.model.settings import Settings
from harness.runner.campaign.summary import summed_up
from harness.runner.campaign.trials import Running, Size
from harness.runner.trials import runs_alone
from tests.unit.reporting.sample import START
from tests.unit.runner.campaign.stage import Runner, made, plan, trials
from tests.unit.spec.files import loaded, task


class Meeting(Runner):
    """Counts the tasks that run at once; each waits until `together` have met."""

    def __init__(self, together: int) -> None:
        super().__init__()
        self.together = together
        self.now = self.most = 0
        self.met = asyncio.Event()
        self.alone: dict[str, int] = {}

    async def play(self, plan: Plan, *_: object, quiet: bool = False) -> TaskResult:
        self.now += 1
        self.most = max(self.most, self.now)
        self.alone[plan.key] = self.now
        if self.now >= self.together:
            self.met.set()
        try:
            if not self.met.is_set():
                await asyncio.wait_for(self.met.wait(), 30)
            return self(plan)
        finally:
            self.now -= 1


def campaign(folder: Path, text: str = "faults: [{tasks: A, kind: page_crash}]\n", number: int = 4) -> Running:
    return Running(plan(folder, text), made(folder, text), Size(number, number, 5), "run", folder)


@pytest.mark.parametrize(("workers", "slots", "most"), [(3, None, 3), (3, 2, 2), (3, 1, 1), (1, None, 1)])
def test_trials_run_side_by_side_as_far_as_isolation_allows(
    tmp_path: Path, workers: int, slots: int | None, most: int
) -> None:
    """Three have to meet, so they do run at once; where a slot is shared, no more than there are slots."""
    runner, running = Meeting(most), campaign(tmp_path)
    with trials(runner, workers, slots) as several:
        running.make(several, lambda _: None)
    assert runner.most == most
    assert len(running.done) == 8


def test_the_document_does_not_depend_on_which_trial_ended_first(tmp_path: Path) -> None:
    class LastFirst(Runner):
        """The first trial ends when the second has ended."""

        ended = asyncio.Event()

        async def play(self, plan: Plan, *_: object, quiet: bool = False) -> TaskResult:
            if plan.key.endswith("--0"):
                await self.ended.wait()
            else:
                self.ended.set()
            return self(plan)

    running = campaign(tmp_path, number=2)
    with trials(LastFirst(), 4) as several:
        running.make(several, lambda _: None)
    assert running.done[0].number == 1
    found = summed_up(running, START, START, artifacts="", interrupted=False)
    assert [each.number for each in found.clean] == [0, 1]


def test_a_fault_of_what_others_use_strikes_while_nothing_else_runs(tmp_path: Path) -> None:
    runner, running = Meeting(1), campaign(tmp_path, "faults: [{tasks: A, kind: browser_kill}]\n", number=3)
    with trials(runner, 4) as several:
        running.make(several, lambda _: None)
    assert {count for key, count in runner.alone.items() if "browser_kill" in key} == {1}


def test_what_cannot_be_kept_ends_the_others(tmp_path: Path) -> None:
    """A disk that is full ends the command, and not only the trial that could not be written."""
    cancelled = threading.Event()

    class Long(Runner):
        async def play(self, plan: Plan, *_: object, quiet: bool = False) -> TaskResult:
            if plan.key.endswith("--1"):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    cancelled.set()
                    raise
            return self(plan)

    def full(_: object) -> None:
        raise OSError("the disk is full")

    with trials(Long(), 4) as several, pytest.raises(OSError, match="the disk is full"):
        campaign(tmp_path, number=2).make(several, full)
    assert cancelled.is_set()


def test_after_ctrl_c_what_had_ended_is_kept_and_what_runs_is_ended(tmp_path: Path) -> None:
    cancelled = threading.Event()

    class Pressed(Runner):
        """Ctrl-C comes while the second trials run."""

        async def play(self, plan: Plan, *_: object, quiet: bool = False) -> TaskResult:
            if plan.key.endswith("--1"):
                try:
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    cancelled.set()
                    raise
            return self(plan)

    running = campaign(tmp_path, number=2)
    with trials(Pressed(), 3) as several, pytest.raises(KeyboardInterrupt):
        running.make(several, lambda _: None)
    assert [each.number for each in running.done] == [0, 0]
    assert cancelled.is_set()


def test_the_load_of_the_machine_decides(tmp_path: Path) -> None:
    running = campaign(tmp_path)
    with trials(Runner(), "auto") as several:
        running.make(several, lambda _: None)
    assert len(running.done) == 8


def test_an_episode_that_leaves_its_slot_for_a_moment_runs_alone(tmp_path: Path) -> None:
    first, second = (loaded(tmp_path, task(task_id=name, episode_id="E"), f"{name}.task.json").spec for name in "AB")
    shared, apart = Settings(isolation="none"), Settings(isolation="none", parallel=True)
    assert runs_alone([first, second], shared)
    assert not runs_alone([first], shared)
    assert not runs_alone([first, second], apart)
