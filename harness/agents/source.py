"""Where an agent comes from, and how it is made. Whatever is wrong there is told in plain words."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.recovery.failure import Failed, Failure
from harness.spec.problems import did_you_mean, listed

PROTOCOL = "propose(plan, history, observe)"


@dataclass(frozen=True, slots=True)
class Source:
    """A class, or a function that makes the agent, by its place in Python."""

    name: str
    """The agent's, in `[tool.harness.agents]` or among the entry points."""
    module: str
    attribute: str
    root: Path
    """The project's folder: modules are looked for there too."""
    timeout: float
    """Seconds for the choice of one step."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def python(self) -> str:
        """As the settings write it."""
        return f"{self.module}:{self.attribute}"

    def make(self) -> Any:
        """A new agent. Foreign code runs here, and may take its time. Raises Failed."""
        make = self._attribute(self._imported())
        if not callable(make):
            raise self._refused(f"is {_kind(make)}, not a class or function that makes an agent")
        self._check_options(make)
        try:
            agent = make(**self.options)
        except Exception as error:
            raise self._refused(f"failed while it was made: {type(error).__name__}: {error}", error) from error
        return self._checked(agent)

    def _imported(self) -> ModuleType:
        if str(self.root) not in sys.path:  # stays: the agent may import more of the project later
            sys.path.append(str(self.root))
        importlib.invalidate_caches()
        try:
            return importlib.import_module(self.module)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and f"{self.module}.".startswith(f"{error.name}."):
                why = f"there is no module `{error.name}`, neither in {self.root} nor installed"
            else:
                why = f"its module cannot be imported: {type(error).__name__}: {error}"
            raise self._refused(why, error) from error

    def _attribute(self, module: ModuleType) -> Any:
        found: Any = module
        for part in self.attribute.split("."):
            if not hasattr(found, part):
                near = did_you_mean(part, [name for name in dir(found) if not name.startswith("_")])
                raise self._refused(f"`{self.module}` has no `{self.attribute}`" + (f"; {near}" if near else ""))
            found = getattr(found, part)
        return found

    def _check_options(self, make: Any) -> None:
        try:
            signature = inspect.signature(make)
        except (TypeError, ValueError):  # some builtins have none
            return
        try:
            signature.bind(**self.options)
        except TypeError as error:
            takes = [name for name in signature.parameters if name not in ("args", "kwargs")]
            known = f"it takes {listed(takes)}" if takes else "it takes none"
            raise self._refused(f"does not take the options that are set: {error}; {known}", error) from error

    def _checked(self, agent: Any) -> Any:
        propose = getattr(agent, "propose", None)
        if not callable(propose):
            raise self._refused(f"made {_kind(agent)}, which has no method `{PROTOCOL}`")
        try:
            inspect.signature(propose).bind(None, None, None)
        except TypeError as error:
            raise self._refused(f"has a `propose` that cannot be called as `{PROTOCOL}`: {error}", error) from error
        except ValueError:
            return agent
        return agent

    def _refused(self, problem: str, cause: BaseException | None = None) -> Failed:
        details = {"agent": self.name, "python": self.python}
        message = f"Agent `{self.name}` ({self.python}): {problem}"
        return Failed(Failure("AGENT_UNAVAILABLE", message, details=details, cause=cause))


def _kind(value: Any) -> str:
    return f"a {value.__name__}" if inspect.ismodule(value) else f"a value of type {type(value).__name__}"
