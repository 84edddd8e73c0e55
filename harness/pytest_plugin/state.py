"""The state of the plugin for one pytest session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from msgspec import Struct, field

from harness.model.settings import Settings
from harness.reporting.fence import OutputFence
from harness.spec.names import new_run_id

if TYPE_CHECKING:
    from harness.pytest_plugin.stored_workers import StorePlace
    from harness.recovery.failure import Failure
    from harness.reporting.history.reading import Durations
    from harness.reporting.history.record import Execution, RunRecord
    from harness.reporting.task_record import TaskRecord
    from harness.resilience.events import Emit
    from harness.runner.parallel import BrokenTask, Ran
    from harness.runner.slot_store import SlotStore
    from harness.runner.store_writer import StoreLedger
    from harness.runner.sync import SyncHarness
    from harness.spec.fault_plan import LoadedFaultPlan
    from harness.spec.task import TaskSpec

# What is imported in functions here is not needed for collecting tasks.


class RunsAhead(Protocol):
    """Runs tasks before their turn."""

    def run(self, item: pytest.Item, sink: Callable[[Any], None], idle: Callable[[], None] | None = None) -> Ran:
        """Return the result of this item's task, which may have run already; `sink` receives its events.

        `idle` is called several times a second until its end.
        """
        ...

    def skip(self, item: pytest.Item) -> None:
        """This item's turn is over, and it did not run."""
        ...

    def stop(self) -> list[Ran | BrokenTask]:
        """End what runs; returns the tasks that ran and had no turn."""
        ...


class JournalOfStore(Protocol):
    """What this part of the run does, kept in the store for the process that goes on with it."""

    deserted: bool
    """Whether the cluster had no machine left for the run."""

    def has(self, nodeid: str, name: str) -> None: ...

    def begin(self, run: RunRecord, tasks: Iterable[str]) -> None: ...

    def add(self, execution: Execution) -> None: ...

    def note_writes(self, task_ids: Iterable[str]) -> None: ...

    def finish(self, run: RunRecord) -> list[str]: ...

    def status(self, exitstatus: int) -> int: ...


class StoreOfRun(Protocol):
    """The store in this process."""

    @property
    def place(self) -> StorePlace: ...

    @property
    def ledger(self) -> StoreLedger: ...

    @property
    def journal(self) -> JournalOfStore | None: ...

    @property
    def slot(self) -> SlotStore | None: ...

    @property
    def tasks(self) -> Sequence[pytest.Item]: ...


class SessionState(Struct):
    """The state of one session, or of one xdist worker of it."""

    settings: Settings
    fence: OutputFence = field(default_factory=OutputFence)
    """The outputs of this process that failed."""
    durations: Durations | None = None
    """What tasks are expected to take (`--task-durations`)."""
    stored: StoreOfRun | None = None
    """The store that keeps the results of this part of the run (`--task-store`)."""
    lost: Mapping[str, Failure] = field(default_factory=dict)
    """Id of a task that an earlier process of this part has left without an end, and that does not run again -> why."""
    stopped_by: int = 0
    """The number of the signal that has ended the run."""
    chosen: str | None = None
    """The agent of the command line."""
    run_id: str = field(default_factory=lambda: new_run_id(datetime.now(UTC), os.getpid()))
    broken: int = 0
    """The number of task files that could not be collected."""
    selected: set[str] = field(default_factory=set)
    last: dict[str, str] = field(default_factory=dict)
    """Episode -> id of its last selected task."""
    links: dict[Path, str] = field(default_factory=dict)
    """Links in place of tasks' folders when the run began, with their targets."""
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name that a dependency may use -> ids of the tasks that it means, those not selected included."""
    done: dict[str, bool] = field(default_factory=dict)
    """Task id -> whether it passed (or showed the failure it declares)."""
    problems: dict[str, list[str]] = field(default_factory=dict)
    """Task file -> problems with other files: a duplicate id, a cycle of dependencies."""
    idle: list[str] | None = None
    """The entries of the fault plans that strike no task of the run, a line each; None: there are no plans."""
    interrupted: list[TaskRecord] = field(default_factory=list)
    """Tasks that Ctrl-C ended: pytest makes no report of them."""
    unjudged: list[pytest.Item] = field(default_factory=list)
    """Tasks that were skipped because a dependency did not run."""
    tell: Emit = lambda _: None
    """Receives the events of circuits and services."""
    ahead: RunsAhead | None = None
    """Runs tasks before their turn; None: each runs in its turn."""
    passed_over: list[TaskRecord] = field(default_factory=list)
    """Tasks that ran ahead in a run that ended early: pytest makes no report of them."""
    broken_off: list[str] = field(default_factory=list)
    """Tasks that ran ahead and could not be finished, with the reason."""
    workers_lost: int = 0
    """The number of xdist workers that died."""
    one_by_one: bool = False
    """Whether xdist workers do one task at a time from now on, since one died and several tasks may be the cause."""
    afresh: str = ""
    """In a worker that follows a dead one: the suffix of its worlds' names, so that repeated tasks have new ones."""
    told_browser: str = ""
    """The browser that an xdist worker has reported."""
    services: Mapping[str, int] | None = None
    """The hosts of the services, once they run for ordinary tests."""
    struck_hosts: Mapping[str, int] | None = None
    """Host -> port for ordinary tests that faults strike: those of the gates."""
    _harness: SyncHarness | None = None

    def harness(self) -> SyncHarness:
        """The harness, made for the first task that runs. Raises ValueError or OSError for bad settings."""
        if self._harness is None:
            from harness.runner.sync import SyncHarness  # Playwright is loaded only in a session that runs a task

            self._harness = SyncHarness(self.settings, self.run_id, self.tell)
            if self.stored is not None:
                self._harness.record_writes(self.stored.ledger.before_write)
            if self.chosen or self.settings.agent or self.settings.agents:
                self._harness.check_agents(self.chosen or self.settings.agent)
        return self._harness

    def check_folders(self) -> None:
        """Raise UsageError, with a sentence for each, if folders that every run writes to cannot be used."""
        from harness.reporting.workspace import links_in, unusable_folders

        if found := unusable_folders(self.settings):
            raise pytest.UsageError("\n".join(found))
        self.links = links_in(self.settings.artifacts)

    @property
    def plans(self) -> Sequence[LoadedFaultPlan]:
        """The fault plans of the run. Raises SpecError for one that cannot be used."""
        if not self.settings.faults:
            return ()
        from harness.runner.compile import plans_of

        return plans_of(self.settings)

    def look_at_plans(self, specs: Sequence[TaskSpec]) -> None:
        """Keep the entries of the fault plans that strike none of the selected tasks."""
        if plans := self.plans:
            from harness.reporting.summary import idle_lines

            self.idle = list(idle_lines(plans, specs))

    @property
    def serves_all_tests(self) -> bool:
        """Whether ordinary tests use the services too: `services_for = "session"`, or as `page_test_services` says."""
        served = self.settings.services_for == "session" or self.settings.page_test_services != "own"
        return served and bool(self.settings.services)

    @property
    def agent(self) -> str | None:
        """The agent that chooses the steps of a task without steps."""
        return self.chosen or self.settings.chosen_agent

    @property
    def browser(self) -> str:
        """Name and version of the browser, once one was started in this process or in a worker that has ended."""
        return (self._harness.browser if self._harness else "") or self.told_browser

    @property
    def kept_services(self) -> tuple[str, ...]:
        """A line for each service that this run used but did not start, because the project keeps it."""
        return self._harness.kept_services if self._harness else ()

    def close(self) -> None:
        """Close the harness, in bounded time. A close that was interrupted is not tried again."""
        self.told_browser = self.browser
        harness, self._harness = self._harness, None
        if harness is not None:
            harness.close()


BROWSER = "taskspec_browser"
"""The key under which an xdist worker reports its browser: `SessionState.browser`."""
NARROWING, FLAKY = "taskspec-narrowing", "taskspec-flaky"
"""The names of plugins whose lines the summary shows."""
AFRESH = "taskspec_afresh"
"""Key of `worker_input`: `SessionState.afresh`."""
DONE = "taskspec_done"
"""Key of `worker_input`: `SessionState.done` so far, for a worker that follows a dead one."""
STATE: pytest.StashKey[SessionState] = pytest.StashKey()
RECORD: pytest.StashKey[TaskRecord] = pytest.StashKey()
"""The record of an item whose task ran."""
