"""`harness explain`: what an error code means."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from random import Random
from textwrap import indent
from typing import Annotated, Any, assert_never

import msgspec
import typer
from msgspec import Struct

from harness.bridge.refusals import WIRE_CODES
from harness.cli.ending import AsJson, fail
from harness.recovery import GiveUp, Remedy, RepairPrecondition, Retry, Rewind, Rulebook, Skip, Substitute, Trust
from harness.recovery.catalog import CATALOG, Family, Row
from harness.recovery.failure import Failure
from harness.spec.problems import did_you_mean
from harness.spec.warnings import WARNINGS

_EXAMPLES = Path(__file__).with_name("error_examples.json")
"""Code -> what its example report has beyond the catalog: `message`, `step`, `step_index`, `context`."""
_USUAL_INDEX = 3
"""The index of the failing step in examples without one."""


def facts(row: Row) -> Iterator[tuple[str, str]]:
    """Label and text of all facts about a code, without its example."""
    yield "error_type", row.error_type
    yield "category", f"{row.category}, severity {row.severity}, scope {row.scope}"
    yield "suspect", row.suspect
    yield "retryable", "yes" if row.retryable else "no"
    yield "cause", row.cause
    yield "rule", treatment(row)
    yield "do", row.hint


def treatment(row: Row) -> str:
    """The default treatment of a code: the rule that answers, and its remedies in order."""
    book = Rulebook()
    rule = book.rule(row.family)
    remedies = list(book.remedies(Failure(row.code, ""), Random(0).random))
    ways = "; then ".join(_ways(remedies, row))
    if rule is None:
        return f"no rule applies, and the harness does not retry: {ways}"
    if rule.strategy == "retry" and all(isinstance(each, GiveUp) for each in remedies):
        return f"`{row.family}`, by default `{rule.strategy}`, which does not try this code again: {ways}"
    patience = getattr(rule, "wait_seconds", None)
    looked = f"it looks for the element for {patience:g} s, then for each of its fallbacks; then " if patience else ""
    return f"`{row.family}`, by default `{rule.strategy}`: {looked}{ways}"


def _ways(remedies: Iterable[Remedy], row: Row) -> Iterator[str]:
    for words, same in groupby(_describe_remedy(remedy, row) for remedy in remedies):
        count = len(list(same))
        yield words if count == 1 else f"{words}, {count} times"


def _describe_remedy(remedy: Remedy, row: Row) -> str:
    match remedy:
        case Retry(after=after):
            page = ", on a page that was freed or opened again" if row.family is Family.BROWSER else ""
            words = f"it does the step again after {after:g} s" if after else f"it does the step again{page}"
        case Rewind(restart=restart):
            words = f"it goes back to the nearest checkpoint, if there is one{', in a new browser' if restart else ''}"
        case Substitute(selector=selector):
            words = f"it does the step with {selector}"
        case RepairPrecondition():
            words = "it repairs the precondition"
        case Trust(source=source):
            words = f"it takes the value of the {source} for both"
        case Skip(what=what):
            words = f"it leaves out the {what}"
        case GiveUp(final_state=state):
            words = f"it ends the task as {state}, with the evidence"
        case _:
            assert_never(remedy)
    return words


class Example(Struct, frozen=True):
    """One failure of a code, as in a report."""

    message: str
    context: dict[str, Any]
    step: dict[str, Any] | None = None
    step_index: int = _USUAL_INDEX


@lru_cache
def examples() -> dict[str, Example]:
    """Code -> example, for every code of the catalog."""
    found: dict[str, dict[str, Any]] = json.loads(_EXAMPLES.read_text("utf-8"))
    return {code: Example(**each) for code, each in found.items()}


def excerpt(row: Row) -> dict[str, Any]:
    """The part of an error report about the failure."""
    example = examples()[row.code]
    return {
        "error_type": str(row.error_type),
        "code": row.code,
        "step_index": example.step_index,
        **({"step": example.step} if example.step else {}),
        "error_message": example.message,
        **({"context": example.context} if example.context else {}),
    }


def explain(
    code: Annotated[str | None, typer.Argument(help="A code, an error_type or a warning. Default: list all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Explain what a code or warning means and what you can do.

    Example: harness explain NET_DNS
    """
    if code and (wire := WIRE_CODES.get(code.upper())):
        what = f"{wire.code}: {wire.summary} (a code of the bridge)\n\nseverity: {wire.severity}"
        _tell_other(msgspec.to_builtins(wire), f"{what}\nwhat to do: {wire.hint}", as_json=as_json)
        return
    if code and (told := WARNINGS.get(name := code.lower())):
        text = f"{name}: {told.means} (a warning)\n\nwhat to do: {told.hint}"
        _tell_other({"warning": name, **msgspec.to_builtins(told)}, text, as_json=as_json)
        return
    row = CATALOG.get(code.upper()) if code else None
    others = [each for each in CATALOG.values() if each != row and (not code or each.error_type == code.lower())]
    if code and row is None and not others:
        meant = did_you_mean(code.upper(), {**CATALOG, **WIRE_CODES}) or did_you_mean(code.lower(), WARNINGS)
        fail(f"no code, error_type or warning {code!r}; {meant or '`harness explain` lists them'}")
    if as_json:
        typer.echo(json.dumps(_document(row, others), indent=2, ensure_ascii=False))
    else:
        _tell(row, others)


def _tell_other(document: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """A code that an agent is told over the bridge, or a warning: no task ends with it."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False) if as_json else text)


def _tell(row: Row | None, others: Sequence[Row]) -> None:
    if row:
        lines = [f"{f'{label}:':10} {text}" for label, text in facts(row) if label != "error_type"]
        example = indent(json.dumps(excerpt(row), indent=2, ensure_ascii=False), "  ")
        typer.echo("\n".join([f"{row.code}  ({row.kind})", *lines, "example:", example]))
    if row and others:
        typer.echo(f"\nmore codes of {row.error_type}:")
    for each in others:
        typer.echo(f"{each.code:24} {each.kind:28} {each.cause}")
    if row or len(others) < len(CATALOG):
        return
    for wire in WIRE_CODES.values():
        typer.echo(f"{wire.code:28} {'bridge':24} {wire.summary}.")
    for name, told in WARNINGS.items():
        typer.echo(f"{name:28} {'warning':24} {told.means}")


def _document(row: Row | None, others: Sequence[Row]) -> Mapping[str, Any]:
    told = [{"code": each.code, "error_type": str(each.error_type), "cause": each.cause} for each in others]
    every = row is None and len(others) == len(CATALOG)
    bridge = msgspec.to_builtins(list(WIRE_CODES.values())) if every else []
    warnings = [{"warning": name, "means": each.means} for name, each in WARNINGS.items()] if every else []
    return {"code": _row_document(row) if row else None, "codes": told, "bridge": bridge, "warnings": warnings}


def _row_document(row: Row) -> Mapping[str, Any]:
    return {
        "code": row.code,
        "error_type": str(row.error_type),
        "category": str(row.category),
        "severity": str(row.severity),
        "scope": str(row.scope),
        "suspect": str(row.suspect),
        "retryable": row.retryable,
        "cause": row.cause,
        "rule": treatment(row),
        "hint": row.hint,
        "example": excerpt(row),
    }
