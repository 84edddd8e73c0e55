"""The types of warnings that a run can give, and what holds for each."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class WarningFacts(Struct, frozen=True):
    """The facts about every warning of one type."""

    means: str
    """What has happened."""
    hint: str
    """What to do about it."""
    recovered: bool = False
    """It reports that the task overcame a failure: the summary of a run counts it."""
    to_act_on: bool = False
    """It reports something that a person should correct: the summary of a run lists it."""
    of_expected: bool = False
    """A task that failed as declared shows it too: it is about its faults, or about what was not judged."""
    expectable: bool = True
    """A task's `expect` may name it. A warning that is known only after that comparison cannot be named."""


def _overcome(means: str, hint: str, *, to_act_on: bool = False) -> WarningFacts:
    return WarningFacts(means, hint, recovered=True, to_act_on=to_act_on)


def _to_act_on(means: str, hint: str, *, of_expected: bool = False, expectable: bool = True) -> WarningFacts:
    return WarningFacts(means, hint, to_act_on=True, of_expected=of_expected, expectable=expectable)


WARNINGS: Mapping[str, WarningFacts] = {
    "action_retry_success": _overcome(
        "A step failed and passed when it was done again.",
        "Look at its attempts; if it happens often, the page needs more time, or a `wait` before the step.",
    ),
    "network_error_recovered": _overcome(
        "A site did not answer, or a connection broke, and the step passed later.",
        "Look at the site's log for this time; `retries` in the details says how often it was asked.",
    ),
    "element_appeared_late": _overcome(
        "An element was not there at first, or not alone, and was found later.",
        "Let a `wait` before the step name what must be there, or raise `wait_seconds` of `on_element_not_found`.",
    ),
    "assertion_retry_success": _overcome(
        "An assertion was false at first and true when it was checked again.",
        "If the page needs the time, give the step `expect_timeout`; if not, the site was wrong for a while.",
    ),
    "precondition_repaired": _overcome(
        "A precondition of the task did not hold, and its repair made it hold.",
        "Find out what left the environment like that: mostly a task before this one, or another run.",
    ),
    "state_inconsistency_resolved": _overcome(
        "Memory and environment disagreed, and the rule took one of them for true.",
        "See in the details which one was trusted; a step before it has probably not done what the task assumes.",
    ),
    "page_recovered": _overcome(
        "A page hung, crashed or was closed; it was freed or opened again, and the task went on.",
        "Look at the console and at the site's scripts; on a small machine, at its memory.",
    ),
    "fallback_selector_used": _overcome(
        "The step's selector was not usable, and a fallback found the element.",
        "Put the selector that worked, which is in the details, into the task.",
    ),
    "checkpoint_restored": _overcome(
        "The task went back to a checkpoint and did the steps after it again.",
        "The message says why; if it happens often, mend the failure that it names.",
    ),
    "browser_restarted": _overcome(
        "The browser was replaced by a new one while the task ran.",
        "Look at the machine: memory, and other programs that end processes.",
    ),
    "effect_already_done": _overcome(
        "A write had taken effect although its step failed, so it was not repeated.",
        "Nothing: `done_when` has prevented a second write. The site answered late or broke off.",
    ),
    "alternative_task_used": _overcome(
        "The task failed, and its alternative task ran in its place.",
        "Mend the task; it passes only because of `fallback_plan`.",
        to_act_on=True,
    ),
    "agent_fallback_used": _overcome(
        "An agent failed, and the next one of its chain went on.",
        "See the message for the failure of the first agent; its model, its key or its command may be at fault.",
        to_act_on=True,
    ),
    "restart_refused": _to_act_on(
        "An agent went on where another one ended, instead of beginning anew: something may have been written.",
        "Give the write a `done_when`, or an environment that can be restored.",
    ),
    "step_skipped": _to_act_on(
        "A step failed and was left out, because it is optional or a rule says so.",
        "Look at its failure; a step that is never done may as well be removed.",
    ),
    "criteria_relaxed": _to_act_on(
        "The success criteria were not met, and the task passed by those of its fallback.",
        "Mend the task or the site; `unmet` in the details says which criterion failed.",
    ),
    "write_repeated": _to_act_on(
        "A write that may have taken effect was done again, only because its `done_when` was false.",
        "Check that it was done once; a `done_when` that reads a channel is the surest.",
    ),
    "done_when_false_after_write": _to_act_on(
        "A write passed, but its `done_when` is false afterwards.",
        "Correct it, with EVENTUALLY(...) if the site acts late: after a failure the write would be done twice.",
    ),
    "restore_incomplete": _to_act_on(
        "After going back, the page, memory or environment differed from the checkpoint.",
        "The message lists the differences; the steps after it may have seen another state.",
    ),
    "storage_not_left": _to_act_on(
        "The browser's storage could not be handed on to the next task of the episode.",
        "The message says what is missing there; the next task may have to log in again.",
        expectable=False,
    ),
    "memory_key_missing": _to_act_on(
        "`memory_keys` names a key that no step wrote.",
        "Let a step `remember` it, or remove the key.",
    ),
    "artifact_missing": _to_act_on(
        "`artifacts` names a file that no step made.",
        "Let a step make it, or remove the name.",
    ),
    "memory_differs": _to_act_on(
        "The memory at the end is not what the task expects.",
        "Compare `expected` and `actual` in the details.",
    ),
    "checkpoint_not_saved": _to_act_on(
        "A checkpoint could not be saved, so the task could not have gone back to it.",
        "The message says why; the page or a channel could not be read then.",
    ),
    "domain_refused": _to_act_on(
        "Pages requested hosts that `allowed_domains` does not list; nothing was sent there.",
        "Add the hosts if the page needs them; else parts of it may be missing.",
    ),
    "dialog_unexpected": _to_act_on(
        "The page opened a dialog that no step had asked for; it was answered by itself.",
        "Declare it with a `dialog` step if the task means it.",
    ),
    "value_not_kept": _to_act_on(
        "A field has another text than was typed into it.",
        "If the page formats its fields, that is right; else correct the value, or wait until the field is ready.",
    ),
    "forced_on_covered": _to_act_on(
        "An act with `force` met an element that covers its own, and that one got it.",
        "Close what covers it first, and leave out `force`.",
    ),
    "after_each_failed": _to_act_on(
        "A step of `after_each` failed after a task that had failed.",
        "Mend it: what it should put back is as the task has left it.",
    ),
    "evidence_not_kept": _to_act_on(
        "Files of a task could not be written.",
        "Free space on the disk, or make the folder writable; the message names it.",
        expectable=False,
    ),
    "fault_not_met": _to_act_on(
        "A declared fault had no occasion to strike.",
        "Correct where it strikes, or remove it: it has tested nothing.",
        of_expected=True,
    ),
    "fault_not_healed": _to_act_on(
        "A fault was not taken back at the end of the task.",
        "The message says what remains; the next task may meet it.",
        of_expected=True,
    ),
    "fault_not_as_expected": _to_act_on(
        "A fault did strike, but not as its `expect` says.",
        "Compare the message with the `expect` of the fault.",
        of_expected=True,
    ),
    "criteria_not_judged": _to_act_on(
        "The task ended before its success criteria could be judged.",
        "Nothing is known about them; see the failure.",
        of_expected=True,
    ),
    "route_unused": _to_act_on(
        "A route of the task answered no request, or an entry of its `messages` did nothing.",
        "Correct which requests or messages it is about, or remove it.",
    ),
    "route_unanswered": _to_act_on(
        "A route took requests and could not answer them.",
        "The message says why: mostly a file that is missing, or too many requests.",
    ),
    "recording_unused": _to_act_on(
        "A replayed task passed without asking for all of its recordings.",
        "Record it again: the task or its prompt has changed.",
        expectable=False,
    ),
    "recording_not_kept": _to_act_on(
        "What an agent asked its models could not be recorded.",
        "Free space on the disk, or make the folder writable; the message says why.",
        expectable=False,
    ),
    "command_ended": _to_act_on(
        "The command of an agent was ended, since the time of the task was over.",
        "Let the command end by itself, or raise `timeout`.",
    ),
    "command_refused": _to_act_on(
        "A program of an agent named a file to the browser that it may not read or write.",
        "Put the file into the task's folder.",
    ),
    "control_observed": WarningFacts(
        "An agent drove the browser itself; its steps were seen, but not performed by the harness.",
        "Nothing, if that is meant: they have no deadlines, recovery and effects of their own.",
    ),
    "request_sent_twice": _to_act_on(
        "The browser itself sent a request again that may write.",
        "Check that the site has done it once; the connection broke before an answer came.",
    ),
    "request_maybe_sent_twice": _to_act_on(
        "It is not known whether the browser sent a request again: its log came too late.",
        "Check that the site has done it once; the machine may be overloaded.",
    ),
    "circuit_opened": WarningFacts(
        "A site or service failed so often that it is not asked for a while.",
        "See the reason in the message, and `harness circuits`.",
    ),
    "circuit_closed": WarningFacts(
        "A site or service that had failed answers again.",
        "Nothing.",
    ),
    "timeout_escalated": WarningFacts(
        "After a timeout, the limits of the task are longer from here on.",
        "If it happens often, raise `timeout` and `step_timeout`, or look at what is slow.",
    ),
    "required_part_unmet": WarningFacts(
        "A part of the scoring that is required is not met.",
        "See the parts of the task's score.",
    ),
}
"""Every type of warning. The first ones are those of overcome failures, which `FamilyFacts.warning` names."""
