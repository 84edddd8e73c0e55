"""Options of pytest-playwright and pytest-base-url: each acts on tasks, or a run of tasks with it is refused.

None of them is silently ignored. Tests that are no tasks keep all of them.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec import Struct

GIVEN: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
"""The options that were really given: name -> value. `addopts` and PYTEST_ADDOPTS count, defaults do not."""
_OWNERS = ("pytest_playwright", "pytest_base_url")
"""The prefixes of those plugins' modules, also if they are loaded with `-p`."""


class ForeignOption(Struct, frozen=True):
    """One option of another plugin, and its effect in a run of tasks."""

    name: str
    acts: str = ""
    """The effect on tasks; empty: none."""
    setting: str = ""
    """The setting in `[tool.harness]` that its value overrides."""
    fine: tuple[str, ...] = ()
    """Values that describe what tasks do anyway."""
    why: str = ""
    """Why another value is refused, and what to do instead."""
    metavar: str = ""
    """The name of its value in messages; empty: it has none."""


FOREIGN: tuple[ForeignOption, ...] = (
    ForeignOption("--browser",
        fine=("chromium",),
        why="tasks run in Chromium only, because host rules, allowed domains and crash handling are Chromium's",
        metavar="NAME"),
    ForeignOption("--headed", acts="runs the browser of the tasks with a window", setting="browser.headed"),
    ForeignOption("--browser-channel",
        acts="chooses the browser, e.g. chrome", setting="browser.channel", metavar="NAME"),
    ForeignOption("--slowmo", acts="slows every browser operation down", setting="browser.slowmo", metavar="MS"),
    ForeignOption("--device",
        acts="emulates the device in tasks that declare none", setting="browser.device", metavar="NAME"),
    ForeignOption("--output",
        why="pytest-playwright empties this folder, but failures are kept; `--task-artifacts DIR` sets their folder",
        metavar="DIR"),
    ForeignOption("--tracing",
        acts="records the trace always, never, or for failed tasks", setting="tracing", metavar="WHEN"),
    ForeignOption("--video",
        acts="keeps a video of the pages always, never, or for failed tasks", setting="video", metavar="WHEN"),
    ForeignOption("--screenshot",
        fine=("only-on-failure",),
        why="a failed task always has a screenshot, and a passed one has those of its `screenshot` steps",
        metavar="WHEN"),
    ForeignOption("--full-page-screenshot",
        acts="takes the screenshot of a failure of the whole page", setting="browser.full_page_screenshot"),
    ForeignOption("--playwright-debug",
        why="its debugger works only on pages of pytest-playwright; `--headed --slowmo 500` lets you watch a task",
        metavar="NAME"),
    ForeignOption("--base-url",
        acts="resolves relative URLs in tasks, as the ini option `base_url` and PYTEST_BASE_URL do", setting="base_url",
        metavar="URL"),
)  # fmt: skip
"""Every option that those plugins register, in their order. docs/options.md has the same rows."""


def note_given(config: pytest.Config, parser: pytest.Parser, words: list[str]) -> None:
    """Keep the options that are on the command line; raises UsageError for one that no plugin registered.

    pytest would refuse such an option as well, but could not explain what it means for tasks. One that says what tasks
    do anyway, such as `--browser chromium`, is taken out of the words, so that the same command works without its
    plugin.
    """
    config.stash[GIVEN] = {}
    named = {word.partition("=")[0] for word in words}
    asked = [option for option in FOREIGN if option.name in named]
    if not asked:
        return
    if not _is_theirs(config):
        _refuse_unknown(asked, parser, words)
        return
    places = {option.name: option.name.removeprefix("--").replace("-", "_") for option in asked}
    found = parser.parse_known_args(words, Namespace(**dict.fromkeys(places.values())))
    given = {name: getattr(found, place) for name, place in places.items()}
    config.stash[GIVEN] = {name: value for name, value in given.items() if value is not None}


def _is_theirs(config: pytest.Config) -> bool:
    """Return whether one of those plugins is loaded; otherwise a conftest.py may use options of these names."""
    modules = (getattr(plugin, "__name__", "") for plugin in config.pluginmanager.get_plugins())
    return any(isinstance(module, str) and module.startswith(_OWNERS) for module in modules)


def _refuse_unknown(asked: Sequence[ForeignOption], parser: pytest.Parser, words: list[str]) -> None:
    for option in asked:
        if not option.why or not is_free(parser, option.name):
            continue
        places = [number for number, word in enumerate(words) if word.partition("=")[0] == option.name]
        for number in reversed(places):
            _, equals, value = words[number].partition("=")
            end = number + (1 if equals else 2)
            if (value if equals else " ".join(words[number + 1 : end])) not in option.fine:
                raise pytest.UsageError(f"unrecognized argument {option.name}: {option.why}. Leave it out.")
            del words[number:end]


def is_free(parser: pytest.Parser, option: str) -> bool:
    """Return whether no plugin and no conftest.py has registered the option."""
    try:
        return option in parser.parse_known_and_unknown_args([option])[1]
    except (pytest.UsageError, SystemExit):
        return False  # the option expects a value


def given_elsewhere(config: pytest.Config) -> Iterator[tuple[str, object]]:
    """The settings and values that options of the other plugins set."""
    given = config.stash.get(GIVEN, {})
    yield from ((option.setting, given[option.name]) for option in FOREIGN if option.setting and option.name in given)
    if _is_theirs(config) and "--base-url" not in given:
        address = config.getoption("--base-url", None) or config.getini("base_url")
        if address:
            yield "base_url", address


def _refused_options(config: pytest.Config) -> Iterator[str]:
    """A sentence for each given option that cannot act on tasks."""
    given = config.stash.get(GIVEN, {})
    for option in FOREIGN:
        if option.why and option.name in given:
            value = given[option.name]
            values = [str(each) for each in value] if isinstance(value, list) else [str(value)]
            for each in (each for each in dict.fromkeys(values) if each not in option.fine):
                shown = f"{option.name} {each}" if option.metavar else option.name
                yield f"{shown}: {option.why}. Leave it out, or deselect the tasks."


def refuse(config: pytest.Config) -> None:
    """Raise UsageError for options that cannot act on the tasks that are about to run."""
    if sentences := list(_refused_options(config)):
        raise pytest.UsageError("\n".join(sentences))


def count_of_repeat(config: pytest.Config) -> int:
    """How often `--count` of pytest-repeat has each test run; 1 without that plugin. Raises UsageError.

    It repeats functions with arguments, which tasks are not, so that this plugin does it for them.
    """
    modules = {getattr(plugin, "__name__", "") for plugin in config.pluginmanager.get_plugins()}
    if "pytest_repeat" not in modules:
        return 1
    scope = config.getoption("repeat_scope", "function")
    if scope != "function":
        raise pytest.UsageError(
            f"--repeat-scope {scope}: it does not act on tasks. Leave it out, or deselect the tasks."
        )
    return max(1, int(config.getoption("count", 1)))
