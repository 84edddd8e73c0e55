"""What the plugin keeps for one pytest session."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from harness.model.plan import new_run_id
from harness.model.report import ErrorReport
from harness.model.settings import Settings
from harness.recovery.failure import Failure
from harness.reporting.archive import links_in, unusable_folders
from harness.reporting.files import MANIFEST, read_json
from harness.reporting.progress import ProgressLine
from harness.reporting.summary import idle_lines
from harness.reporting.task_record import TaskRecord
from harness.resilience.events import Emit, nobody
from harness.runner.compile import plans_of
from harness.spec.task import TaskSpec

if TYPE_CHECKING:
    from harness.runner.harness import SyncHarness
    from harness.runner.parallel import BrokenTask, Ran


# The tasks that Ctrl-C ended: pytest makes no report of them.


def cut_short(
    config: pytest.Config, state: SessionState, exitstatus: int, heard: Iterable[TaskRecord]
) -> list[TaskRecord]:
    """Those of xdist's workers, which are gone by now, by the reports they left. `heard`: those that have a report."""
    if config.getoption("numprocesses", None) and exitstatus == pytest.ExitCode.INTERRUPTED:
        return list(interrupted_tasks(state.settings.artifacts, state.run_id, {record.key for record in heard}))
    return state.interrupted


# The tasks of an interrupted run that xdist's workers could not tell of any more.

CODE = "INTERRUPTED"


def interrupted_tasks(artifacts: Path, run_id: str, known: Collection[str] = ()) -> Iterator[TaskRecord]:
    """What the workers of the run left under `errors/` of tasks that were interrupted, by name.

    And of those that failed by themselves after pytest had stopped listening; `known` are the keys that it heard of.
    """
    for file in sorted(artifacts.glob(f"*/{MANIFEST}")):
        try:
            manifest = read_json(file)
            unheard = manifest["key"] not in known and not manifest.get("expected")
            if manifest["run"] == run_id and (manifest["code"] == CODE or unheard):
                report = ErrorReport.model_validate(read_json(file.with_name("error_report.json")))
                yield _record(report, str(manifest["key"]), file.parent)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not a directory of a task


def _record(report: ErrorReport, key: str, folder: Path) -> TaskRecord:
    metrics = report.metrics
    return TaskRecord(
        task_id=report.task_id,
        key=key,
        final_state=report.final_state,
        source=report.source,
        error_type=str(report.error_type),
        code=report.code,
        family=Failure(report.code, "").family,
        step_index=report.step_index,
        message=report.error_message,
        seconds=metrics.time_elapsed_seconds if metrics else 0,
        steps_completed=metrics.steps_completed if metrics else 0,
        steps_total=metrics.steps_total if metrics else 0,
        retries=metrics.retries_count if metrics else 0,
        warnings=report.warnings,
        artifacts=str(folder),
    )


class RunsAhead(Protocol):
    """What runs tasks before their turn."""

    def run(self, item: pytest.Item, sink: Callable[[Any], None]) -> Ran:
        """The end of this item's task, which may have run already; `sink` hears what is told of it meanwhile."""
        ...

    def skip(self, item: pytest.Item) -> None:
        """This item's turn is over, and it did not run."""
        ...

    def stop(self) -> list[Ran | BrokenTask]:
        """End what runs; what ran and had no turn."""
        ...


@dataclass(slots=True)
class SessionState:
    """One session, or one xdist worker of it."""

    settings: Settings
    progress: ProgressLine
    chosen: str | None = None
    """The agent of the command line."""
    run_id: str = field(default_factory=lambda: new_run_id(datetime.now(UTC), os.getpid()))
    broken: list[bool] = field(default_factory=list)
    """For each file that could not be collected: whether it is a task file."""
    selected: set[str] = field(default_factory=set)
    last: dict[str, str] = field(default_factory=dict)
    """Episode -> id of its last task among the selected ones."""
    links: dict[Path, str] = field(default_factory=dict)
    """Links in the place of tasks' folders as the run began, and where they lead."""
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What a dependency may be called -> ids of the tasks it stands for, those that were not selected included."""
    done: dict[str, bool] = field(default_factory=dict)
    """Task id -> whether it passed (or showed the failure it declares)."""
    problems: dict[str, list[str]] = field(default_factory=dict)
    """Task file -> what only shows beside other files: a duplicate id, a circle of dependencies."""
    idle: list[str] | None = None
    """What of the fault plans strikes no task of the run, a line each; None: there are no plans."""
    interrupted: list[TaskRecord] = field(default_factory=list)
    """Tasks that Ctrl-C ended: pytest makes no report of them."""
    unjudged: list[pytest.Item] = field(default_factory=list)
    """Tasks skipped because what they depend on did not run."""
    begun: Callable[[], None] = lambda: None
    """Called when the first thing of a run is about to start."""
    tell: Emit = nobody
    """Hears what happens around calls: circuits, services."""
    ahead: RunsAhead | None = None
    """Runs tasks before their turn; None: each runs in its turn."""
    passed_over: list[TaskRecord] = field(default_factory=list)
    """Tasks that ran ahead of a run that ended early: pytest makes no report of them."""
    broken_off: list[str] = field(default_factory=list)
    """Those of them that could not be finished, and why."""
    workers_lost: int = 0
    """Workers of xdist that died."""
    one_by_one: bool = False
    """From now on workers of xdist do one task at a time: it is not known which of several tasks has killed one."""
    afresh: str = ""
    """Of a worker that follows one that died: the end of its worlds' names. A task that runs again has a fresh one."""
    told_browser: str = ""
    """What a worker of xdist said of its browser."""
    services: Mapping[str, int] | None = None
    """Hosts of the services, once they are up for ordinary tests."""
    _harness: SyncHarness | None = None

    def harness(self) -> SyncHarness:
        """Made with the first task that runs. Raises ValueError or OSError for settings that cannot be met."""
        if self._harness is None:
            from harness.runner.harness import SyncHarness  # Playwright is loaded only in a session that runs a task

            self._harness = SyncHarness(self.settings, self.run_id, self.tell)
            self.begun()
            if named := self.chosen or self.settings.agent:
                self._harness.check_agent(named)
        return self._harness

    def check_folders(self) -> None:
        """UsageError, with a sentence for each, when the folders that every run writes into cannot be used."""
        if found := unusable_folders(self.settings):
            raise pytest.UsageError("\n".join(found))
        self.links = links_in(self.settings.artifacts)

    def look_at_plans(self, specs: Sequence[TaskSpec]) -> None:
        """Which tasks were selected is known: keep what of the fault plans strikes none of them."""
        if plans := plans_of(self.settings):
            self.idle = list(idle_lines(plans, specs))

    @property
    def agent(self) -> str | None:
        """Who chooses the steps of a task that has none."""
        return self.chosen or self.settings.chosen_agent

    @property
    def browser(self) -> str:
        """Name and version of the browser, once one was started in this process or in a worker that has ended."""
        return (self._harness.browser if self._harness else "") or self.told_browser

    @property
    def kept_services(self) -> tuple[str, ...]:
        """A line for each service that this run used and did not start, since the project keeps it."""
        return self._harness.kept_services if self._harness else ()

    def close(self) -> None:
        """Bounded. What was cut off in it is not tried again."""
        self.told_browser = self.browser
        harness, self._harness = self._harness, None
        if harness is not None:
            harness.close()


BROWSER = "taskspec_browser"
"""What a worker of xdist says at its end: `State.browser`."""
AFRESH = "taskspec_afresh"
"""Key of `workerinput`: `State.afresh`."""
DONE = "taskspec_done"
"""Key of `workerinput`: `State.done` so far, of a worker that follows one that died."""
STATE: pytest.StashKey[SessionState] = pytest.StashKey()
RECORD: pytest.StashKey[TaskRecord] = pytest.StashKey()
"""Of an item whose task ran."""
