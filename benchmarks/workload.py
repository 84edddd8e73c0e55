"""The work of all contestants, block by block, declared once and written for each.

A block is a walk through the demo shop, which mostly reads, or a form, which is mostly filled in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["open", "fill", "press", "select", "check", "uncheck", "wait", "click", "text", "upload", "api"]
SHOP = "http://shop.local/"
FORM = "http://form.local/"
PICTURE = Path(__file__).with_name("form.html")
"""A file that is uploaded; task files have it beside them."""
MOUSE = ".product-item[data-sku='WM-5521']"
MISSING = "#no-such-button"
PATIENCE = 1.0
"""Seconds for which all contestants look for a missing element."""


@dataclass(frozen=True, slots=True)
class Act:
    """One step; `value` is what is filled in, pressed, chosen, uploaded or read. For `api`, `target` is a real URL."""

    kind: Kind
    target: str
    value: str = ""


WRITTEN: dict[Kind, tuple[str, tuple[str, ...], str]] = {
    "open": ("open", ("url",), "page.goto({target!r})"),
    "fill": ("type", ("selector", "value"), "{at}.fill({value!r})"),
    "press": ("press", ("selector", "value"), "{at}.press({value!r})"),
    "select": ("select", ("selector", "value"), "{at}.select_option({value!r})"),
    "check": ("check", ("selector",), "{at}.check()"),
    "uncheck": ("uncheck", ("selector",), "{at}.uncheck()"),
    "wait": ("wait", ("selector",), "{at}.first.wait_for()"),
    "click": ("click", ("selector",), "{at}.click({limit})"),
    "text": ("assert", ("selector", "value"), "expect({at}).to_have_text({value!r})"),
    "upload": ("upload", ("selector", "value"), "{at}.set_input_files({file!r})"),
    "api": ("api", ("url",), "assert page.request.get({target!r}).ok"),
}
"""Each kind as a step of a task (its act, the keys of target and value), and as a call of Playwright's sync API."""
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
FIELDS = (
    Act("open", FORM),
    Act("fill", "#name", "Ada Lovelace"),
    Act("fill", "#mail", "ada@example.org"),
    Act("select", "#country", "at"),
    Act("check", "#news"),
    Act("click", "#save"),
    Act("wait", "#said"),
    Act("text", "#said", "Saved: Ada Lovelace, at, with news"),
)
"""The acts of a block of which six act on fields: 24 of 32 steps."""


def alone(port: int) -> dict[str, tuple[Act, ...]]:
    """Each act by itself: name -> acts of that kind, which can be done again and again on the form of that port."""
    return {
        "open": (Act("open", FORM),),
        "type": (Act("fill", "#name", "Ada Lovelace"), Act("fill", "#name", "Grace Hopper")),
        "select": (Act("select", "#country", "at"), Act("select", "#country", "ch")),
        "check": (Act("check", "#news"), Act("uncheck", "#news")),
        "click": (Act("click", "#save"),),
        "wait": (Act("wait", "#name"),),
        "assert text": (Act("text", "h1", "Subscribe"),),
        "upload": (Act("upload", "#picture", PICTURE.name),),
        "api": (Act("api", f"http://127.0.0.1:{port}/note"),),
    }


@dataclass(frozen=True, slots=True)
class Job:
    """One task: its acts, and whether it fails at its end."""

    name: str
    acts: tuple[Act, ...]
    fails: bool = False

    @property
    def steps(self) -> tuple[Act, ...]:
        return (*self.acts, Act("click", MISSING)) if self.fails else self.acts


def acts(steps: int, block: Sequence[Act] = BLOCK) -> tuple[Act, ...]:
    """The acts of so many steps, block after block."""
    return tuple(block[number % len(block)] for number in range(steps))


def jobs(count: int, steps: int, failing: int = 0, block: Sequence[Act] = BLOCK) -> tuple[Job, ...]:
    """The jobs; `failing` of them, evenly spread, fail."""
    bad = {count * number // (failing + 1) for number in range(1, failing + 1)}
    return tuple(Job(f"W-{number:05}", acts(steps, block), number in bad) for number in range(count))


def task_spec(job: Job) -> dict[str, Any]:
    """The job as a TaskSpec."""
    return {
        "task_id": job.name,
        "goal": "Show what the harness costs.",
        "timeout": 300,
        "step_timeout": 30,
        "error_recovery": {"on_element_not_found": {"strategy": "wait_and_retry", "wait_seconds": PATIENCE}}
        if job.fails
        else {},
        "steps": [_step(act) for act in job.steps],
    }


def _step(act: Act) -> dict[str, Any]:
    name, keys, _ = WRITTEN[act.kind]
    return {"act": name, **dict(zip(keys, (act.target, act.value), strict=False))}


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
    at, file = f"page.locator({act.target!r})", str(PICTURE.parent / act.value)
    return WRITTEN[act.kind][2].format(at=at, target=act.target, value=act.value, limit=_limit(act), file=file)


def _limit(act: Act) -> str:
    return f"timeout={PATIENCE * 1000:g}" if act.target == MISSING else ""


def as_json(work: Sequence[Job]) -> list[dict[str, Any]]:
    """The jobs for another process."""
    return [
        {"name": job.name, "acts": [[a.kind, a.target, a.value] for a in job.acts], "fails": job.fails} for job in work
    ]


def from_json(document: Iterable[dict[str, Any]]) -> tuple[Job, ...]:
    return tuple(Job(each["name"], tuple(Act(*act) for act in each["acts"]), each["fails"]) for each in document)
