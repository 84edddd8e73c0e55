"""The live line."""

from __future__ import annotations

import io
import re

import pytest

from harness.model.events import (
    ModelAnswered,
    ModelAsked,
    Resilience,
    ResilienceActed,
    StepStarted,
    TaskEnded,
    TaskStarted,
    ToolAnswered,
    ToolCalled,
)
from harness.model.inference import ModelCall, Usage
from harness.recovery import GiveUp, Remedy, RepairPrecondition, Retry, Rewind, Substitute, Trust
from harness.reporting.progress import ProgressLine, line
from harness.reporting.redaction import Redactor
from harness.reporting.telemetry.stream import Telemetry
from harness.resilience.events import Degraded, FellBack, GaveUp, Recovered, Retrying, Waiting
from harness.values import replace
from tests.unit.fakes import FakeClock
from tests.unit.model.test_tool_use import LOST
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
    event = Retrying("open", 1, 3, 0.0, "env-secret sess-17 \x1b]0;title\x07")
    stream = Telemetry("run-1", FakeClock(), Redactor((), ("sess-[0-9]+",)), (ProgressLine(screen, lambda: 200),))
    stream.turn(ResilienceActed(PLAN, 0, event, Retry()), heard=True)
    assert "Retrying 1/3: [redacted] [redacted]" in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()


def test_silent_off_a_terminal() -> None:
    screen = Screen(tty=False)
    progress = ProgressLine(screen)
    progress.on_turn(TaskStarted(PLAN, sample.START))
    progress.clear()
    assert screen.getvalue() == ""


ASKED = ModelAsked(PLAN, "builder", "claude", 7, sample.START)
CALL = ModelCall(
    "builder", "claude", "anthropic", "haiku", 7, 1, sample.START, 3.21, 0.4, Usage(input=12_100, output=180), 0.0021,
    "answered",
)  # fmt: skip


def test_an_agent_that_thinks() -> None:
    assert line(ASKED) == " B1-2025-001 step 7: builder thinks (claude)"
    told = " B1-2025-001 step 7: builder thought 3.2 s (claude, 12.1k/180 tokens, $0.0021)"
    assert line(ModelAnswered(PLAN, CALL)) == told
    by_agent = replace(PLAN, agent="builder")
    retry = Retrying("model claude", 2, 3, 1.0, "claude answered 503")
    assert line(ResilienceActed(by_agent, 7, retry)) == " B1-2025-001 step 7 Retrying 2/3 in 1.0 s: claude answered 503"
    other = FellBack("model claude", "claude", "gpt", "overloaded")
    assert line(ResilienceActed(by_agent, 7, other)) == " B1-2025-001 step 7 model gpt is asked in place of claude"


def test_the_line_shows_for_how_long_an_agent_has_been_thinking() -> None:
    screen, clock = Screen(), FakeClock()
    progress = ProgressLine(screen, lambda: 100, clock=clock)
    progress.on_turn(ASKED)
    clock.time += 0.2
    progress.tick()
    assert screen.visible() == " B1-2025-001 step 7: builder thinks (claude)"
    clock.time += 3.0
    progress.tick()
    assert screen.visible() == " B1-2025-001 step 7: builder thinks (claude, 3.2 s)"
    progress.on_turn(ModelAnswered(PLAN, CALL))
    clock.time += 3.0
    progress.tick()
    assert "thought 3.2 s" in screen.visible()


def test_a_tool_that_is_called() -> None:
    called = ToolCalled(PLAN, "mail", "get_code", 1, sample.START)
    assert line(called) == " B1-2025-001 step 1 (of 0-5) calling mail.get_code"
    assert line(replace(called, step=None)) == " B1-2025-001 calling mail.get_code"
    told = " B1-2025-001 step 1 (of 0-5) mail.get_code: TOOL_UNAVAILABLE in 3.6 s, 4 tries: it was lost"
    assert line(ToolAnswered(PLAN, LOST)) == told
    screen, clock = Screen(), FakeClock()
    progress = ProgressLine(screen, lambda: 100, clock=clock)
    progress.on_turn(called)
    clock.time += 3.2
    progress.tick()
    assert screen.visible() == " B1-2025-001 step 1 (of 0-5) calling mail.get_code (3.2 s)"
    progress.on_turn(ToolAnswered(PLAN, LOST))
    shown = screen.visible()
    clock.time += 3.2
    progress.tick()
    assert screen.visible() == shown
