"""Tool servers in a real run: programs that cannot start, die at their start, or are mended and restarted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from harness.model.tools import ToolState
from harness.tools.statefile import KeptState, kept_states
from tests.acceptance.conftest import Project

SERVER = Path(__file__).with_name("mailbox_server.py")
DIES = f"""
import runpy, sys
from pathlib import Path
mark = Path(sys.argv[2])
if not mark.exists():
    if sys.argv[3:] == ["once"]:
        mark.touch()
    sys.exit("the mailbox is broken")
sys.argv = [sys.argv[0], sys.argv[1]]
runpy.run_path({str(SERVER)!r}, run_name="__main__")
"""
MENDS = f"""
import runpy, sys
from pathlib import Path
from harness.tools.statefile import order_restart
names = runpy.run_path({str(SERVER)!r})
def called(tool, to, folder):
    Path("mended").touch()
    order_restart(Path("."), "broken")
    return {{"content": [{{"type": "text", "text": "mended"}}]}}
names["answer"].__globals__["called"] = called
names["main"](Path("."))
"""
SETTINGS = """
[tool.harness.tools.absent]
command = ["no-such-program"]
[tool.harness.tools.secret]
command = ["{python}", "dies.py", "."]
environment = {TOKEN = "${env:NOT_SET_ANYWHERE}"}
[tool.harness.tools.flaky]
command = ["{python}", "dies.py", ".", "flaky", "once"]
[tool.harness.tools.broken]
command = ["{python}", "dies.py", ".", "mended"]
[tool.harness.tools.mender]
command = ["{python}", "mends.py"]
"""


def step(server: str, **keys: Any) -> dict[str, Any]:
    return {"act": "tool", "server": server, "tool": "get_code", "arguments": {"to": "me"}, **keys}


def project_in(folder: Path, settings: str = SETTINGS) -> Project:
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=folder)), {"shop.local": 1})
    (folder / "pyproject.toml").write_text(settings, "utf-8")
    (folder / "dies.py").write_text(DIES, "utf-8")
    (folder / "mends.py").write_text(MENDS, "utf-8")
    return project


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, Any]]:
    project = project_in(tmp_path_factory.mktemp("tools"))
    for name in ("absent", "secret", "flaky"):
        project.task(name, steps=[step(name)])
    project.task("mended", steps=[step("broken", optional=True), step("mender"), step("broken")])
    project.play()
    document = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
    return project, {each["task_id"]: each for each in document["results"]}


def left(project: Project) -> dict[str, KeptState]:
    return {each.server: each for each in kept_states(project.path)}


def test_a_program_that_cannot_start_is_permanently_failed_and_not_tried_again_by_the_task(
    played: tuple[Project, dict[str, Any]],
) -> None:
    record = played[1]["absent"]
    assert record["code"] == "TOOL_UNAVAILABLE"
    assert "permanently_failed: it has crashed three times within five minutes" in record["message"]
    report = played[0].report("absent")
    assert "cannot start no-such-program" in json.dumps(report)
    assert "harness tools restart absent" in json.dumps(report)
    assert left(played[0])["absent"].reason == "closed while permanently_failed: crash_3"
    assert record["retries"] == 0


def test_a_variable_that_is_not_set_is_named(played: tuple[Project, dict[str, Any]]) -> None:
    record = played[1]["secret"]
    assert record["code"] == "TOOL_AUTH"
    assert "the variable NOT_SET_ANYWHERE is not set, which `environment.TOKEN` of" in record["message"]


def test_a_server_that_dies_at_its_start_is_started_again(played: tuple[Project, dict[str, Any]]) -> None:
    assert played[1]["flaky"]["final_state"] == "completed"
    assert (left(played[0])["flaky"].crashes, left(played[0])["flaky"].introduced) == (1, "mailbox 1")


def test_a_mended_server_is_restarted_by_hand(played: tuple[Project, dict[str, Any]]) -> None:
    assert played[1]["mended"]["final_state"] == "partial_success"
    assert left(played[0])["broken"].crashes == 0


def test_the_run_ends_its_servers(played: tuple[Project, dict[str, Any]]) -> None:
    assert {each.state for each in left(played[0]).values()} == {ToolState.STOPPED}
    assert not [each for each in left(played[0]).values() if each.alive]
    here = str(played[0].path)
    assert not [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == here]


def test_workers_of_xdist_cannot_share_a_process(tmp_path: Path) -> None:
    project = project_in(tmp_path, '[tool.harness.tools.mail]\ncommand = ["mail"]\nshared = true\n')
    project.task("one", steps=[step("mail")])
    said = project.start("-n", "2").communicate(timeout=60)[0]
    assert "[tool.harness.tools.mail] has `shared = true`" in said
    assert "each of 2 xdist workers would start its own" in said
