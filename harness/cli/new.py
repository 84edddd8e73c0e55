"""`harness new`: a first task that runs as it is."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from harness.cli.demo import ISOLATION, free_ports, settings_text
from harness.cli.ending import fail
from harness.cli.project import project_of, schema_of, settings_here
from harness.reporting.files import shown_path
from harness.spec.load import find_tasks, load_file
from harness.spec.problems import SpecError
from harness.spec.readers import read_yaml

_HEAD = """\
# yaml-language-server: $schema=@SCHEMA@
# `harness new` has written this task. It runs without changes. Edit it, and run it again:
#   harness run @PATH@
# `harness validate @PATH@` checks it without a browser. The schema above lists every key.
task_id: @NAME@
goal: @GOAL@
allowed_domains: [@HOST@] # nothing is sent to any other host

# Limits in seconds, for the whole task with its recovery, and for one attempt of a step.
timeout: 60
step_timeout: 10
expect_timeout: 5 # how long an assert and a success criterion wait until they hold

# What to do when something fails. Rules that are left out have defaults; `harness explain` lists all failures.
error_recovery:
  on_timeout: retry_from_checkpoint # once, with limits 1.5 times as long
  on_network_error: {strategy: exponential_backoff, max_retries: 3, retry_delay_ms: 500}
"""
_TAIL = """\

# The state is saved before these steps (the first is 0), so that recovery can go back to it.
checkpoints: [@CHECKPOINT@]

"""
_DEMO = """\
  on_element_not_found:
    strategy: try_fallback_selector
    wait_seconds: 5
    fallback_selectors:
      "#search-box": ["input[name='q']", "input[type='search']"]
"""
_DEMO_STEPS = """\
steps:
  - {act: open, url: "http://shop.local/"}
  - {act: type, selector: "#search-box", value: wireless mouse}
  - {act: press, selector: "#search-box", value: Enter}
  - {act: wait, selector: ".product-item[data-sku='WM-5521']"}
  - {act: click, selector: ".product-item[data-sku='WM-5521'] .product-link"}
  - act: assert
    selector: "#product-title"
    value: Logitech M185
    remember: {product.price: "text('#product-price')"} # a memory key, and the source of its value
  # A step that buys or pays must never be done twice. Declare it, and say how to tell that it took effect:
  # - {act: click, selector: "#add-to-cart", effect: write, done_when: "json('env', 'shop.cart.WM-5521.qty') == 1"}

# What must be true at the end, of the page, of remembered values, or of the environment (`json('env', ...)`).
success_criteria:
  - "text('#product-sku') == 'WM-5521'"
  - "mem('product.price') <= 30"
memory_keys: [product.price] # a warning if it is missing at the end
"""
_SITE = """\
  on_element_not_found:
    strategy: wait_and_retry
    wait_seconds: 5 # fallback_selectors: {"#buy": ["button:has-text('Buy')"]}
"""
_SITE_STEPS = """\
steps:
  - {act: open, url: @URL@}
  - act: assert
    expr: "EVENTUALLY(exists('body'))"
    remember: {page.url: url()} # a memory key, and the source of its value
  # - {act: type, selector: "#search", value: something}
  # - {act: click, selector: "button:has-text('Search')"}
  # - {act: wait, selector: ".result"}
  # A step that buys or pays must never be done twice. Declare it, and say how to tell that it took effect:
  # - {act: click, selector: "#pay", effect: write, done_when: "exists('#receipt')"}

# What must be true at the end. Check what your steps cause: text('#id') == '...', count('.row') > 0, ...
success_criteria:
  - "mem('page.url') includes '@HOST@'"
memory_keys: [page.url] # a warning if it is missing at the end
"""
_GAP = re.compile(r"@([A-Z]+)@")


def demo_task(name: str, path: str, schema: str) -> str:
    """A task for the demo shop. `path` and `schema` are shown to people and editors."""
    words = {"GOAL": "Find the wireless mouse, and what it costs", "HOST": "shop.local", "CHECKPOINT": "3"}
    return _fill_template(_HEAD + _DEMO + _TAIL + _DEMO_STEPS, name, path, schema, words)


def site_task(name: str, path: str, schema: str, url: str, host: str) -> str:
    """A task for a page of the user's own site: the page exists, and its address is remembered."""
    address = json.dumps(url.replace("${", "$${"))
    words = {"GOAL": f"Look at {host}", "HOST": host, "CHECKPOINT": "1", "URL": address}
    return _fill_template(_HEAD + _SITE + _TAIL + _SITE_STEPS, name, path, schema, words)


def _fill_template(text: str, name: str, path: str, schema: str, words: dict[str, str]) -> str:
    task_id = name if read_yaml(name) == name else json.dumps(name)  # a number in quotes would be a text
    known = {"NAME": task_id, "PATH": path, "SCHEMA": schema, **words}
    return _GAP.sub(lambda gap: known[gap[1]], text)


_OWN_TABLE = re.compile(r"^\[tool\.harness\][ \t]*(?:#.*)?\n", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*(?<!\.)")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_LONGEST = 100


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The task_id, which is also the name of the file.")
    ] = "my-first",
    folder: Annotated[
        Path, typer.Option("--dir", help="The folder of the file; it is created if it does not exist.")
    ] = Path("tasks"),
    url: Annotated[
        str | None, typer.Option(help="The page that the task opens. Default: your first site, or the demo shop.")
    ] = None,
    with_demo: Annotated[bool, typer.Option("--with-demo", help="Add the demo sites to pyproject.toml.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a first task with comments, which runs without changes.

    Example: harness new my-first --url http://127.0.0.1:8000/
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise typer.BadParameter(
            f"{name!r}: at most {_LONGEST} letters, digits, `-`, `_` and single dots, a letter or digit first"
        )
    file = folder / f"{name}.task.yaml"
    if file.exists() and not force:
        fail(f"{file} exists already: choose another name, or replace it with --force")
    _check_id(name, file)
    url = url or (None if with_demo else _own_site())
    own, (_, known) = file.as_posix(), schema_of(file)
    text = site_task(name, own, known, url, _host(url)) if url else demo_task(name, own, known)
    demo = None if url and not with_demo else _missing_demo()
    if demo is not None and with_demo:
        _append(*demo)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    typer.echo(f"wrote {file}")
    if demo is not None and not with_demo:
        place, settings = demo
        typer.echo(f"\nadd to {shown_path(place)} (`harness new {name} --with-demo --force` does it):\n\n{settings}")
    schema, _ = schema_of(file)
    if not schema.is_file():
        schemas = shlex.quote(shown_path(schema.parent))
        typer.echo(f"editors complete and check it after:  harness schema --write {schemas}")
    typer.echo(f"run it:  harness run {shlex.quote(str(file))}")


def _check_id(name: str, file: Path) -> None:
    """End the command if a task has this id: ids name directories, and some disks do not distinguish `A` from `a`."""
    if not file.parent.is_dir():
        return
    for other in find_tasks([file.parent]):
        try:
            taken = load_file(other).spec.task_id
        except SpecError:
            continue  # `harness validate` reports it
        if taken.casefold() == name.casefold() and other.resolve() != file.resolve():
            fail(f"the task_id {name!r} is taken by {other}: choose another name")


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
    """The start page of a project with sites of its own; None for one without, or with the demo sites."""
    settings = settings_here()
    hosts = [host for service in settings.services.values() for host in service.hosts]
    if "shop.local" in hosts:
        return None
    return settings.base_url or (f"http://{hosts[0]}/" if hosts else None)


def _missing_demo() -> tuple[Path, str] | None:
    """The path of pyproject.toml and the settings that it lacks for the demo sites; None if they are known."""
    settings = settings_here()
    if any("shop.local" in service.hosts for service in settings.services.values()):
        return None
    place = (project_of(Path.cwd()) or Path.cwd()) / "pyproject.toml"
    has_table = place.exists() and _OWN_TABLE.search(place.read_text("utf-8"))  # a second one would be no valid TOML
    bare = settings.isolation is None and not settings.channels and not has_table
    return place, settings_text(free_ports(), channel="env" not in settings.channels, isolation=bare)


def isolated(text: str) -> str:
    """The text with the demo sites' isolation added to an existing `[tool.harness]` without isolation and channels."""
    if re.search(r"^isolation\s*=|^\[tool\.harness\.channels\.", text, re.MULTILINE):
        return text
    return _OWN_TABLE.sub(lambda found: f"{found[0]}{ISOLATION}\n", text, count=1)


def _append(place: Path, settings: str) -> None:
    """Append to the file, which is made if it does not exist. Invalid TOML is not written."""
    before = place.read_text("utf-8") if place.exists() else ""
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    try:
        tomllib.loads(before + gap + settings)
    except tomllib.TOMLDecodeError as error:
        fail(f"cannot add the demo sites to {shown_path(place)}: {error}; add them by hand:\n\n{settings}")
    place.write_text(isolated(before) + gap + settings, "utf-8")
    typer.echo(f"added the demo sites to {shown_path(place)}")
