"""Warnings about a task that went on: derived from records, never recorded by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from harness.model.dialogs import MetDialog, shortened
from harness.model.figures import is_retry
from harness.model.record import NOT_KEPT, History, Rewound, StepRecord, TakeOver, TaskResult, Warning_
from harness.recovery import Retry, Substitute, Trust
from harness.recovery.catalog import FAMILIES, Effect, Family
from harness.recovery.failure import Failure, Passed
from harness.spec.agents import SCRIPTED
from harness.spec.names import how_many
from harness.values import replace

DONE_TWICE = ("request_sent_twice", "request_maybe_sent_twice", "write_repeated", "done_when_false_after_write")
"""The warnings that say that something may have been done twice."""


def done_twice(result: TaskResult, who: str = "") -> Iterator[Warning_]:
    """The warnings about writes of a task that ran inside another one, or once more: they are the other one's, too."""
    told = (each for each in result.warnings if each.type in DONE_TWICE)
    return (replace(each, message=f"{who or result.task_id}: {each.message}", step_index=None) for each in told)


def warnings(history: History) -> Iterator[Warning_]:
    """Derive the warnings of a task (docs/design/steps-and-recovery.md)."""
    for record in history:
        yield from _circuits(record)
        yield from _sent_again(record)
        yield from _done_again(record)
        yield from _forced(record)
        if record.rewound:
            yield from _rewind_warnings(record, record.rewound)
        elif record.skipped:
            reason = record.failure.message if record.failure else ""
            if record.failure and record.step.effect_class == "write" and record.failure.effect is not Effect.NONE:
                reason += "; whether it took effect is not known"
            kind = "Optional step" if record.step.optional else "Step"
            yield Warning_("step_skipped", f"{kind} {record.index} was skipped: {reason}", record.index)
        elif record.effect_already_done:
            message = f"Step {record.index} had already taken effect and was not repeated"
            yield Warning_("effect_already_done", message, record.index)
        elif record.passed:
            yield from _recovery_warnings(record)
            yield from _not_kept(record)
    outcomes = [attempt.outcome for record in history for attempt in record.attempts]
    # A part of a page may be missing although no step failed.
    if hosts := dict.fromkeys(host for each in outcomes for host in each.details.get("refused_hosts", ())):
        text = f"Pages requested hosts outside `allowed_domains`; nothing was sent to: {', '.join(hosts)}"
        yield Warning_("domain_refused", text, None, {"hosts": list(hosts)})


def _circuits(record: StepRecord) -> Iterator[Warning_]:
    """Yield a warning for a step that opened or closed a circuit; a step that only found it open changed nothing."""
    for circuit in (attempt.outcome.details.get("circuit", {}) for attempt in record.attempts):
        words = {"open": "opened", "closed": "closed"}.get(circuit.get("state", "")) if "reason" in circuit else None
        if words:
            text = f"Circuit {circuit['name']} {words}: {circuit['reason']}"
            yield Warning_(f"circuit_{words}", text, record.index, circuit)


def _sent_again(record: StepRecord) -> Iterator[Warning_]:
    """Yield a warning for each request that the browser repeated by itself, or of which that is not known.

    A repeated GET matters only for a step that is declared to write, or after a request that may have written.
    """
    declared = record.step.effect_class == "write"
    for sent in (each for each in record.sent if declared or each.unsafe or each.follows):
        details = {"method": sent.method, "url": sent.url}
        what = f"The browser itself {{}} {sent.url} again ({{}}): "
        if sent.again is None:
            text = (
                f"Whether the browser itself sent {sent.method} {sent.url} again is unknown: its net log came too late"
            )
            yield Warning_("request_maybe_sent_twice", text, record.index, details)
        elif sent.again:
            text = what.format(f"sent {sent.method}", how_many(sent.again, "time"))
            text += "the connection broke before the response, or the response was 408"
            yield Warning_("request_sent_twice", text, record.index, {**details, "again": sent.again})
        if sent.asked_again:
            text = what.format("asked for", how_many(sent.asked_again, "time"))
            text += f"the file that came in answer to {sent.method} broke off"
            found = {**details, "again": sent.asked_again, "again_by": "GET"}
            yield Warning_("request_sent_twice", text, record.index, found)


def _done_again(record: StepRecord) -> Iterator[Warning_]:
    """Yield a warning for each write repeated only because of `done_when`: if that is wrong, it was done twice."""
    details = {"done_when": record.step.done_when}
    if record.repeated:
        text = (
            f"Step {record.index}, a write that passed or may have taken effect, was done again although "
            f"nothing was restored, because its `done_when` was false: {record.step.done_when}"
        )
        yield Warning_("write_repeated", text, record.index, details)
    if record.contradicted:
        text = (
            f"Step {record.index}, a write, passed, but its `done_when` does not hold afterwards; after a "
            "failure the step would be done twice (if the site acts late, use EVENTUALLY(...)): "
            f"{record.step.done_when}"
        )
        yield Warning_("done_when_false_after_write", text, record.index, details)


def _forced(record: StepRecord) -> Iterator[Warning_]:
    """Yield a warning for an act with `force` on a covered element: what covers it was acted on instead."""
    last = record.attempts[-1].outcome if record.attempts else None
    if isinstance(last, Passed) and (covering := last.details.get("covered_by")):
        text = f"{covering} covers {record.step.target}: it got the {record.step.act} of step {record.index} (`force`)"
        yield Warning_("forced_on_covered", text, record.index, {"covered_by": covering})


def _not_kept(record: StepRecord) -> Iterator[Warning_]:
    """Yield a warning for a field that has another text than was typed: a mask may rewrite it, or it took none."""
    texts = record.attempts[-1].outcome.details.get(NOT_KEPT) if record.attempts else None
    if texts:
        differ = f"{shortened(texts['typed'])!r} was typed into {record.step.target}"
        found = f"which has {shortened(texts['found'])!r}" if texts["found"] else "which is empty"
        yield Warning_("value_not_kept", f"{differ}, {found} afterwards", record.index, dict(texts))


def dialog_warnings(dialogs: Iterable[MetDialog]) -> Iterator[Warning_]:
    """Yield a warning for each dialog that no step had asked for; the same one again is counted."""
    met = [each for each in dialogs if not each.declared]
    first = {each.said: each for each in reversed(met)}
    counts = Counter(each.said for each in met)
    for said, times in counts.items():
        each = first[said]
        often = f" {times} times, first" if times > 1 else ""
        how = f"and no `dialog` step had asked for it: it was {each.answered}"
        text = f"The page opened the {each.type} {shortened(each.message)!r}{often} in step {each.step}, {how}"
        details = {"dialog": each.type, "text": each.message, "answer": each.answer, "count": times}
        yield Warning_("dialog_unexpected", text, each.step, details)


def takeover_warnings(takeovers: Iterable[TakeOver]) -> Iterator[Warning_]:
    """Yield the warnings about agents that went on in place of others."""
    for each in takeovers:
        details = {"from": each.before, "to": each.after, "code": each.failure.code}
        if each.refused:
            text = f"The agent `{each.after}` did not begin anew at step {each.index}: {each.refused}"
            yield Warning_("restart_refused", text, each.index, details)
        if not (each.refused and each.after == SCRIPTED):
            yield Warning_("agent_fallback_used", each.describe(), each.index, details)


def _rewind_warnings(record: StepRecord, rewound: Rewound) -> Iterator[Warning_]:
    why = rewound.why or (record.failure.message if record.failure else "")
    details = {"checkpoint": rewound.checkpoint}
    if rewound.restart:
        text = f"A new browser was started after step {record.index}: {why}"
        yield Warning_("browser_restarted", text, record.index, details)
    text = f"The task went back from step {record.index} to the checkpoint before step {rewound.checkpoint}: {why}"
    yield Warning_("checkpoint_restored", text, record.index, details)
    if rewound.stretch > 1:
        text = f"`timeout` and `step_timeout` are {rewound.stretch:g} times as long from here on"
        yield Warning_("timeout_escalated", text, record.index, {"factor": rewound.stretch})
    if rewound.differences:
        count = len(rewound.differences)
        text = f"{count} difference{'s' * (count > 1)} to the checkpoint: {'; '.join(rewound.differences[:5])}"
        yield Warning_("restore_incomplete", text, record.index, {**details, "differences": list(rewound.differences)})


def _recovery_warnings(record: StepRecord) -> Iterator[Warning_]:
    """Yield one warning for each family of failure that the step overcame."""
    first: dict[Family, Failure] = {}
    for attempt in record.attempts:
        if isinstance(attempt.outcome, Failure):
            first.setdefault(attempt.outcome.family, attempt.outcome)
    last = record.attempts[-1].remedy
    for family, failure in first.items():
        if family in (Family.ELEMENT, Family.AMBIGUOUS) and isinstance(last, Substitute):
            yield _healed_warning(record, last)
        else:
            text, details = _text_and_details(record, family, failure)
            yield Warning_(FAMILIES[family].warning, text, record.index, details)


def _text_and_details(record: StepRecord, family: Family, first: Failure) -> tuple[str, dict[str, Any]]:
    """The text and details of the warning. A family without a case of its own has the text of its row."""
    count = sum(answer.family is family and is_retry(answer) for answer in record.answers)
    usual = FAMILIES[family].got_over.format(type=first.type, message=first.message, retries=_times(count))
    match family:
        case Family.NETWORK:
            # A site that was only waited for had no attempt in vain.
            waited = f"The task waited for a site whose circuit was open: {first.message}"
            return f"Network error recovered after {_times(count)}" if count else waited, {"retries": count}
        case Family.ASSERTION:
            seconds = sum(a.remedy.after for a in record.attempts if isinstance(a.remedy, Retry))
            return f"Assertion succeeded on retry after {seconds:g}s wait", {"retries": count}
        case Family.PRECONDITION:
            return f"Repaired: {record.step.describe()[7:]}", {}
        case Family.INCONSISTENCY:
            trusted = next((a.remedy.source for a in record.attempts if isinstance(a.remedy, Trust)), "")
            found = first.assertion
            sides = {"memory": found.actual, "environment": found.expected} if found else {}
            return f"{first.message}; settled by the {trusted}", {"trusted": trusted, **sides}
        case Family.BROWSER:
            return usual, {"retries": count, "code": first.code}
        case _:
            return usual, {"retries": count}


def _times(count: int) -> str:
    return f"{count} {'retry' if count == 1 else 'retries'}"


def _healed_warning(record: StepRecord, remedy: Substitute) -> Warning_:
    outcome = record.attempts[-1].outcome
    details = outcome.details.get("element", {}) if isinstance(outcome, Passed) else {}
    found = {key: details[key] for key in ("role", "name") if key in details}
    text = f"{record.step.target} was not usable; {remedy.selector} was used instead"
    original = {"original_selector": record.step.target, "successful_fallback": remedy.selector, **found}
    return Warning_("fallback_selector_used", text, record.index, original)


# Warnings that are known only after the task has ended.


def recording_unused(count: int, file: str) -> Warning_:
    """A task passed without all of its recordings of models."""
    return Warning_("recording_unused", f"{how_many(count, 'recording')} in {file} was never asked for")


def recording_not_kept(agent: str, error: Exception) -> Warning_:
    """What an agent asked models could not be written."""
    return Warning_("recording_not_kept", f"the recording of agent `{agent}` was not written: {error}")


def command_refused(agent: str, why: str, index: int) -> Warning_:
    """A command that drives the browser itself named a file that it may not read or write."""
    text = f"A DevTools command of agent `{agent}` was refused: {why}"
    return Warning_("command_refused", text, index, {"agent": agent})


def command_ended(agent: str) -> Warning_:
    """The process of an agent had no end of its own: the time of its task was over."""
    text = f"Agent `{agent}`: its command was ended, since the time of the task was over"
    return Warning_("command_ended", text, None, {"agent": agent})


def control_observed(agent: str) -> Warning_:
    """The agent has driven the browser itself, so that the harness knows what came of it, but none of its steps."""
    text = (
        f"Agent `{agent}` drove the browser itself: its steps were observed and not performed, so that they had no "
        "deadlines, recovery or effects of their own"
    )
    return Warning_("control_observed", text, None, {"agent": agent, "control": "observed"})


def trajectory_not_kept(error: Exception) -> Warning_:
    """The way of an agent could not be written."""
    return Warning_("evidence_not_kept", f"the trajectory of the agent was not kept: {error}")
