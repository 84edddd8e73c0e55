"""What Allure knows of a task before it runs: labels and title, as pytest marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

import allure
import allure_commons
from allure_commons.model2 import Label, TestResult

from harness.model.ports import Json
from harness.spec.parametrize import base_id
from harness.spec.steps import Step
from harness.spec.task import TaskSpec

SEVERITIES = {1: "blocker", 2: "critical", 3: "normal", 4: "minor", 5: "trivial"}
"""Task priority -> Allure severity."""


def label_pairs(spec: TaskSpec) -> Iterator[tuple[str, str]]:
    """(label, value): severity by priority, epic by site, feature by family, story by episode or task, and the owner.

    Allure takes tags from plain marks.
    """
    yield "severity", SEVERITIES[spec.priority]
    if site := site_of(spec.steps):
        yield "epic", site
    if spec.family:
        yield "feature", f"family {spec.family}"
    yield "story", spec.episode_id or base_id(spec)
    if spec.owner:
        yield "owner", spec.owner


def site_of(steps: Iterable[Step], base_url: str | None = None) -> str | None:
    """The host of the first page that is opened; None when it is not known yet, or there is none."""
    url = next((str(getattr(step, "url", "")) for step in steps if step.act == "open"), None)
    if url is None or "${" in url:
        return None
    try:
        return urlsplit(urljoin(base_url or "", url)).hostname
    except ValueError:
        return None


def tags(spec: TaskSpec) -> list[str]:
    """The plain marks of its item, which allure-pytest makes tags."""
    return ["taskspec", *([f"family_{spec.family}"] if spec.family else []), *spec.tags]


def labels(spec: TaskSpec) -> list[Any]:
    """Pytest marks for the item; empty when the allure plugin is not there."""
    label: Callable[..., Any] = allure.label
    found = (label(name, value) for name, value in label_pairs(spec))
    return [mark for mark in found if hasattr(mark, "mark")]


def plain_title(spec: TaskSpec) -> str:
    """`task_id: goal`."""
    return f"{spec.task_id}: {spec.goal}" if spec.goal else spec.task_id


def title(spec: TaskSpec) -> str:
    """Braces are doubled, since Allure formats titles."""
    return plain_title(spec).replace("{", "{{").replace("}", "}}")


def entitle(function: Callable[..., Any], spec: TaskSpec) -> None:
    """Give the item's function its Allure title; to be done before the item is made."""
    decorate: Callable[..., Any] = allure.title
    decorate(title(spec))(function)


# Says in each Allure result which run wrote it: a folder of results gathers those of several.

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
