"""Checks of routes and of the patterns of expected requests, beyond the models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.spec.names import file_problem
from harness.spec.problems import JsonPath, Problem, describe_value
from harness.spec.references import Hide
from harness.spec.routes import Route
from harness.spec.source import Origin
from harness.spec.task import TaskSpec
from harness.spec.url_patterns import may_match, whole_url_hint


def routes_problems(spec: TaskSpec, origin: Origin, folder: Path) -> Iterator[Problem]:
    """Yield the problems of all routes of a task."""
    for number, route in enumerate(spec.routes):
        path: JsonPath = ("routes", number)
        yield from pattern_problems(route.url, (*path, "url"), origin)
        yield from file_problems(route, path, origin, folder)
        last = max(route.steps) if isinstance(route.steps, tuple) else route.steps
        if spec.steps and last is not None and last >= len(spec.steps):
            expected = f"0 to {len(spec.steps) - 1}"
            yield origin.problem(
                (*path, "steps"), "there is no such step", expected=expected, found=describe_value(last)
            )


def pattern_problems(url: str, path: JsonPath, origin: Origin) -> Iterator[Problem]:
    """Yield a problem for a pattern that matches no URL."""
    if not may_match(url):
        message = "no URL matches: the pattern must match the whole URL"
        yield origin.problem(path, message, found=describe_value(url), hint=whole_url_hint(url))


def file_problems(route: Route, path: JsonPath, origin: Origin, folder: Path, hide: Hide = str) -> Iterator[Problem]:
    """Yield a problem for a file that is missing or lies elsewhere; one with a reference is checked once resolved."""
    for key, name in (("file", route.file), ("from_har", route.from_har)):
        if name is not None and "${" not in name and (problem := file_problem(name, folder)):
            found = describe_value(hide(name))
            yield origin.problem((*path, key), problem, expected="a file in the task's folder", found=found)
