"""The recordings of a task's models: which files there are, what lies between its agents and the providers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from os.path import relpath

from harness.model.model_settings import CassetteMode
from harness.model.plan import Plan
from harness.model.ports import Injector
from harness.model.record import Warning_
from harness.model.settings import Settings
from harness.model.warnings import recording_not_kept, recording_unused
from harness.models.cassettes import Cassette, CassetteError, file_of
from harness.models.transport import NoModelFaults, StrikesModels, Way
from harness.reporting.redaction import Redactor
from harness.resilience import Clock

_NO_FAULTS = NoModelFaults()


class TaskRecordings:
    """The ways of one task's agents to the providers. Use it on the harness's loop; `finish` must follow."""

    def __init__(self, plan: Plan, settings: Settings, clock: Clock, mode: CassetteMode) -> None:
        self._plan, self._settings, self._clock, self._mode = plan, settings, clock, mode
        self._redactor = Redactor.of(settings)
        self._ways: dict[str, Way] = {}
        self._ignore = tuple(map(re.compile, settings.cassettes.ignore))
        self._faults: StrikesModels = _NO_FAULTS

    def struck_by(self, injector: Injector) -> None:
        """Let the faults of the task strike its models, too."""
        if isinstance(injector, StrikesModels):
            self._faults = injector

    def way(self, agent: str) -> Way:
        """The way of an agent's requests. Raises CassetteError for recordings that cannot be read."""
        if agent not in self._ways:
            self._ways[agent] = Way(self._cassette(agent), self._faults, self._ignore, self._redacted, self._clock)
        return self._ways[agent]

    def _redacted(self, text: str) -> str:
        given = self._plan.given_secrets  # they stand in the file beside the recording
        return self._redactor.plus(each for each in self._plan.all_secrets if each not in given).text(text)

    def _cassette(self, agent: str) -> Cassette | None:
        if self._mode == "live":
            return None
        file = file_of(self._plan.folder, self._plan.recorded_as or self._plan.key, agent)
        return Cassette.open(file, self._plan.trial, self._mode, shown=relpath(file, self._settings.root))

    @property
    def cassettes(self) -> Mapping[str, Cassette]:
        """The recordings by agent, of the agents that have asked."""
        return {agent: way.cassette for agent, way in self._ways.items() if way.cassette is not None}

    def finish(self, *, well: bool) -> Iterator[Warning_]:
        """Write what was recorded; yields what a person should know about it. `well`: the task ended as it declares."""
        for agent, cassette in self.cassettes.items():
            try:
                cassette.save()
            except (OSError, CassetteError) as error:
                yield recording_not_kept(agent, error)
            if well and not self._plan.faults and cassette.unused:
                yield recording_unused(cassette.unused, cassette.shown)
