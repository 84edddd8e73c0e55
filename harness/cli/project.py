"""What commands have in common: the project that a file belongs to, hosts it does not know, how a command ends."""

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
from harness.spec.problems import Problem, did_you_mean, misspelt
from harness.spec.references import ReferenceScope, as_text, interpolate
from harness.spec.steps import Api, Open, Step

# Hosts that a task names, against those of the project's settings: slips of the pen that only a run would show.


def address_advice(task: Loaded, settings: Settings) -> Iterator[Problem]:
    """Warnings: URLs of nearly a service's host, hosts without `http://`. Of faults: `harness.faults.checks`."""
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
    """What is wrong with the URL that is opened, and what was probably meant."""
    if not isinstance(step, Open | Api):
        return None
    meant = "" if base else with_scheme(as_text(interpolate(step.url, scope, last=False)))
    if meant:
        return "a URL without `http://` is relative, and no `base_url` is set", f"did you mean {meant} ?"
    host = named_host(step, scope)
    if host in hosts or not misspelt(host, [known for known in hosts if not _numbered_alike(host, known)]):
        return None
    return f"{host} is no host of [tool.harness.services]", did_you_mean(host, hosts)


def _numbered_alike(one: str, other: str) -> bool:
    """`node1.test` and `node2.test` are two hosts, and no slip."""
    return re.sub(r"\d+", "0", one) == re.sub(r"\d+", "0", other)


# How a command that cannot be done ends: words on stderr, and on stdout one JSON document where that was asked for.

JSON_LINES = "One JSON object a line."
"""Help of a `--json` whose readers read line by line."""
_JSON = "--json"
_GIVEN = "harness.given"
_USAGE: type[Any] = typer.BadParameter.__bases__[0]
"""Whatever is wrong with what was typed: typer itself names only some of it."""


class CommandFailedError(typer.Exit):
    """The end of a command, with what was said of it."""

    def __init__(self, message: str, exit_code: int, file: Path | None) -> None:
        super().__init__(exit_code)
        self.message = message
        self.file = file


def fail(message: str, exit_code: int = 1, file: Path | None = None) -> NoReturn:
    """One clear line on stderr. `file`: that it is about."""
    typer.echo(message, err=True)
    raise CommandFailedError(message, exit_code, file)


class Commands(TyperGroup):
    """The commands of the program. One that takes `--json`, and fails, says so in JSON."""

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
    """`--json` of the command that is meant, where it is to print JSON: to some it names a file, and `-` stdout."""
    words = given[: given.index("--")] if "--" in given else given
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    option = next((each for each in command.params if _JSON in each.opts), None)
    if option is None or _JSON not in words:
        return None
    return option if option.is_flag or words[words.index(_JSON) + 1 :][:1] == ("-",) else None


def project_of(place: Path) -> Path | None:
    """The folder; None outside of any project. `place` is a file or a folder, there or not."""
    return next((folder for folder in (place.absolute(), *place.absolute().parents) if _has_settings(folder)), None)


def settings_at(place: Path) -> Settings:
    """`[tool.harness]` of the project, the defaults outside of any. Raises SettingsError."""
    return load_settings(project_of(place) or (place if place.is_dir() else place.parent).absolute())


def _has_settings(folder: Path) -> bool:
    """A file that cannot be read counts: whoever loads it says what is wrong."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return False
    try:
        tool = tomllib.loads(file.read_text("utf-8")).get("tool")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return True
    return isinstance(tool, dict) and "harness" in tool
