"""Command line and ini options, and the Settings made from them."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

from harness.endpoint_urls import split
from harness.pytest_plugin.faults import check_plans
from harness.pytest_plugin.shard import Shard
from harness.settings import Settings, SettingsError, load_settings, workers_or_auto
from harness.spec.problems import SpecError


def _workers(text: str) -> object:
    """`--task-workers`; ArgumentTypeError for what the settings do not take."""
    try:
        return workers_or_auto(int(text) if text.isdecimal() else text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} {error}") from error


def _endpoints(text: str) -> tuple[str, ...]:
    """`--browser-endpoint`; ArgumentTypeError for what is none."""
    try:
        return split(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


SHARED: dict[str, dict[str, Any]] = {
    "--headed": {"action": "store_true", "default": False, "help": "Run the browser with a window."},
    "--slowmo": {"type": int, "default": 0, "help": "Slow every browser operation down by this many ms."},
    "--browser-channel": {"default": None, "help": "Browser channel, e.g. chrome, msedge."},
    "--tracing": {
        "default": None,
        "choices": ["on", "off", "retain-on-failure"],
        "help": "Playwright trace: on (from the start, kept always), off, or retain-on-failure.",
    },
    "--base-url": {"default": None, "help": "What relative URLs in tasks are relative to."},
}
"""Options that pytest-playwright has too: registered only where it is absent, so that habits carry over (DESIGN 5)."""

OWN: dict[str, dict[str, Any]] = {
    "--task-artifacts": {"default": None, "metavar": "DIR", "help": "Where failures are kept. Default: errors"},
    "--browser-executable": {"default": None, "metavar": "PATH", "help": "The Chromium or Chrome to run."},
    "--browser-endpoint": {
        "default": None,
        "metavar": "URL[,URL]",
        "type": _endpoints,
        "help": "Playwright servers (ws://HOST:PORT/PATH) that give the browsers, in turn; none is started here.",
    },
    "--recording": {
        "default": None,
        "choices": ["auto", "full", "minimal"],
        "help": "What is recorded of each task: auto (full from the first failure of a step on), full, minimal.",
    },
    "--task-evidence": {
        "default": None,
        "choices": ["failed", "all"],
        "help": "all: keep of tasks that pass, too, what `harness regrade` needs, under .harness/evidence.",
    },
    "--log-profile": {
        "default": None,
        "choices": ["production", "evaluation", "debug"],
        "help": "What the logger harness.resilience takes: production (errors), evaluation (and warnings), debug.",
    },
    "--no-recovery": {"action": "store_true", "default": False, "help": "Apply no error_recovery: first failure ends."},
    "--breaker": {
        "default": None,
        "choices": ["on", "off"],
        "help": "Leave a site alone for a while that failed 5 times in a row: on (default), or off.",
    },
    "--no-heal": {"action": "store_true", "default": False, "help": "Use no fallback selectors."},
    "--taskspec-strict": {
        "action": "store_true",
        "default": False,
        "help": "Warnings about a task file, missing memory_keys or artifacts, and partial_success are failures.",
    },
    "--task-with-deps": {
        "action": "store_true",
        "default": False,
        "help": "Run what the chosen tasks depend on too, also from files that were not named.",
    },
    "--task-workers": {
        "default": None,
        "metavar": "N|auto",
        "type": _workers,
        "help": "Run so many tasks at once in each process, on one browser; auto: as many as the machine can take.",
    },
    "--task-shard": {
        "default": None,
        "metavar": "I/N",
        "type": Shard.parse,
        "help": "Run the I-th of N parts: what depends on each other stays together. For the machines of a CI matrix.",
    },
    "--agent": {"default": None, "metavar": "NAME", "help": "Let this agent choose the steps of the tasks."},
    "--task-summary": {
        "default": None,
        "metavar": "FILE",
        "help": "Append the run to this file as Markdown, for the page of a CI job. Short: --summary.",
    },
    "--github-annotations": {
        "action": "store_true",
        "default": False,
        "help": "Say failed tasks to GitHub beside the lines of their files. Default: in GitHub Actions.",
    },
    "--faults": {
        "action": "append",
        "default": [],
        "metavar": "FILE",
        "help": "Make go wrong what this fault plan says (*.faults.yaml). May be given several times.",
    },
    "--timeout-profile": {
        "default": None,
        "choices": ["simple", "medium", "complex"],
        "help": "Limits of tasks that declare none: simple 300/30 s, medium 450/45 s, complex 600/60 s.",
    },
    "--timeout-scale": {"type": float, "default": None, "help": "Multiply every task and step timeout by this."},
}


def add_own(parser: pytest.Parser) -> None:
    group = parser.getgroup("taskspec", "TaskSpec browser tasks")
    for name, keywords in OWN.items():
        group.addoption(name, **keywords)
    parser.addini("taskspec_files", "More file name patterns that are TaskSpec files.", type="args", default=[])


def add_shared(parser: pytest.Parser, plugins: pytest.PytestPluginManager) -> None:
    """After all plugins are loaded: what pytest-playwright or pytest-base-url have stays theirs."""
    group = parser.getgroup("taskspec", "TaskSpec browser tasks")
    for name, keywords in SHARED.items():
        taken = plugins.hasplugin("playwright") or (name == "--base-url" and plugins.hasplugin("base_url"))
        if not taken:
            group.addoption(name, **keywords)
    if _is_free(parser, "--summary"):
        group.addoption("--summary", dest="task_summary", metavar="FILE", help="The same as --task-summary.")


def _is_free(parser: pytest.Parser, option: str) -> bool:
    """Whether no plugin and no conftest.py has it."""
    try:
        return option in parser.parse_known_and_unknown_args([option])[1]
    except (pytest.UsageError, SystemExit):
        return False  # it wants a value


def settings_of(config: pytest.Config) -> Settings:
    """`[tool.harness]` with the command line over it; UsageError for what cannot be."""
    try:
        settings = load_settings(config.rootpath, **_chosen(config))
        check_plans(config, settings)
    except (SettingsError, SpecError) as error:
        raise pytest.UsageError(str(error)) from error
    return settings


def _file(config: pytest.Config, name: str) -> Path:
    """Relative to where pytest was started; else to the root."""
    here = Path(config.invocation_params.dir, name)
    return here if here.exists() else config.rootpath / name


def _chosen(config: pytest.Config) -> dict[str, Any]:
    option = config.getoption
    browser = {
        "headed": option("--headed", False) or None,
        "slowmo": option("--slowmo", 0) or None,
        "channel": option("--browser-channel", None),
        "executable": option("--browser-executable") or os.environ.get("HARNESS_BROWSER_EXECUTABLE"),
    }
    artifacts = option("--task-artifacts")
    options = {
        "artifacts": Path(config.invocation_params.dir, artifacts) if artifacts else None,
        "recording": option("--recording"),
        "evidence": option("--task-evidence"),
        "tracing": _tracing(config),
        "base_url": option("--base-url", None),
        "log_profile": option("--log-profile"),
        "recovery": False if option("--no-recovery") else None,
        "heal": False if option("--no-heal") else None,
        "strict": option("--taskspec-strict") or None,
        "timeout_profile": option("--timeout-profile"),
        "timeout_scale": option("--timeout-scale"),
        "task_workers": option("--task-workers"),
        "browser_endpoint": option("--browser-endpoint"),
        "faults": tuple(_file(config, name) for name in option("--faults")) or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    breaker = {"enabled": option("--breaker") == "on"} if option("--breaker") else {}
    return {
        **given,
        "breaker": breaker,
        "browser": {name: value for name, value in browser.items() if value is not None},
    }


def _tracing(config: pytest.Config) -> str | None:
    """pytest-playwright's own default is `off`; only what was really asked for counts."""
    places = [*config.invocation_params.args, *config.getini("addopts"), os.environ.get("PYTEST_ADDOPTS", "")]
    return config.getoption("--tracing", None) if any("--tracing" in str(place) for place in places) else None
