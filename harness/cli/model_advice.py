"""What `harness validate` says about a task's agents and the models that they ask: options, keys, unknown prices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from harness.model.inference import ModelAnswer, Prompt
from harness.model.model_settings import fallbacks_of, unset_keys
from harness.model.settings import Settings
from harness.recovery.failure import Failed
from harness.spec.loaded import Loaded
from harness.spec.problems import Problem, did_you_mean

if TYPE_CHECKING:
    from harness.agents.python import AgentSource


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
