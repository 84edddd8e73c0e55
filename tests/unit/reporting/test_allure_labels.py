"""What Allure knows at collection."""

from __future__ import annotations

import allure_commons
import pytest
from allure_pytest.helper import AllureTestHelper, AllureTitleHelper

from harness.reporting.allure_labels import entitle, label_pairs, labels, title
from harness.spec.task import TaskSpec

SPEC = TaskSpec(task_id="B1", goal="buy {2} mice", family="B", priority=1, episode_id="E7")


def test_pairs() -> None:
    assert dict(label_pairs(SPEC)) == {"severity": "blocker", "feature": "family B", "story": "E7"}
    assert dict(label_pairs(TaskSpec(task_id="B1", priority=5))) == {"severity": "trivial"}


def test_title() -> None:
    assert title(SPEC) == "B1: buy {{2}} mice"
    assert title(SPEC).format() == "B1: buy {2} mice"
    assert title(TaskSpec(task_id="B1")) == "B1"


@pytest.fixture
def allure_plugin(request: pytest.FixtureRequest) -> object:
    helpers = [AllureTestHelper(request.config), AllureTitleHelper()]
    mine = [h for h in helpers if not any(isinstance(p, type(h)) for p in allure_commons.plugin_manager.get_plugins())]
    for helper in mine:
        allure_commons.plugin_manager.register(helper)
    yield
    for helper in mine:
        allure_commons.plugin_manager.unregister(helper)


@pytest.mark.usefixtures("allure_plugin")
def test_marks() -> None:
    found = {mark.kwargs["label_type"]: mark.args for mark in labels(SPEC)}
    assert found == {"severity": ("blocker",), "feature": ("family B",), "story": ("E7",)}


@pytest.mark.usefixtures("allure_plugin")
def test_the_function_gets_the_title() -> None:
    def task() -> None: ...

    entitle(task, SPEC)
    assert task.__allure_display_name__ == "B1: buy {{2}} mice"  # type: ignore[attr-defined]


def test_without_the_plugin_nothing_is_marked() -> None:
    taken = [p for p in allure_commons.plugin_manager.get_plugins() if isinstance(p, AllureTestHelper)]
    for plugin in taken:
        allure_commons.plugin_manager.unregister(plugin)
    try:
        assert labels(SPEC) == []
    finally:
        for plugin in taken:
            allure_commons.plugin_manager.register(plugin)
