"""Each Allure result says which run wrote it."""

from __future__ import annotations

from datetime import UTC, datetime

import allure_commons
import pytest
from allure_commons.model2 import TestResult as Result

from harness.reporting.allure.labels import began_of, run_of, without_run
from harness.reporting.allure.sink import RunLabel

RUN = "20260501T120000-77"


def test_a_result_that_is_written_has_the_run() -> None:
    plugin, seen = RunLabel(RUN), []

    class Writer:
        @allure_commons.hookimpl
        def report_result(self, result: Result) -> None:
            seen.append([(label.name, label.value) for label in result.labels])

    writer = Writer()
    plugin.register()
    allure_commons.plugin_manager.register(writer)
    plain = allure_commons.plugin_manager.subset_hook_caller(
        "report_result", [p for p in allure_commons.plugin_manager.get_plugins() if p not in (plugin, writer)]
    )
    try:
        plain(result=Result(uuid="u"))
    finally:
        plugin.unregister()
        plugin.unregister()
        allure_commons.plugin_manager.unregister(writer)
    assert seen == [[("run", RUN)]]


@pytest.mark.parametrize("run", ["", "None", "99999999T999999-1", "?"])
def test_what_is_no_id_is_no_run(run: str) -> None:
    assert began_of(run) is None
    assert run_of({"labels": [{"name": "run", "value": run}]}) == ""


def test_the_run_of_a_result() -> None:
    test = {"labels": [{"name": "epic", "value": "x"}, {"name": "run", "value": RUN}]}
    assert run_of(test) == RUN
    assert began_of(RUN) == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert without_run(test) == {"labels": [{"name": "epic", "value": "x"}]}
    assert run_of({}) == ""
