"""The selectors and URL patterns of a task: each is read when its file is loaded, and once references are filled in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from harness.spec.problems import JsonPath, Problem
from harness.spec.references import Hide
from harness.spec.selectors import SelectorError, check_frame, check_selector
from harness.spec.source import Origin
from harness.spec.steps import Drag, Step
from harness.spec.task import TaskSpec
from harness.spec.url_patterns import WEB, may_match, whole_url_hint

_LISTS = ("ignore", "mask")
"""The keys of steps that have several selectors."""


def _selectors_of_step(step: Step, path: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    """The place and the text of every selector of a step, its frame included."""
    for name in ("selector", "frame", "to", *(("value",) if isinstance(step, Drag) else ())):
        if text := getattr(step, name, None):
            yield (*path, name), text
    for name in _LISTS:
        for number, text in enumerate(getattr(step, name, ())):
            yield (*path, name, number), text


def selectors_around(spec: TaskSpec) -> Iterator[tuple[JsonPath, str]]:
    """The selectors outside of steps and criteria. Those of faults are plain CSS (`fault_checks`)."""
    fallbacks = getattr(spec.error_recovery.on_element_not_found, "fallback_selectors", {})
    for key, others in fallbacks.items():
        for number, text in enumerate(others):
            yield ("error_recovery", "on_element_not_found", "fallback_selectors", key, number), text
    for number, write in enumerate(spec.allowed_writes):
        for name in ("selector", "frame"):
            if text := getattr(write, name):
                yield ("allowed_writes", number, name), text


def problems_of_selectors(found: Iterable[tuple[JsonPath, str]], origin: Origin, hide: Hide = str) -> Iterator[Problem]:
    """Yield a problem for each selector that cannot be read; one with a reference is checked once that is filled in.

    `hide` removes secrets from the texts shown.
    """
    for path, text in found:
        if problem := unreadable(text, path, origin, hide):
            yield problem


def of_steps(steps: Iterable[Step], at: JsonPath, origin: Origin, hide: Hide) -> Iterator[Problem]:
    """The same for the selectors of steps; `at` is the path of their list."""
    found = (_selectors_of_step(step, (*at, number)) for number, step in enumerate(steps))
    return problems_of_selectors(chain.from_iterable(found), origin, hide)


def unreadable(
    text: str,
    path: JsonPath,
    origin: Origin,
    hide: Hide = str,
    within: tuple[str, int] | None = None,
    *,
    is_frame: bool = False,
) -> Problem | None:
    """The problem of a selector that cannot be read. `within`: the longer text that has it, and where it begins."""
    if "${" in text:
        return None
    try:
        (check_frame if is_frame or path[-1] == "frame" else check_selector)(text)
    except SelectorError as error:
        whole, start = within or (text, 0)
        place = (whole, min(start + error.offset, len(whole))) if hide is str else None
        written = _of_call(text)
        problem, hint = ("it is a call of Playwright's", written) if written else (error.problem, error.hint)
        return origin.problem(
            path, hide(f"the selector `{text}` cannot be read: {problem}"), hint=hide(hint), within=place
        )
    return None


def _of_call(text: str) -> str:
    """A hint for a locator that is written as a program has it; empty for another text."""
    from harness.spec.recorded.typed import written_for  # reads with `ast`, which only a mistake needs

    return written_for(text)


def pattern_problems(
    url: str, path: JsonPath, origin: Origin, schemes: tuple[str, ...] = WEB, hint: str = ""
) -> Iterator[Problem]:
    """Yield a problem for a pattern that matches no URL with one of the schemes."""
    if not may_match(url, schemes):
        message = "no URL matches: the pattern must match the whole URL"
        yield origin.problem(path, message, value=url, hint=hint or whole_url_hint(url))
