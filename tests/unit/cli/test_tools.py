"""`harness tools`: the states that runs have left, restarts that are ordered, and a person who is asked."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli.main import app
from harness.cli.tool_calls import ListedServer, effect_and_source
from harness.cli.tools import NOT_WELL
from harness.model.settings import Settings
from harness.model.tool_settings import ToolServerSettings
from harness.model.tools import ToolDescription, ToolHints, ToolState
from harness.resilience.owner import Owner
from harness.tools.statefile import KeptState, ListedTool, StateFile
from harness.values import replace

SETTINGS = """
[tool.harness.tools.mail]
command = ["mailbox"]

[tool.harness.tools.shop]
url = "http://shop.local/mcp"

[tool.harness.tools.page]
agents = true
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["tools", *arguments])
    assert result.exit_code == code, result.output
    return result


def keep(root: Path, state: ToolState, **changes: object) -> StateFile:
    kept = KeptState(
        server="mail", place="mailbox", stdio=True, state=state, reason="crash_3", since="2026-01-01T10:00:00+00:00",
        run="run-1", owner=Owner.this(), crashes=3, tools=(ListedTool("get_code", "read"),),
    )  # fmt: skip
    file = StateFile(root, "mail")
    file.write(replace(kept, **changes))
    return file


def test_a_server_that_has_failed_is_told_with_what_to_do(root: Path) -> None:
    keep(root, ToolState.PERMANENTLY_FAILED)
    head, mail, shop, page, *more = ran("status", code=NOT_WELL).stdout.splitlines()
    assert head.split() == ["server", "kind", "state", "reason", "tools", "crashes", "since", "run"]
    assert mail.split()[:6] == ["mail", "stdio", "permanently_failed", "crash_3", "1", "3"]
    assert mail.endswith("run-1 (running)")
    assert shop.split()[:3] == ["shop", "http", "unknown"]
    assert page.split()[:3] == ["page", "page", "unknown"]
    assert more == [
        "mail: look at its end (`harness tools logs mail`), mend it, then `harness tools restart mail`",
    ]


def test_a_server_that_a_past_run_has_left(root: Path) -> None:
    keep(root, ToolState.STOPPED, owner=Owner(os.getpid(), 1.0), stale=True, crashes=0)
    (_, mail) = ran("status", "mail").stdout.splitlines()
    assert mail.endswith("run-1 (over)")
    assert "1 (old list)" in mail
    keep(root, ToolState.REQUIRES_REAUTH)
    assert "mail: give it valid credentials" in ran("status", "mail", code=NOT_WELL).stdout


def test_states_as_json(root: Path) -> None:
    keep(root, ToolState.ONLINE)
    mail, shop, page = json.loads(ran("status", "--json").stdout)
    assert (mail["server"], mail["kind"], mail["alive"], mail["tools"][0]["name"]) == (
        "mail",
        "stdio",
        True,
        "get_code",
    )
    assert [shop, page] == [
        {"server": "shop", "kind": "http", "state": "unknown"},
        {"server": "page", "kind": "page", "state": "unknown"},
    ]


def test_a_run_hears_of_a_restart(root: Path) -> None:
    file = keep(root, ToolState.PERMANENTLY_FAILED)
    assert not file.restart_ordered()
    said = ran("restart", "mail").stdout
    assert f"mail: restart ordered of run run-1 (pid {os.getpid()}); it was permanently_failed, 3 crashes" in said
    assert file.restart_ordered()
    assert json.loads(ran("restart", "mail", "--json").stdout)["ordered"][0]["run"] == "run-1"


@pytest.mark.parametrize("command", [("status", "mial"), ("list", "mial"), ("restart", "mial"), ("logs", "mial")])
def test_an_unknown_server_has_a_near_one(root: Path, command: tuple[str, ...]) -> None:
    assert "no server `mial` in [tool.harness.tools]; did you mean `mail`?" in ran(*command, code=1).output


def test_no_log_yet(root: Path) -> None:
    assert "no log yet: .harness/logs/tool-mail.log" in ran("logs", code=1).output
    (root / ".harness/logs").mkdir(parents=True)
    (root / ".harness/logs/tool-mail.log").write_text("one\ntwo \x1b[31m\n", "utf-8")
    assert ran("logs", "mail", "-n", "1").stdout == "two \n"


def test_who_is_asked_may_say_no(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    from harness.cli.tools import ask_before

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", lambda *_args, **_options: False)
    with pytest.raises(typer.Exit):
        ask_before("mail.send", "write", "by `effects`", yes=False)
    monkeypatch.setattr(typer, "confirm", lambda *_args, **_options: True)
    ask_before("mail.send", "write", "by `effects`", yes=False)
    ask_before("mail.send", "write", "by `effects`", yes=True)
    ask_before("mail.get", "idempotent", "its server says so", yes=False)


@pytest.mark.parametrize(
    ("hints", "effect", "source"),
    [
        (ToolHints(read_only=True), "read", "its server says so"),
        (ToolHints(idempotent=True), "idempotent", "its server says so"),
        (ToolHints(), "write", "nothing says otherwise"),
        (ToolHints(read_only=False), "write", "nothing says otherwise"),
    ],
)
def test_where_an_effect_comes_from(hints: ToolHints, effect: str, source: str) -> None:
    settings = ToolServerSettings.model_validate({"command": ["x"], "effects": {"set_*": "idempotent"}})
    assert effect_and_source(ToolDescription("t", hints=hints), settings) == (effect, source)
    assert effect_and_source(ToolDescription("set_t", hints=hints), settings) == ("idempotent", "by `effects`")


def test_without_the_library_it_says_what_to_install(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.tools.places.find_spec", lambda _name: None)
    assert "pip install 'pytest-taskspec[mcp]'" in ran("list", "mail", code=1).output
    assert "pip install 'pytest-taskspec[mcp]'" in ran("call", "mail", "get_code", code=1).output


def test_a_server_of_a_service_that_does_not_run_says_how_to_start_it(root: Path) -> None:
    service = (
        '[tool.harness.services.site]\ncommand = ["x"]\nhealth = "http://shop.local/"\nhosts = {"shop.local" = 1}\n'
    )
    (root / "pyproject.toml").write_text(f"{SETTINGS}{service}", "utf-8")
    assert "start it with `harness services start --persist site`" in ran("list", "shop", code=1).output


def test_a_service_that_does_not_run_hides_no_other_server(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = (
        '[tool.harness.services.site]\ncommand = ["x"]\nhealth = "http://shop.local/"\nhosts = {"shop.local" = 1}\n'
    )
    (root / "pyproject.toml").write_text(f"{SETTINGS}{service}", "utf-8")
    monkeypatch.setattr("harness.tools.places.find_spec", lambda _name: None)
    said = ran("list", "mail", "shop", code=1).output
    assert "Tool server `mail` cannot be used" in said
    assert "shop: the service `site` does not run" in said


def test_a_long_reason_is_cut_where_one_sees_it(root: Path) -> None:
    keep(root, ToolState.OFFLINE, reason="x" * 70)
    assert f"{'x' * 59}…  " in ran("status", "mail", code=NOT_WELL).stdout


def test_settings_that_fit_no_tool_are_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"command": ["mailbox"], "allow": ["get_*"], "effects": {"get_coed": "read"}, "timeouts": {"send_*": 1}}
    tables = "".join(f"{key} = {value}\n" for key, value in keys.items()).replace(": ", " = ").replace("'", '"')
    (root / "pyproject.toml").write_text(f"[tool.harness.tools.mail]\n{tables}", "utf-8")
    task = "steps:\n  - {act: tool, server: mail, tool: get_code}\nsuccess_criteria: [\"mem('a') == 1\"]\n"
    (root / "t.task.yaml").write_text(f"task_id: T\ngoal: g\n{task}", "utf-8")

    async def listed(settings: Settings, names: Sequence[str], within: float | None) -> tuple[ListedServer, ...]:
        return (ListedServer("mail", settings.tools["mail"], tools=(ToolDescription("get_code"),)),)

    monkeypatch.setattr("harness.cli.tool_calls.listed", listed)
    said = CliRunner().invoke(app, ["validate", "--tools", "."]).output
    assert "warning: pyproject.toml: tool.harness.tools.mail.effects: `get_coed` fits no tool of the server" in said
    assert "did you mean `get_code`?" in said
    assert "tool.harness.tools.mail.timeouts: `send_*` fits no tool of the server" in said
    assert "`get_*` fits no tool" not in said
