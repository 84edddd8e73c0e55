"""What `harness validate` found, for people, for programs, and for GitHub's annotations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from types import MappingProxyType

import typer

from harness.cli.checking import Checked
from harness.reporting.files import workflow_command
from harness.spec.problems import UNKNOWN, Problem

PLACES = 3
"""How many places of the same problem are named beside the first."""


class Format(StrEnum):
    """`text`: for people; `json`: one document; `github`: workflow commands."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def show(checked: Checked, form: Format) -> None:
    """Print it."""
    _SHOWN[form](checked)


def _text(checked: Checked) -> None:
    """Errors come last, where they are seen. Where nothing could be looked at, that is said on stderr."""
    for severity in ("warning", "error"):
        for problems in _alike([each for each in checked.problems if each.severity == severity]):
            typer.echo("\n".join([f"{severity}: {problems[0]}", *_elsewhere(problems[1:])]), err=not checked.looked_at)
    if checked.looked_at:
        typer.echo(_summary(checked))


def _alike(problems: Sequence[Problem]) -> Iterable[list[Problem]]:
    """Problems that are told once: all warnings that say the same of the same key, and all of one unknown key."""
    groups: dict[Problem, list[Problem]] = {}
    for problem in problems:
        once = problem.severity == "warning" or problem.message.startswith(UNKNOWN)
        same = replace(problem, file="", line=None, column=None) if once else problem
        groups.setdefault(same, []).append(problem)
    return groups.values()


def _elsewhere(others: Sequence[Problem]) -> Iterator[str]:
    """Where else the same is wrong: how often, and the first few places."""
    if others:
        times = "once more" if len(others) == 1 else f"{len(others)} times more"
        more = f" and {len(others) - PLACES} more" if len(others) > PLACES else ""
        yield f"  {times}: {', '.join(each.place for each in others[:PLACES])}{more}"


def _github(checked: Checked) -> None:
    for problem in checked.problems:
        typer.echo(annotation(problem))
    typer.echo(_summary(checked))


def _json(checked: Checked) -> None:
    ids = {task.source: task.spec.task_id for task in checked.loaded}
    document = {
        "files": [
            {"file": file, "task_id": ids.get(file), "valid": file in ids and file not in checked.broken}
            for file in checked.files
        ],
        "fault_plans": [{"file": file, "valid": file not in checked.broken} for file in checked.plans],
        "problems": [asdict(problem) for problem in checked.problems],
        "counts": counts(checked),
    }
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


_SHOWN: Mapping[Format, Callable[[Checked], None]] = MappingProxyType(
    {Format.TEXT: _text, Format.JSON: _json, Format.GITHUB: _github}
)


def counts(checked: Checked) -> dict[str, int]:
    """Of files, and of problems."""
    errors = sum(problem.severity == "error" for problem in checked.problems)
    return {
        "files": len(checked.files),
        "loaded": len(checked.loaded),
        "with_errors": len(checked.broken),
        "errors": errors,
        "warnings": len(checked.problems) - errors,
    }


def _summary(checked: Checked) -> str:
    found = counts(checked)
    files = _counted(found["files"], "task file")
    warnings = f", {_counted(found['warnings'], 'warning')}" if found["warnings"] else ""
    tasks = [files, f"{found['loaded']} load"] if checked.files else []
    plans = [_counted(len(checked.plans), "fault plan")] if checked.plans else []
    return ", ".join([*tasks, *plans, f"{found['with_errors']} with errors{warnings}"])


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def annotation(problem: Problem) -> str:
    """GitHub's command for it."""
    place = {"file": problem.file, "line": problem.line, "col": problem.column, "title": problem.path or "task file"}
    more = (("expected", problem.expected), ("found", problem.found), ("hint", problem.hint))
    message = "\n".join([problem.message, *(f"{name}: {text}" for name, text in more if text)])
    return workflow_command(problem.severity, message, place)
