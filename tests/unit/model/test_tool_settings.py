"""The settings of tool servers: what is refused, and what each key decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.model.settings import Settings, load_settings
from harness.model.settings_errors import SettingsError
from harness.model.tool_settings import ToolServerSettings, secrets

STDIO = {"command": ["mail"]}
HTTP = {"url": "http://shop.local/mcp"}


def table(name: str = "mail", **keys: Any) -> ToolServerSettings:
    return Settings.model_validate({"tools": {name: keys}}).tools[name]


@pytest.mark.parametrize(
    ("name", "keys", "why"),
    [
        ("mail", {}, "needs `command` or `url`"),
        ("mail", {"command": []}, "at least 1 item"),
        ("mail", {**STDIO, **HTTP}, "both say where it is"),
        ("mail", {**STDIO, "headers": {"A": "b"}}, "`headers` has no effect on a server with `command`"),
        ("mail", {**HTTP, "environment": {"A": "b"}}, "`environment` has no effect on a server with `url`"),
        ("mail", {**HTTP, "cwd": "x"}, "`cwd` has no effect on a server with `url`"),
        ("mail", {**HTTP, "shared": True}, "`shared` has no effect on a server with `url`"),
        ("mail", {"url": "shop.local/mcp"}, "must be an address"),
        ("mail", {**STDIO, "timeout": 0}, "greater than 0"),
        ("mail", {**STDIO, "effects": {"x": "delete"}}, "'read', 'idempotent' or 'write'"),
        ("mail", {**STDIO, "tieout": 5}, "tieout"),
        ("my.mail", STDIO, "only letters, digits, `_` and `-`"),
        ("../mail", STDIO, "only letters, digits, `_` and `-`"),
        ("mail", {"command": [""]}, "begins with the program, and it is empty"),
        ("mail", {"command": ["{pyhton}", "m.py"]}, "{pyhton} stands for nothing here"),
        ("mail", {"command": ["a\0"]}, "null character"),
        ("mail", {**STDIO, "cwd": ""}, "`cwd` is empty"),
        ("mail", {**STDIO, "environment": {"A=B": "1"}}, "'A=B' is no name of a variable"),
        ("mail", {**STDIO, "environment": {"A": "${ENV:X}"}}, "${ENV:X} stands for nothing here"),
        ("mail", {**STDIO, "allow": []}, "leave it out to allow all"),
        ("mail", {"url": "http://shop.local:abc/mcp"}, "must be an address"),
        ("mail", {"url": "http://:80/mcp"}, "must be an address"),
        ("mail", {"url": "http://shop local/mcp"}, "must be an address"),
        ("mail", {"url": "http://${env:HOST}/mcp"}, "has no references"),
        ("mail", {"url": "http://ann:pw@shop.local/mcp"}, "no user or password"),
        ("mail", {"url": "http://shop.local/mcp#x"}, "before `#`"),
        ("mail", {**HTTP, "headers": {"A B": "1"}}, "'A B' is no name of a header"),
        ("mail", {**HTTP, "headers": {"Content-Type": "x"}}, "set by the client of MCP itself"),
        ("mail", {**HTTP, "headers": {"A": "1\n"}}, "has a line break"),
        ("mail", {**HTTP, "headers": {"A": "${totp:X}"}}, "${totp:X} stands for nothing here"),
        ("page", STDIO, "`command` has no effect on the tools of the page"),
        ("page", {"health_interval": 5}, "`health_interval` has no effect on the tools of the page"),
    ],
)
def test_what_can_have_no_effect_is_refused(name: str, keys: Any, why: str) -> None:
    with pytest.raises(ValueError, match=r".*") as caught:
        table(name, **keys)
    assert why in str(caught.value)


def test_the_limit_of_a_call_is_that_of_its_tool() -> None:
    usual = table(**STDIO)
    assert [usual.limit_of(tool) for tool in ("bash", "read_file", "edit_file", "search", "x")] == [
        300,
        10,
        30,
        60,
        120,
    ]
    own = table(**STDIO, timeout=7, timeouts={"slow_*": 80, "slow_one": 90})
    assert [own.limit_of(tool) for tool in ("bash", "slow_one", "slow_two", "x")] == [7, 90, 80, 7]


def test_the_first_pattern_that_fits_decides_about_the_effect() -> None:
    own = table(**STDIO, effects={"get_secret": "write", "get_*": "read"})
    assert [own.declared_effect(tool) for tool in ("get_secret", "get_code", "send")] == ["write", "read", None]


def test_a_refusal_shows_no_header(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.harness.tools.mail]\nurl = "http://a.b/mcp"\ncwd = "x"\nheaders = {Authorization = "Bearer pass-42"}\n'
        "[tool.harness.tools.none]\n",
        "utf-8",
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path)
    assert "pass-42" not in str(caught.value)
    assert "tool.harness.tools.mail: `cwd` has no effect" in str(caught.value)


def test_the_table_without_a_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.harness.tools.none]\n", "utf-8")
    with pytest.raises(SettingsError, match=r"tool\.harness\.tools\.none: a tool server needs `command` or `url`$"):
        load_settings(tmp_path)


def test_without_allow_every_tool_may_be_called() -> None:
    assert table(**STDIO).allows("anything")
    own = table(**STDIO, allow=["get_*", "place_order"])
    assert [own.allows(tool) for tool in ("get_code", "place_order", "place_orders")] == [True, True, False]


def test_credentials_that_stand_in_the_settings_are_secrets_too() -> None:
    headers = {"Authorization": "Bearer abc", "X-Api-Key": "k1", "X-Kind": "text/plain", "X-Trace": "${env:TRACE}"}
    http = table(url="http://shop.local/mcp", headers=headers)
    stdio = table(**STDIO, environment={"MAILBOX": "test", "DB_PASSWORD": "open sesame"})
    found = secrets({"a": http, "b": stdio}, {"TRACE": "t1"}, lambda name: "Key" in name or "PASSWORD" in name)
    assert sorted(found) == ["abc", "k1", "open sesame", "t1"]
