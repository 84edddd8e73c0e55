"""What comes after an interruption: the last reports of xdist's workers, and the tasks that ended with it."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from harness.pytest_plugin.history import Executions
from harness.pytest_plugin.not_run import interrupted_tasks
from harness.pytest_plugin.state import STATE
from harness.reporting.task_record import TaskRecord


class LateReports:
    """Passes on what pytest itself drops, and adds it to junit.xml, which is written before it is known."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._heard: list[TaskRecord] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if record := getattr(report, "taskspec", None):
            self._heard.append(TaskRecord.model_validate(record))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Called after xdist has waited for its workers, and before the summary."""
        if exitstatus != pytest.ExitCode.INTERRUPTED:
            return
        late = self._pass_on()
        state = self._config.stash[STATE]
        ended = interrupted_tasks(self._config, state, exitstatus, self._heard)
        xml: Any = next(filter(_writes_junit, self._config.pluginmanager.get_plugins()), None)
        if xml is None or not (late or ended):
            return
        told = Executions(state.settings.root)
        for record in ended:
            begun = [key for key in xml.node_reporters if str(key[0]).endswith(f"::{record.task_id}")]
            nodeid, worker = begun[0] if begun else (told.interrupted(record).nodeid, None)
            xml.pytest_runtest_logreport(_report(str(nodeid), worker, record))
        xml.pytest_sessionfinish()

    def _pass_on(self) -> int:
        """Pass on the reports that xdist has received and no longer looks at; returns their number."""
        count, xdist = 0, self._config.pluginmanager.getplugin("dsession")
        while xdist is not None:
            try:
                event, facts = xdist.queue.get_nowait()
            except queue.Empty:
                break
            if event == "testreport":
                facts["rep"].node = facts["node"]
                self._config.hook.pytest_runtest_logreport(report=facts["rep"])
                count += 1
        return count


def _writes_junit(plugin: object) -> bool:
    return hasattr(plugin, "add_global_property")


def _report(nodeid: str, worker: object, record: TaskRecord) -> pytest.TestReport:
    why = record.summary or f"{record.code}: {record.message}"
    place = (nodeid.partition("::")[0], None, record.task_id)
    return pytest.TestReport(nodeid, place, {}, "failed", why, "call", duration=record.seconds, node=worker)
