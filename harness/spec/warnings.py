"""The types of warnings that a run can give, and what holds for each."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from harness.recovery.catalog import FAMILIES


class WarningFacts(Struct, frozen=True, kw_only=True):
    """The facts about every warning of one type."""

    recovered: bool = False
    """It reports that the task overcame a failure: the summary of a run counts it."""
    to_act_on: bool = False
    """It reports something that a person should correct: the summary of a run lists it."""
    of_expected: bool = False
    """A task that failed as declared shows it too: it is about its faults, or about what was not judged."""
    expectable: bool = True
    """A task's `expect` may name it. A warning that is known only after that comparison cannot be named."""


_RECOVERED, _TO_ACT_ON = WarningFacts(recovered=True), WarningFacts(to_act_on=True)
_OF_EXPECTED, _FOR_THE_RECORD = WarningFacts(to_act_on=True, of_expected=True), WarningFacts()

WARNINGS: Mapping[str, WarningFacts] = {
    **{facts.warning: _RECOVERED for facts in FAMILIES.values()},
    "fallback_selector_used": _RECOVERED,
    "checkpoint_restored": _RECOVERED,
    "browser_restarted": _RECOVERED,
    "effect_already_done": _RECOVERED,
    "alternative_task_used": WarningFacts(recovered=True, to_act_on=True),
    "agent_fallback_used": WarningFacts(recovered=True, to_act_on=True),
    "restart_refused": _TO_ACT_ON,
    "step_skipped": _TO_ACT_ON,
    "criteria_relaxed": _TO_ACT_ON,
    "write_repeated": _TO_ACT_ON,
    "done_when_false_after_write": _TO_ACT_ON,
    "restore_incomplete": _TO_ACT_ON,
    "storage_not_left": WarningFacts(to_act_on=True, expectable=False),
    "memory_key_missing": _TO_ACT_ON,
    "artifact_missing": _TO_ACT_ON,
    "memory_differs": _TO_ACT_ON,
    "checkpoint_not_saved": _TO_ACT_ON,
    "domain_refused": _TO_ACT_ON,
    "dialog_unexpected": _TO_ACT_ON,
    "value_not_kept": _TO_ACT_ON,
    "forced_on_covered": _TO_ACT_ON,
    "evidence_not_kept": WarningFacts(to_act_on=True, expectable=False),
    "fault_not_met": _OF_EXPECTED,
    "fault_not_healed": _OF_EXPECTED,
    "fault_not_as_expected": _OF_EXPECTED,
    "criteria_not_judged": _OF_EXPECTED,
    "route_unused": _TO_ACT_ON,
    "route_unanswered": _TO_ACT_ON,
    "recording_unused": WarningFacts(to_act_on=True, expectable=False),
    "recording_not_kept": WarningFacts(to_act_on=True, expectable=False),
    "command_ended": _TO_ACT_ON,
    "command_refused": _TO_ACT_ON,
    "control_observed": _FOR_THE_RECORD,
    "request_sent_twice": _TO_ACT_ON,
    "request_maybe_sent_twice": _TO_ACT_ON,
    "circuit_opened": _FOR_THE_RECORD,
    "circuit_closed": _FOR_THE_RECORD,
    "timeout_escalated": _FOR_THE_RECORD,
    "required_part_unmet": _FOR_THE_RECORD,
}
"""Every type of warning. The type for an overcome failure is a column of the failure's family."""
