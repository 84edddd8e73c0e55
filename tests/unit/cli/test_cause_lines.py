"""`harness triage`: what a run comes to in a line, and a line for each cause."""

from __future__ import annotations

from harness.cli.triage import FailedTasks, document, lines
from harness.reporting.triage import causes, troubles
from tests.unit.reporting.history.runs import execution, failed, nodeid, run


def told(*codes: str, tasks: int = 3) -> tuple[list[str], FailedTasks]:
    found = run(parts=[execution(failed(f"T-{number}", code)) for number, code in enumerate(codes)])
    several = FailedTasks("r", troubles(found, {nodeid(f"T-{number}") for number in range(9)}), tasks)
    return list(lines(several, causes(several.troubles), 180)), several


def test_what_was_cut_off_from_outside_has_its_own_line_and_is_not_newly_failing() -> None:
    (head, first, last), found = told("INTERRUPTED", "INTERRUPTED", "STEP_TIMEOUT")
    assert head == "run r: 1 of 3 tasks failed, 1 of them newly: 1 cause; 2 not judged"
    assert first.split()[:2] == ["1", "STEP_TIMEOUT"]
    assert last.split()[:4] == ["2", "INTERRUPTED", "not", "judged:"]
    assert "new" not in last.partition("]")[2]
    made = document(found, causes(found.troubles))
    assert (made["failed"], made["not_judged"]) == (1, 2)


def test_when_only_that_happened_nothing_failed() -> None:
    (head, _), _ = told("WORKER_CRASHED", tasks=1)
    assert head == "run r: nothing failed of 1 task; 1 not judged"
