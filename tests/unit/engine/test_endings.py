"""Whatever fails, and whatever the rules: a task ends, its report is written, and a blind write is done once."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.recovery.catalog import CATALOG, Effect
from harness.recovery.failure import Failure, Outcome, Passed
from harness.spec.validation import RULES
from tests.unit.conftest import examples
from tests.unit.fakes import Theatre

CODES = sorted(set(CATALOG) - {"INTERRUPTED", "WORKER_CRASHED", "INTERNAL_ERROR"})
rulebooks = st.fixed_dictionaries({}, optional={name: st.sampled_from(sorted(RULES[name])) for name in RULES})
outcomes = st.lists(
    st.one_of(
        st.builds(Passed),
        st.builds(
            Failure,
            st.sampled_from(CODES),
            st.just("message"),
            st.just("#a"),
            effect=st.sampled_from(Effect),
            tainted=st.booleans(),
        ),
    ),
    max_size=12,
)
STEPS = [
    {"act": "click", "selector": "#a"},
    {"act": "click", "selector": "#buy", "effect": "write"},
    {"act": "wait", "selector": "#a"},
    {"act": "assert", "expr": "mem('k') == 1"},
]


@settings(max_examples=examples(300), deadline=None)
@given(
    rules=rulebooks,
    script=outcomes,
    then=outcomes.map(lambda found: found[0] if found else Passed()),
    checkpoints=st.sets(st.integers(0, 4)),
    optional=st.booleans(),
)
def test_every_task_ends(
    rules: dict[str, Any], script: list[Outcome], then: Outcome, checkpoints: set[int], optional: bool
) -> None:
    theatre = Theatre()
    theatre.world.entries_["k"] = 1
    theatre.world.environment["k"] = 2
    acted = 0

    def reply(step: Any) -> Outcome:
        nonlocal acted
        acted += 1
        assert acted < 200, "the task does not end"
        outcome = script.pop(0) if script else then
        if step.selector == "#buy" and (isinstance(outcome, Passed) or outcome.effect is not Effect.NONE):
            theatre.world.environment["bought"] = theatre.world.environment.get("bought", 0) + 1
        return outcome

    theatre.session.script = [reply] * 250
    spec = {"steps": [{**STEPS[0], "optional": optional}, *STEPS[1:]], "checkpoints": sorted(checkpoints)}
    bindings = {"state_bindings": {"k": "env.k"}, "fallback_plan": {"enabled": True}}
    result = asyncio.run(theatre.play(**spec, **bindings, error_recovery=rules, timeout=3600))
    assert result.final_state in ("completed", "partial_success", "failed", "aborted")
    assert (result.error is not None) == (result.failure is not None)
    assert theatre.session.closed
    assert theatre.world.environment.get("bought", 0) <= 1
