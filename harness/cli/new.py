"""`harness new`: a first task that runs as it is."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from harness.cli.demo_settings import ISOLATION, free_ports, settings_text
from harness.cli.ending import fail
from harness.cli.project import project_of, settings_at
from harness.cli.scaffold import demo_task, site_task
from harness.model.settings import Settings, SettingsError
from harness.reporting.files import shown_path
from harness.spec.load import find_tasks, load_file
from harness.spec.problems import SpecError

SCHEMA = Path("schemas", "task_spec.schema.json")
_OWN_TABLE = re.compile(r"^\[tool\.harness\][ \t]*(?:#.*)?\n", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*(?<!\.)")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_LONGEST = 100


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its task_id, and the name of its file.")] = "my-first",
    folder: Annotated[Path, typer.Option("--dir", help="Where the file goes; made when it is not there.")] = Path(
        "tasks"
    ),
    url: Annotated[
        str | None, typer.Option(help="A page to begin with; none: your first site, or the demo shop.")
    ] = None,
    with_demo: Annotated[bool, typer.Option("--with-demo", help="Add the demo sites to pyproject.toml.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that is there.")] = False,
) -> None:
    """Write a commented first task that runs as it is.

    Example: harness new my-first --url http://127.0.0.1:8000/
    """
    _check_name(name)
    file = folder / f"{name}.task.yaml"
    if file.exists() and not force:
        fail(f"{file} is there already: choose another name, or replace it with --force")
    _check_id(name, file)
    url = url or (None if with_demo else _own_site())
    text = _text(name, file, url)
    demo = None if url and not with_demo else _missing_demo()
    if demo is not None and with_demo:
        _append(*demo)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    typer.echo(f"wrote {file}")
    if demo is not None and not with_demo:
        place, settings = demo
        typer.echo(f"\nadd to {shown_path(place)} (`harness new {name} --with-demo --force` does it):\n\n{settings}")
    if not (_project(file) / SCHEMA).is_file():
        schemas = shown_path(_project(file) / SCHEMA.parent)
        typer.echo(f"editors complete and check it after:  harness schema --write {shlex.quote(schemas)}")
    typer.echo(f"run it:  harness run {shlex.quote(str(file))}")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise typer.BadParameter(
            f"{name!r}: at most {_LONGEST} letters, digits, `-`, `_` and single dots, a letter or digit first"
        )


def _check_id(name: str, file: Path) -> None:
    """Ids are names of directories, and some disks do not tell `A` from `a`."""
    if not file.parent.is_dir():
        return
    for other in find_tasks([file.parent]):
        try:
            taken = load_file(other).spec.task_id
        except SpecError:
            continue  # `harness validate` tells of it
        if taken.casefold() == name.casefold() and other.resolve() != file.resolve():
            fail(f"the task_id {name!r} is taken by {other}: choose another name")


def _text(name: str, file: Path, url: str | None) -> str:
    schema = Path(os.path.relpath(_project(file) / SCHEMA, file.parent)).as_posix()
    if url is None:
        return demo_task(name, file.as_posix(), schema)
    return site_task(name, file.as_posix(), schema, url, _host(url))


def _project(file: Path) -> Path:
    return project_of(file.parent) or Path.cwd()


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "") if parts.port is None or parts.port else ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        raise typer.BadParameter(f"{url!r} is not the URL of a page; expected: http://HOST/ or https://HOST/")
    return host


def _own_site() -> str | None:
    """Where a project that has sites of its own begins; None for one that has none, or the demo sites."""
    settings = _settings()
    hosts = [host for service in settings.services.values() for host in service.hosts]
    if "shop.local" in hosts:
        return None
    return settings.base_url or (f"http://{hosts[0]}/" if hosts else None)


def _missing_demo() -> tuple[Path, str] | None:
    """What pyproject.toml lacks for the demo sites, and where it is; None when they are known."""
    settings = _settings()
    if any("shop.local" in service.hosts for service in settings.services.values()):
        return None
    place = (project_of(Path.cwd()) or Path.cwd()) / "pyproject.toml"
    bare = settings.isolation is None and not settings.channels and not _has_table(place)
    return place, settings_text(free_ports(), channel="env" not in settings.channels, isolation=bare)


def _has_table(place: Path) -> bool:
    """Whether `[tool.harness]` stands there by itself; a second one would be no TOML."""
    return place.exists() and _OWN_TABLE.search(place.read_text("utf-8")) is not None


def _settings() -> Settings:
    try:
        return settings_at(Path.cwd())
    except SettingsError as error:
        fail(str(error))


def _isolated(text: str) -> str:
    """With the isolation of the demo sites in a `[tool.harness]` that stands there and declares none, nor channels."""
    if re.search(r"^isolation\s*=|^\[tool\.harness\.channels\.", text, re.MULTILINE):
        return text
    return re.sub(
        r"^\[tool\.harness\][ \t]*(?:#.*)?\n", lambda found: f"{found[0]}{ISOLATION}\n", text, count=1, flags=re.M
    )


def _append(place: Path, settings: str) -> None:
    """At the end of the file, which is made when it is not there. What would not be TOML is not written."""
    before = place.read_text("utf-8") if place.exists() else ""
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    try:
        tomllib.loads(before + gap + settings)
    except tomllib.TOMLDecodeError as error:
        fail(f"cannot add the demo sites to {shown_path(place)}: {error}; add them by hand:\n\n{settings}")
    place.write_text(_isolated(before) + gap + settings, "utf-8")
    typer.echo(f"added the demo sites to {shown_path(place)}")
