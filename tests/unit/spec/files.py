"""Task files written for a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from harness.spec.problems import Problem, SpecError

STEPS: list[dict[str, Any]] = [
    {"act": "open", "url": "http://shop.local/"},
    {"act": "click", "selector": "#buy"},
    {"act": "wait", "selector": "#done"},
]
HEAD = "task_id: T-1\nsteps:\n  - {act: open, url: 'http://shop.local/'}\n  - {act: click, selector: '#buy'}\n"
"""Four lines of a good task; what a test adds begins in line 5."""


def task(**fields: Any) -> dict[str, Any]:
    return {"task_id": "T-1", "goal": "buy", "steps": STEPS, **fields}


def write(folder: Path, text: str | bytes | dict[str, Any], name: str = "t.task.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(text, dict):
        text = json.dumps(text, indent=1, ensure_ascii=False)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def loaded(folder: Path, text: str | dict[str, Any], name: str = "t.task.yaml", **options: Any) -> Loaded:
    return load_file(write(folder, text, name), **options)


def problems(path: Path, **options: Any) -> tuple[Problem, ...]:
    """What is wrong with a file; none when it loads."""
    try:
        load_file(path, **options)
    except SpecError as error:
        return error.problems
    return ()
