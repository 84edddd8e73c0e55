"""`harness schema`: the JSON Schemas of the files that are read and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.ending import fail
from harness.schemas import schemas
from harness.spec.problems import did_you_mean

TASK_SPEC = "task_spec.schema.json"
SUFFIX = ".schema.json"


def schema(
    which: Annotated[str | None, typer.Argument(metavar="NAME", help="Which to print; default: task_spec.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="The same as NAME.")] = None,
    names: Annotated[bool, typer.Option("--list", help="List the names.")] = False,
    write: Annotated[Path | None, typer.Option(help="Write all of them into this folder.")] = None,
) -> None:
    """Print a JSON Schema, list the names, or write them all.

    Example: harness schema error_report > error_report.schema.json
    """
    documents = schemas()
    if names:
        typer.echo("\n".join(documents))
    elif write is not None:
        write.mkdir(parents=True, exist_ok=True)
        for file, document in documents.items():
            (write / file).write_text(_text(document), "utf-8")
            typer.echo(str(write / file))
    else:
        typer.echo(_text(documents[_chosen(which or name or TASK_SPEC, list(documents))]), nl=False)


def _chosen(name: str, known: list[str]) -> str:
    """`task_spec` is short for `task_spec.schema.json`."""
    if name in known:
        return name
    if name + SUFFIX in known:
        return name + SUFFIX
    short = [each.removesuffix(SUFFIX) for each in known]
    meant = did_you_mean(name.removesuffix(SUFFIX), short)
    fail(f"no schema {name!r}; {meant or 'there are: ' + ', '.join(short)}")


def _text(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
