"""What Allure knows of a task before it runs: labels and title, as pytest marks (DESIGN 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import allure

from harness.spec.task import TaskSpec

SEVERITIES = {1: "blocker", 2: "critical", 3: "normal", 4: "minor", 5: "trivial"}
"""Task priority -> Allure severity."""


def label_pairs(spec: TaskSpec) -> Iterator[tuple[str, str]]:
    """(label, value): severity by priority, feature by family, story by episode. Allure takes tags from plain marks."""
    yield "severity", SEVERITIES[spec.priority]
    if spec.family:
        yield "feature", f"family {spec.family}"
    if spec.episode_id:
        yield "story", spec.episode_id


def labels(spec: TaskSpec) -> list[Any]:
    """Pytest marks for the item; empty when the allure plugin is not there."""
    label: Callable[..., Any] = allure.label
    found = (label(name, value) for name, value in label_pairs(spec))
    return [mark for mark in found if hasattr(mark, "mark")]


def title(spec: TaskSpec) -> str:
    """`task_id: goal`; braces are doubled, since Allure formats titles."""
    text = f"{spec.task_id}: {spec.goal}" if spec.goal else spec.task_id
    return text.replace("{", "{{").replace("}", "}}")


def entitle(function: Callable[..., Any], spec: TaskSpec) -> None:
    """Give the item's function its Allure title; to be done before the item is made."""
    decorate: Callable[..., Any] = allure.title
    decorate(title(spec))(function)
