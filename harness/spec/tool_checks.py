"""Checks of the steps that call tools, against the servers that the project names. Nothing is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from harness.spec.expressions import steps_of
from harness.spec.problems import JsonPath, Problem, did_you_mean, join_or
from harness.spec.source import Origin
from harness.spec.steps import Tool
from harness.spec.task import TaskSpec

_PAGE: Final = "page"
"""The name of the server that is the page under test; every project has it."""
_Servers = Mapping[str, tuple[str, ...]]
"""Name of a tool server of the project -> patterns of the tools that may be called; none: all."""


def tools_called(spec: TaskSpec) -> Iterator[tuple[JsonPath, Tool]]:
    """The steps of a task and of its repairs that call tools, with their places."""
    return ((path, step) for path, step in steps_of(spec) if isinstance(step, Tool))


def tool_problems(spec: TaskSpec, origin: Origin, servers: _Servers) -> Iterator[Problem]:
    """Yield problems of steps that name an unknown server, or a tool that must not be called."""
    for path, step in tools_called(spec):
        if "${" in step.server:
            continue  # it is known when the task begins
        if step.server not in servers and step.server != _PAGE:
            yield _unknown_server((*path, "server"), step.server, servers, origin)
        elif "${" not in step.tool and not _is_allowed(step, servers):
            allowed = servers[step.server]
            message = f"`allow` of [tool.harness.tools.{step.server}] does not name the tool `{step.tool}`"
            hint = did_you_mean(step.tool, allowed) or "add it there if the task may call it"
            yield origin.problem((*path, "tool"), message, expected=join_or(allowed), hint=hint)
    for number, write in enumerate(spec.allowed_writes):
        server = (write.tool or "").partition(".")[0]
        if server and not any(fnmatchcase(name, server) for name in (*servers, _PAGE)):
            yield _unknown_server(("allowed_writes", number), server, servers, origin)


def _is_allowed(step: Tool, servers: _Servers) -> bool:
    """Return whether the project lets the tool of the step be called."""
    allowed = servers.get(step.server, ())
    return not allowed or any(fnmatchcase(step.tool, pattern) for pattern in allowed)


def _unknown_server(path: JsonPath, name: str, servers: _Servers, origin: Origin) -> Problem:
    known = sorted({*servers, _PAGE})
    expected = join_or(known) if servers else f"a server of [tool.harness.tools], or `{_PAGE}`; there is none"
    return origin.problem(path, f"unknown tool server `{name}`", expected=expected, hint=did_you_mean(name, known))
