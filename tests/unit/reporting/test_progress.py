"""The live line."""

from __future__ import annotations

import io
import re

import pytest

from harness.model.events import Resilience, ResilienceActed, StepStarted, TaskEnded, TaskStarted
from harness.recovery import GiveUp, Remedy, RepairPrecondition, Retry, Rewind, Substitute, Trust
from harness.reporting.progress import ProgressLine, line
from harness.resilience.events import Degraded, FellBack, GaveUp, Recovered, Retrying, Waiting
from tests.unit.reporting import sample


class Screen(io.StringIO):
    def __init__(self, tty: bool = True) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty

    def visible(self) -> str:
        """What a terminal would show: cursor left and erase are carried out."""
        shown = ""
        for part in re.split(r"(\x1b\[\d+D\x1b\[K)", self.getvalue()):
            if back := re.fullmatch(r"\x1b\[(\d+)D\x1b\[K", part):
                shown = shown[: len(shown) - int(back[1])]
            else:
                shown += part
        return shown


PLAN = sample.plan(secrets=("env-secret",))


def test_lines() -> None:
    assert line(TaskStarted(PLAN, sample.START)) == " B1-2025-001"
    assert line(StepStarted(PLAN, 3, PLAN.steps[3], sample.START)) == " B1-2025-001 step 3 (of 0-5) click"
    assert line(StepStarted(PLAN, 6, PLAN.steps[3], sample.START)) == " B1-2025-001 success criteria click"


@pytest.mark.parametrize(
    ("event", "remedy", "said"),
    [
        (Retrying("open", 2, 3, 2.0, "connection refused"), Retry(2.0), "Retrying 2/3 in 2.0 s: connection refused"),
        (Retrying("open", 2, 3, 0.0, "connection refused"), Retry(), "Retrying 2/3: connection refused"),
        (Waiting("open", 30.0, "circuit c is open"), Retry(30.0), "waiting 30.0 s: circuit c is open"),
        (Retrying("open", 1, 1, 0.0, "too slow"), Rewind(), "going back to a checkpoint"),
        (Retrying("assert", 1, 1, 0.0, "no cart"), RepairPrecondition(), "repairing"),
        (FellBack("click", "#a", "#b", "no #a"), Substitute("#b"), "trying #b"),
        (FellBack("assert", "memory", "environment", "they differ"), Trust("environment"), ""),
        (GaveUp("open", "refused", True), GiveUp(), ""),
        (Recovered("open", 2.0, 2), None, ""),
        (Degraded("open", "the task goes on without it"), None, ""),
    ],
)
def test_what_is_done_about_a_failure(event: Resilience, remedy: Remedy | None, said: str) -> None:
    where = " B1-2025-001 step 0 (of 0-5) " if said else ""
    assert line(ResilienceActed(PLAN, 0, event, remedy)) == where + said


def test_pytests_own_line_stays() -> None:
    screen = Screen()
    screen.write("tasks/b1.task.yaml ")
    progress = ProgressLine(screen, lambda: 60)
    progress.on_turn(TaskStarted(PLAN, sample.START))
    progress.on_turn(StepStarted(PLAN, 3, PLAN.steps[3], sample.START))
    assert screen.visible() == "tasks/b1.task.yaml  B1-2025-001 step 3 (of 0-5) click"
    progress.on_turn(TaskEnded(PLAN, sample.completed(PLAN), sample.START))
    assert screen.visible() == "tasks/b1.task.yaml "


def test_it_never_wraps() -> None:
    screen = Screen()
    progress = ProgressLine(screen, lambda: 12)
    progress.on_turn(StepStarted(PLAN, 3, PLAN.steps[3], sample.START))
    assert screen.visible() == " B1-2025-00"
    ProgressLine(screen, lambda: -5).on_turn(StepStarted(PLAN, 3, PLAN.steps[3], sample.START))
    assert screen.visible() == " B1-2025-00"


def test_no_secrets_and_no_control_characters() -> None:
    screen = Screen()
    event = Retrying("open", 1, 3, 0.0, "env-secret \x1b]0;title\x07")
    ProgressLine(screen, lambda: 200).on_turn(ResilienceActed(PLAN, 0, event, Retry()))
    assert "env-secret" not in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()


def test_silent_off_a_terminal() -> None:
    screen = Screen(tty=False)
    progress = ProgressLine(screen)
    progress.on_turn(TaskStarted(PLAN, sample.START))
    progress.clear()
    assert screen.getvalue() == ""
