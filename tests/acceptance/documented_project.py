"""The files and folders that README and docs speak of, made quick: projects for the documented commands to run in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from harness.reporting.history.file import HISTORY
from harness.reporting.history.writing import save_run
from tests.acceptance.conftest import INI, PYPROJECT
from tests.acceptance.documented import ROOT, blocks
from tests.acceptance.supervised import free_base, pyproject
from tests.unit.reporting.history.runs import execution, failed, run, several

ALLURE = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
mkdir -p "$2" && echo "<html></html>" > "$2/index.html"
"""
"""Stands in for Allure, which test_report_command.py runs for real."""
PLAN = """
name: {name}
faults:
  - {{tasks: my-first, kind: status, url: "http://shop.local/", status: 503, times: 1, expect: {{recovered: true}}}}
"""
MARKERS = "markers =\n    family_B: tasks of family B\n    shop: tasks of the shop\n"
OPEN = {"act": "open", "url": "http://shop.local/"}
BROKEN = {"steps": [OPEN, {"act": "click", "selector": "#no-such-thing"}]}
RULES = {"on_element_not_found": {"wait_seconds": 0.2}, "on_network_error": {"strategy": "exponential_backoff"}}


def write_projects(base: Path, sites: dict[str, int]) -> None:
    """`shop` and `done` have tasks, `agents` and `tools` those of their pages, `kept` and `started` a site."""
    hosts = ", ".join(f'"{host}" = {port}' for host, port in sites.items())
    settings = PYPROJECT.format(base=min(sites.values()), hosts=hosts)
    served = {name: pyproject(free_base()) for name in ("kept", "started")}
    for name, text in {
        **dict.fromkeys(("shop", "done", "agents"), settings),
        "fresh": "",
        "tools": "",
        **served,
    }.items():
        (base / name / "tasks").mkdir(parents=True)
        (base / name / "pytest.ini").write_text(INI + MARKERS, "utf-8")
        if text:
            (base / name / "pyproject.toml").write_text(text, "utf-8")
    for name in ("shop", "done"):
        _write_shop(base / name)
    _write_agents(base / "agents")
    _write_tools(base / "tools")
    _program(base / "bin" / "xdg-open", "#!/bin/sh\n")  # no window on anybody's desktop
    _program(base / "done" / "node_modules" / ".bin" / "allure", ALLURE)


def _write_shop(shop: Path) -> None:
    _task(shop / "tasks", "B1-2025-001", family="B", tags=["shop"], **BROKEN)
    _task(shop / "tasks", "C2-2025-002", dependencies=["my-first"])
    _task(shop / "tasks", "my-first")
    _task(shop / "examples", "RED-2025-001", **BROKEN)
    (shop / "first.task.yaml").write_text(blocks(ROOT / "README.md", "yaml")[0], "utf-8")
    (shop / "tasks" / "campaigns").mkdir()
    for place in ("nightly", "tasks/campaigns/e2e"):
        (shop / f"{place}.faults.yaml").write_text(PLAN.format(name=Path(place).name), "utf-8")
    (shop / "docs").mkdir()
    for page in ("taskspec", "error-codes"):
        shutil.copy(ROOT / "docs" / f"{page}.md", shop / "docs")


def _task(folder: Path, task_id: str, **spec: Any) -> None:
    folder.mkdir(exist_ok=True)
    document = {
        "task_id": task_id,
        "goal": f"goal of {task_id}",
        "timeout": 60,
        "step_timeout": 20,
        "error_recovery": RULES,
        "steps": [OPEN],
        "success_criteria": ["exists('#search-box')"],
        **spec,
    }
    (folder / f"{task_id}.task.yaml").write_text(json.dumps(document, indent=1), "utf-8")


def _write_agents(folder: Path) -> None:
    """The page's own files; but that the monkey stops early."""
    page = ROOT / "docs" / "agents.md"
    (words, *_, monkey), (buy, *_, survive) = blocks(page, "toml"), blocks(page, "yaml")
    settings = folder / "pyproject.toml"
    text = settings.read_text("utf-8").replace("[tool.harness]\n", '[tool.harness]\nagent = "words"\n', 1)
    settings.write_text(f"{text}\n{words}\n{monkey.replace('steps = 25', 'steps = 1')}", "utf-8")
    (folder / "goal_words.py").write_text(blocks(page, "python")[0], "utf-8")
    (folder / "tasks" / "buy.task.yaml").write_text(buy, "utf-8")
    (folder / "monkey.task.yaml").write_text(survive, "utf-8")


def _write_tools(folder: Path) -> None:
    """The page's own files."""
    page = ROOT / "docs" / "tools.md"
    (folder / "mailbox_mcp.py").write_text(blocks(page, "python")[0], "utf-8")
    (folder / "pyproject.toml").write_text(blocks(page, "toml")[0], "utf-8")
    (folder / "tasks" / "code.task.yaml").write_text(blocks(page, "yaml")[0], "utf-8")


def _program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    file.chmod(0o755)


def write_runs(done: Path) -> None:
    """What more runs, and other machines, would have left beside the one that was made."""
    for number in (1, 2, 3):
        (done / f"shard-{number}").mkdir()
    shutil.copytree(done / "errors", done / "shard-1" / "errors")
    shutil.copy(done / HISTORY, done / "shard-1")
    for number in (2, 3):
        parts = [execution(failed(f"T-{number}", "STEP_TIMEOUT"))]
        save_run(done / f"shard-{number}", run(f"20251116T09000{number}-1", parts))
    for each in several(6):
        save_run(done, each)
    (evidence,) = (done / ".harness" / "evidence").iterdir()
    shutil.copytree(evidence, evidence.with_name("20251116T090000-4711"))
