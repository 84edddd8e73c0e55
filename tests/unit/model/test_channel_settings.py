"""Channels in what a service keeps: where they find it, and that no slot shares it with another one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.model.settings import Settings, load_settings
from harness.model.settings_errors import SettingsError

LIB = """
[tool.harness.services.Lib]
command = ["x", "{port}"]
hosts = ["lib.test"]
health = "http://lib.test/"
"""
MAIL = LIB.replace("Lib", "mail").replace("lib.", "mail.")
ELSEWHERE = """
[tool.harness.services.far]
hosts = {"far.test" = 81}
health = "http://far.test/"
"""
TWICE = "instances = 2\n"


def settings(folder: Path, text: str) -> Settings:
    (folder / "pyproject.toml").write_text(text, "utf-8")
    return load_settings(folder)


@pytest.mark.parametrize(
    ("services", "channel", "problem"),
    [
        (LIB, "file = '{folder}/a.json'", ""),
        (LIB + MAIL, "file = '{folder:lib}/a.json'", ""),
        (LIB + TWICE, "sqlite = '{folder}/a.db'", ""),
        (LIB + TWICE + ELSEWHERE, "sqlite = '{folder}/a.db'", ""),
        (LIB + TWICE, "file = 'state/{slot}.json'", ""),
        (LIB + TWICE, "python = 'm:f'\narguments = {where = ['{folder:Lib}/a']}", ""),
        (LIB + TWICE, "python = 'm:f'\narguments = {port = '{port:lib.test}'}", ""),
        (LIB + TWICE, "url = 'http://lib.test/state'", ""),
        ("", "file = 'a{{folder}}.json'", ""),
        (LIB + TWICE, "file = 'a.json'", "its path does not contain `{folder}`, the folder of the instance"),
        (LIB + MAIL + TWICE, "sqlite = '{folder:lib}/a.db'", "sqlite: all 2 `instances` of `mail` would share it"),
        (LIB + MAIL + TWICE, "sqlite = 'a.db'\nreadonly = true", "does not contain `{folder:mail}`"),
        (LIB + TWICE, "python = 'm:f'", "python: all 2 `instances` of `Lib` would share it"),
        (LIB + TWICE, "python = 'm:f'\narguments = {a = 'b'}", "the `arguments` do not contain `{folder}`"),
        (LIB + MAIL, "file = '{folder}/a.json'", "that a run starts (there are: {folder:Lib}, {folder:mail})"),
        (LIB + MAIL, "file = '{folder:mial}/a'", "that a run starts (did you mean `mail`?)"),
        (ELSEWHERE, "file = '{folder}/a'", "`{folder}` does not name a service"),
        (ELSEWHERE, "file = '{folder:far}/a'", "that a run starts (there are: none)"),
        ("", "file = '{folder}/a'", "`{folder}` does not name a service"),
        (LIB, "sqlite = '{fodler}/a'", "unknown placeholder `{fodler}` (did you mean `folder`?); `{{fodler}}` is that"),
        (LIB, "file = '{port}/a'", "`{port}` names no host of [tool.harness.services] (write {port:HOST}"),
        (LIB, "file = '{port:lib.tst}/a'", "(did you mean `lib.test`?)"),
        (LIB, "python = 'm:f'\narguments = {world = 'a'}", "must not contain `world`, which the callable gets anyway"),
        ("", "sqlite = 'a.db'\njson = true", ""),
        (LIB, "file = 'a.json'\njson = true", "channels.env.json: it belongs to a channel with `sqlite`"),
        (LIB, "file = 'a'\narguments = {a = 'a'}", "`arguments` belongs to a channel with `tool` or `python`"),
    ],
)  # fmt: skip
def test_where_a_channel_is(tmp_path: Path, services: str, channel: str, problem: str) -> None:
    text = f"{services}\n[tool.harness.channels.env]\n{channel}\n"
    if not problem:
        assert settings(tmp_path, text).channels
        return
    with pytest.raises(SettingsError) as caught:
        settings(tmp_path, text)
    said = str(caught.value)
    assert problem in said
    place = int(re.search(r"pyproject\.toml:(\d+)", said)[1])  # type: ignore[index]
    assert place > text.splitlines().index("[tool.harness.channels.env]"), "it is a line of the channel"


def test_a_callable_that_is_told_the_world_needs_no_folder(tmp_path: Path) -> None:
    world = "[tool.harness]\nisolation = 'world'\n"
    text = f"{world}{LIB}{TWICE}[tool.harness.channels.env]\n"
    assert settings(tmp_path, f"{text}python = 'm:f'\n").channels
    with pytest.raises(SettingsError, match="would share it"):
        settings(tmp_path, f"{text}file = 'a.json'\n")
