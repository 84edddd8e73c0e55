"""A suite of task folders of somebody else, unchanged, by settings alone: four at once, each with its own files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import folder_sites
from tests.acceptance.warm import harness

SETTINGS = """
[tool.harness]
isolation = "reset"
task_workers = 4
virtual_hosts = ["http://localhost:8014/{host}/"]
memory.channel = "kv"
channels.env.file = "{folder}/env.json"
channels.kv = {sqlite = "{folder}/memory.sqlite3", table = "memory_kv", key = "key", value = "value", json = true}
extra_keys.module_group = "tag"
extra_keys.skip.lifecycle_status = ["deprecated_*"]
[tool.harness.services.sites]
command = ["{python}", "sites.py", "{port}", "{folder}"]
hosts = ["localhost"]
health = "http://localhost:8014/health"
instances = 4
reset = ["sh", "-c", "rm {folder}/env.json && {python} sites.py --seed {folder}"]
[tool.harness.defaults]
unset = ["episode_id", "dependencies"]
repairs = [{precondition = "mem('user.name') == 'ann'", memory = {"user.name" = "ann"}}]
error_recovery.on_precondition_fail = "attempt_repair"
"""


def folder(number: int, site: str, **more: Any) -> dict[str, Any]:
    spec = {
        "task_id": f"T{number}-2025-{site.upper()}",
        "family": site[0].upper(),
        "goal": f"Order something from {site}",
        "preconditions": [],
        "success_criteria": [
            f"json('env', '{site}[0].item') == 'thing {number}'",
            f"mem('{site}.local.count') == 1",
            "mem('user.age') == 20",
        ],
        "allowed_domains": [f"{site}.local"],
        "episode_id": "",
        "dependencies": ["T0-GONE"],
        "memory_keys": [f"{site}.local.count"],
        "module_group": "2fa_setup",
        "lifecycle_status": "active",
    }
    return {**spec, **more}


def trace(number: int, site: str) -> dict[str, Any]:
    url = f"http://localhost:8014/{site}.local/order.html?task={number}"
    steps = [
        {"t": 0, "act": "open", "url": url, "note": "Open the page"},
        {"t": 2, "act": "type", "selector": "#item", "value": f"thing {number}"},
        {"t": 4, "act": "click", "selector": "#go"},
        {"t": 6, "act": "wait", "selector": "#out:has-text('done 1')"},
    ]
    return {"task_id": f"T{number}-2025-{site.upper()}", "steps": steps}


def suite(root: Path) -> None:
    (root / "pyproject.toml").write_text(SETTINGS, "utf-8")
    (root / "sites.py").write_bytes(Path(str(folder_sites.__file__)).read_bytes())
    for number in range(1, 15):
        site = ("shop", "bank", "gov")[number % 3]
        more: dict[str, Any] = {"preconditions": ["mem('user.name') == 'ann'"]} if number in (3, 7) else {}
        if number == 13:
            more = {"lifecycle_status": "deprecated_2024"}
        if number == 14:
            more = {"allowed_domains": ["else.local"]}
        place = root / "tasks" / f"T{number}-{site}"
        place.mkdir(parents=True)
        (place / "task_spec.json").write_text(json.dumps(folder(number, site, **more), indent=2), "utf-8")
        (place / "oracle_trace.json").write_text(json.dumps(trace(number, site), indent=2), "utf-8")


@pytest.mark.thorough
def test_a_suite_of_task_folders_runs_by_settings_alone(pytester: pytest.Pytester) -> None:
    assert len(SETTINGS.strip().splitlines()) < 20
    suite(pytester.path)
    checked = harness("validate", "tasks", cwd=pytester.path)
    assert "14 task files" in checked.stdout
    (warned,) = re.findall(r"warning: .*", checked.stdout + checked.stderr)
    assert "T14-gov/oracle_trace.json" in warned
    assert "gov.local is outside" in warned
    result = pytester.runpytest_subprocess("tasks", "-rs")
    result.assert_outcomes(passed=12, failed=1, skipped=1)
    assert "T13-2025-BANK: `lifecycle_status` is deprecated_2024" in result.stdout.str()
    report = json.loads((pytester.path / "errors" / "T14-2025-GOV" / "error_report.json").read_text("utf-8"))
    assert report["code"] == "POLICY_DOMAIN"
    chosen = pytester.runpytest_subprocess("tasks", "-m", "module_group_2fa_setup", "--collect-only", "-q")
    assert chosen.stdout.str().count("task_spec.json::") == 14
