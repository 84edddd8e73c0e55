"""What Allure is told about a task before it runs: labels and title, as pytest marks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness.model.ports import Json
from harness.reporting.words import site_opened
from harness.spec.parametrize import base_id
from harness.spec.task import TaskSpec

if TYPE_CHECKING:
    from allure_commons.model2 import TestResult

_SEVERITIES = {1: "blocker", 2: "critical", 3: "normal", 4: "minor", 5: "trivial"}
"""Task priority -> Allure severity."""


def label_pairs(spec: TaskSpec) -> Iterator[tuple[str, str]]:
    """(label, value): severity by priority, epic by site, feature by family, story by episode or task, and the owner.

    Tags are missing here, because Allure takes them from plain marks.
    """
    yield "severity", _SEVERITIES[spec.priority]
    if site := site_opened(spec.steps):
        yield "epic", site
    if spec.family:
        yield "feature", f"family {spec.family}"
    yield "story", spec.episode_id or base_id(spec)
    if spec.owner:
        yield "owner", spec.owner


def tags(spec: TaskSpec) -> list[str]:
    """The plain marks of the item, which allure-pytest turns into tags."""
    return ["taskspec", *([f"family_{spec.family}"] if spec.family else []), *spec.tags]


def labels(spec: TaskSpec) -> list[Any]:
    """Pytest marks for the item; empty if the allure plugin is not loaded."""
    if not _is_loaded():
        return []
    import allure

    label: Callable[..., Any] = allure.label
    found = (label(name, value) for name, value in label_pairs(spec))
    return [mark for mark in found if hasattr(mark, "mark")]


def plain_title(spec: TaskSpec) -> str:
    """`task_id: goal`."""
    return f"{spec.task_id}: {spec.goal}" if spec.goal else spec.task_id


def title(spec: TaskSpec) -> str:
    """The title with doubled braces, since Allure formats titles."""
    return plain_title(spec).replace("{", "{{").replace("}", "}}")


def entitle(function: Callable[..., Any], spec: TaskSpec) -> None:
    """Give the item's function its Allure title; call it before the item is made."""
    if not _is_loaded():
        return
    import allure

    decorate: Callable[..., Any] = allure.title
    decorate(title(spec))(function)


def _is_loaded() -> bool:
    """Return whether Allure was imported, as its plugin does. A session without it pays nothing for it."""
    return "allure_commons" in sys.modules


def running_test() -> TestResult | None:
    """The Allure result of the running item; None without --alluredir."""
    if not _is_loaded():
        return None
    from allure_commons import plugin_manager

    for _, plugin in plugin_manager.list_name_plugin():
        reporter: Any = getattr(plugin, "allure_logger", None)
        if reporter is not None:
            found: TestResult | None = reporter.get_test(None)
            return found
    return None


def attach_text(name: str, text: str) -> None:
    """Attach a text to the running Allure test, if there is one."""
    if running_test() is not None:
        import allure

        attach: Callable[..., Any] = allure.attach
        attach(text, name=name, attachment_type=allure.attachment_type.TEXT)


# Labels each Allure result with its run: a folder of results may contain those of several runs.

RUN_LABEL = "run"


def run_of(test: Json) -> str:
    """The id of the run that wrote a result; empty for one of an older version, or of another tool."""
    values = (str(label.get("value")) for label in test.get("labels") or () if label["name"] == RUN_LABEL)
    return next((value for value in values if began_of(value)), "")


def without_run(test: Json) -> Json:
    return {**test, "labels": [label for label in test.get("labels") or () if label["name"] != RUN_LABEL]}


def began_of(run: str) -> datetime | None:
    """The start of a run, from its id; None for a text that is no id of a run."""
    try:
        return datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
