"""The commands of the program: where each is, and what `harness --help` says about it without importing it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

import typer
from msgspec import Struct, field
from typer.main import get_group

from harness.cli.ending import JsonEndings


class Command(Struct, frozen=True):
    """A command before it is imported."""

    place: str
    """`module:name`, below `harness.cli`, of its function, or of the typer.Typer with its subcommands."""
    help: str
    """The first sentence of its own help, which is its line in the list of commands."""
    context_settings: Mapping[str, Any] = field(default_factory=dict)


_PASSED_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""The settings by which typer passes the arguments on unchanged."""

COMMAND_GROUPS: Final[Mapping[str, Mapping[str, Command]]] = {
    "Write tasks": {
        "new": Command("new:new", "Write a first task with comments, which runs without changes."),
        "record": Command("record:record", "Record what you do in a browser window as a task file."),
        "import": Command(
            "import_tests:import_tests", "Turn Playwright tests in Python into task files, line by line."
        ),
        "validate": Command("validate:validate", "Check files without running them: tasks, faults, groups, gates."),
        "fmt": Command("fmt:fmt", "Write task files and step groups in one style, with steps in their short form."),
        "verify": Command(
            "verify:run_verify",
            "Find tasks that test nothing, or do not end as they declare.",
        ),
        "schema": Command("schema:schema", "Print a JSON Schema, list their names, or write all of them."),
    },
    "Run tasks": {
        "run": Command("run:run", "Run tasks with pytest.", _PASSED_ON),
        "watch": Command("watch:watch", "Run tasks, and again when a file that concerns them is saved."),
        "replay": Command("replay:replay", "Run a failed task again, up to the step that failed."),
        "chaos": Command(
            "chaos:chaos",
            "Run tasks with each fault of a plan, and without faults.",
        ),
        "eval": Command(
            "evaluate:evaluate",
            "Compare agents: all do the same tasks several times.",
        ),
        "merge": Command("merge:merge", "Merge the runs of several folders, machines or stores into one."),
    },
    "Find the cause": {
        "triage": Command("triage:triage", "Group the failures of a run by cause."),
        "show": Command("show:show", "Show a failure: what was tried, why it failed, which files."),
        "explain": Command("explain:explain", "Explain what a code or warning means and what you can do."),
        "open": Command("open_trace:open_trace", "Open the trace of a task in Playwright's viewer, offline."),
        "history": Command("history:app", "Show and compare earlier runs, and find flaky tasks."),
        "regrade": Command("regrade:regrade", "Judge recorded evidence by the present criteria."),
        "freeze": Command(
            "freeze:freeze",
            "Write the steps of an agent's last passed run into the task file.",
        ),
    },
    "Make reports": {
        "dashboard": Command(
            "dashboard:dashboard",
            "Write one HTML file about a run: causes, figures, trends.",
        ),
        "report": Command("report:report", "Build the Allure report of the last run, offline."),
    },
    "Look after sites, tools and agents": {
        "demo": Command("demo:demo", "Start the demo sites and show a task to try."),
        "services": Command("services:app", "Show, start and stop the services, and read their logs."),
        "tools": Command("tools:app", "Show tool servers, list and call their tools, read their logs."),
        "circuits": Command(
            "circuits:circuits",
            "List the circuits of sites, tools and models, or close them.",
        ),
        "serve": Command("serve:app", "Serve a page that shows the project's runs as they happen."),
        "mcp": Command("mcp:app", "Offer the project's tasks to an agent over MCP."),
        "sessions": Command("sessions:app", "Show and close the sessions of agents that run elsewhere."),
    },
}
COMMANDS: Final[Mapping[str, Command]] = {
    name: command for group in COMMAND_GROUPS.values() for name, command in group.items()
}


class Imported(Mapping[str, Any]):
    """The commands as typer knows them, by name; each is imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _imported(name)

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _imported(name: str) -> Any:
    """The command itself. Raises KeyError for an unknown name."""
    command = COMMANDS[name]
    module, _, attribute = command.place.partition(":")
    gc.disable()  # nothing that an import makes is garbage
    try:
        found = getattr(import_module(f"harness.cli.{module}"), attribute)
    finally:
        gc.freeze()
        gc.enable()
    around = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name)
    else:
        around.command(name=name, context_settings={**command.context_settings})(found)
    return get_group(around).commands[name]


class Commands(JsonEndings):
    """The group of all commands: it imports the command that is called, and for its list none."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": Imported()})

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        for title, commands in COMMAND_GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:9}", command.help) for name, command in commands.items()])
