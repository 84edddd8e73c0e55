"""`[tool.harness]`: what is wrong with it is one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.settings import SettingsError, load_settings

SLIPS = {
    "tool = 4": "tool: must be a table, as in `[tool]` (found: 4)",
    "[tool]\nharness = 4": "tool.harness: must be a table, as in `[tool.harness]` (found: 4)",
    "[tool.harness]\nbrowser = 3": ("tool.harness.browser: must be a table, as in `[tool.harness.browser]` (found: 3)"),
    "[tool.harness]\nagnt = 'x'": "tool.harness: unknown key `agnt` (did you mean `agent`?)",
    "[tool.harness]\nquite-other = 1": "tool.harness: unknown key `quite-other`",
    "[tool.harness.browser]\nheadet = true": ("tool.harness.browser: unknown key `headet` (did you mean `headed`?)"),
    "[tool.harness.channels.env]\nfiel = 'x'": ("tool.harness.channels.env: unknown key `fiel` (did you mean `file`?)"),
    "[tool.harness]\ntask_workers = 'many'": (
        "tool.harness.task_workers: is neither `auto` nor a number from 1 to 100 (found: 'many')"
    ),
    "[tool.harness]\ntask_workers = 0": (
        "tool.harness.task_workers: is neither `auto` nor a number from 1 to 100 (found: 0)"
    ),
    "[tool.harness]\nbrowser_endpoint = 'ws://a'": 'tool.harness.browser_endpoint: must be a list, as in ["..."]',
    "[tool.harness]\nbrowser_endpoint = ['http://a']": (
        "tool.harness.browser_endpoint: 'http://a' (URL 1 of 1) is no browser endpoint: "
        "expected ws://HOST:PORT/PATH or wss://HOST/PATH"
    ),
}
"""What stands in pyproject.toml -> what is said of it."""


@pytest.mark.parametrize("text", SLIPS)
def test_a_slip_is_one_clear_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path)
    assert str(caught.value) == f"{file}: {SLIPS[text]}"


def test_a_project_without_settings_has_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nharness = 1\n", "utf-8")
    assert load_settings(tmp_path, browser={"headed": True}).browser.headed
