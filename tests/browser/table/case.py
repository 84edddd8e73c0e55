"""One row of the failure table: the steps that produce it, and what must be said of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.browser import PlaywrightSession
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure
from tests.browser.moments import stretched
from tests.browser.stage import Stage, failed, passed
from tests.browser.table.general import GENERAL

Step = Mapping[str, Any]
PRESENT = object()
"""The value of a detail that must be there, whatever it is."""
SETTLED = 20.0
"""Seconds that each step before the last one may take."""
TOLD = "exceeded"
"""In a message that tells the limit."""


@dataclass(frozen=True, slots=True)
class Case:
    """Steps as in a task file; those before the last must pass, and the last one must fail with `code`."""

    id: str
    """Number of its part of the table, and a name: `2.1-dns`. No two cases of the table share it."""
    steps: tuple[Step, ...]
    """In any text, `{name}` stands for one of the stage's `places` (a port, as a rule)."""
    code: str
    effect: Effect | None = None
    """None: it is not compared."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Keys that the failure's details must have, with their values (or PRESENT)."""
    message: str = ""
    """A part of the message."""
    retry_after: float | None = None
    tainted: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the SessionRequest."""
    before: Callable[[PlaywrightSession], Awaitable[object]] | None = None
    """Done to the session just before the last step: a fault that no site can produce."""
    then: Step | None = None
    """A step that must pass after the failure in the same page: it is still usable."""
    fast: bool = False
    """Whether it runs in the ordinary suite; the others do with TASKSPEC_TESTS=full."""
    within: float = 1.5
    patience: float = 1.0


async def judge(stage: Stage, case: Case) -> Failure:
    """Perform the case in a session of its own, and compare what its last step said."""
    places = getattr(stage, "places", {})
    session = await stage.session(**case.options)
    for step in case.steps[:-1]:
        await passed(session, placed(step, places), within=SETTLED)
    if case.before is not None:
        await case.before(session)
    within = case.within if TOLD in case.message else stretched(case.within)
    failure = await failed(session, placed(case.steps[-1], places), within, case.patience)
    compare(failure, case)
    if case.then is not None:
        await passed(session, placed(case.then, places), within=SETTLED)
    return failure


def placed(step: Step, places: Mapping[str, object]) -> dict[str, Any]:
    """The step with its places filled in."""
    text = json.dumps(step)
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", str(place))
    filled: dict[str, Any] = json.loads(text)
    return filled


def compare(failure: Failure, case: Case) -> None:
    """Raise AssertionError, with the failure in it, unless it is the one that the case expects."""
    assert failure.code == case.code, failure
    row = failure.row
    said = (row.error_type.value, row.category.value, row.severity.value, row.retryable, row.scope.value)
    assert said == GENERAL[case.code], failure
    assert row.hint, failure
    assert row.cause, failure
    assert case.message in failure.message, failure
    assert case.effect in (None, failure.effect), failure
    assert (failure.retry_after, failure.tainted) == (case.retry_after, case.tainted), failure
    for name, value in case.details.items():
        assert name in failure.evidence, failure
        assert value is PRESENT or failure.evidence[name] == value, failure
