"""Gives what the slots of a cluster report to pytest, as if the items had run here."""

from __future__ import annotations

import builtins
import io
import shutil
import sys
import tarfile
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster.messages import ALLURE, PLACE, Done, Ended, Told, Warned, replaced
from harness.cluster.run_file import RunFile
from harness.model.ledger import Note, Word
from harness.pytest_plugin.lost import report_lost_task
from harness.pytest_plugin.selection import task_items
from harness.pytest_plugin.state import BROWSER, SessionState
from harness.pytest_plugin.stored_workers import UNNOTED
from harness.pytest_plugin.telemetry import OUTPUT, telemetry_of
from harness.recovery.failure import Failure
from harness.reporting.files import shown_path
from harness.reporting.task_record import TaskRecord
from harness.runner.not_run import died

RESUMED = "resumed"
"""The name of the slot behind results of an earlier run."""


class SlotNode:
    """A slot, as pytest and its plugins see the worker behind a report (`report.node`)."""

    def __init__(self, config: pytest.Config, name: str) -> None:
        self.config = config
        self.gateway = SimpleNamespace(id=name)
        self.workerinfo = {
            "id": name, "sysplatform": sys.platform, "version_info": sys.version_info, "executable": sys.executable
        }  # fmt: skip


class ReportReplay:
    """Replays reports in the driver's session (`driver.Reporter`)."""

    def __init__(self, session: pytest.Session, state: SessionState, file: RunFile | None) -> None:
        """`file`: what keeps the run for `--task-resume`; None with `--task-store`, which keeps it."""
        self._session = session
        self._config: Any = session.config
        self._state = state
        self._items = {item.nodeid: item for item in session.items}
        tasks = [*task_items(session.items), *task_items(state.stored.tasks if state.stored else ())]
        self._ids = {item.nodeid: item.task_id for item in tasks}
        self._file = file
        self._journal = state.stored.journal if state.stored else None
        self._nodes: dict[str, SlotNode] = {}
        self._unkept = False
        self._reruns: Counter[str] = Counter()
        """How often each item was lost."""

    @property
    def stops(self) -> bool:
        return bool(self._session.shouldfail or self._session.shouldstop)

    def done(self, slot: str, done: Done, blob: bytes) -> None:
        """Publish the files of an item, keep its result, then replay its reports."""
        if self._journal is not None and done.stored:
            self._journal.has(done.node, done.stored)
        self._unpack(done.node, blob, done.lost, done.stored)
        self._keep(done)
        self.replay(slot, done)

    def replay(self, slot: str, done: Done) -> None:
        """Replay the reports of an item."""
        hook, item, place = self._config.hook, self._items[done.node], shown_path(self._state.settings.artifacts)
        hook.pytest_runtest_logstart(nodeid=done.node, location=item.location)
        for data in done.reports:
            sent = _as_sent(replaced(data, PLACE, place))
            self._report(slot, hook.pytest_report_from_serializable(config=self._config, data=sent))
        hook.pytest_runtest_logfinish(nodeid=done.node, location=item.location)

    def crashed(self, slot: str, node: str, why: str) -> None:
        """Report an item that was lost with its slot."""
        self._keep(Note("crashed", node, why))
        self._report_lost(slot, node, why, died(why))

    def lost(self, node: str, failure: Failure) -> None:
        """Report a task that an earlier run has left without an end, and that does not run again."""
        self._report_lost(RESUMED, node, failure.message, failure)

    def repeats(self, slot: str, node: str, why: str) -> bool:
        """With `--reruns N` an item that was lost runs again, as if it had failed, so many times."""
        allowed = int(self._config.getoption("reruns", 0) or 0)
        self._reruns[node] += 1
        if self._reruns[node] > allowed:
            return False
        self._report_lost(slot, node, why, died(why), "rerun")
        return True

    def _report_lost(self, slot: str, node: str, why: str, failure: Failure, outcome: str = "failed") -> None:
        item, hook = self._items[node], self._config.hook
        report: Any = pytest.TestReport(node, item.location, {}, "failed", f"{node!r} has no result: {why}", "call")
        report.outcome = outcome
        report_lost_task(self._config, report, node, failure)
        hook.pytest_runtest_logstart(nodeid=node, location=item.location)
        self._report(slot, report)
        hook.pytest_runtest_logfinish(nodeid=node, location=item.location)

    def _report(self, slot: str, report: Any) -> None:
        report.node = self._nodes.setdefault(slot, SlotNode(self._config, slot))
        report.worker_id = slot
        document = getattr(report, "taskspec", None)
        if document and report.when == "call":
            self._state.done[document["task_id"]] = report.passed
        self._config.hook.pytest_runtest_logreport(report=report)

    def passed(self, node: str) -> tuple[str, bool] | None:
        task_id = self._ids.get(node, "")
        return (task_id, self._state.done[task_id]) if task_id in self._state.done else None

    def told(self, slot: str, message: Told | Warned | Ended, blob: bytes) -> None:
        telemetry = telemetry_of(self._config)
        match message:
            case Told(line=line):
                telemetry.receive(line)
            case Warned():
                self._warn(message)
            case Ended(output=output, interrupted=records):
                self._unpack(f"slot {slot}", blob)
                telemetry.take_problems(output.get(OUTPUT, {}))
                if self._journal is not None:
                    self._journal.note_writes(output.get(UNNOTED, ()))
                self._state.told_browser = self._state.told_browser or output.get(BROWSER, "")
                place = str(self._state.settings.artifacts)
                self._state.interrupted += [TaskRecord.model_validate(replaced(each, PLACE, place)) for each in records]

    def _warn(self, warned: Warned) -> None:
        place = (warned.place[0], warned.place[1]) if warned.place else (warned.node, 0)
        classes = (getattr(module, warned.category, None) for module in (builtins, pytest))
        category = next((each for each in classes if isinstance(each, type) and issubclass(each, Warning)), UserWarning)
        message = warnings.WarningMessage(warned.message, category, *place)
        self._config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": message, "when": "runtest", "nodeid": warned.node, "location": warned.place}
        )

    # What outlasts this process.

    def note(self, word: Word, node: str) -> None:
        """Keep something about an item. With a store the slot itself notes a write there, when this has allowed it.

        Raises OSError if a task begins to write: it must not, unless that is kept.
        """
        if word == "wrote" and self._file is not None:
            self._file.add(Note(word, node))
        else:
            self._keep(Note(word, node))

    def _keep(self, what: Note | Done) -> None:
        """Keep something for `--task-resume`. If that fails, the run goes on, and says so once."""
        try:
            if self._file is not None:
                self._file.add(what)
        except OSError as error:
            if not self._unkept:
                self._unkept = True
                self.say(f"the run cannot be gone on with after an interruption: {error}")

    def say(self, line: str) -> None:
        telemetry_of(self._config).say(line)

    # The files of a task.

    def _unpack(self, node: str, blob: bytes, lost: str = "", stored: str = "") -> None:
        """Put the files of tasks where they would be had these run here. If that fails, the results count.

        `lost`: what did not travel, or was not stored, and why. `stored`: where the store has all of them.
        """
        if lost:
            self.say(f"{node}: {lost}" + (f"; they are only in the store, in {stored}" if stored else ""))
        try:
            if blob:
                self._publish(blob)
        except (OSError, tarfile.TarError) as error:
            self.say(f"{node}: the files that its slot has sent could not be stored: {error}")

    def _publish(self, blob: bytes) -> None:
        """Unpack an archive. Raises OSError and TarError."""
        archive = self._state.harness().archive
        folder = archive.incoming("cluster")
        try:
            with tarfile.open(fileobj=io.BytesIO(blob)) as tar:
                tar.extractall(folder, filter="data")
            for part in sorted(path for path in folder.iterdir() if path.is_dir()):
                if part.name == ALLURE:
                    target = Path(self._config.getoption("--alluredir"))
                    target.mkdir(parents=True, exist_ok=True)
                    for path in part.iterdir():
                        shutil.move(path, target / path.name)  # it may be on another disk
                else:
                    archive.adopt(part.name, part)
        finally:
            archive.discard(folder)


def _as_sent(data: dict[str, Any]) -> dict[str, Any]:
    """A report as it was before JSON made lists of its tuples."""
    for name in ("location", "longrepr"):
        if isinstance(data.get(name), list):
            data[name] = tuple(data[name])
    for name in ("user_properties", "sections"):
        data[name] = [tuple(each) for each in data.get(name, [])]
    return data
