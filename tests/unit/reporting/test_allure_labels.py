"""What Allure knows at collection."""

from __future__ import annotations

from pathlib import Path

import allure_commons
import pytest
from allure_pytest.helper import AllureTestHelper, AllureTitleHelper

from harness.reporting.allure.labels import entitle, label_pairs, labels, title
from harness.reporting.words import site_opened
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.task import TaskSpec
from tests.unit.reporting import sample

SPEC = TaskSpec(task_id="B1", goal="buy {2} mice", family="B", priority=1, episode_id="E7", owner="checkout team")


def test_pairs() -> None:
    pairs = {"severity": "blocker", "feature": "family B", "story": "E7", "owner": "checkout team"}
    assert dict(label_pairs(SPEC)) == pairs
    assert dict(label_pairs(TaskSpec(task_id="B1", priority=5))) == {"severity": "trivial", "story": "B1"}


def test_the_cases_of_a_task_are_one_story() -> None:
    case = TaskSpec.model_validate({"task_id": "B1", "parametrize": [{"n": 1}, {"n": 2}]})
    loaded = Loaded(case, Path("b1.task.yaml"), ())
    assert {dict(label_pairs(each.spec))["story"] for each in expand(loaded)} == {"B1"}


@pytest.mark.parametrize(
    ("url", "base", "site"),
    [
        ("http://shop.local:8471/a", None, "shop.local"),
        ("/cart", "https://shop.local/", "shop.local"),
        ("/cart", None, None),
        ("${inputs.start}", "http://shop.local/", None),
        ("http://[broken", None, None),
    ],
)
def test_the_site_is_the_host_of_the_first_page(url: str, base: str | None, site: str | None) -> None:
    steps = [sample.step(act="wait", selector="#a"), sample.step(act="open", url=url)]
    assert site_opened(steps, base) == site


def test_a_site_that_the_file_names_is_the_epic() -> None:
    steps = [{"act": "open", "url": "http://bank.local/"}]
    assert dict(label_pairs(TaskSpec.model_validate({"task_id": "B1", "steps": steps})))["epic"] == "bank.local"


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
    assert found == {
        "severity": ("blocker",),
        "feature": ("family B",),
        "story": ("E7",),
        "owner": ("checkout team",),
    }


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
