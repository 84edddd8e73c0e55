"""Checks of faults beyond the models: unknown hosts, patterns, selectors, channels and codes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from harness.recovery.catalog import CATALOG
from harness.spec.expressions import unknown_channel
from harness.spec.faults import ChannelFault, DatabaseLocked, ElementFault, SessionExpired, ToolFault
from harness.spec.faults.base import FaultBase, RequestFault
from harness.spec.faults.network import HostFault
from harness.spec.names import HOST, HOST_EXPECTED, NO_HOST
from harness.spec.problems import JsonPath, Problem, describe_value, did_you_mean, join_or
from harness.spec.selector_checks import pattern_problems
from harness.spec.source import Origin
from harness.spec.steps import Tool
from harness.spec.task import TaskSpec
from harness.spec.validation import ACTS
from harness.spec.warnings import WARNINGS

# Selectors that are surely no CSS, judged without a browser: other syntax, and brackets that are never closed.

_PIECE = re.compile(
    r"""(?P<comment>/\*.*?(?:\*/|\Z))|(?P<escape>\\.)|(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|(?P<quote>['"])"""
    r"""|(?P<open>[\[(])|(?P<close>[\])])|(?P<engine>[\w-]+\s*=)|(?P<chain>>>)|(?P<own>:(?:has-text|text(?:-is|-matches)?"""
    r"""|nth-match|visible|(?:left|right)-of|above|below|near)(?![\w-]))|(?P<name>[#.](?![A-Za-z_\\\-\u0080-\U0010ffff]))"""
    r"""|(?P<other>[={}@;!?$%^</])""",
    re.DOTALL,
)
_PAIRS = {"[": "]", "(": ")"}
_OF_PLAYWRIGHT = "Playwright knows it, CSS does not"
_NEVER = {
    "engine": f"`{{}}` names an engine: {_OF_PLAYWRIGHT}",
    "chain": f"`{{}}` chains selectors: {_OF_PLAYWRIGHT}",
    "own": f"`{{}}`: {_OF_PLAYWRIGHT}",
    "name": "no name follows the `{}`",
    "other": "`{}` means nothing there",
}
"""Pieces that may stand only in brackets, and the error if they stand elsewhere."""


class SelectorFlaw(Struct, frozen=True):
    """An error in a selector, and the offset of its character."""

    problem: str
    offset: int


def css_flaw(selector: str) -> SelectorFlaw | None:
    """The first error in a CSS selector; None if none is found."""
    if not selector.strip():
        return SelectorFlaw("it is empty", 0)
    if found := re.match(r"\s*(?:\(*//|\.\.)", selector):
        return SelectorFlaw("it is an XPath", found.end() - 2)
    opened: list[tuple[str, int]] = []
    for piece in _PIECE.finditer(selector):
        if problem := _problem(piece, opened):
            return SelectorFlaw(problem, piece.start())
    if opened:
        return SelectorFlaw(f"`{opened[-1][0]}` is never closed", opened[-1][1])
    if found := re.search(r"[,>+~]\s*\Z|\A\s*,", selector):
        side = "after" if found.start() else "before"
        return SelectorFlaw(f"there is nothing {side} the `{found[0].strip()}`", found.start())
    return None


def _problem(piece: re.Match[str], opened: list[tuple[str, int]]) -> str:
    """The error in one piece of a selector; empty if it is allowed. `opened` has the brackets that are still open."""
    word, name, inside = piece[0], piece.lastgroup or "", opened[-1][0] if opened else ""
    if name == "open":
        opened.append((word, piece.start()))
        return "there is a `[` inside a `[`" if inside == word == "[" else ""
    if name == "close":
        if not inside or _PAIRS[inside] != word:
            return f"`{word}` has no counterpart"
        opened.pop()
        return ""
    if name == "quote":
        return f"the quote {word} is never closed"
    return _NEVER[name].format(word) if name in _NEVER and inside != "[" else ""


def faults_problems(spec: TaskSpec, origin: Origin, channels: frozenset[str] | None) -> Iterator[Problem]:
    """Yield the problems and warnings of all faults of a task."""
    for number, fault in enumerate(spec.faults):
        path: JsonPath = ("faults", number)
        if spec.steps and fault.step >= len(spec.steps):
            expected = f"0 to {len(spec.steps) - 1}"
            yield origin.problem((*path, "step"), "there is no such step", expected=expected, value=fault.step)
        yield from fault_problems(fault, path, origin, channels)
        if (act := unused_act(fault, [spec])) is not None:
            message = f"no step from step {fault.step} on has the act `{act}`: the fault would never strike"
            yield origin.problem((*path, "act"), message, severity="warning")
        if (tool := uncalled_tool(fault, [spec])) is not None:
            message = f"no step from step {fault.step} on calls {tool}: the fault would never strike"
            yield origin.problem((*path, "kind"), message, severity="warning")
    yield from same_ids(spec.faults, origin)


def expect_problems(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield problems for an outcome that no task can have."""
    expect = spec.expect
    if expect is None:
        return
    warnings = [name for name, facts in WARNINGS.items() if facts.expectable]
    for number, word in enumerate(expect.warnings):
        if word not in warnings:
            hint = did_you_mean(word, warnings)
            yield origin.problem(("expect", "warnings", number), f"there is no warning `{word}`", hint=hint)
    if expect.code is not None and expect.code not in CATALOG:
        hint = did_you_mean(expect.code, CATALOG) or "see docs/error-codes.md"
        yield origin.problem(("expect", "code"), f"there is no code `{expect.code}`", hint=hint)
    elif expect.code is not None and expect.error_type not in (None, CATALOG[expect.code].error_type):
        expected = f"{CATALOG[expect.code].error_type}, the error_type of {expect.code}"
        yield origin.problem(("expect", "error_type"), "does not fit the code", expected=expected)
    if expect.step_index is not None and spec.steps and expect.step_index > len(spec.steps):
        expected = f"-1 (preconditions) to {len(spec.steps)} (success criteria)"
        found = describe_value(expect.step_index)
        yield origin.problem(("expect", "step_index"), "there is no such step", expected=expected, found=found)


def fault_problems(
    fault: FaultBase, path: JsonPath, origin: Origin, channels: frozenset[str] | None = None
) -> Iterator[Problem]:
    """Yield the problems and warnings of a fault whose types are right; `path` is its place."""
    host = fault.host if isinstance(fault, HostFault | SessionExpired) else None
    if host is not None and "${" not in host and not HOST.fullmatch(host):
        yield origin.problem((*path, "host"), NO_HOST, expected=HOST_EXPECTED, value=host)
    if isinstance(fault, RequestFault):
        yield from pattern_problems(fault.url, (*path, "url"), origin)
    if isinstance(fault, ChannelFault) and channels is not None and fault.channel not in channels:
        yield unknown_channel((*path, "channel"), fault.channel, channels, origin)
    if isinstance(fault, ElementFault):
        yield from _selector(fault.selector, (*path, "selector"), origin)
    if isinstance(fault, DatabaseLocked):
        yield from _leads_out(fault.path, (*path, "path"), origin)
    act = getattr(fault, "act", None)
    if act is not None and act not in ACTS:
        hint = did_you_mean(act, ACTS) or f"acts are: {join_or(sorted(ACTS))}"
        yield origin.problem((*path, "act"), f"there is no act `{act}`", hint=hint)
    code = fault.expect.code
    if code is not None and code not in CATALOG:
        hint = did_you_mean(code, CATALOG) or "see docs/error-codes.md"
        yield origin.problem((*path, "expect", "code"), f"there is no code `{code}`", hint=hint)
    yield from _expect_warnings(fault, (*path, "expect"), origin)


def _selector(selector: str, path: JsonPath, origin: Origin) -> Iterator[Problem]:
    if "${" not in selector and (flaw := css_flaw(selector)):
        hint = "faults find their elements only by CSS, unlike steps"
        message, within = f"not a CSS selector: {flaw.problem}", (selector, flaw.offset)
        yield origin.problem(path, message, value=selector, hint=hint, within=within)


def _leads_out(name: str, path: JsonPath, origin: Origin) -> Iterator[Problem]:
    """Yield a problem for a path that leaves the project, by its text; links are followed for a known project."""
    depth = 0
    for part in () if "${" in name or PurePosixPath(name).is_absolute() else PurePosixPath(name).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            expected = "a file inside the project's folder"
            yield origin.problem(path, "the path leads out of the project", expected=expected, value=name)
            return


def _expect_warnings(fault: FaultBase, path: JsonPath, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for an `expect` that says nothing, and for one that cannot hold."""
    expect, said = fault.expect, fault.expect.model_fields_set
    if "expect" in fault.model_fields_set and not said:
        hint = "set `code`, `recovered` or both, or leave `expect` out"
        yield origin.problem(path, "`expect` expects nothing", hint=hint, severity="warning")
    if "code" in said and expect.code is None and expect.recovered is False:
        message = (
            "`code: null` says that the fault causes no failure, but `recovered: false` says that it ends the task"
        )
        hint = "name the code that the task fails with, or set `recovered: true`"
        yield origin.problem(path, message, hint=hint, severity="warning")


def same_ids(faults: Sequence[FaultBase], origin: Origin) -> Iterator[Problem]:
    """Yield problems for faults with the same name: reports could not tell them apart."""
    seen: dict[str, int] = {}
    for number, fault in enumerate(faults):
        if fault.id and seen.setdefault(fault.id, number) != number:
            message = f"the id `{fault.id}` is taken by faults[{seen[fault.id]}]"
            hint = "every fault needs an id of its own, or none"
            yield origin.problem(("faults", number, "id"), message, hint=hint)


def unused_act(fault: FaultBase, struck: Sequence[TaskSpec]) -> str | None:
    """The act that a fault waits for, if none of the tasks that it strikes has such a step left; else None."""
    act: str | None = getattr(fault, "act", None)
    if act not in ACTS or not struck or not all(spec.steps for spec in struck):  # an agent may choose such a step
        return None
    return None if any(step.act == act for spec in struck for step in spec.steps[fault.step :]) else act


def uncalled_tool(fault: FaultBase, struck: Sequence[TaskSpec]) -> str | None:
    """What a fault of tools strikes, if none of the tasks that it strikes has a step left that calls it; else None."""
    if not isinstance(fault, ToolFault) or "${" in fault.target or not struck:
        return None
    if not all(spec.steps for spec in struck):  # an agent may choose such a step
        return None
    later = (step for spec in struck for step in spec.steps[fault.step :] if isinstance(step, Tool))
    if any("${" in step.server + step.tool or fault.fits(step.server, step.tool) for step in later):
        return None
    return "a tool" if fault.target == fault.kind else f"`{fault.target}`"
