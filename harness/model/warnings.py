"""What is worth knowing about a task that went on: derived from records, never recorded by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from harness.model.figures import is_retry
from harness.model.record import History, Rewound, StepRecord, Warning_
from harness.recovery import Retry, Substitute, Trust
from harness.recovery.catalog import Effect, Family
from harness.recovery.failure import Failure, Passed

"""With these codes an element was not there yet; with others it was there, and could not be used."""


def warnings(history: History) -> Iterator[Warning_]:
    """Derived from records, never recorded by hand (docs/design/steps-and-recovery.md)."""
    for record in history:
        yield from _circuits(record)
        yield from _sent_twice(record)
        yield from _done_again(record)
        if record.rewound:
            yield from _rewound(record, record.rewound)
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
            yield from _recovered(record)
    if hosts := _refused(history):
        text = f"Pages asked for hosts outside of `allowed_domains`, and nothing was sent: {', '.join(hosts)}"
        yield Warning_("domain_refused", text, None, {"hosts": list(hosts)})


def _circuits(record: StepRecord) -> Iterator[Warning_]:
    """A step by which a circuit opened or closed; one that found it open has changed nothing."""
    for circuit in (attempt.outcome.details.get("circuit", {}) for attempt in record.attempts):
        words = {"open": "opened", "closed": "closed"}.get(circuit.get("state", "")) if "reason" in circuit else None
        if words:
            text = f"Circuit {circuit['name']} {words}: {circuit['reason']}"
            yield Warning_(f"circuit_{words}", text, record.index, circuit)


def _sent_twice(record: StepRecord) -> Iterator[Warning_]:
    """What the browser itself has sent again: nobody asked it to, and nobody can keep it from it."""
    for sent in (each for each in record.sent if each.twice):
        text = (
            f"The browser sent {sent.method} {sent.url} twice by itself: its connection broke before the answer, or the"
            " answer was 408"
        )
        yield Warning_("request_sent_twice", text, record.index, {"method": sent.method, "url": sent.url})


def _done_again(record: StepRecord) -> Iterator[Warning_]:
    """Nothing but its `done_when` says that a write has had no effect: where that is wrong, it is done twice."""
    details = {"done_when": record.step.done_when}
    if record.repeated:
        text = (
            f"Step {record.index}, a write that passed or may have had its effect, was done again with nothing put"
            f" back, because its `done_when` was false: {record.step.done_when}"
        )
        yield Warning_("write_repeated", text, record.index, details)
    if record.contradicted:
        text = (
            f"Step {record.index}, a write, passed, and its `done_when` does not hold after it; after a failure it"
            f" would be done twice (EVENTUALLY(...) waits for a site that acts late): {record.step.done_when}"
        )
        yield Warning_("done_when_false_after_write", text, record.index, details)


def _refused(history: History) -> tuple[str, ...]:
    """Hosts that pages were refused: a part of a page may be missing without any step failing."""
    outcomes = (attempt.outcome for record in history for attempt in record.attempts)
    hosts = (host for outcome in outcomes for host in outcome.details.get("refused_hosts", ()))
    return tuple(dict.fromkeys(hosts))


def _rewound(record: StepRecord, rewound: Rewound) -> Iterator[Warning_]:
    why = record.failure.message if record.failure else ""
    details = {"checkpoint": rewound.checkpoint}
    if rewound.restart:
        text = f"A new browser was started after step {record.index}: {why}"
        yield Warning_("browser_restarted", text, record.index, details)
    text = f"Went back from step {record.index} to the checkpoint before step {rewound.checkpoint}: {why}"
    yield Warning_("checkpoint_restored", text, record.index, details)
    if rewound.stretch > 1:
        text = f"`timeout` and `step_timeout` are {rewound.stretch:g} times as long from here on"
        yield Warning_("timeout_escalated", text, record.index, {"factor": rewound.stretch})
    if rewound.differences:
        count = len(rewound.differences)
        text = f"{count} difference{'s' * (count > 1)} to the checkpoint: {'; '.join(rewound.differences[:5])}"
        yield Warning_("restore_incomplete", text, record.index, {**details, "differences": list(rewound.differences)})


def _recovered(record: StepRecord) -> Iterator[Warning_]:
    """One warning for each family of failure that the step got over."""
    failures = [a.outcome for a in record.attempts if isinstance(a.outcome, Failure)]
    for family in dict.fromkeys(failure.family for failure in failures):
        yield from _got_over(record, family, failures[0])


def _got_over(record: StepRecord, family: Family, first: Failure) -> Iterator[Warning_]:
    count = _retries(record, family)
    match family:
        case Family.NETWORK:
            yield _reached(record, first)
        case Family.ASSERTION:
            waited = sum(a.remedy.after for a in record.attempts if isinstance(a.remedy, Retry))
            text = f"Assertion succeeded on retry after {waited:g}s wait"
            yield Warning_("assertion_retry_success", text, record.index, {"retries": count})
        case Family.PRECONDITION:
            yield Warning_("precondition_repaired", f"Repaired: {record.step.describe()[7:]}", record.index)
        case Family.INCONSISTENCY:
            yield _resolved(record, first)
        case Family.ELEMENT | Family.AMBIGUOUS:
            yield _found(record, first, count)
        case Family.BROWSER:
            text = f"{first.message}; the page was freed or opened again"
            yield Warning_("page_recovered", text, record.index, {"retries": count, "code": first.code})
        case Family.TIMEOUT | Family.ACTION | Family.NONE:
            yield Warning_("action_retry_success", _later(first, count), record.index, {"retries": count})
        case _:
            assert_never(family)


def _found(record: StepRecord, first: Failure, count: int) -> Warning_:
    """An element that came late, or another one in its place."""
    last = record.attempts[-1].remedy
    if isinstance(last, Substitute):
        return _healed(record, last)
    return Warning_("element_appeared_late", _later(first, count), record.index, {"retries": count})


def _retries(record: StepRecord, family: Family) -> int:
    return sum(answer.family is family and is_retry(answer) for answer in record.answers)


def _later(first: Failure, count: int) -> str:
    return f"{first.type} recovered after {count} {'retry' if count == 1 else 'retries'}"


def _reached(record: StepRecord, first: Failure) -> Warning_:
    """A site that answered in the end; of one that was only waited for, nothing was tried in vain."""
    count = _retries(record, Family.NETWORK)
    text = f"Network error recovered after {count} {'retry' if count == 1 else 'retries'}"
    if not count:
        text = f"Waited for a site that was left alone: {first.message}"
    return Warning_("network_error_recovered", text, record.index, {"retries": count})


def _resolved(record: StepRecord, failure: Failure) -> Warning_:
    trusted = next((a.remedy.source for a in record.attempts if isinstance(a.remedy, Trust)), "")
    assertion = failure.assertion
    sides = {"memory": assertion.actual, "environment": assertion.expected} if assertion else {}
    text = f"{failure.message}; settled by the {trusted}"
    return Warning_("state_inconsistency_resolved", text, record.index, {"trusted": trusted, **sides})


def _healed(record: StepRecord, remedy: Substitute) -> Warning_:
    outcome = record.attempts[-1].outcome
    details = outcome.details.get("element", {}) if isinstance(outcome, Passed) else {}
    found = {key: details[key] for key in ("role", "name") if key in details}
    text = f"{record.step.target} was not usable; {remedy.selector} was used instead"
    original = {"original_selector": record.step.target, "successful_fallback": remedy.selector, **found}
    return Warning_("fallback_selector_used", text, record.index, original)
