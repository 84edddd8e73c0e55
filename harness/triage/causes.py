"""Failures of a run by what is behind them: the same dead site behind twelve tasks is one cause."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from harness.recovery.catalog import CATALOG, Family, Scope
from harness.reporting.visible import printable
from harness.triage.trouble import Trouble
from harness.triage.wording import LONGEST, normalised

UNREACHABLE = frozenset({
    "NET_CONNECTION_REFUSED", "NET_CONNECTION_RESET", "NET_EMPTY_RESPONSE", "NET_TIMEOUT", "NET_UNREACHABLE",
    "CIRCUIT_OPEN", "SERVICE_DOWN",
})  # fmt: skip
"""Faces of one thing: nobody answers there."""
OF_THE_SITE = frozenset({"NET_DNS", "NET_TLS", "HTTP_TIMEOUT", "HTTP_RATE_LIMITED", "HTTP_UNAVAILABLE",
                         "HTTP_SERVER_ERROR"})  # fmt: skip
"""Whatever was asked for, the site is behind it."""
OF_THE_MACHINE = frozenset({"NET_OFFLINE", "NET_PROXY", "INTERRUPTED", "WORKER_CRASHED", "DRIVER_GONE"})
"""What they say of one task holds for all."""
_LAST = re.compile(r"the last: ([A-Z_]+)")
_REACH = (Scope.RUN, Scope.DRIVER, Scope.BROWSER, Scope.ORIGIN, Scope.AGENT, Scope.WORLD)

_SERVICE = "service"

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """What is behind some failures."""

    code: str
    """The one that says most; empty when none does."""
    what: str
    """In a line."""
    site: str
    service: str
    selector: str
    codes: Mapping[str, int]
    """Code -> how many tasks, the commonest first."""
    tasks: tuple[Trouble, ...]
    """In the order of the run."""

    @property
    def count(self) -> int:
        return len(self.tasks)

    @property
    def judged(self) -> bool:
        """Whether it says something about its tasks; all of them were cut off from outside otherwise."""
        return any(task.judged for task in self.tasks)

    @property
    def title(self) -> str:
        """What happened; of what was cut off from outside, that it is not judged."""
        return self.what if self.judged else f"not judged: {self.what}"

    @property
    def new(self) -> int:
        """How many of the tasks passed when they ran before."""
        return sum(task.new for task in self.tasks)


def causes(troubles: Iterable[Trouble], hosts: Mapping[str, str] = MappingProxyType({})) -> tuple[Cause, ...]:
    """The one that explains most first; of two alike, the one that reaches farther; what was only interrupted last.

    `hosts`: host -> the service that answers there, of those that the project declares.
    """
    found = tuple(troubles)
    down = {**hosts, **{each.site: each.service for each in found if each.service and each.site}}
    groups: dict[Key, list[Trouble]] = {}
    for each in found:
        groups.setdefault(_key(each, down), []).append(each)
    made = (_cause(group, key[1] if key[0] == _SERVICE else "") for key, group in groups.items())
    return tuple(sorted(made, key=lambda cause: (cause.code == "INTERRUPTED", -cause.count, _reach(cause.code))))


def underlying(trouble: Trouble) -> str:
    """Its code; of a call that an open circuit refused, that of the failures that opened it."""
    told = _LAST.search(trouble.message) if trouble.code == "CIRCUIT_OPEN" else None
    return told[1] if told and told[1] in CATALOG else trouble.code


def _key(trouble: Trouble, down: Mapping[str, str]) -> Key:
    """`down`: host -> the service behind it."""
    return (*_behind(trouble, down), *(["faulted"] if trouble.faulted else []))


def _behind(trouble: Trouble, down: Mapping[str, str]) -> Key:
    code = underlying(trouble)
    if code in UNREACHABLE:
        service = trouble.service or down.get(trouble.site, "")
        if service or trouble.site:
            return (_SERVICE, service) if service else ("site", trouble.site)
    if code in OF_THE_SITE and trouble.site:
        return code, trouble.site
    if code in OF_THE_MACHINE:
        return (code,)
    return code, _site_of_page(code, trouble), trouble.selector, trouble.criterion, normalised(trouble.message)


def _site_of_page(code: str, trouble: Trouble) -> str:
    """The same selector on another site is another one."""
    return trouble.site if code in CATALOG and CATALOG[code].scope in (Scope.PAGE, Scope.ORIGIN) else ""


def _cause(group: Sequence[Trouble], service: str) -> Cause:
    codes = Counter(each.code for each in group)
    code = max(codes, key=lambda each: (each == "SERVICE_DOWN", each != "CIRCUIT_OPEN", codes[each]))
    first = next(each for each in group if each.code == code)
    return Cause(
        code,
        _what(first, code, service),
        first.site,
        service,
        first.selector,
        dict(codes.most_common()),
        tuple(group),
    )


def _what(first: Trouble, code: str, service: str) -> str:
    """The criterion that does not hold, or the first message; a site is named first where it is what failed."""
    if first.criterion and code in CATALOG and CATALOG[code].family is Family.ASSERTION:
        return f"{printable(first.criterion)} does not hold"
    said = first.message.strip()[:LONGEST].splitlines()
    message = printable(said[0] if said else first.hint)
    if service:
        return message if f"`{service}`" in message else f"service `{printable(service)}`: {message}"
    site = printable(first.site)
    of_the_site = code in CATALOG and CATALOG[code].scope is Scope.ORIGIN
    return f"{site}: {message}" if of_the_site and site and site not in message else message


def _reach(code: str) -> int:
    scope = CATALOG[code].scope if code in CATALOG else None
    return _REACH.index(scope) if scope in _REACH else len(_REACH)
