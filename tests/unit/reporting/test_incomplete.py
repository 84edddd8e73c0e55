"""`--taskspec-strict`: a task that left out what it names, from the engine to the screen."""

from __future__ import annotations

import asyncio

from harness.recovery.catalog import Category, ErrorType
from tests.unit.fakes import Theatre
from tests.unit.reporting import sample
from tests.unit.reporting.sample import failure_text


def test_what_is_missing_at_the_end_has_a_code_and_a_row_of_its_own() -> None:
    theatre = Theatre()
    theatre.settings = theatre.settings.model_copy(update={"strict": True})
    result = asyncio.run(theatre.play(memory_keys=["orders.last.id"], artifacts=["receipt"]))
    assert result.failure is not None
    assert (result.failure.code, result.failure.type) == ("INCOMPLETE", ErrorType.ASSERTION_FAILED)
    assert (result.failure.category, result.failed_index) == (Category.LOGIC, 1)
    lines = failure_text(sample.plan(steps=[sample.STEPS[0]]), result).splitlines()
    assert lines[0].endswith("failed: INCOMPLETE at the end")
    (failing,) = [line for line in lines if line.startswith("  > ")]
    assert failing.split() == [">", "end", "memory_keys,", "artifacts", "FAILED"]
    assert "'orders.last.id'" in "\n".join(lines)
    assert "'receipt'" in "\n".join(lines)
