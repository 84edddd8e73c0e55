"""URLs that a task opens and may not: each ends it with POLICY_DOMAIN."""

from __future__ import annotations

from collections.abc import Iterator

from harness.spec.advice.terms import declares_failure, scopes, steps_of
from harness.spec.hosts import ANYWHERE, Domains, reaches
from harness.spec.interpolate import interpolate
from harness.spec.origin import Origin
from harness.spec.page_acts import Api, Open
from harness.spec.problems import Problem
from harness.spec.references import Scope, as_text
from harness.spec.steps import Step
from harness.spec.task import TaskSpec


def domain_advice(spec: TaskSpec, origin: Origin, virtual_hosts: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Of `open` and `api`, where the host is known before the run and is outside in every case; each host once."""
    if not spec.allowed_domains or declares_failure(spec):
        return
    domains = Domains(spec.allowed_domains, virtual_hosts)
    every, told = scopes(spec), set[str]()
    for path, step in steps_of(spec):
        hosts = [named_host(step, scope, domains) for scope in every]
        if hosts[0] not in told and all(host and not reaches(host, spec.allowed_domains) for host in hosts):
            told.add(hosts[0])
            message = f"{hosts[0]} is outside of `allowed_domains`: the step ends the task with POLICY_DOMAIN"
            hint = f"add {hosts[0]} to `allowed_domains`, or open a page of {' or '.join(spec.allowed_domains)}"
            yield origin.problem((*path, "url"), message, hint=hint, severity="warning")


def named_host(step: Step, scope: Scope, domains: Domains = ANYWHERE) -> str:
    """The host that an `open` or `api` names, in lower case; empty where only the run knows it."""
    if not isinstance(step, Open | Api):
        return ""
    url = as_text(interpolate(step.url, scope, last=False))
    return "" if "${" in "/".join(url.split("/")[:3]) else domains.host(url)
