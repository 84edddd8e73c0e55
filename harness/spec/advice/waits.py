"""Recovery and faults that take longer than there is time for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.recovery.failure import Failure
from harness.recovery.network import NetworkRule
from harness.spec.advice.terms import declares_failure, steps_of
from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way
from harness.spec.task import TaskSpec


def wait_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Only what the file itself declares is looked at: defaults are the harness's own business."""
    yield from _elements(spec, origin)
    yield from _retries(spec, origin)
    yield from _faults(spec, origin)


def _elements(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """`wait_seconds` is cut off at the limit of the attempt it is a part of."""
    rule: Any = spec.error_recovery.on_element_not_found
    longest = max([spec.limits().step_timeout, *(step.timeout or 0 for _, step in steps_of(spec))])
    for name in ("wait_seconds", "fallback_wait_seconds"):
        if name in rule.model_fields_set and getattr(rule, name) > longest:
            path: Way = ("error_recovery", "on_element_not_found", name)
            message = f"{getattr(rule, name):g} s is longer than any step may take ({longest:g} s)"
            yield origin.problem(path, message, hint="`step_timeout` comes first", severity="warning")


def _retries(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """A wait that would outlast the task is not started, so that the retry after it is never made."""
    network, assertion = spec.error_recovery.on_network_error, spec.error_recovery.on_assertion_fail
    if isinstance(network, NetworkRule) and network.model_fields_set - {"strategy"}:
        waits = sum(network.backoff(Failure("NET_CONNECTION_REFUSED", "")).delays())
        yield from _too_long(("error_recovery", "on_network_error"), waits, spec, origin)
    if "wait_before_retry_seconds" in assertion.model_fields_set:
        seconds = getattr(assertion, "wait_before_retry_seconds", 0)
        path: Way = ("error_recovery", "on_assertion_fail", "wait_before_retry_seconds")
        yield from _too_long(path, seconds, spec, origin)


def _too_long(path: Way, seconds: float, spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    if seconds >= spec.limits().timeout:
        message = (
            f"the waits before its retries add up to {seconds:g} s, and the task may take {spec.limits().timeout} s"
        )
        yield origin.problem(path, message, hint="the last of them is never made", severity="warning")


def _faults(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """A fault that outlasts the task is meant only by one that declares how it fails."""
    if declares_failure(spec):
        return
    for number, fault in enumerate(spec.faults):
        seconds = getattr(fault, "seconds", None)
        if "seconds" in fault.model_fields_set and seconds is not None and seconds >= spec.limits().timeout:
            message = f"the fault lasts {seconds:g} s, the task at most {spec.limits().timeout} s: it is never over"
            hint = "shorten it, or declare in `expect` how the task fails"
            yield origin.problem(("faults", number, "seconds"), message, hint=hint, severity="warning")
