"""Keeps the ways that agents take through their tasks; nothing is imported for a run without agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.model.plan import Plan
from harness.model.record import TaskResult, Warning_
from harness.model.settings import Settings
from harness.reporting.redaction import Redactor
from harness.resilience import Clock

if TYPE_CHECKING:
    from harness.reporting.trajectory import Trajectories
    from harness.runner.proposals import ProposalNotes


class KeptWays:
    """The trajectories of a run."""

    def __init__(self, settings: Settings, run_id: str, redactor: Redactor, clock: Clock) -> None:
        self._settings = settings
        self._run_id = run_id
        self._redactor = redactor
        self._clock = clock
        self._trajectories: Trajectories | None = None

    def notes(self, plan: Plan) -> ProposalNotes | None:
        """What notes the looks and answers of a task's agents; None for a task without agents."""
        if plan.agent is None and plan.chain is None:
            return None
        from harness.runner.proposals import ProposalNotes

        return ProposalNotes(plan, self._clock)

    def keep(self, plan: Plan, result: TaskResult, notes: ProposalNotes | None) -> Sequence[Warning_]:
        """Write the way of a task's agents; returns what a person should know if that was not possible."""
        if notes is None:
            return ()
        try:
            self._written.keep(plan, result, notes.noted)
        except Exception as error:  # noqa: BLE001 - what is lost is a file, and never the task's result
            from harness.model.warnings import trajectory_not_kept

            return (trajectory_not_kept(error),)
        return ()

    @property
    def _written(self) -> Trajectories:
        """The folder of the run, made with the first way."""
        if self._trajectories is None:
            from harness.reporting.trajectory import Trajectories

            runs, pictured = self._settings.history_runs, self._settings.keep_previous
            root = self._settings.root
            self._trajectories = Trajectories(root, self._run_id, self._redactor, max(runs, pictured), pictured)
        return self._trajectories
