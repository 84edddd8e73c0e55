"""The types of warnings that a run can give, and what holds for each."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class WarningFacts(Struct, frozen=True, kw_only=True):
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


WARNINGS: Mapping[str, WarningFacts] = {
    "action_retry_success": WarningFacts(
        means="A step failed and passed when it was done again.",
        hint="Look at its attempts; if it happens often, the page needs more time, or a `wait` before the step.",
        recovered=True,
    ),
    "network_error_recovered": WarningFacts(
        means="A site did not answer, or a connection broke, and the step passed later.",
        hint="Look at the site's log for this time; `retries` in the details says how often it was asked.",
        recovered=True,
    ),
    "element_appeared_late": WarningFacts(
        means="An element was not there at first, or not alone, and was found later.",
        hint="Let a `wait` before the step name what must be there, or raise `wait_seconds` of `on_element_not_found`.",
        recovered=True,
    ),
    "assertion_retry_success": WarningFacts(
        means="An assertion was false at first and true when it was checked again.",
        hint="If the page needs the time, give the step `expect_timeout`; if not, the site was wrong for a while.",
        recovered=True,
    ),
    "precondition_repaired": WarningFacts(
        means="A precondition of the task did not hold, and its repair made it hold.",
        hint="Find out what left the environment like that: mostly a task before this one, or another run.",
        recovered=True,
    ),
    "state_inconsistency_resolved": WarningFacts(
        means="Memory and environment disagreed, and the rule took one of them for true.",
        hint="See in the details which one was trusted; a step before it has probably not done what the task assumes.",
        recovered=True,
    ),
    "page_recovered": WarningFacts(
        means="A page hung, crashed or was closed; it was freed or opened again, and the task went on.",
        hint="Look at the console and at the site's scripts; on a small machine, at its memory.",
        recovered=True,
    ),
    "fallback_selector_used": WarningFacts(
        means="The step's selector was not usable, and a fallback found the element.",
        hint="Put the selector that worked, which is in the details, into the task.",
        recovered=True,
    ),
    "checkpoint_restored": WarningFacts(
        means="The task went back to a checkpoint and did the steps after it again.",
        hint="The message says why; if it happens often, mend the failure that it names.",
        recovered=True,
    ),
    "browser_restarted": WarningFacts(
        means="The browser was replaced by a new one while the task ran.",
        hint="Look at the machine: memory, and other programs that end processes.",
        recovered=True,
    ),
    "effect_already_done": WarningFacts(
        means="A write had taken effect although its step failed, so it was not repeated.",
        hint="Nothing: `done_when` has prevented a second write. The site answered late or broke off.",
        recovered=True,
    ),
    "alternative_task_used": WarningFacts(
        means="The task failed, and its alternative task ran in its place.",
        hint="Mend the task; it passes only because of `fallback_plan`.",
        recovered=True,
        to_act_on=True,
    ),
    "agent_fallback_used": WarningFacts(
        means="An agent failed, and the next one of its chain went on.",
        hint="See the message for the failure of the first agent; its model, its key or its command may be at fault.",
        recovered=True,
        to_act_on=True,
    ),
    "restart_refused": WarningFacts(
        means="An agent went on where another one ended, instead of beginning anew: something may have been written.",
        hint="Give the write a `done_when`, or an environment that can be restored.",
        to_act_on=True,
    ),
    "step_skipped": WarningFacts(
        means="A step failed and was left out, because it is optional or a rule says so.",
        hint="Look at its failure; a step that is never done may as well be removed.",
        to_act_on=True,
    ),
    "criteria_relaxed": WarningFacts(
        means="The success criteria were not met, and the task passed by those of its fallback.",
        hint="Mend the task or the site; `unmet` in the details says which criterion failed.",
        to_act_on=True,
    ),
    "write_repeated": WarningFacts(
        means="A write that may have taken effect was done again, only because its `done_when` was false.",
        hint="Check that it was done once; a `done_when` that reads a channel is the surest.",
        to_act_on=True,
    ),
    "done_when_false_after_write": WarningFacts(
        means="A write passed, but its `done_when` is false afterwards.",
        hint="Correct it, with EVENTUALLY(...) if the site acts late: after a failure the write would be done twice.",
        to_act_on=True,
    ),
    "restore_incomplete": WarningFacts(
        means="After going back, the page, memory or environment differed from the checkpoint.",
        hint="The message lists the differences; the steps after it may have seen another state.",
        to_act_on=True,
    ),
    "storage_not_left": WarningFacts(
        means="The browser's storage could not be handed on to the next task of the episode.",
        hint="The message says what is missing there; the next task may have to log in again.",
        to_act_on=True,
        expectable=False,
    ),
    "memory_key_missing": WarningFacts(
        means="`memory_keys` names a key that no step wrote.",
        hint="Let a step `remember` it, or remove the key.",
        to_act_on=True,
    ),
    "artifact_missing": WarningFacts(
        means="`artifacts` names a file that no step made.",
        hint="Let a step make it, or remove the name.",
        to_act_on=True,
    ),
    "memory_differs": WarningFacts(
        means="The memory at the end is not what the task expects.",
        hint="Compare `expected` and `actual` in the details.",
        to_act_on=True,
    ),
    "checkpoint_not_saved": WarningFacts(
        means="A checkpoint could not be saved, so the task could not have gone back to it.",
        hint="The message says why; the page or a channel could not be read then.",
        to_act_on=True,
    ),
    "domain_refused": WarningFacts(
        means="Pages requested hosts that `allowed_domains` does not list; nothing was sent there.",
        hint="Add the hosts if the page needs them; else parts of it may be missing.",
        to_act_on=True,
    ),
    "dialog_unexpected": WarningFacts(
        means="The page opened a dialog that no step had asked for; it was answered by itself.",
        hint="Declare it with a `dialog` step if the task means it.",
        to_act_on=True,
    ),
    "value_not_kept": WarningFacts(
        means="A field has another text than was typed into it.",
        hint="If the page formats its fields, that is right; else correct the value, or wait until the field is ready.",
        to_act_on=True,
    ),
    "forced_on_covered": WarningFacts(
        means="An act with `force` met an element that covers its own, and that one got it.",
        hint="Close what covers it first, and leave out `force`.",
        to_act_on=True,
    ),
    "evidence_not_kept": WarningFacts(
        means="Files of a task could not be written.",
        hint="Free space on the disk, or make the folder writable; the message names it.",
        to_act_on=True,
        expectable=False,
    ),
    "fault_not_met": WarningFacts(
        means="A declared fault had no occasion to strike.",
        hint="Correct where it strikes, or remove it: it has tested nothing.",
        to_act_on=True,
        of_expected=True,
    ),
    "fault_not_healed": WarningFacts(
        means="A fault was not taken back at the end of the task.",
        hint="The message says what remains; the next task may meet it.",
        to_act_on=True,
        of_expected=True,
    ),
    "fault_not_as_expected": WarningFacts(
        means="A fault did strike, but not as its `expect` says.",
        hint="Compare the message with the `expect` of the fault.",
        to_act_on=True,
        of_expected=True,
    ),
    "criteria_not_judged": WarningFacts(
        means="The task ended before its success criteria could be judged.",
        hint="Nothing is known about them; see the failure.",
        to_act_on=True,
        of_expected=True,
    ),
    "route_unused": WarningFacts(
        means="A route of the task answered no request.",
        hint="Correct which requests it answers, or remove it.",
        to_act_on=True,
    ),
    "route_unanswered": WarningFacts(
        means="A route took requests and could not answer them.",
        hint="The message says why: mostly a file that is missing, or too many requests.",
        to_act_on=True,
    ),
    "recording_unused": WarningFacts(
        means="A replayed task passed without asking for all of its recordings.",
        hint="Record it again: the task or its prompt has changed.",
        to_act_on=True,
        expectable=False,
    ),
    "recording_not_kept": WarningFacts(
        means="What an agent asked its models could not be recorded.",
        hint="Free space on the disk, or make the folder writable; the message says why.",
        to_act_on=True,
        expectable=False,
    ),
    "command_ended": WarningFacts(
        means="The command of an agent was ended, since the time of the task was over.",
        hint="Let the command end by itself, or raise `timeout`.",
        to_act_on=True,
    ),
    "command_refused": WarningFacts(
        means="A program of an agent named a file to the browser that it may not read or write.",
        hint="Put the file into the task's folder.",
        to_act_on=True,
    ),
    "control_observed": WarningFacts(
        means="An agent drove the browser itself; its steps were seen, but not performed by the harness.",
        hint="Nothing, if that is meant: they have no deadlines, recovery and effects of their own.",
    ),
    "request_sent_twice": WarningFacts(
        means="The browser itself sent a request again that may write.",
        hint="Check that the site has done it once; the connection broke before an answer came.",
        to_act_on=True,
    ),
    "request_maybe_sent_twice": WarningFacts(
        means="It is not known whether the browser sent a request again: its log came too late.",
        hint="Check that the site has done it once; the machine may be overloaded.",
        to_act_on=True,
    ),
    "circuit_opened": WarningFacts(
        means="A site or service failed so often that it is not asked for a while.",
        hint="See the reason in the message, and `harness circuits`.",
    ),
    "circuit_closed": WarningFacts(means="A site or service that had failed answers again.", hint="Nothing."),
    "timeout_escalated": WarningFacts(
        means="After a timeout, the limits of the task are longer from here on.",
        hint="If it happens often, raise `timeout` and `step_timeout`, or look at what is slow.",
    ),
    "required_part_unmet": WarningFacts(
        means="A part of the scoring that is required is not met.", hint="See the parts of the task's score."
    ),
}
"""Every type of warning. The first ones are those of overcome failures, which `FamilyFacts.warning` names."""
