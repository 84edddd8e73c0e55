"""Agents that are processes of their own: a stranger's script does tasks in real Chromium."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.test_bridge import ONE_ORDER
from tests.acceptance.warm import harness, warm
from tests.conftest import FULL

STRANGER = Path(__file__).parent / "stranger_agent.py"
KEY = "demo-model-key"
MODEL = """
[tool.harness.models.{name}]
provider = "openai-compatible"
base_url = "http://models.local/v1"
model = "scripted-fast"
key = "${{env:DEMO_KEY}}"
"""
SHOP = "http://shop.local"
BUY = [
    {"act": "open", "url": f"{SHOP}/product/WM-5521"},
    {"act": "click", "selector": "#add-to-cart", "effect": "write"},
    {"act": "click", "selector": "#checkout-button"},
    {"act": "submit", "selector": "#checkout-form", "effect": "write"},
    {"act": "wait", "selector": "#order-id"},
]
BOUGHT = {"success_criteria": ["json('env', 'shop.orders.O-10001.status') == 'confirmed'"]}


def stranger(project: Project, steps: list[dict[str, Any]], *more: str, name: str = "stranger", **table: Any) -> None:
    """An agent of the project: the stranger's script, which does these steps."""
    (project.path / f"{name}.json").write_text(json.dumps(steps), "utf-8")
    command = [sys.executable, str(STRANGER), str(project.path / f"{name}.json"), *more]
    lines = "".join(f"{key} = {_toml(value)}\n" for key, value in {"command": command, **table}.items())
    path = project.path / "pyproject.toml"
    path.write_text(f"{path.read_text('utf-8')}\n[tool.harness.agents.{name}]\n{lines}", "utf-8")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def output(project: Project, task_id: str = "T", agent: str = "stranger") -> str:
    return (project.path / "errors" / task_id / "files" / f"agent-{agent}.log").read_text("utf-8")


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> tuple[Project, str]:
    """One run of several commands, and what it said."""
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=tmp_path_factory.mktemp("strangers"))), sites)
    environment = {"GIVEN": "${env:PRIVATE_WORD}"}
    opens = {"act": "open", "url": f"{SHOP}/product/${{inputs.sku}}"}
    stranger(project, [opens, *BUY[1:]], "{prompt}", "{{token}}", environment=environment)
    goal: dict[str, Any] = {"agent": "stranger", "steps": [], "goal": "Buy a mouse.", "inputs": {"sku": "WM-5521"}}
    project.task("BUYS", **goal, **BOUGHT)
    project.task("BUYS-IN-VAIN", **goal, success_criteria=["json('env', 'shop.orders.O-10001.total') == 0"])
    stranger(project, BUY, "{mcp}", name="speaks-mcp")
    project.task("OVER-MCP", agent="speaks-mcp", steps=[], **BOUGHT)
    stranger(project, [BUY[0], {"exit": 5}], name="first", fallback=["second"])
    stranger(project, [], "{prompt}", name="second")
    project.task("FOLLOWS", agent="first", steps=[], success_criteria=["text('h1') == 'Nothing'"])
    options = ("-v", "-p", "no:cacheprovider")
    return project, warm().run("pytest", *options, cwd=project.path, timeout=300, PRIVATE_WORD="hunter2hunter2").stdout


def test_a_strangers_script_buys_a_mouse(strangers: tuple[Project, str]) -> None:
    """Its environment has only what is declared, and its output is kept; the secret in it is masked."""
    project, shown = strangers
    assert "::BUYS PASSED" in shown, shown
    assert "::BUYS-IN-VAIN FAILED" in shown, shown
    said = output(project, "BUYS-IN-VAIN")
    environ = said.partition("[")[2].partition("]")[0]
    names = ("GIVEN", "HOME", "PRIVATE_WORD", "PYTEST_CURRENT_TEST", "VIRTUAL_ENV")
    assert [name for name in names if f"'{name}'" in environ] == ["GIVEN", "HOME"]
    assert "You have" in said
    assert "{token}" in said
    assert "hunter2" not in said


def test_a_strangers_script_buys_a_mouse_over_mcp(strangers: tuple[Project, str]) -> None:
    assert "::OVER-MCP PASSED" in strangers[1], strangers[1]


def test_a_command_that_follows_another_is_told_what_was_done(strangers: tuple[Project, str]) -> None:
    assert "::FOLLOWS FAILED" in strangers[1], strangers[1]
    said = output(strangers[0], "FOLLOWS", "second")
    assert "do not do it again:\\n- open http://shop.local/product/WM-5521: passed" in said
    turn = json.loads(next(line for line in said.splitlines() if line.startswith("turn ")).removeprefix("turn "))
    assert turn["history"] == [{"step": f"open {SHOP}/product/WM-5521", "passed": True, "code": None}]


def test_a_hanging_command_is_ended_and_its_task_judged(project: Project) -> None:
    """What it has done counts, the result says that it was ended, and no process is left."""
    daemon = f"daemon-of-{project.path.name}"
    stranger(project, [{"daemon": daemon}, *BUY, {"hang": True}])
    project.task(
        "T", steps=[], timeout=12, expect={"final_state": "completed", "warnings": ["command_ended"]}, **BOUGHT
    )
    project.task("U", steps=[], timeout=10, success_criteria=["json('env', 'shop.orders.O-10001.total') == 0"])
    result = project.run("--task-workers", "2")
    result.assert_outcomes(passed=1, failed=1)
    assert "command_ended: Agent `stranger`: its command was ended" in result.stdout.str()
    assert "--- ended: the time of the task was over" in output(project, "U")
    assert not commands(str(STRANGER))
    assert not commands(daemon)


@pytest.mark.thorough
def test_no_command_outlives_a_killed_pytest(project: Project) -> None:
    stranger(project, [BUY[0], {"hang": True}], "killed-with-pytest")
    project.task("T", steps=[])
    process = project.start()
    assert until(lambda: bool(commands("killed-with-pytest")), 60)
    process.kill()
    process.wait(10)
    assert until(lambda: not commands("killed-with-pytest"), 20)


def commands(word: str) -> list[psutil.Process]:
    """The processes with this argument."""
    return [each for each in psutil.process_iter(["cmdline"]) if word in (each.info["cmdline"] or [])]


def until(holds: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)
    return holds()


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]] = {
    "FAILS": ([{"hook": "PreToolUse"}, {"exit": 3}], {}, {}),
    "SILENT": ([{"hang": True}], {"timeout": 2}, {}),
    "WRITES": ([*BUY[:2], {"exit": 0}], {"policy": {"writes": "declared"}}, BOUGHT),
    "ABSENT": ([], {"command": ["there-is-no-such-program"]}, {}),
    "UNSET": ([], {"environment": {"WORD": "${env:TASKSPEC_NOT_SET}"}}, {}),
}


@pytest.mark.thorough
def test_commands_that_fail(project: Project) -> None:
    for name, (steps, table, spec) in CASES.items():
        stranger(project, steps, name=name.lower(), **table)
        project.task(name, steps=[], agent=name.lower(), **spec)
    project.run("--task-workers", "2").assert_outcomes(failed=len(CASES))
    found = {name: project.report(name) for name in CASES}
    codes = {name: each["code"] for name, each in found.items()}
    expected = {"FAILS": "AGENT_FAILED", "SILENT": "AGENT_TIMEOUT", "WRITES": "CRITERIA_UNMET"}
    assert codes == {**expected, "ABSENT": "AGENT_FAILED", "UNSET": "AGENT_UNAVAILABLE"}
    assert "ended with status 3" in found["FAILS"]["error_message"]
    trace = json.loads((project.path / "errors" / "FAILS" / "partial_trace.json").read_text("utf-8"))
    assert [each["event"] for each in trace["agent_events"]] == ["PreToolUse"]
    assert "cannot start there-is-no-such-program" in found["ABSENT"]["error_message"]
    assert "TASKSPEC_NOT_SET" in found["UNSET"]["error_message"]
    assert "POLICY_WRITE" in output(project, "WRITES", "writes")


def test_the_gateway_passes_what_the_budget_allows(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command asks with its token, the provider gets the key, and the ledger has what was used."""
    monkeypatch.setenv("DEMO_KEY", KEY)
    path = project.path / "pyproject.toml"
    models = "\n".join(MODEL.format(name=name) for name in ("mine", "other"))
    path.write_text(f"{path.read_text('utf-8')}\n{models}", "utf-8")
    question = {"messages": [{"role": "user", "content": "Say something."}], "stream": True}
    asks = [{"ask": {"model": name, **question}} for name in ("other", "mine", "scripted-fast")]
    stranger(project, [*asks, {"exit": 5}], models=["mine"])
    project.task("T", steps=[], budget={"max_model_calls": 1})
    project.task("U", steps=[], faults=[{"kind": "model_overflow", "model": "mine", "times": 1}])
    project.run().assert_outcomes(failed=2)
    assert "context" in output(project, "U").partition("model 400")[2]  # the fault has struck the command's own request
    assert "fault_not_met" not in [each["type"] for each in project.report("U")["warnings"]]
    said, report = output(project), project.report("T")
    assert "model 404" in said
    assert "chat.completion.chunk" in said
    assert "model 402" in said
    assert KEY not in said
    (call,) = report["model_calls"]
    assert (call["model"], call["outcome"], call["input_tokens"] > 10) == ("mine", "answered", True)


CLIENTS = """
import anthropic, openai
question = {"messages": [{"role": "user", "content": "Say something."}]}
gpt, claude = openai.OpenAI(), anthropic.Anthropic()
print("chat", gpt.chat.completions.create(model="scripted-fast", **question).choices[0].message.content)
streamed = gpt.chat.completions.create(model="mine", stream=True, **question)
print("stream", "".join(each.choices[0].delta.content or "" for each in streamed if each.choices))
print("responses", gpt.responses.create(model="mine", input="Say something.").output_text)
with claude.messages.stream(model="claude", max_tokens=50, **question) as events:
    print("messages", events.get_final_text())
raise SystemExit(7)
"""


@pytest.mark.thorough
def test_the_providers_own_clients_find_the_gateway(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_KEY", KEY)
    path = project.path / "pyproject.toml"
    claude = MODEL.format(name="claude").replace("openai-compatible", "anthropic").replace("local/v1", "local")
    path.write_text(f"{path.read_text('utf-8')}\n{MODEL.format(name='mine')}\n{claude}", "utf-8")
    (project.path / "clients.py").write_text(CLIENTS, "utf-8")
    command = ["{python}", str(project.path / "clients.py")]
    stranger(project, [], command=command, models=["mine", "claude"])
    project.task("T", steps=[])
    project.run().assert_outcomes(failed=1)
    said, report = output(project), project.report("T")
    assert report["code"] == "AGENT_FAILED"
    lines = dict(line.split(" ", 1) for line in said.splitlines())
    assert set(lines) == {"chat", "stream", "responses", "messages"}
    assert all(lines.values())
    assert [each["model"] for each in report["model_calls"]] == ["mine", "mine", "mine", "claude"]


def test_a_program_that_drives_the_browser_itself_sees_its_own_task_only(project: Project) -> None:
    """Its steps are observed: the network's rules, the criteria and the evidence hold, and the result says so."""
    command = [sys.executable, str(STRANGER.with_name("driving_agent.py")), "{cdp}", "123 Main St"]
    path = project.path / "pyproject.toml"
    tables = f"[tool.harness.agents.base]\ncommand = {_toml(command)}\n[tool.harness.agents.middle]\nagent = 'base'\n"
    driver = "[tool.harness.agents.driver]\nagent = 'middle'\n"
    path.write_text(f"{path.read_text('utf-8')}\n{tables}{driver}", "utf-8")
    names = ("T", "U") if FULL else ("U",)
    for name in names:
        total = {"T": [], "U": ["json('env', 'shop.orders.O-10001.total') == 0"]}[name]
        expected = {"expect": {"final_state": "completed", "warnings": ["control_observed"]}} if name == "T" else {}
        criteria = {"success_criteria": [*ONE_ORDER, *total], **expected}
        project.task(name, agent="driver", steps=[], allowed_domains=["shop.local"], **criteria)
    result = project.run("--task-workers", "2", "--alluredir", "allure")
    result.assert_outcomes(passed=len(names) - 1, failed=1)
    written = [json.loads(each.read_text("utf-8")) for each in (project.path / "allure").glob("*-result.json")]
    given = [(each["name"], each["value"]) for one in written for each in one["parameters"]]
    assert given.count(("control", "observed")) == len(written) == len(names)
    assert "O-10001.total" in project.report("U")["error_message"], "all else has come about"
    warned = {each["type"]: each for each in project.report("U")["warnings"]}
    assert warned["control_observed"]["control"] == "observed"
    files = "'/etc/hosts' is none of them: only files of the task's folder may be given to a page"
    assert files in warned["command_refused"]["message"]
    assert "agent: driver, control: observed" in harness("show", "U", cwd=project.path).stdout
    assert "control_observed: Agent `driver` drove the browser itself" in result.stdout.str()
    said = output(project, "U", "driver")
    assert "pages ['about:blank']" in said
    assert said.count("is not offered: the browser has contexts of other tasks") == 2
    assert files in said
    assert "no bank" in said
    assert "no file Page.goto: Protocol error (Page.navigate): URLs of the scheme `file:` are not opened" in said
    assert any("checkout" in each["request"]["url"] for each in har_of(project, "U"))


KILLS = """
import psutil
for run in psutil.Process().parents():  # the nearest one with a browser is the run
    found = [(each, " ".join(each.cmdline())) for each in run.children(recursive=True)]
    browsers = [each for each, line in found if "--remote-debugging-port=0" in line and "--type=" not in line]
    if browsers:
        break
for each in browsers:
    each.kill()
psutil.wait_procs(browsers, timeout=5)
raise SystemExit("the connection is lost")
"""


@pytest.mark.thorough
@pytest.mark.own_driver
def test_a_browser_that_died_under_its_driver_is_not_the_drivers_failure(project: Project) -> None:
    (project.path / "kills.py").write_text(KILLS, "utf-8")
    command = [sys.executable, str(project.path / "kills.py"), "{cdp}"]
    path = project.path / "pyproject.toml"
    path.write_text(f"{path.read_text('utf-8')}\n[tool.harness.agents.driver]\ncommand = {_toml(command)}\n", "utf-8")
    project.task("T", agent="driver", steps=[])
    project.run().assert_outcomes(failed=1)
    assert project.report("T")["code"] == "BROWSER_CRASHED"


def har_of(project: Project, task_id: str) -> list[dict[str, Any]]:
    """The requests of a failed task's HAR file."""
    document = json.loads((project.path / "errors" / task_id / "network_logs.har").read_text("utf-8"))
    entries: list[dict[str, Any]] = document["log"]["entries"]
    return entries


CLIENT = """
import asyncio, sys
from harness.bridge.client import Bridge

async def main(url, token):
    async with Bridge(url, token, agent="python 1.0") as bridge:
        task = await bridge.take()
        await task.act({"act": "open", "url": "http://shop.local/"})
        END

asyncio.run(main(*sys.argv[1:3]))
"""


@pytest.mark.thorough
def test_how_a_program_ended_is_the_outcome_and_not_that_its_session_closed_before(project: Project) -> None:
    path = project.path / "pyproject.toml"
    for name, end in {"quiet": "pass", "raises": "raise KeyError('order')"}.items():
        (project.path / f"{name}.py").write_text(CLIENT.replace("END", end), "utf-8")
        command = json.dumps([sys.executable, str(project.path / f"{name}.py"), "{bridge}", "{token}"])
        table = f"\n[tool.harness.agents.{name}]\ncommand = {command}\n"
        path.write_text(path.read_text("utf-8") + table, "utf-8")
        project.task(name.upper(), steps=[], agent=name, success_criteria=["exists('h1')"])
    project.run("--task-workers", "2").assert_outcomes(passed=1, failed=1)
    report = project.report("RAISES")
    assert report["code"] == "AGENT_FAILED"
    assert "ended with status 1: KeyError: 'order'" in report["error_message"]
