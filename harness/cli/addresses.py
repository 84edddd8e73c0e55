"""Compares a task's hosts with those of the settings: only a run would show a typing error."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from harness.model.settings import Settings
from harness.spec.advice.criteria import declares_failure, scopes, steps_of
from harness.spec.advice.rules import named_host
from harness.spec.loaded import Loaded
from harness.spec.names import with_scheme
from harness.spec.problems import Problem, did_you_mean, is_misspelt
from harness.spec.references import ReferenceScope, as_text, interpolate
from harness.spec.steps import Api, Open, Step


def address_advice(task: Loaded, settings: Settings) -> Iterator[Problem]:
    """Yield warnings for misspelt hosts and for URLs without `http://`. `harness.faults.checks` does so for faults."""
    if declares_failure(task.spec):
        return
    hosts = {host for service in settings.services.values() for host in service.declared}
    every = scopes(task.spec)
    for path, step in steps_of(task.spec):
        found = [_url_problem(step, scope, hosts, settings.base_url) for scope in every]
        if found[0] is not None and all(found):
            message, hint = found[0]
            yield task.origin.problem((*path, "url"), message, hint=hint, severity="warning")


def _url_problem(step: Step, scope: ReferenceScope, hosts: Collection[str], base: str | None) -> tuple[str, str] | None:
    """The problem of the URL that a step opens, and what was probably meant; None if there is none."""
    if not isinstance(step, Open | Api):
        return None
    meant = "" if base else with_scheme(as_text(interpolate(step.url, scope, last=False)))
    if meant:
        return "a URL without `http://` is relative, and no `base_url` is set", f"did you mean {meant} ?"
    host = named_host(step, scope)
    if host in hosts or not is_misspelt(host, [known for known in hosts if not _numbered_alike(host, known)]):
        return None
    return f"{host} is not a host of [tool.harness.services]", did_you_mean(host, hosts)


def _numbered_alike(one: str, other: str) -> bool:
    """Return whether two names differ only in a number: `node1.test` and `node2.test` are two hosts, no typo."""
    return re.sub(r"\d+", "0", one) == re.sub(r"\d+", "0", other)
