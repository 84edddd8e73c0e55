"""`harness explain`: what an error code means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Annotated, Any

import typer

from harness.cli.code_facts import excerpt, facts, treatment
from harness.cli.ending import fail
from harness.recovery.catalog import CATALOG, Row
from harness.spec.problems import did_you_mean


def explain(
    code: Annotated[str | None, typer.Argument(help="A code or an error_type; none: list all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")] = False,
) -> None:
    """Say what an error code means and what one can do.

    Example: harness explain NET_DNS
    """
    row = CATALOG.get(code.upper()) if code else None
    others = [each for each in CATALOG.values() if each != row and (not code or each.error_type == code.lower())]
    if code and row is None and not others:
        meant = did_you_mean(code.upper(), CATALOG)
        fail(f"no code or error_type {code!r}; {meant or '`harness explain` lists them'}")
    if as_json:
        typer.echo(json.dumps(_document(row, others), indent=2, ensure_ascii=False))
        return
    _tell(row, others)


def _tell(row: Row | None, others: Sequence[Row]) -> None:
    if row:
        _explain(row)
    if row and others:
        typer.echo(f"\nmore codes of {row.error_type}:")
    for each in others:
        typer.echo(f"{each.code:24} {each.error_type:28} {each.cause}")


def _document(row: Row | None, others: Sequence[Row]) -> Mapping[str, Any]:
    """The code in full, and what is told of the others."""
    told = [{"code": each.code, "error_type": str(each.error_type), "cause": each.cause} for each in others]
    return {"code": _whole(row) if row else None, "codes": told}


def _whole(row: Row) -> Mapping[str, Any]:
    return {
        "code": row.code,
        "error_type": str(row.error_type),
        "category": str(row.category),
        "severity": str(row.severity),
        "scope": str(row.scope),
        "retryable": row.retryable,
        "cause": row.cause,
        "rule": treatment(row),
        "hint": row.hint,
        "example": excerpt(row),
    }


def _explain(row: Row) -> None:
    typer.echo(f"{row.code}  ({row.error_type})")
    for label, text in facts(row):
        if label != "error_type":
            typer.echo(f"{f'{label}:':10} {text}")
    typer.echo("example:")
    typer.echo(indent(json.dumps(excerpt(row), indent=2, ensure_ascii=False), "  "))
