"""Suites whose results must not depend on the number of parallel tasks."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.ground import ROOT
from benchmarks.workload import BLOCK, SHOP, jobs, task_spec
from harness.cli.demo import free_ports, settings_text

CAMPAIGN = "tasks/campaigns/e2e.faults.yaml"
SMALL = 3
"""The number of steps of a small task."""
OPEN = {"act": "open", "url": SHOP}


def project(temp: Path, name: str) -> Path:
    """An empty project that starts demo sites of its own, on ports that are free now."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=temp))
    text = settings_text(free_ports()).replace("health =", "ready_timeout = 20\nhealth =")
    (folder / "pyproject.toml").write_text(text, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    return folder


def shipped(folder: Path) -> None:
    """Copy the tasks of this repository."""
    shutil.copytree(ROOT / "tasks", folder / "tasks")


def generate(folder: Path, count: int) -> None:
    """Write so many walks through the shop, one in eight of which fails, and tasks with ties between them."""
    place = folder / "tasks"
    place.mkdir()
    specs = [task_spec(job) for job in jobs(count, len(BLOCK), count // 8)]
    for spec in (*specs, *_tied()):
        (place / f"{spec['task_id']}.task.json").write_text(json.dumps(spec, indent=1), "utf-8")


def restartable(folder: Path, count: int, kill_every: int) -> None:
    """Write so many small tasks that begin again when they lose their browser; every so many, one kills it itself."""
    place = folder / "tasks"
    place.mkdir()
    for number, job in enumerate(jobs(count, SMALL), 1):
        faults = [] if number % kill_every else [{"kind": "browser_kill", "step": 1}]
        spec = {**task_spec(job), "checkpoints": [0], "faults": faults}
        (place / f"{job.name}.task.json").write_text(json.dumps(spec), "utf-8")


def _tied() -> list[dict[str, Any]]:
    """Tasks with ties: dependants, an episode, one that heals, one that kills the browser."""
    remembering = {"act": "wait", "value": 0.1, "remember": {"seen": "'yes'"}}
    healing = {"strategy": "try_fallback_selector", "wait_seconds": 1, "fallback_selectors": {"#gone": ["#search-box"]}}
    return [
        _small("X-1-FAILS", success_criteria=["title() == 'Nothing'"]),
        _small("X-2-WANTS-IT", dependencies=["X-1-FAILS"]),
        _small("X-3-FIRST", episode_id="E-1", steps=[remembering]),
        _small("X-4-SECOND", episode_id="E-1", success_criteria=["mem('seen') == 'yes'"]),
        _small(
            "X-5-HEALS",
            steps=[OPEN, {"act": "click", "selector": "#gone"}],
            error_recovery={"on_element_not_found": healing},
        ),
        _small("X-6-KILLS", faults=[{"kind": "browser_kill", "step": 1}], steps=[OPEN, OPEN]),
    ]


def _small(task_id: str, **spec: Any) -> dict[str, Any]:
    return {"task_id": task_id, "goal": f"goal of {task_id}", "timeout": 120, "steps": [OPEN], **spec}
