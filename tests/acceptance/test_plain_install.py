"""The distribution alone, with what it requires and no extra: every key that needs no extra works, and each command.

By default the wheel is unpacked into an environment that has links to these distributions and nothing else, without a
network. With `TASKSPEC_TESTS=full` pip installs it, with what it requires.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, cast, get_args
from zipfile import ZipFile

import pytest

from harness.model.channel_settings import ChannelSettings
from harness.spec.steps import Step
from harness.spec.task import TaskSpec
from tests.runtime import built, runtime_distributions

SITE = Path(__file__).with_name("plain_site.py")
NEED_AN_EXTRA = {"accessibility", "tool", "restore_argument"}
"""Acts and keys of channels: for axe, and for servers of tools."""
SETTINGS = f"""
[tool.harness]
isolation = "reset"
init_script = "init.js"
evidence = "all"

[tool.harness.services.plain]
command = ["{{python}}", "{SITE}", "{{port}}", "{{folder}}"]
hosts = ["plain.test"]
health = "http://plain.test/state"
reset = "restart"
template = "seed"

[tool.harness.channels.state]
url = "http://plain.test/state"
clock = "now"
schema = "state.schema.json"
timeout = 20

[tool.harness.channels.file]
file = "{{folder}}/rows.json"
readonly = true

[tool.harness.channels.rows]
sqlite = "{{folder:plain}}/rows.db"
table = "rows"
key = "id"
value = "item"

[tool.harness.channels.code]
python = "plain_code:read"
restore = "plain_code:write"
arguments = {{ folder = "{{folder}}" }}

[tool.harness.logins.ann]
steps = [{{act = "open", url = "http://plain.test/?login"}}]
check_url = "http://plain.test/"
holds = "text('#user') == 'user=ann'"
lost_when = "text('#user') == ''"

[tool.harness.browser.profiles.phone]
device = "iPhone 13"
"""
CODE = """
KEPT = {"kept": 1}
def read(world, folder):
    return KEPT
def write(world, document, folder):
    KEPT.clear(); KEPT.update(document)
"""
ON = "http://plain.test"
EVERYTHING: dict[str, Any] = {
    "task_id": "EVERYTHING",
    "family": "P",
    "priority": 1,
    "owner": "ann",
    "seed": 3,
    "time": "2026-01-02T03:04:05Z",
    "persona": {"name": "Ann"},
    "goal": "use every key",
    "inputs": {"name": "${param.word} ${now + 1d | %Y}"},
    "page_values": {"flag": "on"},
    "allowed_domains": ["plain.test"],
    "browser": {"locale": "de-DE", "viewport": [800, 600]},
    "login": "ann",
    "before_each": [{"act": "wait", "value": 0}],
    "after_each": [{"act": "wait", "value": 0}],
    "preconditions": ["mem('ready') == 1"],
    "memory": {"item": "pen"},
    "memory_keys": ["ready"],
    "artifacts": ["shot"],
    "rubrics": {"SR": 1, "LH-F1": 1},
    "scoring_checkpoints": [{"id": "a", "assertion": "exists('h1')", "weight": 2}],
    "tags": ["plain"],
    "slow": True,
    "skip_if": {"env": "NOT_SET_HERE", "reason": "never"},
    "handlers": [{"when": "visible('#never')", "steps": [{"act": "click", "selector": "#never"}]}],
    "timeout_profile": "simple",
    "timeout": 200,
    "step_timeout": 40,
    "expect_timeout": 20,
    "checkpoints": [1],
    "error_recovery": {
        "on_network_error": {"strategy": "exponential_backoff", "max_retries": 3, "retry_delay_ms": 100, "jitter": 0.5},
        "on_precondition_fail": {"strategy": "attempt_repair"},
    },
    "fallback_plan": {"enabled": True, "relaxed_success_criteria": ["exists('h1')"]},
    "state_bindings": {"item": "rows.a"},
    "repairs": [{"precondition": "mem('ready') == 1", "memory": {"ready": 1}}],
    "budget": {"max_steps": 80, "max_requests": 500, "max_seconds": 190, "max_retries": 40},
    "routes": [{"url": f"{ON}/routed", "body": "routed"}],
    "faults": [{"kind": "reset", "url": f"{ON}/?again", "step": 1, "times": 1}],
    "expect": {"final_state": "completed"},
    "expected_memory": {"ready": 1},
    "parametrize": {"file": "cases.csv", "id": "case"},
    "steps": [
        {"act": "open", "url": f"{ON}/"},
        {"act": "open", "url": f"{ON}/?again"},
        {"act": "set", "color_scheme": "dark"},
        {"act": "reload"},
        {"act": "back"},
        {"act": "forward"},
        {"act": "wait", "selector": "#name"},
        {"act": "focus", "selector": "#name"},
        {"act": "blur", "selector": "#name"},
        {"act": "clear", "selector": "#name"},
        {"act": "type", "selector": "#name", "value": "${inputs.name} ${persona.name}",
         "remember": {"typed": "value('#name')"}},
        {"act": "type", "selector": "#name", "value": "${totp:PLAIN_TOTP}"},
        {"act": "press", "selector": "#name", "value": "End"},
        {"act": "select", "selector": "#size", "value": {"label": "L"}},
        {"act": "check", "selector": "#box"},
        {"act": "uncheck", "selector": "#box"},
        {"act": "hover", "selector": "#from"},
        {"act": "drag", "selector": "#from", "value": "#to"},
        {"act": "scroll", "value": 100},
        {"act": "upload", "selector": "#file", "value": "note.txt"},
        {"act": "download", "selector": "#get", "value": "file"},
        {"act": "dialog", "value": "accept"},
        {"act": "click", "selector": "#ask"},
        {"act": "assert", "selector": "#asked", "value": "true"},
        {"act": "screenshot", "screenshot_id": "shot"},
        {"act": "click", "selector": "#new"},
        {"act": "switch_page", "value": 1},
        {"act": "switch_page", "value": 0},
        {"act": "api", "method": "GET", "url": f"{ON}/state"},
        {"act": "submit", "selector": "#form", "done_when": "title() == 'Done'"},
    ],
    "success_criteria": [
        "title() == 'Done'",
        "json('state', 'orders').length == 0",
        "json('file', 'total') == 1",
        "json('rows', 'a') == 'pen'",
        "json('code', 'kept') == 1",
        "json('state', 'now') matches '^2026-01-02'",
    ],
}  # fmt: skip
WRONG = {"task_id": "WRONG", "goal": "a failure with all its evidence", "dependencies": [], "episode_id": "e",
         "users": {"ann": {}, "bob": {"login": "ann", "browser": {"locale": "en-GB"}}},
         "steps": [{"act": "open", "url": f"{ON}/", "as": "bob"}],
         "success_criteria": ["text('h1', as='bob') == 'Fancy'"]}  # fmt: skip
CORRUPT = {"task_id": "CORRUPT", "goal": "a document that violates its schema",
           "steps": [{"act": "api", "method": "PUT", "url": f"{ON}/state", "value": "[]"}],
           "success_criteria": ["json('state', 'orders').length == 0"],
           "expect": {"final_state": "aborted", "code": "DATA_CORRUPTION"}}  # fmt: skip
MONKEY = {"task_id": "MONKEY", "goal": "any clicks", "expect": {"final_state": "aborted", "code": "BUDGET_EXCEEDED"},
          "agent": "monkey", "agent_fallback": ["scripted"],
          "agent_fallback_if_unmet": True, "budget": {"max_steps": 2}, "allowed_domains": ["plain.test"],
          "allowed_writes": [{"url": f"{ON}/*"}], "steps": [{"act": "open", "url": f"{ON}/"}],
          "success_criteria": ["exists('h1')"]}  # fmt: skip
SKIPPED = {"task_id": "SKIPPED", "goal": "none yet", "skip": "not built yet", "steps": [{"act": "open", "url": ON}],
           "success_criteria": ["exists('h1')"]}  # fmt: skip
KNOWN = {"task_id": "KNOWN", "goal": "a known defect", "expected_failure": "the title is wrong",
         "browser": {"device": "Pixel 5"},
         "steps": [{"act": "open", "url": f"{ON}/"}, {"act": "tap", "selector": "h1"}],
         "success_criteria": ["title() == 'Right'"]}  # fmt: skip
COMMANDS = (
    ["--version"], ["validate", "tasks"], ["show", "WRONG"], ["explain", "CRITERIA_UNMET"], ["triage"], ["history"],
    ["dashboard"], ["schema"], ["services", "status"],
)  # fmt: skip
RUN_ALL = """
import sys
from harness.cli import main
for command in {commands}:
    sys.argv = ["harness", *command]
    try:
        main()
    except SystemExit as ended:
        print(f"ended with {{ended.code}}: {{command}}", flush=True)
"""


def linked(folder: Path) -> Path:
    """The interpreter of an environment with the wheel, and with links to the distributions that it requires."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for each in runtime_distributions().values():
        names = {file.parts[0] for file in each.files or () if file.parts[0] not in ("..", "__pycache__")}
        for name in names:
            (site / name).symlink_to(each.locate_file(name))  # type: ignore[arg-type]
    with ZipFile(built(folder / "wheel")) as wheel:
        wheel.extractall(site)
    return folder / "bin/python"


def installed(folder: Path) -> Path:
    """The interpreter of an environment into which pip has installed the wheel."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = built(folder / "wheel")
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    subprocess.run([*pip, "--python", str(python), "install", str(wheel)], check=True)
    return python


@pytest.mark.parametrize("way", [linked, pytest.param(installed, marks=pytest.mark.thorough)])
def test_what_needs_no_extra_works_in_a_plain_install(tmp_path: Path, way: Any) -> None:
    python, project = way(tmp_path / "environment"), tmp_path / "project"
    tasks = project / "tasks"
    tasks.mkdir(parents=True)
    texts = {
        "pyproject.toml": SETTINGS, "plain_code.py": CODE, "init.js": "window.FROM_INIT = 'init'",
        "state.schema.json": json.dumps({"type": "object", "properties": {"orders": {"type": "array"}}}),
        "seed/kept.txt": "the first state", "tasks/note.txt": "a note", "tasks/cases.csv": "case,word\none,pen\n",
    }  # fmt: skip
    (project / "seed").mkdir()
    for name, text in texts.items():
        (project / name).write_text(text, "utf-8")
    for task in (EVERYTHING, WRONG, CORRUPT, MONKEY, SKIPPED, KNOWN):
        (tasks / f"{task['task_id']}.task.json").write_text(json.dumps(task), "utf-8")

    def run(*command: str) -> str:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
        environ |= {"PLAIN_TOTP": "JBSWY3DPEHPK3PXP", "HARNESS_HISTORY": "1"}
        line = [str(python), *command]
        done = subprocess.run(line, check=False, cwd=project, env=environ, capture_output=True, text=True)
        return f"{done.stdout}{done.stderr}\nexit code {done.returncode}"

    said = run("-m", "pytest", "tasks", "--alluredir=allure", "--junitxml=junit.xml", "--task-summary=summary.md")
    assert "1 failed, 3 passed, 1 skipped, 1 xfailed" in said, said
    assert "ModuleNotFoundError" not in said
    told = run("-c", RUN_ALL.format(commands=COMMANDS))
    assert "Traceback" not in told, told
    assert [line for line in told.splitlines() if line.startswith("ended with 2")] == [], f"wrong usage: {told}"


def test_each_key_that_needs_no_extra_is_used() -> None:
    used = {key for task in (EVERYTHING, WRONG, MONKEY, SKIPPED, KNOWN) for key in task}
    assert used >= TaskSpec.model_fields.keys() - {"only"}  # it would leave out the others
    acts = {get_args(each.model_fields["act"].annotation)[0] for each in get_args(get_args(Step)[0])}
    steps = cast("list[dict[str, Any]]", [*EVERYTHING["steps"], *KNOWN["steps"]])
    assert {step["act"] for step in steps} == acts - NEED_AN_EXTRA
    keys = {field.alias or name for name, field in ChannelSettings.model_fields.items()} - NEED_AN_EXTRA
    assert {key for key in keys if f"\n{key} = " not in SETTINGS} == set()
