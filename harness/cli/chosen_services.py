"""The services that a command of `harness services` is about."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cli.ending import fail
from harness.cli.project import settings_at
from harness.environment.ownership import LOGS, Held
from harness.environment.persistence import forgotten
from harness.environment.services import Services
from harness.environment.status import Found, kept_only, survey
from harness.model.service_settings import ServiceSettings
from harness.model.settings import SettingsError
from harness.reporting.files import shown_path
from harness.resilience import SystemClock
from harness.spec.problems import did_you_mean


@dataclass(frozen=True, slots=True)
class Chosen:
    """By their names in pyproject.toml, or in the files of their keepers."""

    settings: Mapping[str, ServiceSettings]
    root: Path
    forgotten: Mapping[str, Held] = field(default_factory=dict)
    """Those that are kept though the settings do not know them any more."""

    @property
    def logs(self) -> Path:
        return self.root / LOGS

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.settings, *self.forgotten)

    def look(self) -> tuple[Found, ...]:
        clock = SystemClock()
        found = asyncio.run(survey(self.settings, self.logs, clock))
        return (*found, *(kept_only(name, held, self.logs, clock) for name, held in self.forgotten.items()))


def chosen_services(names: Sequence[str] | None, *, kept: bool = False) -> Chosen:
    """Those of these names, or all; `kept`: also such as only their keeper knows. A wrong name ends the command."""
    try:
        settings = settings_at(Path.cwd())
    except SettingsError as error:
        fail(str(error))
    logs = settings.root / LOGS
    alone = forgotten(logs, settings.services, SystemClock()) if kept else {}
    known = (*settings.services, *alone)
    if not known:
        fail(f"there is no [tool.harness.services.<name>] in {shown_path(settings.root / 'pyproject.toml')}")
    for name in names or ():
        if name not in known:
            there = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            fail(f"no service `{name}` in [tool.harness.services]; {there}")
    wanted = names or known
    chosen = {name: settings.services[name] for name in wanted if name in settings.services}
    try:
        Services(chosen, root=settings.root, logs=logs, clock=SystemClock())
    except ValueError as error:
        fail(str(error))
    return Chosen(chosen, settings.root, {name: alone[name] for name in wanted if name in alone})
