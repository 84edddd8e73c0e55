"""Faults injected from Python: they wait for the next task, or hold while a block runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, get_args

from pydantic import TypeAdapter, ValidationError

from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.model.tools import PAGE
from harness.spec.faults import (
    ChannelFault,
    DelayedState,
    Fault,
    FaultBase,
    HostFault,
    ModelFault,
    ServiceFault,
    ToolFault,
    ToolKilled,
)
from harness.spec.problems import did_you_mean

_FAULT: TypeAdapter[Fault] = TypeAdapter(Fault)
_KINDS = {kind.model_fields["kind"].default: kind for kind in get_args(get_args(Fault)[0])}


class InjectionError(ValueError):
    """An impossible fault: of an unknown kind, or with keys or values that its kind does not have."""


@dataclass(eq=False)
class InjectedFault:
    """The faults of one call. As a context manager they strike every task inside the block."""

    faults: tuple[Fault, ...]
    pending: PendingInjections
    standing: bool = False

    def __enter__(self) -> Self:
        self.standing = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pending.remove(self)


@dataclass
class PendingInjections:
    """The injections that wait for a task, and those that hold for a block."""

    _injections: list[InjectedFault] = field(default_factory=list)

    def add(self, *faults: Fault) -> InjectedFault:
        injection = InjectedFault(faults, self)
        self._injections.append(injection)
        return injection

    def remove(self, injection: InjectedFault) -> None:
        self._injections = [each for each in self._injections if each is not injection]

    def look(self) -> tuple[Fault, ...]:
        """The faults that strike the next task."""
        return tuple(fault for injection in self._injections for fault in injection.faults)

    def forget(self) -> None:
        """Forget all injections but those of a running block: a task has met them, or a test has ended."""
        self._injections = [each for each in self._injections if each.standing]

    def clear(self) -> None:
        self._injections = []


def fault_of(fault: Mapping[str, Any] | FaultBase) -> Fault:
    """A fault from its keys as in a file, or made by its class. Raises InjectionError."""
    if not isinstance(fault, Mapping | FaultBase):
        example = f"{{'kind': {fault!r}, ...}}" if fault in _KINDS else "{'kind': 'refuse', ...}"
        raise InjectionError(
            f"{fault!r} is not a fault: expected a mapping such as {example}, or an object of its class"
        )
    given = fault.model_dump() if isinstance(fault, FaultBase) else dict(fault)
    try:
        return _FAULT.validate_python(given)
    except ValidationError as error:
        raise InjectionError("; ".join(_problems(given, error))) from None


def _problems(given: Mapping[str, Any], error: ValidationError) -> Iterator[str]:
    kind = given.get("kind")
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        hint = did_you_mean(kind, _KINDS) if isinstance(kind, str) else ""
        yield f"fault {dict(given)!r}: `kind` is {kind!r}; {hint or f'expected one of: {_list_names(sorted(_KINDS))}'}"
        return
    for found in error.errors():
        name = ".".join(map(str, found["loc"][1:]))
        if found["type"] == "extra_forbidden":
            hint = did_you_mean(name, model.model_fields) or f"it has: {_list_names(model.model_fields)}"
            yield f"fault `{kind}` has no key `{name}`: {hint}"
        elif found["type"] == "missing":
            yield f"fault `{kind}` needs `{name}`: {model.model_fields[name].description}"
        else:
            said = found["msg"].removeprefix("Value error, ")
            yield f"fault `{kind}`: `{name}`: {said}, found {found['input']!r}" if name else f"fault `{kind}`: {said}"


def at_its_binding(fault: Fault, plan: Plan) -> Fault:
    """The fault at the place that it names: a late value may be named as one of the task's `state_bindings`."""
    if not isinstance(fault, DelayedState) or fault.path not in plan.spec.state_bindings:
        return fault
    place = plan.spec.state_bindings[fault.path]
    return fault.model_copy(update={"channel": place.channel, "path": place.path})


def check(faults: Collection[Fault], plan: Plan, settings: Settings) -> None:
    """Check that the faults fit the task and its project. Raises InjectionError."""
    problems = [problem for fault in faults for problem in _misfits(fault, plan, settings)]
    if problems:
        raise InjectionError("\n".join(problems))


def _misfits(fault: Fault, plan: Plan, settings: Settings) -> Iterator[str]:
    last = len(plan.steps) - 1
    if plan.agent is None and fault.step > last:
        yield f"fault `{fault.kind}`: there is no step {fault.step}: {plan.task_id} has the steps 0 to {last}"
    if isinstance(fault, ChannelFault) and fault.channel not in settings.channels:
        yield f"fault `{fault.kind}`: {_unknown('channel', fault.channel, settings.channels, 'tool.harness.channels')}"
    if isinstance(fault, HostFault) and fault.host.lower() not in hosts(settings):
        yield f"fault `{fault.kind}`: {unknown_host(fault.host, hosts(settings))}"
    if isinstance(fault, ModelFault) and fault.model is not None and fault.model not in settings.models:
        yield f"fault `{fault.kind}`: {_unknown('model', fault.model, settings.models, 'tool.harness.models')}"
    if isinstance(fault, ToolFault) and fault.server not in (None, PAGE, *settings.tools):
        yield f"fault `{fault.kind}`: {_unknown('server', str(fault.server), settings.tools, 'tool.harness.tools')}"
    if isinstance(fault, ToolFault) and (why := no_process(fault, settings)):
        yield f"fault `{fault.kind}`: {why}"
    if isinstance(fault, ServiceFault) and fault.service not in settings.services:
        yield f"fault `{fault.kind}`: {_unknown('service', fault.service, settings.services, 'tool.harness.services')}"


def no_process(fault: ToolFault, settings: Settings) -> str:
    """Why the run cannot kill the server's process; empty if it can, or if the fault kills none."""
    if not isinstance(fault, ToolKilled):
        return ""
    if fault.server == PAGE:
        return "the tools of the page have no process of their own"
    server = settings.tools.get(fault.server)
    if server is None or server.command is not None:
        return ""
    return f"[tool.harness.tools.{fault.server}] has a `url`, so the run does not own its process"


def unknown_host(name: str, known: Collection[str]) -> str:
    """The message about a host that no service has."""
    return _unknown("host", name, known, "tool.harness.services")


def _unknown(what: str, name: str, known: Collection[str], table: str) -> str:
    hint = did_you_mean(name, known) or f"known: {_list_names(known)}"
    return f"there is no {what} `{name}` in [{table}]; {hint}"


def _list_names(names: Collection[str]) -> str:
    return ", ".join(names) or "none"


def hosts(settings: Settings) -> tuple[str, ...]:
    """The hosts of the project's services, in lower case."""
    return tuple(host.lower() for service in settings.services.values() for host in service.hosts)
