"""What the models of faults cannot see: hosts, patterns, channels and codes that there are not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.failure import CATALOG
from harness.spec.expressions import unknown_channel
from harness.spec.faults import ChannelFault, FaultBase, HostFault, RequestFault, SessionExpired
from harness.spec.hosts import with_scheme
from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way, did_you_mean, listed, shown
from harness.spec.vocabulary import ACTS

HOST = re.compile(r"[^\s/:?#@]+")
_WEB = ("http://", "https://", "ws://", "wss://")


def fault_problems(
    fault: FaultBase, path: Way, origin: Origin, channels: frozenset[str] | None = None
) -> Iterator[Problem]:
    """All that is wrong with a fault whose types are right. `path` is where it stands."""
    host = fault.host if isinstance(fault, HostFault | SessionExpired) else None
    if host is not None and "${" not in host and not HOST.fullmatch(host):
        yield not_a_host((*path, "host"), host, origin)
    if isinstance(fault, RequestFault) and not _may_match(fault.url):
        message = "no URL matches: the pattern is one of whole URLs"
        yield origin.problem((*path, "url"), message, found=shown(fault.url), hint=_whole(fault.url))
    if isinstance(fault, ChannelFault) and channels is not None and fault.channel not in channels:
        yield unknown_channel((*path, "channel"), fault.channel, channels, origin)
    act = getattr(fault, "act", None)
    if act is not None and act not in ACTS:
        hint = did_you_mean(act, ACTS) or f"acts are: {listed(sorted(ACTS))}"
        yield origin.problem((*path, "act"), f"there is no act `{act}`", hint=hint)
    code = fault.expect.code
    if code is not None and code not in CATALOG:
        hint = did_you_mean(code, CATALOG) or "see docs/error-codes.md"
        yield origin.problem((*path, "expect", "code"), f"there is no code `{code}`", hint=hint)


def not_a_host(path: Way, name: str, origin: Origin) -> Problem:
    """A text where the name of a host is wanted."""
    return origin.problem(path, "not a host name", expected="a host such as shop.local", found=shown(name))


def _may_match(pattern: str) -> bool:
    """Whether a pattern can begin as a URL does. What still holds a reference may be anything from there on."""
    literal, *rest = re.split(r"\*|\$\{", pattern.lower(), maxsplit=1)
    return any(literal.startswith(scheme) or (rest and scheme.startswith(literal)) for scheme in _WEB)


def _whole(pattern: str) -> str:
    """How to write a pattern so that a URL may match it."""
    place = pattern.rpartition("://")[2].lstrip("/")
    begun = f"*{place}" if with_scheme(place) else f"*/{place}"
    return f"write {with_scheme(place) or f'http://host/{place}'} or {begun}"
