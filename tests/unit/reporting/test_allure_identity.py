"""A result that allure-pytest could not finish is of the same test as one that it did."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from allure_commons import model2
from allure_pytest import utils

from harness.reporting.allure.sink import finish_identity, name_test
from harness.spec.task import TaskSpec


@pytest.mark.parametrize(
    "node_id", ["tasks/b1.task.yaml::B1", "b1.task.json::B1[a-2]", "a/b/c/task_spec.json::Z/2", "x.y/noext::B1"]
)
def test_the_same_test_as_allure_pytest_says(node_id: str) -> None:
    spec = TaskSpec(task_id=node_id.partition("::")[2], goal="buy {2} mice", family="B")
    test = model2.TestResult(uuid="u")
    name_test(test, node_id, spec)
    finish_identity(test, spec)
    item = SimpleNamespace(nodeid=node_id, stash={}, name=spec.task_id, iter_markers=lambda name: ())
    parsed = utils.ParsedPytestNodeId(node_id)
    assert test.fullName == f"{parsed.package}#{spec.task_id}"
    assert test.historyId == utils.get_history_id(test.fullName, [], {})
    assert test.titlePath == parsed.path_segments
    labels = {label.name: label.value for label in test.labels}
    suites = {"parentSuite": parsed.parent_package, "suite": parsed.module}
    assert {name: labels.get(name, "") for name in suites} == suites
    assert item.name == test.name.partition(":")[0]
