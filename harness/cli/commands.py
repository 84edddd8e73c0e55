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

COMMANDS: Final[Mapping[str, Command]] = {
    "new": Command("new:new", "Write a first task with comments, which runs without changes."),
    "record": Command("record:record", "Record what you do in a browser window as a task file."),
    "import": Command("import_tests:import_tests", "Turn Playwright tests in Python into task files, line by line."),
    "validate": Command(
        "validate:validate", "Check task files, fault plans, step groups and gates without running them."
    ),
    "verify": Command(
        "verify:run_verify",
        "Run each task without its steps (it must not pass), and as written (it must end as its file declares).",
    ),
    "run": Command("run:run", "Run tasks with pytest.", _PASSED_ON),
    "watch": Command("watch:watch", "Run tasks, and run them again when a file that concerns them is saved."),
    "chaos": Command(
        "chaos:chaos", "Run the tasks of a fault plan: each task once without faults, and once with each of its faults."
    ),
    "eval": Command(
        "evaluate:evaluate", "Compare agents: each does the same tasks, with the same seeds, in turns, several times."
    ),
    "triage": Command("triage:triage", "Group the failures of a run by cause, the cause of most failures first."),
    "show": Command("show:show", "Show one failure: what was tried, why the task failed, which files there are."),
    "open": Command("open_trace:open_trace", "Open the trace of a task in Playwright's trace viewer, offline."),
    "replay": Command("replay:replay", "Run a failed task again and stop before the step that failed."),
    "freeze": Command(
        "freeze:freeze",
        "Write the steps of an agent's last passed run into the task's file, so that it runs without a model.",
    ),
    "regrade": Command(
        "regrade:regrade", "Judge recorded evidence by the present criteria of the task files, without a browser."
    ),
    "explain": Command("explain:explain", "Explain what a code or warning means and what you can do."),
    "schema": Command("schema:schema", "Print a JSON Schema, list the names of all schemas, or write all of them."),
    "report": Command(
        "report:report", "Build the Allure report of the last run, offline, with the history of earlier runs."
    ),
    "dashboard": Command(
        "dashboard:dashboard",
        "Write one HTML file about a run: causes, figures, timeline, flaky and healed tasks, trends.",
    ),
    "serve": Command("serve:app", "Serve a page that shows the project's runs as they happen."),
    "mcp": Command(
        "mcp:app", "Offer the tasks of the project to an agent that speaks MCP, over standard input and output."
    ),
    "sessions": Command("sessions:app", "Show and close the sessions of agents that run elsewhere."),
    "demo": Command("demo:demo", "Start the demo sites and show a task to try."),
    "merge": Command(
        "merge:merge", "Merge the last runs of several folders into one run, with its errors/ and allure-results/."
    ),
    "circuits": Command(
        "circuits:circuits",
        "List the circuits in .harness/circuits.sqlite3, or close one (--reset NAME) or all of them (--all).",
    ),
    "history": Command("history:app", "Show and compare earlier runs, and find flaky tasks."),
    "services": Command("services:app", "Show, start and stop the services, and read their logs."),
    "tools": Command(
        "tools:app", "Show tool servers and their tools, call a tool, order a restart, and read their logs."
    ),
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
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])
