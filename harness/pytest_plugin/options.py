"""Command line and ini options.

Every option is called `--task-...` and its value is stored under `task_...`, so that no conftest.py of a project uses
the same name. Its short alias is not an option of pytest's: this module replaces it by the full name.
"""

from __future__ import annotations

import copy
import os
import shlex
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from msgspec import Struct, field

from harness.pytest_plugin.foreign import count_of_repeat, is_free

if TYPE_CHECKING:
    from harness.runner.shard import Shard

WITH_DEPENDENCIES = "--task-with-deps"

# The values of options. What they need is loaded only if the option is given.


def _workers(text: str) -> object:
    """Parse `--task-workers`; raises ArgumentTypeError for a value that the settings refuse."""
    from harness.model.settings import workers_or_auto

    try:
        return workers_or_auto(int(text) if text.isdecimal() else text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} {error}") from error


def _port(text: str) -> tuple[str, str]:
    """Parse `--task-port`; raises ArgumentTypeError for a value that is no pair. Settings check its names."""
    target, equals, port = text.partition("=")
    if not (target and equals and port):
        raise ArgumentTypeError(f"{text!r} is not SERVICE=PORT")
    return target, port


def _endpoints(text: str) -> tuple[str, ...]:
    """Parse `--task-browser-endpoint`; raises ArgumentTypeError for a bad URL."""
    from harness.model.browser_settings import split

    try:
        return split(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _times(text: str) -> int:
    """Parse `--task-repeat-each`; raises ArgumentTypeError for what is no number of times."""
    if not (text.isdecimal() and 1 <= int(text) <= _MOST_TIMES):
        raise ArgumentTypeError(f"{text!r}: expected a whole number from 1 to {_MOST_TIMES}")
    return int(text)


_MOST_TIMES = 1000


def _shard(text: str) -> Shard:
    from harness.runner.shard import Shard

    return Shard.parse(text)


def _cluster(text: str) -> object:
    from harness.cluster.place import ClusterPlace

    return ClusterPlace.parse(text)


def _slots(text: str) -> object:
    from harness.cluster.place import SlotRange

    return SlotRange.parse(text)


def _variables(text: str) -> tuple[str, ...]:
    """Parse `--task-cluster-env`; raises ArgumentTypeError for a name that no variable can have."""
    names = tuple(each.strip() for each in text.split(",") if each.strip())
    if not names or any("=" in each for each in names):
        raise ArgumentTypeError(f"{text!r}: expected names of environment variables, NAME[,NAME]")
    return names


def _below_start(config: pytest.Config, name: str) -> Path:
    return Path(config.invocation_params.dir, name)


def _files(config: pytest.Config, names: list[str]) -> tuple[Path, ...]:
    """The paths relative to the folder where pytest was started, else to the root."""
    places = ((_below_start(config, name), config.rootpath / name) for name in names)
    return tuple(here if here.exists() else below_root for here, below_root in places)


class TaskOption(Struct, frozen=True):
    """One option of the command line."""

    name: str
    help: str
    alias: str = ""
    """A shorter name, which acts unless a conftest.py or another plugin has an option of that name."""
    setting: str = ""
    """The setting in `[tool.harness]` that it overrides, with dots; empty: it is about this run alone."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments for argparse. By default the option takes one value."""
    turn: Callable[[pytest.Config, Any], object] = lambda _, value: value
    """Converts the option's value to the setting's."""

    @property
    def dest(self) -> str:
        """The name under which pytest has its value."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def takes_value(self) -> bool:
        return not str(self.keywords.get("action", "")).startswith("store_")

    @property
    def repeatable(self) -> bool:
        """Whether it may be given several times, and each counts."""
        return self.keywords.get("action") == "append"

    def add_to(self, group: Any) -> None:
        also = f" Short: {self.alias}." if self.alias else ""
        group.addoption(self.name, dest=self.dest, help=self.help + also, **{"default": None, **self.keywords})


_FLAG = {"action": "store_true"}


def _choice(*words: str) -> dict[str, Any]:
    return {"choices": list(words)}


_BROWSER = (
    TaskOption("--task-headed", "Run the browser with a window.", "--headed", "browser.headed", _FLAG),
    TaskOption("--task-slowmo", "Slow each browser operation down by this number of milliseconds.",
        "--slowmo", "browser.slowmo", {"type": float, "metavar": "MS"}),
    TaskOption("--task-browser-executable", "Run this Chromium or Chrome.",
        "--browser-executable", "browser.executable", {"metavar": "PATH"}),
    TaskOption("--task-browser-channel", "Run the browser of this channel, for example chrome or msedge.",
        "--browser-channel", "browser.channel", {"metavar": "NAME"}),
    TaskOption("--task-browser-endpoint",
        "Use the browsers of these Playwright servers (ws://HOST:PORT/PATH), in turn, and start none here.",
        "--browser-endpoint", "browser_endpoint", {"metavar": "URL[,URL]", "type": _endpoints}),
    TaskOption("--task-browser-profile",
        "Run each task with this profile of [tool.harness.browser.profiles], as TASK[NAME]. Repeatable: each task once "
        "per profile.",
        "--browser-profile", keywords={"action": "append", "metavar": "NAME"}),
    TaskOption("--task-device",
        "Emulate this device of Playwright's registry, for example 'iPhone 13', in tasks that declare none.",
        "--device", "browser.device", {"metavar": "NAME"}),
    TaskOption("--task-base-url", "Resolve relative URLs in tasks against this URL.",
        "--base-url", "base_url", {"metavar": "URL"}),
)  # fmt: skip
_SELECT = (
    TaskOption(WITH_DEPENDENCIES, "Also run the dependencies of the chosen tasks, even from files that were not named.",
        keywords=_FLAG),
    TaskOption("--task-only-changed",
        "Run only the tasks of which git reports a file as changed since REF (also a step group, data, a login), and "
        "their dependencies; other tests run as always. Default of REF: HEAD, for what is not committed.",
        "--only-changed", keywords={"metavar": "REF", "nargs": "?", "const": "HEAD"}),
    TaskOption("--task-repeat-each", "Run each task N times, as TASK[1-N], TASK[2-N], ...",
        "--repeat-each", keywords={"metavar": "N", "type": _times}),
    TaskOption("--task-fail-on-flaky",
        "Fail the run if a task passed only in a rerun (--reruns) or by a recovery. --fail-on-flaky of "
        "pytest-rerunfailures counts reruns only.",
        keywords=_FLAG),
    TaskOption("--task-workers",
        "Run N tasks at once in each process, in one browser. With auto, the load of the machine decides.",
        setting="task_workers", keywords={"metavar": "N|auto", "type": _workers}),
    TaskOption("--task-port",
        "Run a service on this port, or on a free one (auto). SERVICE:HOST=PORT sets the port of one of several hosts.",
        setting="ports", keywords={"action": "append", "metavar": "SERVICE=PORT", "type": _port},
        turn=lambda _, pairs: dict(pairs)),
    TaskOption("--task-shard",
        "Run the I-th of N parts of the tasks, for the machines of a CI matrix. Tasks that depend on each other stay "
        "together. With env, the environment says which part: of Kubernetes, AWS Batch, Slurm, GitLab and others.",
        keywords={"metavar": "I/N|env", "type": _shard}),
    TaskOption("--task-durations",
        "Divide the tasks by the seconds that they are expected to take: a history.sqlite3, or what `harness history "
        "durations` has written. All parts need the same file.",
        keywords={"metavar": "FILE"}),
    TaskOption("--task-store",
        "Keep the results in this place beyond the machine: a folder, or a URL that fsspec knows, such as "
        "s3://BUCKET/RUN. The same part with the same place goes on with what has no end there.",
        keywords={"metavar": "URL"}),
    TaskOption("--task-cluster",
        "Run the tests on the machines of a Ray cluster: auto (the one that this process belongs to), HOST:PORT, or "
        "local:N (N slots on this machine).",
        keywords={"metavar": "auto|HOST:PORT|local:N", "type": _cluster}),
    TaskOption("--task-cluster-slots",
        "The number of slots of --task-cluster: N, or MIN:MAX. Default: as many as the cluster has room for.",
        keywords={"metavar": "MIN:MAX", "type": _slots}),
    TaskOption("--task-cluster-env", "Send these environment variables to the slots of --task-cluster.",
        keywords={"metavar": "NAME[,NAME]", "type": _variables}),
    TaskOption("--task-resume",
        "Go on with a run of --task-cluster whose driver has ended: results that it has are not made again.",
        keywords={"metavar": "RUN"}),
)  # fmt: skip
_RECOVER = (
    TaskOption("--task-timeout-profile",
        "Time limits (task/step) of tasks that declare none: simple 300/30 s, medium 450/45 s, complex 600/60 s.",
        "--timeout-profile", "timeout_profile", _choice("simple", "medium", "complex")),
    TaskOption("--task-timeout-scale", "Multiply every task and step timeout by this number.",
        "--timeout-scale", "timeout_scale", {"type": float, "metavar": "X"}),
    TaskOption("--task-no-recovery", "Apply no error_recovery: the first failure ends the task.",
        "--no-recovery", "recovery", _FLAG, lambda *_: False),
    TaskOption("--task-no-heal", "Do not use fallback selectors.", "--no-heal", "heal", _FLAG, lambda *_: False),
    TaskOption("--task-breaker",
        "Stop sending requests for a while to a site that failed 5 times in a row: on (default), or off.",
        "--breaker", "breaker.enabled", _choice("on", "off"), lambda _, word: word == "on"),
    TaskOption("--task-faults", "Inject the faults of this fault plan (*.faults.yaml). Repeatable.",
        "--faults", "faults", {"action": "append", "metavar": "FILE"}, _files),
    TaskOption("--taskspec-strict",
        "Treat warnings about task files, missing memory_keys or artifacts, and partial_success as failures.",
        setting="strict", keywords=_FLAG),
)  # fmt: skip
_EVIDENCE = (
    TaskOption("--task-artifacts", "Keep failures in this folder. Default: errors.",
        setting="artifacts", keywords={"metavar": "DIR"}, turn=_below_start),
    TaskOption("--task-recording",
        "How much of each task is recorded: minimal (report and console), full, or auto (without snapshots and "
        "screenshots before the first failure).",
        "--recording", "recording", _choice("auto", "full", "minimal")),
    TaskOption("--task-tracing",
        "When the trace is kept: on (recorded from the start, for every task), off, or retain-on-failure.",
        "--tracing", "tracing", _choice("on", "off", "retain-on-failure")),
    TaskOption("--task-video",
        "When a video of the pages is kept, as WebM: off (default), retain-on-failure, or on (every task). It needs "
        "ffmpeg: `playwright install ffmpeg`, or the extra `video`.",
        "--video", "video", _choice("on", "off", "retain-on-failure")),
    TaskOption("--task-retrace",
        "Run a failed task a second time to record its full trace. The second run is refused where it could repeat a "
        "write.",
        "--retrace", "retrace", _FLAG),
    TaskOption("--task-full-page-screenshot",
        "Take the screenshot of a failure of the whole page, and not only of its visible part.",
        "--full-page-screenshot", "browser.full_page_screenshot", _FLAG),
    TaskOption("--task-evidence",
        "With all, also keep the evidence of tasks that pass, in .harness/evidence, for `harness regrade`.",
        setting="evidence", keywords=_choice("failed", "all")),
    TaskOption("--task-update-baselines",
        "Write the baselines of `assert` steps (*.aria.yaml, *.png) that are missing or differ, instead of failing.",
        "--update-baselines", "update_baselines", _FLAG),
    TaskOption("--task-summary", "Append a Markdown summary of the run to this file, for the page of a CI job.",
        "--summary", keywords={"metavar": "FILE"}),
    TaskOption("--task-github-annotations",
        "Annotate the lines of failed tasks in GitHub. In GitHub Actions this is the default.",
        "--github-annotations", keywords=_FLAG),
    TaskOption("--task-live",
        "Show the run on a page as it happens: start `harness serve` unless it runs, and print the address.",
        "--live", keywords=_FLAG),
    TaskOption("--task-log-profile",
        "What the logger harness.resilience writes: errors (production), also warnings (evaluation), all (debug).",
        "--log-profile", "log_profile", _choice("production", "evaluation", "debug")),
)  # fmt: skip
_AGENTS = (
    TaskOption("--task-agent", "Let this agent choose the steps of all tasks.",
        "--agent", keywords={"metavar": "NAME"}),
    TaskOption("--task-models",
        "Where the answers of models come from: live, record (and keep them), replay (only recordings), or auto "
        "(recordings, and record what is missing). Default: live; replay if CI is set.",
        "--models", "cassettes.mode", _choice("live", "record", "replay", "auto")),
    TaskOption("--task-bridge-port",
        "Port on 127.0.0.1 at which agents that run elsewhere (--agent bridge) connect. Default: a free one.",
        "--bridge-port", keywords={"metavar": "PORT", "type": int}),
    TaskOption("--task-bridge-wait",
        "Seconds that a task waits until an agent that runs elsewhere takes it. Default: 60.",
        "--bridge-wait", keywords={"metavar": "SECONDS", "type": float}),
)  # fmt: skip
OPTION_GROUPS: Mapping[str, tuple[TaskOption, ...]] = {
    "browser": _BROWSER,
    "many tasks, many machines": _SELECT,
    "limits, recovery, faults": _RECOVER,
    "evidence and reports": _EVIDENCE,
    "agents and models": _AGENTS,
}
"""Every option of this plugin, by what it is about: docs/options.md, and the groups of `pytest --help`."""
TASK_OPTIONS: tuple[TaskOption, ...] = tuple(chain.from_iterable(OPTION_GROUPS.values()))


class Variants(NamedTuple):
    """How often each task runs, and as what."""

    profiles: tuple[str, ...] = ()
    """The names of `--browser-profile`, each once."""
    repeat: int = 1


ONCE = Variants()


def chosen_profiles(config: pytest.Config) -> tuple[str, ...]:
    """The names of `--browser-profile`, each once."""
    return tuple(dict.fromkeys(config.getoption("task_browser_profile") or ()))


def variants(config: pytest.Config) -> Variants:
    """The variants of each task that the command line asks for. Raises UsageError if it contradicts itself."""
    own, theirs = config.getoption("task_repeat_each"), count_of_repeat(config)
    if own is not None and theirs not in (1, own):
        raise pytest.UsageError(f"--task-repeat-each {own} and --count {theirs} contradict each other: leave one out")
    return Variants(chosen_profiles(config), own or theirs)


def add_options(parser: pytest.Parser) -> None:
    for title, options in OPTION_GROUPS.items():
        group = parser.getgroup(f"taskspec {title}", f"TaskSpec browser tasks: {title}")
        for option in options:
            option.add_to(group)
    parser.addini("taskspec_files", "Additional file name patterns of task files.", type="args", default=[])


# Short names of this plugin's options; a project's own options of these names win.

ALIASES: Mapping[str, str] = {option.alias: option.name for option in TASK_OPTIONS if option.alias}
"""Alias -> the option's name."""
_BY_NAME = {option.name: option for option in TASK_OPTIONS}


def expand_files(words: Sequence[str]) -> list[str]:
    """Replace `@FILE` by the file's lines, as pytest does; one that is unreadable stays: pytest reports it."""
    found: list[str] = []
    for word in words:
        try:
            lines = Path(word[1:]).read_text("utf-8").splitlines() if word.startswith("@") else None
        except (OSError, UnicodeDecodeError):
            lines = None
        found += [word] if lines is None else expand_files(lines)
    return found


def canonical(words: Sequence[str], aliases: Mapping[str, str] = ALIASES) -> list[str]:
    """Replace these aliases by full names. Words after `--` are no options."""
    end = list(words).index("--") if "--" in words else len(words)
    return [_full_name(word, aliases) for word in words[:end]] + list(words[end:])


def _full_name(word: str, aliases: Mapping[str, str]) -> str:
    name, equals, value = word.partition("=")
    return f"{aliases[name]}{equals}{value}" if name in aliases else word


def look_ahead(config: pytest.Config, parser: pytest.Parser, words: Sequence[str]) -> None:
    """Read the paths before the conftest.py files are loaded, so that the value of an alias is not taken for one."""
    probable = {name for name, value in _options_of(words) if not _is_place(value)} & set(ALIASES)
    if not probable:
        return
    likely = canonical(words, {name: ALIASES[name] for name in probable})
    try:
        known = parser.parse_known_args(likely, namespace=copy.copy(config.option))
    except pytest.UsageError:
        return  # the alias is an option of a conftest.py, with its own values
    config.known_args_namespace.file_or_dir = known.file_or_dir


def _is_place(word: str) -> bool:
    """Return whether a word is more likely a path of tests than the value of one of the options."""
    return Path(word).is_dir() or ".py" in word


def settle(parser: pytest.Parser, words: list[str]) -> Mapping[str, str]:
    """Replace our aliases by full names once the conftest.py files are loaded; returns those aliases."""
    words[:] = expand_files(words)
    used = {word.partition("=")[0] for word in words} & set(ALIASES)
    ours = {alias: ALIASES[alias] for alias in used if is_free(parser, alias)}
    words[:] = canonical(words, ours)
    return ours


def refuse_contradictions(config: pytest.Config, aliases: Mapping[str, str]) -> None:
    """Raise UsageError for an option that is given twice, with different values, in one place.

    The command line overrides PYTEST_ADDOPTS, which overrides `addopts`.
    """
    places = (
        config.invocation_params.args,
        shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
        config.getini("addopts"),
    )
    for words in places:
        if problem := contradiction(list(map(os.fspath, words)), aliases):
            raise pytest.UsageError(problem)


_ONLY_WITH_CLUSTER = ("task_cluster_slots", "task_cluster_env", "task_resume")
"""Options that mean nothing without `--task-cluster`."""


def refuse_without_cluster(config: pytest.Config) -> None:
    """Raise UsageError for an option that acts only with `--task-cluster`."""
    for dest in _ONLY_WITH_CLUSTER:
        if config.getoption(dest, None) is not None:
            name = f"--{dest.replace('_', '-')}"
            raise pytest.UsageError(f"{name} acts only with --task-cluster: add it, or leave {name} out")


def contradiction(words: Sequence[str], aliases: Mapping[str, str] = ALIASES) -> str | None:
    """The message about an option of ours with two values; None: there is none."""
    seen: dict[str, tuple[str, str]] = {}
    for name, value in _options_of(expand_files(words)):
        option = _BY_NAME.get(aliases.get(name, name))
        if option is None or option.repeatable or not option.takes_value:
            continue
        first, before = seen.setdefault(option.name, (name, value))
        if before != value:  # the message is without the values, which may be secret
            twice = "is given twice" if first == name else f"and {name} are the same option, but are given"
            return f"{first} {twice} with different values: leave one out"
    return None


def _options_of(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each `--name=value`, and each `--name` with the word after it."""
    for number, word in enumerate(words):
        if word == "--":
            return
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            yield name, value if equals else next(iter(words[number + 1 : number + 2]), "")
