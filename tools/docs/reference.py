"""Generates the pages of the reference that say what the code offers: options, commands, events and hooks.

Run as `python -m tools.docs.reference docs`, in the folder of the project.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
from typer.core import TyperGroup

from harness.cli.commands import COMMAND_GROUPS, Imported
from harness.pytest_plugin import hookspecs
from harness.pytest_plugin.foreign import FOREIGN
from harness.pytest_plugin.options import OPTION_GROUPS, TaskOption
from harness.reporting.telemetry.record import EVENTS as EVENTS_BY_TYPE
from harness.resilience.events import written_name

MADE = "<!-- This page is generated: python -m tools.docs.reference docs -->"
OPTIONS = f"""\
# Options of pytest

{MADE}

`pytest --help` lists the same. A short name works unless a `conftest.py` or another plugin has an option of that name.
The command line overrides `PYTEST_ADDOPTS`, which overrides `addopts`, and an option overrides the
[setting](settings.md) in its row. An option that is given twice in one of these places with different values is
refused. pytest's own options, such as `-k`, `-m`, `-x`, `--lf` and `-n 2`, work as for other tests: tags are markers.
"""
REFUSED = """\
## Options of pytest-playwright

Its options with one of the short names above act on tasks, too. These are refused when tasks are selected, also in
`addopts`; run the tasks by themselves then, with `pytest tasks -o addopts=`.

| option | why it is refused |
|---|---|"""
COMMANDS = f"""\
# Commands

{MADE}

Each command exits with 0 (success), 1 (a check failed or an input is wrong) or 2 (wrong usage), and prints with
`--help` what stands here.
"""
EVENTS = f"""\
# Events

{MADE}

`.harness/events.jsonl` has one line for each event of the last run ([run](run.md#events-and-figures)), and the hook
[`pytest_taskspec_event`](hooks.md#pytest_taskspec_event) gets the same events as values. Each line has `type`, `at`,
and `task_id` if the event belongs to a task, and the fields of its type. All times are in seconds.
"""
HOOKS = f"""\
# Hooks

{MADE}

A `conftest.py` file or another plugin may implement these hooks of pytest.
"""


_OF_ALL = re.compile(
    r"\n(?:\nOptions:\n)?  --help +Show this message and exit\.(?=\n|$)(?:\n\nCommands:\n.*)?", re.DOTALL
)
"""What every command has, and the list of the commands below one, which follow."""


def pages() -> Mapping[str, str]:
    """The pages as Markdown, by the name of their file."""
    makers: Mapping[str, Callable[[], Iterator[str]]] = {
        "options.md": _options,
        "commands.md": _commands,
        "events.md": _events,
        "hooks.md": _hooks,
    }
    return {name: "\n".join(make()) for name, make in makers.items()}


def _options() -> Iterator[str]:
    yield OPTIONS
    for title, options in OPTION_GROUPS.items():
        yield f"## {title[0].upper()}{title[1:]}\n\n| option | what it does |\n|---|---|"
        yield "\n".join(map(_option, options)) + "\n"
    yield REFUSED
    for each in FOREIGN:
        if not each.acts:
            fine = "".join(f", except `{value}`" for value in each.fine)
            yield f"| `{each.name} {each.metavar}`{fine} | {each.why} |"
    yield ""


def _option(option: TaskOption) -> str:
    value = option.keywords.get("metavar") or "|".join(option.keywords.get("choices", ()))
    name = f"{option.name} {value}" if option.takes_value and value else option.name
    names = ", ".join(f"`{each}`" for each in (name, option.alias) if each)
    said = f"{option.help} Setting: `{option.setting}`." if option.setting else option.help
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (names, said)) + " |"


def _commands() -> Iterator[str]:
    yield COMMANDS
    for title, commands in COMMAND_GROUPS.items():
        yield f"## {title}\n"
        for name in commands:
            yield from _command(f"harness {name}", Imported()[name])


def _command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name, max_content_width=80, terminal_width=80)
    yield f"### {name}\n\n```text\n{_OF_ALL.sub('', command.get_help(context)).rstrip()}\n```\n"
    if isinstance(command, click.Group | TyperGroup):
        for sub in command.list_commands(context):
            if (found := command.get_command(context, sub)) is not None:
                yield from _command(f"{name} {sub}", found)


def _events() -> Iterator[str]:
    yield EVENTS
    for kind in EVENTS_BY_TYPE.values():
        yield f"## `{kind.type}`\n\n{_plain(inspect.getdoc(kind) or '')}\n\n| field | type | meaning |\n|---|---|---|"
        yield "\n".join(f"| `{name}` | `{kind_}` | {text} |" for name, kind_, text in _fields(kind)) + "\n"


def _fields(kind: type) -> Iterator[tuple[str, str, str]]:
    """Each field of a class, with its type and the text below it."""
    body = next(each for each in ast.parse(dedent(inspect.getsource(kind))).body if isinstance(each, ast.ClassDef)).body
    for each, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each.annotation):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            kind_ = ast.unparse(each.annotation).replace("|", "\\|")
            yield written_name(kind, ast.unparse(each.target)), kind_, _plain(str(text)).replace("|", "\\|")


def _hooks() -> Iterator[str]:
    yield HOOKS
    for name, hook in vars(hookspecs).items():
        if name.startswith("pytest_"):
            yield f"## {name}\n\n```text\ndef {name}{_signature(hook)}: ...\n```\n\n{inspect.getdoc(hook)}\n"


def _signature(hook: Any) -> str:
    return re.sub(r"'", "", str(inspect.signature(hook)))


def _plain(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    for name, text in pages().items():
        Path(sys.argv[1], name).write_text(text, "utf-8")
