"""Hosts that a task names, against those of the project's settings: slips of the pen that only a run would show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.faults.pattern import UrlPattern
from harness.settings import Settings
from harness.spec.advice.domains import named_host
from harness.spec.advice.terms import declares_failure, scopes, steps_of
from harness.spec.faults import Fault, HostFault, RequestFault, ServiceFault, SocketFault
from harness.spec.hosts import with_scheme
from harness.spec.interpolate import interpolate
from harness.spec.loaded import Loaded
from harness.spec.problems import Problem, did_you_mean, listed, misspelt
from harness.spec.references import Scope, as_text
from harness.spec.steps import Api, Open, Step


def address_advice(task: Loaded, settings: Settings) -> Iterator[Problem]:
    """Warnings: faults at hosts that there are not, URLs of nearly a service's host, hosts without `http://`."""
    if declares_failure(task.spec):
        return
    hosts = {host.lower(): port for service in settings.services.values() for host, port in service.hosts.items()}
    every = scopes(task.spec)
    for path, step in steps_of(task.spec):
        found = [_url_problem(step, scope, hosts, settings.base_url) for scope in every]
        if found[0] is not None and all(found):
            message, hint = found[0]
            yield task.origin.problem((*path, "url"), message, hint=hint, severity="warning")
    for number, fault in enumerate(task.spec.faults):
        if isinstance(fault, ServiceFault) and "${" not in fault.service and fault.service not in settings.services:
            yield _no_service(task, number, fault.service, sorted(settings.services))
        elif hosts and all(_strange(fault, scope, hosts) for scope in every):
            yield _no_host(task, number, fault, sorted(hosts))


def _no_host(task: Loaded, number: int, fault: Fault, known: list[str]) -> Problem:
    name, value = ("url", fault.url) if isinstance(fault, RequestFault) else ("host", getattr(fault, "host", ""))
    hint = did_you_mean(UrlPattern.parse(value).authority if name == "url" else value, known)
    message, expected = "the task cannot start: this is no host of [tool.harness.services]", listed(known)
    path = ("faults", number, name)
    return task.origin.problem(path, message, expected=expected, found=value, hint=hint, severity="warning")


def _no_service(task: Loaded, number: int, name: str, known: list[str]) -> Problem:
    message = f"the fault cannot strike: `{name}` is no service of [tool.harness.services]"
    path = ("faults", number, "service")
    return task.origin.problem(
        path, message, expected=listed(known), found=name, hint=did_you_mean(name, known), severity="warning"
    )


def _url_problem(step: Step, scope: Scope, hosts: Mapping[str, int], base: str | None) -> tuple[str, str] | None:
    """What is wrong with the URL that is opened, and what was probably meant."""
    if not isinstance(step, Open | Api):
        return None
    meant = "" if base else with_scheme(as_text(interpolate(step.url, scope, last=False)))
    if meant:
        return "a URL without `http://` is relative, and no `base_url` is set", f"did you mean {meant} ?"
    host = named_host(step, scope)
    if host in hosts or not misspelt(host, [known for known in hosts if not _numbered_alike(host, known)]):
        return None
    return f"{host} is no host of [tool.harness.services]", did_you_mean(host, hosts)


def _numbered_alike(one: str, other: str) -> bool:
    """`node1.test` and `node2.test` are two hosts, and no slip."""
    return re.sub(r"\d+", "0", one) == re.sub(r"\d+", "0", other)


def _strange(fault: Fault, scope: Scope, hosts: Mapping[str, int]) -> bool:
    """Whether a fault is to happen at a host that there is not: the task would not be started."""
    if not isinstance(fault, HostFault | SocketFault):
        return False
    text = as_text(interpolate(fault.host if isinstance(fault, HostFault) else fault.url, scope, last=False))
    if "${" in text:
        return False
    if isinstance(fault, HostFault):
        return text.lower() not in hosts
    pattern = UrlPattern.parse(text)
    return not any(pattern.may_match(host) for host in hosts)
