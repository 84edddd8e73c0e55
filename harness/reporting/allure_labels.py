"""What Allure knows of a task before it runs: labels and title, as pytest marks (DESIGN 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

import allure

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
