"""What `harness validate` says about the models that a task's agents ask: keys that are not set, unknown prices."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from harness.model.agent_settings import AgentSettings
from harness.model.model_settings import fallbacks_of, unset_keys
from harness.model.settings import Settings
from harness.spec.loaded import Loaded
from harness.spec.problems import Problem


def model_advice(
    task: Loaded, settings: Settings, file: str, environ: Mapping[str, str] = os.environ
) -> Iterator[Problem]:
    """The problems with the models of the task's agents. `file`: the settings' file, for those that are in it."""
    if not settings.models:
        return
    used = _models_of(task, settings)
    for name, variable in unset_keys({name: settings.models[name] for name in used}, environ):
        message = f"the variable {variable} is not set: model `{name}` cannot be asked where it is missing"
        yield Problem(file, None, None, f"tool.harness.models.{name}.key", message, severity="warning")
    if task.spec.budget.max_cost is not None:
        yield from _unpriced(task, settings, used)


def _models_of(task: Loaded, settings: Settings) -> tuple[str, ...]:
    """The models that the agents of a task name in their options, and the fallbacks of these."""
    from harness.runner.chain import agent_chain, first_agent  # only a project with models needs the chain

    chain = agent_chain(task.spec, settings, None)
    agents = [first_agent(task.spec, settings, None), *(chain.names if chain else ())]
    options = (settings.agents.get(agent or "", AgentSettings()).options for agent in agents)
    named = [str(each["model"]) for each in options if each.get("model") in settings.models]
    return tuple(dict.fromkeys(each for name in named for each in (name, *fallbacks_of(settings.models, name))))


def _unpriced(task: Loaded, settings: Settings, used: tuple[str, ...]) -> Iterator[Problem]:
    """The models whose price is unknown although the task has `max_cost`."""
    from harness.models.prices import is_priced  # only a task with `max_cost` needs prices

    for name in used:
        try:
            known = is_priced(settings.models[name])
        except ImportError:  # without the extra `agents` no list prices are known, and no model can be asked
            return
        if not known:
            message = f"`max_cost` needs the price of model `{name}`, which is not known"
            hint = f"set [tool.harness.models.{name}.price], or use `max_tokens`"
            yield task.origin.problem(("budget", "max_cost"), message, hint=hint)
