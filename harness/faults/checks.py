"""Checks faults against the project's settings: their hosts, services and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from harness.faults.python import hosts, no_process
from harness.model.settings import Settings
from harness.model.tools import PAGE
from harness.spec.advice.criteria import scopes
from harness.spec.fault_plan import LoadedFaultPlan
from harness.spec.faults import (
    BrowserStop,
    DatabaseLocked,
    Fault,
    HostFault,
    ModelFault,
    ServiceFault,
    SocketFault,
    ToolFault,
    of_service,
)
from harness.spec.loaded import Loaded
from harness.spec.problems import JsonPath, Problem, Severity, did_you_mean, join_or
from harness.spec.references import ReferenceScope, as_text, interpolate
from harness.spec.source import Origin
from harness.spec.url_patterns import UrlPattern

_ELSEWHERE = "the fault cannot strike: the process of a browser at --task-browser-endpoint cannot be stopped from here"
_OPEN = ReferenceScope()
"""The scope for a plan: the values of its references are known only with each task."""


class Project(Struct, frozen=True):
    """The project that the faults are for. `known`: the settings are those of the run, not just the defaults."""

    settings: Settings
    known: bool = True

    @property
    def severity(self) -> Severity:
        """If the settings are not known, what seems missing may exist: then it is a warning."""
        return "error" if self.known else "warning"


def misplaced_faults(task: Loaded, project: Project) -> Iterator[Problem]:
    """Yield the problems of a task's own faults, unless the task is there to show this very failure."""
    if task.spec.expect is None or task.spec.expect.code != "INVALID_INPUT":
        yield from _of(task.spec.faults, scopes(task.spec), project, task.origin)


def misplaced_in_plan(loaded: LoadedFaultPlan, project: Project) -> Iterator[Problem]:
    """Yield the problems of a plan's faults; those that refer to values of the task are not checked."""
    yield from _of([planned.fault for planned in loaded.plan.faults], [_OPEN], project, loaded.origin)


def _of(
    faults: Iterable[Fault], every: Sequence[ReferenceScope], project: Project, origin: Origin
) -> Iterator[Problem]:
    for number, fault in enumerate(faults):
        path: JsonPath = ("faults", number)
        if isinstance(fault, HostFault | SocketFault):
            if all(_strikes_unknown_host(fault, scope, project.settings) for scope in every):
                yield _no_host(fault, path, project, origin)
        else:
            yield from _of_no_host(fault, path, project, origin)


def _of_no_host(fault: Fault, path: JsonPath, project: Project, origin: Origin) -> Iterator[Problem]:
    if isinstance(fault, ServiceFault):
        if "${" not in fault.service and fault.service not in project.settings.services:
            yield _no_service(fault.service, (*path, "service"), project, origin)
    elif isinstance(fault, ModelFault):
        yield from _of_model(fault, path, project, origin)
    elif isinstance(fault, ToolFault):
        yield from _of_tool(fault, path, project, origin)
    elif isinstance(fault, BrowserStop) and project.settings.browser_endpoint:
        yield origin.problem(path, _ELSEWHERE, hint="leave the task out, or run it with a browser on this machine")
    elif isinstance(fault, DatabaseLocked) and "${" not in fault.path and project.known:
        yield from _of_database(fault.path, (*path, "path"), project, origin)


def _of_model(fault: ModelFault, path: JsonPath, project: Project, origin: Origin) -> Iterator[Problem]:
    name, known = fault.model, sorted(project.settings.models)
    if name is not None and "${" not in name and name not in known:
        message = f"the fault cannot strike: [tool.harness.models] has no model `{name}`"
        yield _unknown((*path, "model"), message, name, known, project, origin)
    elif name is None and not known and project.known:
        message = "the fault cannot strike: there is no model in [tool.harness.models]"
        yield origin.problem((*path, "kind"), message, found=fault.kind, severity="warning")


def _of_tool(fault: ToolFault, path: JsonPath, project: Project, origin: Origin) -> Iterator[Problem]:
    """Yield the problem of a fault whose server is unknown, has no process to kill, or is never asked for the tool."""
    name, servers = fault.server, project.settings.tools
    if name is None or "${" in name:
        return
    if why := no_process(fault, project.settings):
        hint = "use `tool_answer_lost`, or a fault of the browser or of the service"
        yield origin.problem((*path, "server"), f"the fault cannot strike: {why}", found=name, hint=hint)
    elif name in servers and not servers[name].allows(fault.tool) and not {*"*?[$"} & {*fault.tool}:
        message = f"the fault cannot strike: [tool.harness.tools.{name}] does not allow this tool"
        yield origin.problem((*path, "tool"), message, found=fault.tool, severity="warning")
    elif name not in servers and name != PAGE:
        message = f"the fault cannot strike: [tool.harness.tools] has no server `{name}`"
        yield _unknown((*path, "server"), message, name, sorted({*servers, PAGE}), project, origin)


def _of_database(name: str, path: JsonPath, project: Project, origin: Origin) -> Iterator[Problem]:
    service, _ = of_service(name)
    if not service:
        yield from _of_file(project.settings, name, path, origin)
    elif service not in project.settings.services:
        yield _no_service(service, path, project, origin)


def _no_service(name: str, path: JsonPath, project: Project, origin: Origin) -> Problem:
    message = f"the fault cannot strike: [tool.harness.services] has no service `{name}`"
    return _unknown(path, message, name, sorted(project.settings.services), project, origin)


def _no_host(fault: HostFault | SocketFault, path: JsonPath, project: Project, origin: Origin) -> Problem:
    text = fault.target
    key, name = ("host", text) if isinstance(fault, HostFault) else ("url", UrlPattern.parse(text).authority)
    message = "the task cannot start: no service of [tool.harness.services] has this host"
    return _unknown((*path, key), message, name, sorted(set(hosts(project.settings))), project, origin, found=text)


def _unknown(
    path: JsonPath, message: str, name: str, known: list[str], project: Project, origin: Origin, found: str = ""
) -> Problem:
    expected, hint = join_or(known) if known else "none is declared", did_you_mean(name, known)
    if not project.known:
        hint = "no pyproject.toml above the file has [tool.harness]: put the file into its project"
    return origin.problem(path, message, expected=expected, found=found or name, hint=hint, severity=project.severity)


def _of_file(settings: Settings, name: str, path: JsonPath, origin: Origin) -> Iterator[Problem]:
    """Yield the problems of a file; a file that a service's command names may be made by it."""
    folder, made = settings.root.resolve(), any(name in (each.command or ()) for each in settings.services.values())
    try:
        file = (folder / name).resolve()
        inside, found = file.is_relative_to(folder), file.is_file()
    except (OSError, ValueError, RuntimeError):
        inside, found = True, False
    if not inside:
        expected = "a file inside the project's folder"
        yield origin.problem(path, "the path leads out of the project", expected=expected, value=name)
    elif not found and not made:
        hint = "the file must exist when the fault strikes; paths are relative to the project's folder"
        yield origin.problem(path, "there is no such file", value=name, hint=hint, severity="warning")


def _strikes_unknown_host(fault: HostFault | SocketFault, scope: ReferenceScope, settings: Settings) -> bool:
    """Return whether a fault strikes an unknown host: then the task would not be started."""
    declared = fault.host if isinstance(fault, HostFault) else fault.url
    text = as_text(interpolate(declared, scope, last=False))
    if "${" in text:
        return False
    if isinstance(fault, HostFault):
        return text.lower() not in hosts(settings)
    pattern = UrlPattern.parse(text)
    return not any(pattern.may_match(host) for host in hosts(settings))
