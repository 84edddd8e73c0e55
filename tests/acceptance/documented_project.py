"""The projects that documented commands are run in: the files and folders that README and docs speak of, made quick."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from harness.history import save_run
from tests.acceptance.conftest import INI, PYPROJECT
from tests.acceptance.documented import ROOT, blocks
from tests.acceptance.supervised import free_base, pyproject
from tests.acceptance.warm import warm
from tests.unit.history.runs import execution, failed, run, several

PREPARED = (
    "pytest tasks/ --alluredir allure-results --task-evidence all --recording full --summary summary.md"
    " --junit-xml junit.xml --timeout-scale 3 --breaker off"
)
"""What commands about the last run look at; one run shows what all of these options do."""
ALLURE = '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nmkdir -p "$2" && echo "<html></html>" > "$2/index.html"\n'
"""Stands in for Allure, which test_report_command.py has for real."""
SHOP = {"act": "open", "url": "http://shop.local/"}
SCHEDULE = """
name: {name}
faults:
  - {{tasks: C2-2025-002, kind: status, url: "http://shop.local/", status: 503, times: 1, expect: {{recovered: true}}}}
"""
WORDS = {"python": "python", "pytest": "pytest", "harness": "tests.acceptance.command"}
ALONE = {"CI": "", "GITHUB_ACTIONS": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "PYTEST_ADDOPTS": "", "COLUMNS": "200"}
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


class Sandbox:
    """Folders beside each other: `shop` has run once, `fresh` is empty, `agents` and `served` have what these need."""

    def __init__(self, base: Path, sites: dict[str, int]) -> None:
        self.base, self._done = base, dict[tuple[str, str], subprocess.CompletedProcess[str]]()
        hosts = ", ".join(f'"{host}" = {port}' for host, port in sites.items())
        settings = PYPROJECT.format(base=min(sites.values()), hosts=hosts)
        for name, text in {"shop": settings, "agents": settings, "served": pyproject(free_base()), "fresh": ""}.items():
            (base / name).mkdir()
            if text:
                (base / name / "pyproject.toml").write_text(text, "utf-8")
            (base / name / "pytest.ini").write_text(f"{INI}markers =\n    family_B: of B\n    shop: of the shop\n", "utf-8")
        self._write_shop(base / "shop")
        self._write_agents(base / "agents")
        self._write_programs(base / "bin")
        prepared = self.run(PREPARED)
        assert prepared.returncode == 1, prepared.stdout
        self._write_runs(base / "shop")

    def _write_shop(self, shop: Path) -> None:
        for name in ("tasks/campaigns", "examples", "docs"):
            (shop / name).mkdir(parents=True)
        broken = [SHOP, {"act": "click", "selector": "#no-such-thing"}]
        self._task(shop / "tasks", "B1-2025-001", family="B", tags=["shop"], steps=broken)
        self._task(shop / "tasks", "C2-2025-002", dependencies=["my-first"])
        self._task(shop / "tasks", "my-first")
        self._task(shop / "examples", "RED-2025-001", steps=broken)
        (shop / "first.task.yaml").write_text(blocks(ROOT / "README.md", "yaml")[0], "utf-8")
        for place in ("nightly", "tasks/campaigns/e2e"):
            (shop / f"{place}.faults.yaml").write_text(SCHEDULE.format(name=Path(place).name), "utf-8")
        for page in ("taskspec", "error-codes"):
            shutil.copy(ROOT / "docs" / f"{page}.md", shop / "docs")

    @staticmethod
    def _task(folder: Path, task_id: str, **spec: Any) -> None:
        rules = {"on_element_not_found": {"wait_seconds": 0.2}, "on_network_error": {"strategy": "retry"}}
        document = {"task_id": task_id, "goal": f"goal of {task_id}", "timeout": 60, "step_timeout": 20, "steps": [SHOP]}
        criteria = ["exists('#search-box')"]
        text = json.dumps({**document, "error_recovery": rules, "success_criteria": criteria, **spec})
        (folder / f"{task_id}.task.yaml").write_text(text, "utf-8")

    @staticmethod
    def _write_agents(folder: Path) -> None:
        """As docs/agents.md has them; the monkey stops early."""
        page, (folder / "tasks") = ROOT / "docs" / "agents.md", folder / "tasks"
