"""Command line and ini options, and the Settings made from them.

Every option is called `--task-...` and its value stands under `task_...`, so that no conftest.py of a project has it
too. Its short alias is no option of pytest's: `harness.pytest_plugin.options` puts the full name in its place.
"""

from __future__ import annotations

import copy
import os
import shlex
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.model.settings import OPTIONS, Settings, SettingsError, load_settings, names, split, workers_or_auto
from harness.pytest_plugin.faults import check_plans
from harness.pytest_plugin.foreign import given_elsewhere, is_free
from harness.pytest_plugin.selection import Shard
from harness.reporting.redaction import MARK, Redactor, is_secret_name
from harness.spec.expressions import environment_names
from harness.spec.loaded import Loaded
from harness.spec.problems import SpecError

# The command line of a run as it may be kept: without what is secret in it.

Hide = Callable[[str], str]


def redactor_of(settings: Settings, tasks: Sequence[Loaded], environ: Mapping[str, str]) -> Redactor:
    """Hides what tasks and settings call secret, and what the environment has under such a name."""
    names = {name for task in tasks for name in environment_names(task.spec)}
    secrets = (value for name, value in environ.items() if name in names or is_secret_name(name))
    return Redactor.of(settings, secrets)


def without_secrets(arguments: Sequence[object], redactor: Redactor) -> Iterator[str]:
    """An option that is called like a secret hides its value, whether that follows after `=` or as the next word.

    Of the URLs of browser endpoints the hosts stay.
    """
    hide: Hide | None = None
    for argument in map(str, arguments):
        name, equals, value = argument.partition("=")
        hidden = _hidden(name)
        if hide and not argument.startswith("-"):
            yield hide(argument)
        elif hidden and equals:
            yield f"{name}={hidden(value)}"
        else:
            yield redactor.text(argument)
        hide = None if equals else hidden


def _hidden(option: str) -> Hide | None:
    """What stands for the value of an option that may be secret."""
    if option in OPTIONS:
        return lambda urls: ",".join(names([url.strip() for url in urls.split(",") if url.strip()]))
    return (lambda _: MARK) if option.startswith("-") and is_secret_name(option) else None


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


TASK_OPTIONS: tuple[TaskOption, ...] = (
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
    for option in TASK_OPTIONS:
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
    for option in TASK_OPTIONS:
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


# Short names of this plugin's options, which yield to a project's own.

ALIASES: Mapping[str, str] = {option.alias: option.name for option in TASK_OPTIONS if option.alias}
"""Alias -> the option's name."""
_BY_NAME = {option.name: option for option in TASK_OPTIONS}


def expanded(words: Sequence[str]) -> list[str]:
    """`@FILE` replaced by the lines of the file, as pytest does; one that cannot be read stays, for pytest to say."""
    found: list[str] = []
    for word in words:
        try:
            lines = Path(word[1:]).read_text("utf-8").splitlines() if word.startswith("@") else None
        except (OSError, UnicodeDecodeError):
            lines = None
        found += [word] if lines is None else expanded(lines)
    return found


def canonical(words: Sequence[str], aliases: Mapping[str, str] = ALIASES) -> list[str]:
    """The words, with full names in place of these aliases. What follows `--` is no option."""
    end = list(words).index("--") if "--" in words else len(words)
    return [_full_name(word, aliases) for word in words[:end]] + list(words[end:])


def _full_name(word: str, aliases: Mapping[str, str]) -> str:
    name, equals, value = word.partition("=")
    return f"{aliases[name]}{equals}{value}" if name in aliases else word


def look_ahead(config: pytest.Config, parser: pytest.Parser, words: Sequence[str]) -> None:
    """Before the conftest.py files are loaded: the value of an alias is no path whose conftest.py counts."""
    probable = {name for name, value in _options_of(words) if not _is_place(value)} & set(ALIASES)
    if not probable:
        return
    likely = canonical(words, {name: ALIASES[name] for name in probable})
    try:
        known = parser.parse_known_args(likely, namespace=copy.copy(config.option))
    except pytest.UsageError:
        return  # the alias is an option of a conftest.py, with values of its own
    config.known_args_namespace.file_or_dir = known.file_or_dir


def _is_place(word: str) -> bool:
    """Whether a word is rather a place of tests than the value of one of the options."""
    return Path(word).is_dir() or ".py" in word


def settle(parser: pytest.Parser, words: list[str]) -> Mapping[str, str]:
    """After the conftest.py files are loaded: put full names in place of the aliases that are ours; those aliases."""
    words[:] = expanded(words)
    used = {word.partition("=")[0] for word in words} & set(ALIASES)
    ours = {alias: ALIASES[alias] for alias in used if is_free(parser, alias)}
    words[:] = canonical(words, ours)
    return ours


def refuse_contradictions(config: pytest.Config, aliases: Mapping[str, str]) -> None:
    """UsageError for an option that stands twice, with different values, in one place.

    The command line goes over PYTEST_ADDOPTS, which goes over `addopts`.
    """
    places = (
        config.invocation_params.args,
        shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
        config.getini("addopts"),
    )
    for words in places:
        if problem := contradiction(list(map(os.fspath, words)), aliases):
            raise pytest.UsageError(problem)


def contradiction(words: Sequence[str], aliases: Mapping[str, str] = ALIASES) -> str | None:
    """What to say of an option of ours that is given with two values; None: there is none."""
    seen: dict[str, tuple[str, str]] = {}
    for name, value in _options_of(expanded(words)):
        option = _BY_NAME.get(aliases.get(name, name))
        if option is None or option.repeatable or not option.takes_value:
            continue
        first, before = seen.setdefault(option.name, (name, value))
        if before != value:
            return _said(option, first, name)
    return None


def _said(option: TaskOption, first: str, second: str) -> str:
    """Without the values, which may be secret."""
    if first == second:
        return f"{first} is given twice, with different values: leave one out"
    return f"{first} and {second} are one option, and are given with different values: leave one out"


def _options_of(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each `--name=value`, and each `--name` with the word after it."""
    for number, word in enumerate(words):
        if word == "--":
            return
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            yield name, value if equals else next(iter(words[number + 1 : number + 2]), "")
