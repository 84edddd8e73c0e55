"""What `harness validate` says about a task's agents and models (options, keys, unknown prices), and its tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.model.inference import ModelAnswer, Prompt
from harness.model.model_settings import fallbacks_of, unset_keys
from harness.model.settings import Settings
from harness.model.tools import ToolDescription
from harness.recovery.failure import Failed
from harness.spec.advice.criteria import denies, scopes, unseen_advice
from harness.spec.checks import tools_called
from harness.spec.loaded import Loaded
from harness.spec.problems import JsonPath, Problem, did_you_mean, join_or
from harness.spec.references import BadReferenceError, MissingMemory, holds_reference, interpolate
from harness.spec.source import file_label
from harness.spec.steps import Tool

if TYPE_CHECKING:
    from harness.agents.python import AgentSource
    from harness.cli.tool_calls import ListedServer

_OURS = "harness.agents."
"""Where the harness's own agents are: what they take as options is known, and they may be made to check it."""


def model_advice(task: Loaded, settings: Settings, file: str) -> Iterator[Problem]:
    """The problems with the task's agents and their models. `file`: the settings' file, for those that are in it."""
    sources = _sources_of(task, settings)
    for source in sources:
        if problem := _problem_of(source, settings):
            yield Problem(file, None, None, f"tool.harness.agents.{source.name}.options", problem)
    named = [str(each.options["model"]) for each in sources if each.options.get("model") in settings.models]
    used = tuple(dict.fromkeys(each for name in named for each in (name, *fallbacks_of(settings.models, name))))
    for name, variable in unset_keys({name: settings.models[name] for name in used}, os.environ):
        lack = "is set, but empty" if variable in os.environ else "is not set"
        message = f"the variable {variable} {lack}: model `{name}` cannot be asked where it is missing"
        yield Problem(file, None, None, f"tool.harness.models.{name}.key", message, severity="warning")
    if task.spec.budget.max_cost is not None:
        yield from _unpriced(task, settings, used)


def _sources_of(task: Loaded, settings: Settings) -> tuple[AgentSource, ...]:
    """The agents of a task that are programs; unknown names are reported elsewhere."""
    named = (task.spec.agent, *(task.spec.agent_fallback or ()), settings.agent)
    if not settings.agents and not any(named):
        return ()
    from harness.agents.registry import Agents  # only a project with agents needs them
    from harness.runner.chain import agent_chain, first_agent

    chain, agents = agent_chain(task.spec, settings, None), Agents(settings.agents, settings.root)
    names = (first_agent(task.spec, settings, None), *(chain.names if chain else ()))
    found = []
    for name in names:
        with suppress(Failed):
            found += [] if name is None else [agents.source(name)]
    return tuple(found)


def _problem_of(source: AgentSource, settings: Settings) -> str | None:
    """What is wrong with the options of an agent of the harness: it would be told when the agent is first asked."""
    if not source.module.startswith(_OURS):
        return None
    model = source.options.get("model")
    try:
        source.make(_NoModels())
    except Failed as failed:
        return failed.failure.message
    if model is None or model in settings.models:
        return None
    near = did_you_mean(str(model), settings.models) or "write it into [tool.harness.models]"
    return f"there is no model `{model}`: {near}"


class _NoModels:
    """The models of an agent that is made only to check its options."""

    async def ask(self, model: str, prompt: Prompt) -> ModelAnswer:
        raise NotImplementedError


def _unpriced(task: Loaded, settings: Settings, used: tuple[str, ...]) -> Iterator[Problem]:
    """The models whose price is unknown although the task has `max_cost`."""
    from harness.models.exchange import is_priced  # only a task with `max_cost` needs prices

    for name in used:
        try:
            known = is_priced(settings.models[name])
        except ImportError:  # without the extra `agents` no list prices are known, and no model can be asked
            return
        if not known:
            message = f"`max_cost` needs the price of model `{name}`, which is not known"
            hint = f"set [tool.harness.models.{name}.price], or use `max_tokens`"
            yield task.origin.problem(("budget", "max_cost"), message, hint=hint)


# What is said about steps that call tools; with `--tools` the servers are asked for them.

_OF_KEYS = ("required", "additionalProperties", "propertyNames", "dependentRequired", "minProperties", "maxProperties")
"""Words of a schema that do not look at values: references in them decide nothing."""
_MOST = 10
"""Problems of the arguments of one step that are reported."""


def write_advice(task: Loaded, settings: Settings) -> Iterator[Problem]:
    """Yield a warning for each call that is a `write` by the settings and has no `done_when`."""
    for path, step in tools_called(task.spec):
        table = settings.tools.get(step.server)
        if table is not None and step.effect is None and table.declared_effect(step.tool) == "write":
            yield from _undecided(path, step, f"`effects` of [tool.harness.tools.{step.server}]", task)


def _undecided(path: JsonPath, step: Tool, who: str, task: Loaded) -> Iterator[Problem]:
    """Yield a warning for a write that cannot tell whether it was done."""
    if step.done_when is None and (task.spec.expect is None or task.spec.expect.code != "OUTCOME_UNKNOWN"):
        message = f"a `write` by {who}, without `done_when`: when it fails halfway, the task ends with OUTCOME_UNKNOWN"
        hint = "say in `done_when` how to tell that it took effect, or use `effect: idempotent` if twice does no harm"
        yield task.origin.problem(path, message, hint=hint, severity="warning")


def asked_problems(tasks: Sequence[Loaded], settings: Settings) -> Iterator[Problem]:
    """Connect to the servers that the tasks of a project name, and yield what does not fit their tools.

    A server that cannot be asked is a problem of the project's settings.
    """
    named = {step.server for task in tasks for _, step in tools_called(task.spec)} & {
        name for name, each in settings.tools.items() if each.command or each.url
    }
    if not named:
        return
    import asyncio

    from harness.cli.tool_calls import listed  # the connections, which only `--tools` needs

    file = file_label(settings.root / "pyproject.toml")
    known = {each.name: each for each in asyncio.run(listed(settings, sorted(named), None))}
    for name, each in known.items():
        if each.problem:
            yield Problem(file, None, None, f"tool.harness.tools.{name}", f"its tools are not checked: {each.problem}")
        else:
            yield from _idle_patterns(file, each)
    for task in tasks:
        for path, step in tools_called(task.spec):
            if step.server in known and not known[step.server].problem and "${" not in step.tool:
                yield from _of_step(path, step, known[step.server], task)


def _idle_patterns(file: str, server: ListedServer) -> Iterator[Problem]:
    """Yield a warning for each name or pattern in the settings that fits no tool of the server."""
    table, names = server.settings, [tool.name for tool in server.tools]
    for key, patterns in (("allow", table.allow), ("effects", table.effects), ("timeouts", table.timeouts)):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                message, hint = f"`{pattern}` fits no tool of the server", did_you_mean(pattern, names)
                expected = join_or(sorted(names)) if names else "a tool; it lists none"
                place = f"tool.harness.tools.{server.name}.{key}"
                yield Problem(file, None, None, place, message, expected=expected, hint=hint, severity="warning")


def _of_step(path: JsonPath, step: Tool, server: ListedServer, task: Loaded) -> Iterator[Problem]:
    found = {tool.name: tool for tool in server.tools}
    if (tool := found.get(step.tool)) is None:
        message = f"the server `{step.server}` has no tool `{step.tool}`"
        expected = join_or(sorted(found)) if found else "a tool; it lists none"
        yield task.origin.problem((*path, "tool"), message, expected=expected, hint=did_you_mean(step.tool, found))
        return
    yield from _misfits((*path, "arguments"), step, tool, task)
    effect, source = server.effect_of(tool)
    if step.effect is None and effect == "write" and server.settings.declared_effect(step.tool) is None:
        yield from _undecided(path, step, f"its tool ({source})", task)


def _misfits(path: JsonPath, step: Tool, tool: ToolDescription, task: Loaded) -> Iterator[Problem]:
    """Yield the problems of the arguments by the tool's schema; values that only a run knows are skipped."""
    from harness.tools.schemas import misfits  # with the library of schemas, which only `--tools` needs

    told: set[tuple[Any, ...]] = set()
    for arguments in _cases(step, task):
        for error in misfits(tool.parameters, arguments):
            place = (*path, *error.absolute_path)
            depends = error.validator not in _OF_KEYS and holds_reference(error.instance)  # on a value of the run
            if (place, error.message) in told or len(told) >= _MOST or depends:
                continue
            told.add((place, error.message))
            message = f"does not fit the schema of {step.server}.{step.tool}: {error.message[:300]}"
            yield task.origin.problem(place, message)


def _cases(step: Tool, task: Loaded) -> Iterator[dict[str, Any]]:
    """The arguments in each case of the task, as far as they are known before it runs."""
    if not holds_reference(step.arguments):
        yield dict(step.arguments)
        return
    for scope in scopes(task.spec):
        try:
            yield interpolate(dict(step.arguments), scope, last=False)
        except (BadReferenceError, MissingMemory):  # it is reported where it stands
            continue


def unseen_in_last_run(tasks: Sequence[Loaded], settings_of: Callable[[Path], Settings]) -> Iterator[Problem]:
    """The warnings about what criteria deny and nothing matched in the last run that the history has."""
    projects: dict[Path, list[Loaded]] = {}
    for task in tasks:
        projects.setdefault(settings_of(task.folder).root, []).append(task)
    for root, several in projects.items():
        if not any(denies(task.spec) for task in several):
            continue
        from harness.reporting.history.file import HistoryError
        from harness.reporting.history.reading import load_run

        with suppress(HistoryError):
            unmatched: dict[str, list[tuple[str, ...]]] = {}
            for each in load_run(root).executions:
                if each.record is not None and each.record.verdict == "passed":
                    unmatched.setdefault(each.task_id.partition("[")[0], []).append(each.record.unmatched)
            if any(chain.from_iterable(unmatched.values())):
                yield from unseen_advice(several, unmatched)
