"""Says in each Allure result which run wrote it: a folder of results gathers those of several."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import allure_commons
from allure_commons.model2 import Label, TestResult

from harness.model.ports import Json

RUN_LABEL = "run"

_first: Any = allure_commons.hookimpl(tryfirst=True)


class RunLabel:
    """A plugin of Allure's, in each process of a run."""

    def __init__(self, run: str) -> None:
        self._run = run

    @_first  # type: ignore[untyped-decorator]
    def report_result(self, result: TestResult) -> None:
        """Before Allure writes it."""
        result.labels.append(Label(RUN_LABEL, self._run))

    def register(self) -> None:
        manager: Any = allure_commons.plugin_manager
        manager.register(self)

    def unregister(self) -> None:
        """Also when it never was registered."""
        manager: Any = allure_commons.plugin_manager
        if manager.is_registered(self):
            manager.unregister(self)


def run_of(test: Json) -> str:
    """The id of the run that wrote a result; empty for one of an older version, or of another tool."""
    values = (str(label.get("value")) for label in test.get("labels") or () if label["name"] == RUN_LABEL)
    return next((value for value in values if began_of(value)), "")


def without_run(test: Json) -> Json:
    return {**test, "labels": [label for label in test.get("labels") or () if label["name"] != RUN_LABEL]}


def began_of(run: str) -> datetime | None:
    """When a run began, by its id; None for what is no id of a run."""
    try:
        return datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
