"""docs/settings.md says every key of `[tool.harness]`, as the models have it."""

from __future__ import annotations

import re
from pathlib import Path

from harness.model.settings import Settings
from harness.pytest_plugin.options import TASK_OPTIONS
from tools.docs.settings_page import TABLES, page

ROOT = Path(__file__).parents[3]
PAGE = page()


def test_the_page_is_that_of_the_models() -> None:
    written = (ROOT / "docs" / "settings.md").read_text("utf-8")
    assert written == PAGE, "run `python -m tools.docs.settings_page docs/settings.md`"


def test_each_key_of_each_table_has_a_row_and_a_meaning() -> None:
    schema = Settings.model_json_schema()
    models = {name: each["properties"] for name, each in schema["$defs"].items() if "properties" in each}
    names = {key for keys in models.values() for key in keys} - {"values", "added"} | set(schema["properties"]) - {
        "root"
    }
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", PAGE, re.MULTILINE))
    assert {*rows} == names
    assert [key for key, meaning in rows.items() if meaning.startswith("(")] == []


def test_each_table_has_a_section() -> None:
    assert [title for title in TABLES.values() if f"\n## `{title}`\n" not in PAGE] == []
    assert len({*TABLES} - {"tools.breaker"}) == len(  # which has the model of agents.breaker
        [name for name, each in Settings.model_json_schema()["$defs"].items() if "properties" in each]
    )


def test_each_option_that_goes_over_a_setting_stands_beside_it() -> None:
    of_settings = [option for option in TASK_OPTIONS if option.setting and option.setting != "ports"]
    assert [option.name for option in of_settings if f"[`{option.name}`](options.md). (" not in PAGE] == []
