"""`harness fmt`: task files and step groups in one style."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
import yaml

from harness.cli.project import settings_here
from harness.resilience.replaced import replaced
from harness.spec.file_names import find_files, is_step_group
from harness.spec.load import check_group, find_tasks, load_file
from harness.spec.names import how_many
from harness.spec.problems import Problem, SpecError
from harness.spec.readers import UnreadableError
from harness.spec.source import file_label, read_mapping
from harness.spec.style import in_style, means_the_same


def fmt(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH", help="Task files, or folders with them.  [default: .]")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing, and say which files would change.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing, and print what would change.")] = False,
    long: Annotated[bool, typer.Option("--long", help="Write steps in their long form instead.")] = False,
) -> None:
    """Write task files and step groups in one style, with steps in their short form.

    Comments, quotes and the order of keys stay, and the meaning too: a file for which that is not certain is left as it
    is. JSON files are left alone.
    Exit code: 1 when a file is broken, or with --check would change.

    Example: harness fmt tasks/ --check
    """
    named = [Path()] if paths is None else paths
    groups = find_files(named, is_step_group)
    try:
        tasks = find_tasks(path for path in named if path not in groups)
    except SpecError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    files = list(dict.fromkeys((*tasks, *groups, *_logins(named))))
    changed, broken = 0, 0
    for file in files:
        if file.suffix.lower() == ".json":
            if file in named:
                typer.echo(f"{file_label(file)} is JSON, and is left as it is")
            continue
        try:
            changed += _format(file, check=check, diff=diff, long=long)
        except (SpecError, OSError) as error:
            typer.echo(f"error: {error}", err=True)
            broken += 1
    typer.echo(_summary(len(files), changed, broken, dry=check or diff))
    if broken or (check and changed):
        raise typer.Exit(1)


def _logins(paths: Sequence[Path]) -> Iterator[Path]:
    """The task files of the project's logins that stand in the folders: their names are not those of tasks."""
    for folder in (path for path in paths if path.is_dir()):
        settings = settings_here(folder)
        files = (settings.root / each.task for each in settings.logins.values() if each.task is not None)
        yield from (folder / each.relative_to(folder.resolve()) for each in files if _is_below(each, folder))


def _is_below(file: Path, folder: Path) -> bool:
    return file.is_file() and file.is_relative_to(folder.resolve())


def _format(file: Path, *, check: bool, diff: bool, long: bool) -> bool:
    """Return whether the file changes. Raises SpecError for a broken one, OSError for one that cannot be written."""
    before = read_mapping(file).text
    _load(file)
    try:
        after = _styled(before, long=long)
    except yaml.MarkedYAMLError as error:  # libyaml, which reads files faster, takes more tabs
        at = error.problem_mark
        place = (at.line + 1, at.column + 1) if at else (1, 1)
        told = Problem(file_label(file), *place, "", str(error.problem), hint="it is left as it is: use spaces")
        raise SpecError([told]) from None
    if after is None:
        hint = "it is left as it is; please report it, with the file"
        problem = Problem(file_label(file), 1, 1, "", "it would mean something else in the one style", hint=hint)
        raise SpecError([problem])
    if after == before:
        return False
    if diff:
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), file_label(file), f"{file_label(file)} (formatted)", lineterm=""
        )
        typer.echo("\n".join(lines))
    if check:
        typer.echo(f"would reformat {file_label(file)}")
    if not (check or diff):
        _write(file.resolve(), after)
        typer.echo(f"reformatted {file_label(file)}")
    return True


def _styled(text: str, *, long: bool) -> str | None:
    """The text in the one style; None if that does not mean the same."""
    try:
        styled = in_style(text, long=long)
        return styled if means_the_same(text, styled) else None
    except UnreadableError:
        return None


def _load(file: Path) -> None:
    """Raises SpecError for a file that does not load."""
    if not is_step_group(file):
        settings = settings_here(file)
        load_file(file, needs_steps=False, defaults=settings.defaults, extra_keys=settings.extra_keys)
    elif errors := [each for each in check_group(file) if each.severity == "error"]:
        raise SpecError(errors)


def _write(file: Path, text: str) -> None:
    """Write the file at once, with its mode and its kind of line ends."""
    if not os.access(file, os.W_OK):
        raise PermissionError(f"{file_label(file)} cannot be written: its mode forbids it")
    raw = file.read_bytes()
    with replaced(file) as made:
        made.write_bytes((text.replace("\n", "\r\n") if b"\r\n" in raw else text).encode())
        shutil.copymode(file, made)


def _summary(files: int, changed: int, broken: int, *, dry: bool) -> str:
    would = "would be " if dry else ""
    parts = [(changed, "reformatted"), (files - changed - broken, "left unchanged"), (broken, "not formatted")]
    return ", ".join(f"{how_many(count, 'file')} {would}{word}" for count, word in parts if count) or "no task files"
