"""The end of a task: what became of its faults is known only when they were healed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.model.events import TaskEnded
from harness.model.record import MetFault
from harness.recovery import NOTHING
from harness.recovery.failure import Failed, Failure
from harness.spec.faults import Fault
from tests.unit.fakes import FakeInjector, Theatre

FAULT: TypeAdapter[Any] = TypeAdapter(Fault)
CRASH = FAULT.validate_python({"kind": "page_crash"})
GONE = Failure("ELEMENT_NOT_FOUND", "no #a", "#a")


@dataclass
class Injector(FakeInjector):
    """`at_last` are the results after `close`."""

    so_far: tuple[MetFault, ...] = ()
    at_last: tuple[MetFault, ...] = ()
    error: Exception | None = field(default=None)

    def results(self) -> tuple[MetFault, ...]:
        return self.at_last if self.closed else self.so_far

    async def close(self) -> None:
        await super().close()
        if self.error:
            raise self.error


def struck(problem: str = "", name: str = "f") -> MetFault:
    return MetFault(name, CRASH, 1, (0.0,), problem=problem)


def ended(theatre: Theatre, so_far: tuple[MetFault, ...], at_last: tuple[MetFault, ...]) -> Any:
    theatre.injector = Injector(so_far=so_far, at_last=at_last)
    return asyncio.run(theatre.play())


@pytest.mark.parametrize("failure", [None, GONE])
def test_a_fault_that_could_not_be_healed_is_told(failure: Failure | None) -> None:
    theatre = Theatre()
    theatre.session.script = [failure] * 20 if failure else []
    result = ended(theatre, (struck(), struck(name="g")), (struck("it is down"), struck(name="g")))
    [warning] = result.warnings
    assert (warning.type, warning.message) == ("fault_not_healed", "Fault page_crash at step 0: it is down")
    assert warning.details == {"fault": "f"}
    assert [each.problem for each in result.faults] == ["it is down", ""]
    told = theatre.archive.passes or [kept[1] for kept in theatre.archive.kept]
    assert "fault_not_healed" in str(told[0].warnings)


def test_a_fault_that_could_not_even_strike_is_told_once() -> None:
    result = ended(Theatre(), (struck("it is down"),), (struck("it is down"),))
    assert [warning.type for warning in result.warnings] == ["fault_not_met"]


def test_of_faults_of_one_name_one_that_was_met_is_enough() -> None:
    never = MetFault("f", CRASH)
    result = ended(Theatre(), (never, struck(), never), (never, struck(), never))
    assert result.warnings == ()
    result = ended(Theatre(), (never, struck(name="g")), (never, struck(name="g")))
    assert [(warning.type, warning.details) for warning in result.warnings] == [("fault_not_met", {"fault": "f"})]


def test_a_fault_that_could_not_be_healed_is_told_beside_one_of_its_name() -> None:
    result = ended(Theatre(), (struck("down"), struck()), (struck("down"), struck("it is down")))
    assert [warning.type for warning in result.warnings] == ["fault_not_met", "fault_not_healed"]


def test_the_session_is_closed_whatever_healing_does() -> None:
    theatre = Theatre()
    theatre.injector = Injector(error=OSError("no more files"))
    with pytest.raises(OSError, match="no more files"):
        asyncio.run(theatre.play())
    assert theatre.session.closed


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError(28, "No space left on device", "errors/T/error_report.json"),
            "No space left on device; free space on the disk (errors/T/error_report.json)",
        ),
        (OSError("it is gone"), "The evidence of the task could not be kept: it is gone; free space on the disk"),
    ],
)
def test_a_disk_that_does_not_take_what_a_task_left_changes_nothing_of_how_it_ended(error: OSError, words: str) -> None:
    theatre = Theatre()
    theatre.session.script = [GONE] * 20

    def keep(*_: Any) -> Any:
        raise error

    theatre.archive.keep = keep  # type: ignore[method-assign]
    result = asyncio.run(theatre.play())
    assert (result.failure, result.artifacts) == (GONE, None)
    [warning] = [each for each in result.warnings if each.type == "evidence_not_kept"]
    assert warning.message.endswith(words)


LEFT_OUT = {"preconditions": ["mem('a') == 1"], "error_recovery": {"on_precondition_fail": {"strategy": "skip_task"}}}


@pytest.mark.parametrize(("method", "spec"), [("passed", {}), ("skipped", LEFT_OUT)])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError(28, "No space left on device", "errors/T"),
            "No space left on device; free space on the disk (errors/T)",
        ),
        (
            NotADirectoryError(20, "Not a directory", "errors/.kept/T"),
            "Not a directory; make the folder writable (err",
        ),
    ],
)
def test_a_disk_that_does_not_take_what_a_task_left_makes_no_task_fail(
    method: str, spec: dict[str, Any], error: OSError, words: str
) -> None:
    theatre = Theatre()

    def refuse(*_: Any, **__: Any) -> None:
        raise error

    setattr(theatre.archive, method, refuse)
    result = asyncio.run(theatre.play(**spec))
    assert (result.failure, bool(result.skipped)) == (None, method == "skipped")
    [warning] = [each for each in result.warnings if each.type == "evidence_not_kept"]
    assert words in warning.message
    told = theatre.events[-1]
    assert isinstance(told, TaskEnded)
    assert told.result == result
    assert theatre.session.closed


def test_a_task_without_a_folder_for_its_files_fails_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre()

    def scratch(_plan: Any) -> Path:
        raise OSError(28, "No space left on device", "errors/.tmp/1/T-1-1")

    monkeypatch.setattr(theatre.archive, "scratch", scratch)
    result = asyncio.run(theatre.play())
    assert result.failure is not None
    assert (result.final_state, result.failure.code, result.failed_index) == ("failed", "ARTIFACTS_UNWRITABLE", -1)
    assert result.failure.message.endswith("could be made: No space left on device: errors/.tmp/1/T-1-1")
    assert [type(event).__name__ for event in theatre.events] == ["TaskStarted", "ResilienceActed", "TaskEnded"]
    [(_, report, evidence, _)] = theatre.archive.kept
    assert (report.code, evidence.folder.exists()) == ("ARTIFACTS_UNWRITABLE", False)
    assert result.artifacts is not None
    assert theatre.session.acts == []


def test_a_task_that_never_had_a_page_says_so_and_not_that_a_strategy_left_it_out() -> None:
    theatre = Theatre()

    async def refuses(*_: Any) -> Any:
        raise Failed(Failure("SERVICE_DOWN", "it is down"))

    theatre.stage = refuses
    asyncio.run(theatre.play())
    [(_, _, evidence, state)] = theatre.archive.kept
    assert (evidence.why, state.why) == ("the task ended before it had a page", "the task had not begun")


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"capture": "none"}, "`capture: none`"),
        ({"on_element_not_found": {"strategy": "abort", "capture": "none"}}, "`capture: none`"),
    ],
)
def test_a_task_that_wants_no_evidence_is_not_asked_for_it(rules: dict[str, Any], why: str) -> None:
    theatre = Theatre()
    theatre.session.script = [GONE]
    asyncio.run(theatre.play(error_recovery=rules))
    [(_, _, _, state)] = theatre.archive.kept
    assert theatre.session.wanted == NOTHING
    assert (state.memory, state.environment, state.why) == (None, None, why)


UNREAD = Failure("STORAGE_UNREADABLE", "it could not be read: not in 7 s")


def test_a_task_that_exists_for_its_storage_fails_if_that_cannot_be_read() -> None:
    theatre = Theatre()
    theatre.session.leaving = UNREAD
    result = asyncio.run(theatre.play(step_timeout=7))
    assert theatre.session.left == (7, False)
    assert (result.final_state, result.failure) == ("failed", UNREAD)
    [(_, report, _, _)] = theatre.archive.kept
    assert report.code == "STORAGE_UNREADABLE"


@pytest.mark.parametrize(("expect", "left"), [(None, None), ({"final_state": "failed", "code": GONE.code}, (30, True))])
def test_only_a_task_that_ended_as_declared_leaves_its_storage(expect: Any, left: Any) -> None:
    theatre = Theatre()
    theatre.session.script = [GONE] * 20
    asyncio.run(theatre.play(**({"expect": expect} if expect else {})))
    assert theatre.session.left == left
