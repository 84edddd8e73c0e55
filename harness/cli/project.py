"""Shared parts of the commands: the project of a file, unknown hosts, and the end of a command."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from harness.model.settings import Settings, load_settings
from harness.spec.advice.criteria import declares_failure, scopes, steps_of
from harness.spec.advice.rules import named_host
from harness.spec.loaded import Loaded
from harness.spec.names import with_scheme
from harness.spec.problems import Problem, did_you_mean, is_misspelt
from harness.spec.references import ReferenceScope, as_text, interpolate
from harness.spec.steps import Api, Open, Step

# Compares a task's hosts with those of the settings: only a run would show a typing error.


def address_advice(task: Loaded, settings: Settings) -> Iterator[Problem]:
    """Yield warnings for misspelt hosts and for URLs without `http://`. `harness.faults.checks` does so for faults."""
    if declares_failure(task.spec):
        return
    hosts = {host for service in settings.services.values() for host in service.declared}
    every = scopes(task.spec)
    for path, step in steps_of(task.spec):
        found = [_url_problem(step, scope, hosts, settings.base_url) for scope in every]
        if found[0] is not None and all(found):
            message, hint = found[0]
            yield task.origin.problem((*path, "url"), message, hint=hint, severity="warning")


def _url_problem(step: Step, scope: ReferenceScope, hosts: Collection[str], base: str | None) -> tuple[str, str] | None:
    """The problem of the URL that a step opens, and what was probably meant; None if there is none."""
    if not isinstance(step, Open | Api):
        return None
    meant = "" if base else with_scheme(as_text(interpolate(step.url, scope, last=False)))
    if meant:
        return "a URL without `http://` is relative, and no `base_url` is set", f"did you mean {meant} ?"
    host = named_host(step, scope)
    if host in hosts or not is_misspelt(host, [known for known in hosts if not _numbered_alike(host, known)]):
        return None
    return f"{host} is not a host of [tool.harness.services]", did_you_mean(host, hosts)


def _numbered_alike(one: str, other: str) -> bool:
    """Return whether two names differ only in a number: `node1.test` and `node2.test` are two hosts, no typo."""
    return re.sub(r"\d+", "0", one) == re.sub(r"\d+", "0", other)


# The end of a command that cannot be done: words on stderr, and with `--json` one JSON document on stdout.

JSON_LINES = "Print one JSON object per line."
"""The help text of a `--json` whose output is read line by line."""
_JSON = "--json"
_GIVEN = "harness.given"
_USAGE: type[Any] = typer.BadParameter.__bases__[0]
"""The base class of all usage errors; typer itself exports only some of them."""


class CommandFailedError(typer.Exit):
    """The end of a command, with its message."""

    def __init__(self, message: str, exit_code: int, file: Path | None) -> None:
        super().__init__(exit_code)
        self.message = message
        self.file = file


def fail(message: str, exit_code: int = 1, file: Path | None = None) -> NoReturn:
    """End the command with one clear line on stderr. `file`: the file that it is about."""
    typer.echo(message, err=True)
    raise CommandFailedError(message, exit_code, file)


class Commands(TyperGroup):
    """The commands of the program. If one with `--json` fails, the error is JSON too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_GIVEN] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CommandFailedError as error:
            self._tell(ctx, error.message, error.exit_code, file=error.file)
            raise
        except _USAGE as error:
            self._tell(ctx, error.format_message(), error.exit_code)
            raise
        except BrokenPipeError:
            raise
        except OSError as error:
            self._tell(ctx, str(error), 1, file=error.filename)
            raise

    def _tell(self, ctx: Any, message: str, exit_code: int, file: object = None) -> None:
        option = _json_option(self, ctx.meta[_GIVEN])
        if option is not None:
            of_file = {} if file is None else {"file": str(file)}
            found = {"error": {"message": message, **of_file, "exit_code": exit_code}}
            typer.echo(json.dumps(found, indent=None if option.help == JSON_LINES else 2, ensure_ascii=False))


def _json_option(command: Any, given: tuple[str, ...]) -> Any:
    """The `--json` of the command, if it prints JSON: for some commands it names a file, and `-` is stdout."""
    words = given[: given.index("--")] if "--" in given else given
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    option = next((each for each in command.params if _JSON in each.opts), None)
    if option is None or _JSON not in words:
        return None
    return option if option.is_flag or words[words.index(_JSON) + 1 :][:1] == ("-",) else None


def project_of(place: Path) -> Path | None:
    """The project folder; None outside of any project. `place` is a file or a folder, existing or not."""
    return next((folder for folder in (place.absolute(), *place.absolute().parents) if _has_settings(folder)), None)


def settings_at(place: Path) -> Settings:
    """`[tool.harness]` of the project, or the defaults outside of any. Raises SettingsError."""
    return load_settings(project_of(place) or (place if place.is_dir() else place.parent).absolute())


def _has_settings(folder: Path) -> bool:
    """Return whether the folder has settings. An unreadable file counts: loading it reports the error."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return False
    try:
        tool = tomllib.loads(file.read_text("utf-8")).get("tool")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return True
    return isinstance(tool, dict) and "harness" in tool
