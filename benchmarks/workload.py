"""The work of all contestants: a walk through the demo shop, block by block, declared once and written for each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_never

Kind = Literal["open", "fill", "press", "wait", "click", "text"]
SHOP = "http://shop.local/"
MOUSE = ".product-item[data-sku='WM-5521']"
MISSING = "#no-such-button"
PATIENCE = 1.0
"""Seconds for which all contestants look for a missing element."""


@dataclass(frozen=True, slots=True)
class Act:
    """One step; `value` is what is filled in, pressed or read."""

    kind: Kind
    target: str
    value: str = ""


BLOCK = (
    Act("open", SHOP),
    Act("fill", "#search-box", "wireless mouse"),
    Act("press", "#search-box", "Enter"),
    Act("wait", MOUSE),
    Act("text", f"{MOUSE} .price", "$24.99"),
    Act("click", f"{MOUSE} .product-link"),
    Act("wait", "#add-to-cart"),
    Act("text", "#product-title", "Logitech M185"),
)
"""The acts of a block, which only read, so that a block can follow another."""


@dataclass(frozen=True, slots=True)
class Job:
    """One task: its acts, and whether it fails at its end."""

    name: str
    acts: tuple[Act, ...]
    fails: bool = False

    @property
    def steps(self) -> tuple[Act, ...]:
        return (*self.acts, Act("click", MISSING)) if self.fails else self.acts


def acts(steps: int) -> tuple[Act, ...]:
    """The acts of so many steps, block after block."""
    return tuple(BLOCK[number % len(BLOCK)] for number in range(steps))


def jobs(count: int, steps: int, failing: int = 0) -> tuple[Job, ...]:
    """The jobs; `failing` of them, evenly spread, fail."""
    bad = {count * number // (failing + 1) for number in range(1, failing + 1)}
    return tuple(Job(f"W-{number:05}", acts(steps), number in bad) for number in range(count))


def task_spec(job: Job) -> dict[str, Any]:
    """The job as a TaskSpec."""
    return {
        "task_id": job.name,
        "goal": "Look at the mouse in the shop.",
        "timeout": 300,
        "step_timeout": 30,
        "error_recovery": {"on_element_not_found": {"strategy": "wait_and_retry", "wait_seconds": PATIENCE}}
        if job.fails
        else {},
        "steps": [_step(act) for act in job.steps],
    }


def _step(act: Act) -> dict[str, Any]:
    match act.kind:
        case "open":
            return {"act": "open", "url": act.target}
        case "fill":
            return {"act": "type", "selector": act.target, "value": act.value}
        case "press":
            return {"act": "press", "selector": act.target, "value": act.value}
        case "wait" | "click":
            return {"act": act.kind, "selector": act.target}
        case "text":
            return {"act": "assert", "selector": act.target, "value": act.value}
        case _:
            assert_never(act.kind)


def yaml_text(job: Job) -> str:
    """The job as people write YAML, with flow mappings for the steps. JSON strings are YAML strings."""
    spec = task_spec(job)
    steps = spec.pop("steps")
    head = [f"{key}: {json.dumps(value)}" for key, value in spec.items()]
    return "\n".join([*head, "steps:", *(f"  - {_flow(step)}" for step in steps), ""])


def _flow(step: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in step.items()) + "}"


def python_text(job: Job) -> str:
    """The job as a test of pytest-playwright."""
    head = ["from playwright.sync_api import Page, expect", "", "", f"def test_{slug(job)}(page: Page) -> None:"]
    return "\n".join([*head, *(f"    {line}" for line in map(_call, job.steps)), ""])


def slug(job: Job) -> str:
    return job.name.lower().replace("-", "_")


def _call(act: Act) -> str:
    target = f"page.locator({act.target!r})"
    match act.kind:
        case "open":
            return f"page.goto({act.target!r})"
        case "fill":
            return f"{target}.fill({act.value!r})"
        case "press":
            return f"{target}.press({act.value!r})"
        case "wait":
            return f"{target}.first.wait_for()"
        case "click":
            return f"{target}.click({_limit(act)})"
        case "text":
            return f"expect({target}).to_have_text({act.value!r})"
        case _:
            assert_never(act.kind)


def _limit(act: Act) -> str:
    return f"timeout={PATIENCE * 1000:g}" if act.target == MISSING else ""


def as_json(work: Sequence[Job]) -> list[dict[str, Any]]:
    """The jobs for another process."""
    return [
        {"name": job.name, "acts": [[a.kind, a.target, a.value] for a in job.acts], "fails": job.fails} for job in work
    ]


def from_json(document: Iterable[dict[str, Any]]) -> tuple[Job, ...]:
    return tuple(Job(each["name"], tuple(Act(*act) for act in each["acts"]), each["fails"]) for each in document)
