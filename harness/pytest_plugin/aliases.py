"""Short names of this plugin's options, which yield to a project's own.

An alias is registered nowhere: a conftest.py that is loaded later, or below the folder that was named, would collide
with it. Its full name is put in its place in the command line instead, once it is known that nobody else has it.
"""

from __future__ import annotations

import copy
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from harness.pytest_plugin.foreign import is_free
from harness.pytest_plugin.options import OPTIONS, TaskOption

ALIASES: Mapping[str, str] = {option.alias: option.name for option in OPTIONS if option.alias}
"""Alias -> the option's name."""
_BY_NAME = {option.name: option for option in OPTIONS}


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
