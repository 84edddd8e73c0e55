"""The live line."""

from __future__ import annotations

import io
import re

from harness.model.events import RemedyChosen, StepStarted, TaskEnded, TaskStarted
from harness.recovery import GiveUp, Retry, Substitute
from harness.recovery.failure import Failure
from harness.reporting.progress import ProgressLine, line
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
REFUSED = Failure("NET_CONNECTION_REFUSED", "connection refused env-secret")


def test_lines() -> None:
    assert line(TaskStarted(PLAN, sample.START)) == " B1-2025-001"
    assert line(StepStarted(PLAN, 3, PLAN.steps[3], sample.START)) == " B1-2025-001 step 3 (of 0-5) click"
    assert line(StepStarted(PLAN, 6, PLAN.steps[3], sample.START)) == " B1-2025-001 success criteria click"
    retry = line(RemedyChosen(PLAN, 0, Failure("NET_DNS", "connection refused"), Retry(2.0), 2))
    assert retry == " B1-2025-001 step 0 (of 0-5) retry 2 in 2.0 s: connection refused"
    assert line(RemedyChosen(PLAN, 0, REFUSED, Substitute("#b"), 1)) == " B1-2025-001 step 0 (of 0-5) trying #b"
    assert line(RemedyChosen(PLAN, 0, REFUSED, GiveUp(), 1)) == ""


def test_pytests_own_line_stays() -> None:
    screen = Screen()
    screen.write("tasks/b1.task.yaml ")
    progress = ProgressLine(screen, lambda: 60)
    progress.on(TaskStarted(PLAN, sample.START))
    progress.on(StepStarted(PLAN, 3, PLAN.steps[3], sample.START))
    assert screen.visible() == "tasks/b1.task.yaml  B1-2025-001 step 3 (of 0-5) click"
    progress.on(TaskEnded(PLAN, sample.completed(PLAN), sample.START))
    assert screen.visible() == "tasks/b1.task.yaml "


def test_it_never_wraps() -> None:
    screen = Screen()
    progress = ProgressLine(screen, lambda: 12)
    progress.on(StepStarted(PLAN, 3, PLAN.steps[3], sample.START))
    assert screen.visible() == " B1-2025-00"
    ProgressLine(screen, lambda: -5).on(StepStarted(PLAN, 3, PLAN.steps[3], sample.START))
    assert screen.visible() == " B1-2025-00"


def test_no_secrets_and_no_control_characters() -> None:
    screen = Screen()
    failure = Failure("NET_DNS", "env-secret \x1b]0;title\x07")
    ProgressLine(screen, lambda: 200).on(RemedyChosen(PLAN, 0, failure, Retry(), 1))
    assert "env-secret" not in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()


def test_silent_off_a_terminal() -> None:
    screen = Screen(tty=False)
    progress = ProgressLine(screen)
    progress.on(TaskStarted(PLAN, sample.START))
    progress.clear()
    assert screen.getvalue() == ""
