"""Command line and ini options, and the Settings made from them.

Every option is called `--task-...` and its value stands under `task_...`, so that no conftest.py of a project has it
too. Its short alias is no option of pytest's: `harness.pytest_plugin.aliases` puts the full name in its place.
"""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.model.settings import Settings, SettingsError, load_settings, split, workers_or_auto
from harness.pytest_plugin.faults import check_plans
from harness.pytest_plugin.foreign import given_elsewhere
from harness.pytest_plugin.shard import Shard
from harness.spec.problems import SpecError


def _workers(text: str) -> object:
    """`--task-workers`; ArgumentTypeError for what the settings do not take."""
    try:
        return workers_or_auto(int(text) if text.isdecimal() else text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} {error}") from error


def _port(text: str) -> tuple[str, str]:
    """`--task-port`; ArgumentTypeError for what is no pair. What it names is known with the settings."""
    target, equals, port = text.partition("=")
    if not (target and equals and port):
        raise ArgumentTypeError(f"{text!r} is not SERVICE=PORT")
    return target, port


def _endpoints(text: str) -> tuple[str, ...]:
    """`--task-browser-endpoint`; ArgumentTypeError for what is none."""
    try:
        return split(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _below_start(config: pytest.Config, name: str) -> Path:
    """Relative to where pytest was started."""
    return Path(config.invocation_params.dir, name)


def _files(config: pytest.Config, names: list[str]) -> tuple[Path, ...]:
    """Each relative to where pytest was started; else to the root."""
    places = ((_below_start(config, name), config.rootpath / name) for name in names)
    return tuple(here if here.exists() else below_root for here, below_root in places)


@dataclass(frozen=True, slots=True)
class TaskOption:
    """One option of the command line."""

    name: str
    help: str
    alias: str = ""
    """A shorter name, which acts unless a conftest.py or another plugin has an option of that name."""
    setting: str = ""
    """The setting in `[tool.harness]` that it goes over, with dots; none: it says something of this run alone."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """For argparse. Without a word the option takes one value."""
    turn: Callable[[pytest.Config, Any], object] = lambda _, value: value
    """Makes the setting's value of the option's."""

    @property
    def dest(self) -> str:
        """Under which pytest has its value."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def takes_value(self) -> bool:
        return not str(self.keywords.get("action", "")).startswith("store_")

    @property
    def repeatable(self) -> bool:
        """Each time that it is given counts."""
        return self.keywords.get("action") == "append"

    def add_to(self, group: Any) -> None:
        also = f" Short: {self.alias}." if self.alias else ""
        group.addoption(self.name, dest=self.dest, help=self.help + also, **{"default": None, **self.keywords})


_FLAG = {"action": "store_true"}


def _choice(*words: str) -> dict[str, Any]:
    return {"choices": list(words)}


OPTIONS: tuple[TaskOption, ...] = (
    TaskOption("--task-headed", "Run the browser with a window.", "--headed", "browser.headed", _FLAG),
    TaskOption(
        "--task-slowmo",
        "Slow every browser operation down by this many ms.",
        "--slowmo",
        "browser.slowmo",
        {"type": float, "metavar": "MS"},
    ),
    TaskOption(
        "--task-browser-channel",
        "Browser channel, e.g. chrome, msedge.",
        "--browser-channel",
        "browser.channel",
        {"metavar": "NAME"},
    ),
    TaskOption(
        "--task-tracing",
        "Playwright trace: on (from the start, kept always), off, or retain-on-failure.",
        "--tracing",
        "tracing",
        _choice("on", "off", "retain-on-failure"),
    ),
    TaskOption(
        "--task-base-url", "What relative URLs in tasks are relative to.", "--base-url", "base_url", {"metavar": "URL"}
    ),
    TaskOption(
        "--task-artifacts",
        "Where failures are kept. Default: errors",
        setting="artifacts",
        keywords={"metavar": "DIR"},
        turn=_below_start,
    ),
    TaskOption(
        "--task-browser-executable",
        "The Chromium or Chrome to run.",
        "--browser-executable",
        "browser.executable",
        {"metavar": "PATH"},
    ),
    TaskOption(
        "--task-browser-endpoint",
        "Playwright servers (ws://HOST:PORT/PATH) that give the browsers, in turn; none is started here.",
        "--browser-endpoint",
        "browser_endpoint",
        {"metavar": "URL[,URL]", "type": _endpoints},
    ),
    TaskOption(
        "--task-recording",
        "What is recorded of each task: auto (full from the first failure of a step on), full, minimal.",
        "--recording",
        "recording",
        _choice("auto", "full", "minimal"),
    ),
    TaskOption(
        "--task-retrace",
        "Run a failed task once more, recorded in full, for its trace; refused where it could write a second time.",
        "--retrace",
        "retrace",
        _FLAG,
    ),
    TaskOption(
        "--task-evidence",
        "all: keep of tasks that pass, too, what `harness regrade` needs, under .harness/evidence.",
        setting="evidence",
        keywords=_choice("failed", "all"),
    ),
    TaskOption(
        "--task-log-profile",
        "What the logger harness.resilience takes: production (errors), evaluation (and warnings), debug.",
        "--log-profile",
        "log_profile",
        _choice("production", "evaluation", "debug"),
    ),
    TaskOption(
        "--task-no-recovery",
        "Apply no error_recovery: first failure ends.",
        "--no-recovery",
        "recovery",
        _FLAG,
        lambda *_: False,
    ),
    TaskOption(
        "--task-breaker",
        "Leave a site alone for a while that failed 5 times in a row: on (default), or off.",
        "--breaker",
        "breaker.enabled",
        _choice("on", "off"),
        lambda _, word: word == "on",
    ),
    TaskOption("--task-no-heal", "Use no fallback selectors.", "--no-heal", "heal", _FLAG, lambda *_: False),
    TaskOption(
        "--taskspec-strict",
        "Warnings about a task file, missing memory_keys or artifacts, and partial_success are failures.",
        setting="strict",
        keywords=_FLAG,
    ),
    TaskOption(
        "--task-with-deps",
        "Run what the chosen tasks depend on too, also from files that were not named.",
        keywords=_FLAG,
    ),
    TaskOption(
        "--task-workers",
        "Run so many tasks at once in each process, on one browser; auto: as many as the machine can take.",
        setting="task_workers",
        keywords={"metavar": "N|auto", "type": _workers},
    ),
    TaskOption(
        "--task-port",
        "Another port for a service (SERVICE:HOST=PORT for one of several hosts; auto: a free one).",
        setting="ports",
        keywords={"action": "append", "metavar": "SERVICE=PORT", "type": _port},
        turn=lambda _, pairs: dict(pairs),
    ),
    TaskOption(
        "--task-shard",
        "Run the I-th of N parts: what depends on each other stays together. For the machines of a CI matrix.",
        keywords={"metavar": "I/N", "type": Shard.parse},
    ),
    TaskOption(
        "--task-agent",
        "Let this agent choose the steps of the tasks.",
        "--agent",
        keywords={"metavar": "NAME"},
    ),
    TaskOption(
        "--task-summary",
        "Append the run to this file as Markdown, for the page of a CI job.",
        "--summary",
        keywords={"metavar": "FILE"},
    ),
    TaskOption(
        "--task-github-annotations",
        "Annotate failed tasks on the lines of their files in GitHub. Default: in GitHub Actions.",
        "--github-annotations",
        keywords=_FLAG,
    ),
    TaskOption(
        "--task-faults",
        "Inject the faults listed in this plan (*.faults.yaml). May be given several times.",
        "--faults",
        "faults",
        {"action": "append", "metavar": "FILE"},
        _files,
    ),
    TaskOption(
        "--task-timeout-profile",
        "Limits of tasks that declare none: simple 300/30 s, medium 450/45 s, complex 600/60 s.",
        "--timeout-profile",
        "timeout_profile",
        _choice("simple", "medium", "complex"),
    ),
    TaskOption(
        "--task-timeout-scale",
        "Multiply every task and step timeout by this.",
        "--timeout-scale",
        "timeout_scale",
        {"type": float, "metavar": "X"},
    ),
)
"""Every option of this plugin. README has a row for each."""


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("taskspec", "TaskSpec browser tasks")
    for option in OPTIONS:
        option.add_to(group)
    parser.addini("taskspec_files", "More file name patterns that are TaskSpec files.", type="args", default=[])


def settings_of(config: pytest.Config) -> Settings:
    """`[tool.harness]` with the command line over it; UsageError for what cannot be."""
    try:
        settings = load_settings(config.rootpath, **_chosen(config))
        check_plans(config, settings)
    except (SettingsError, SpecError) as error:
        raise pytest.UsageError(str(error)) from error
    return settings


def _chosen(config: pytest.Config) -> dict[str, Any]:
    """What the command line says, as a table of settings. Options of other plugins count where ours are not given."""
    chosen: dict[str, Any] = {}
    if executable := os.environ.get("HARNESS_BROWSER_EXECUTABLE"):
        _put(chosen, "browser.executable", executable)
    for setting, value in given_elsewhere(config):
        _put(chosen, setting, value)
    for option in OPTIONS:
        value = config.getoption(option.dest)
        if option.setting and value is not None and value is not False:
            _put(chosen, option.setting, option.turn(config, value))
    return chosen


def _put(table: dict[str, Any], path: str, value: object) -> None:
    first, _, rest = path.partition(".")
    if rest:
        _put(table.setdefault(first, {}), rest, value)
    else:
        table[first] = value
