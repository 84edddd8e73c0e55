"""The end of a command that cannot be done: words on stderr, and with `--json` one JSON document on stdout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JSON_LINES = "Print a JSON object per line."
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


class JsonEndings(TyperGroup):
    """A group of commands: if one with `--json` fails, the error is JSON too."""

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
