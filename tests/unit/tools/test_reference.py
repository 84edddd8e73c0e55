"""The pages of the reference say what the code offers: each option, command, event and hook."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.commands import COMMANDS
from harness.pytest_plugin.foreign import FOREIGN
from harness.pytest_plugin.options import TASK_OPTIONS
from harness.reporting.telemetry.record import EVENTS
from tools.docs.reference import pages

DOCS = Path(__file__).parents[3] / "docs"
PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_that_of_the_code(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == PAGES[name], "run `python -m tools.docs.reference docs`"


def test_each_option_command_and_event_is_there() -> None:
    assert [option.name for option in TASK_OPTIONS if f"| `{option.name}" not in PAGES["options.md"]] == []
    assert [name for name in COMMANDS if f"\n### harness {name}\n" not in PAGES["commands.md"]] == []
    assert [name for name in EVENTS if f"\n## `{name}`\n" not in PAGES["events.md"]] == []


def test_each_option_of_another_plugin_acts_by_a_short_name_or_is_refused_with_a_reason() -> None:
    acts = {option.alias for option in TASK_OPTIONS}
    page = PAGES["options.md"].partition("## Options of pytest-playwright")[2]
    assert [each.name for each in FOREIGN if each.acts and each.name not in acts] == []
    assert [each.name for each in FOREIGN if not each.acts and f"| `{each.name} " not in page] == []


def test_commands_below_a_command_are_there_too() -> None:
    assert "\n### harness history flaky\n" in PAGES["commands.md"]
