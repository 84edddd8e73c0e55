"""`harness import`: Playwright tests in Python become task files."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from harness.cli.ending import fail
from harness.cli.record import schema_line
from harness.reporting.files import printable, shown_path, write_text
from harness.spec.load import find_tasks, load_file
from harness.spec.names import how_many
from harness.spec.problems import SpecError, did_you_mean
from harness.spec.recorded.importing import ImportedTask, imported_tasks

_JAVASCRIPT = (".js", ".ts", ".mjs", ".mts", ".cjs", ".cts", ".jsx", ".tsx")
_WHERE = "The folder of the task files. Default: tasks; of miniwob: miniwob."


def import_tests(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Tests in Python, or what codegen wrote.")],
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help=_WHERE, show_default=False)
    ] = None,
    pages: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Of miniwob: the folder with its pages.", show_default=False)
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="PAGE,PAGE", help="Of miniwob: only these pages.", show_default=False)
    ] = "",
    seeds: Annotated[str, typer.Option(metavar="N,N", help="Of miniwob: the seeds; each makes a task.")] = "1",
    partial: Annotated[bool, typer.Option("--partial", help="Exit with 0 also if something is missing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Turn Playwright tests in Python into task files, line by line.

    It reads tests for pytest-playwright (sync and async) and the output of `playwright codegen`; nothing is executed.
    Each test becomes one file. What a task cannot say is reported with its line, and stands there as a comment
    `MISSING`. In place of files, `miniwob` makes a project of the pages of MiniWoB++.
    Exit code: 1 when something is missing, unless --partial is given.

    Example: harness import test_shop.py -o tasks/
    """
    if files == [Path(NAME)] and not Path(NAME).is_file():
        chosen = [each for each in only.split(",") if each]
        import_miniwob(pages, folder or Path(NAME), chosen, _numbers(seeds), force=force)
        return
    for option, given in (("--pages", pages), ("--only", only), ("--seeds", seeds if seeds != "1" else "")):
        if given:
            fail(f"{option} is for `harness import miniwob`")
    folder = folder or Path("tasks")
    tasks = _tasks(files, folder, force)
    if not tasks:
        fail(f"no test in {', '.join(map(str, files))}: expected functions `test_...`, or `run(playwright)` of codegen")
    for task in tasks:
        file = _file(folder, task)
        write_text(file, f"{schema_line(file)}{task.text}")
        try:  # as `harness validate` does; a problem is one of the test's own values
            load_file(file)
        except SpecError as error:
            fail(f"{file} was written, but must be corrected:\n{error}", file=file)
        typer.echo(f"wrote {shown_path(file)}: {_result(task)}")
    _tell_missing(tasks)
    if any(task.missing for task in tasks) and not partial:
        raise typer.Exit(1)


def _numbers(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdigit() for word in words):
        fail(f"--seeds {text!r}: expected whole numbers, as in --seeds 1,2,3")
    return list(dict.fromkeys(map(int, words)))


def _tasks(files: list[Path], folder: Path, force: bool) -> list[ImportedTask]:
    """The tasks of all files; nothing is written yet."""
    taken = _ids(folder) if folder.is_dir() else []
    found: list[ImportedTask] = []
    for file in files:
        found += imported_tasks(_source(file), file.as_posix(), [*taken, *(task.task_id for task in found)])
    for task in found:
        if _file(folder, task).exists() and not force:
            fail(
                f"{shown_path(_file(folder, task))} exists already: replace it with --force, or choose a folder with -o"
            )
    return found


def _ids(folder: Path) -> list[str]:
    """The ids of the tasks in a folder that are not in the file which an import would write."""
    found = []
    for path in find_tasks([folder]):
        try:
            task_id = load_file(path).spec.task_id
        except SpecError:
            continue  # `harness validate` reports it
        if path.name != _name(task_id):
            found.append(task_id)
    return found


def _source(file: Path) -> str:
    if file.suffix in _JAVASCRIPT:
        fail(
            f"{file}: only tests in Python are imported; `playwright codegen --target python-pytest URL` records in "
            "Python, and `harness record URL` records a task",
            file=file,
        )
    try:
        text = file.read_text("utf-8")
        ast.parse(text, str(file))
    except FileNotFoundError:
        fail(f"there is no file {file}", file=file)
    except (SyntaxError, UnicodeDecodeError) as error:
        fail(f"{file}: this is no Python: {error}", file=file)
    return text


def _file(folder: Path, task: ImportedTask) -> Path:
    return folder / _name(task.task_id)


def _name(task_id: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', task_id)}.task.yaml"


def _result(task: ImportedTask) -> str:
    whole = "complete" if not task.missing else f"{len(task.missing)} missing"
    return f"{how_many(task.statements, 'statement')} -> {how_many(task.steps, 'step')}, {whole}"


def _tell_missing(tasks: list[ImportedTask]) -> None:
    """Print each statement that was not carried over, and how complete all is."""
    missing = [each for task in tasks for each in task.missing]
    for each in missing:
        typer.echo(printable(f"{each.place}: {each.why}"), err=True)
        typer.echo(f"    {printable(each.what.partition(chr(10))[0])}", err=True)
    complete = sum(1 for task in tasks if not task.missing)
    typer.echo(f"{how_many(len(tasks), 'task')}: {complete} complete, {len(tasks) - complete} with something missing")


NAME: Final = "miniwob"
"""What `harness import` is given in place of a file."""
_HOST: Final = "miniwob.local"
_PAGES: Final = Path("html")
_NO_PAGES: Final = (
    "the pages of MiniWoB++ are not here: `pip install --no-deps miniwob` brings them, and --pages names a folder "
    "that has them (it contains `core/core.js` and `miniwob/`)"
)
SECONDS: Final = 60
"""Seconds for which a page waits for its answer; the pages' own 10 are for people."""
_SCRIPT: Final = """\
// Starts the episode of a MiniWoB++ page with the seed of the task, and writes its end where a criterion reads it.
(() => {
  const given = window.__taskspec?.miniwob;
  if (!given || window !== top) return;
  addEventListener("load", () => setTimeout(() => {
    if (typeof core === "undefined") return;
    const end = core.endEpisode;
    core.EPISODE_MAX_TIME = given.seconds * 1000;
    core.endEpisode = function (reward, proportional, reason) {
      const first = core.EP_TIMER !== null;
      end.call(core, reward, proportional, reason);
      if (first) document.documentElement.dataset.miniwob = reward > 0 ? "passed" : `failed: ${reason ?? "wrong"}`;
    };
    Math.seedrandom(String(given.seed));
    core.startEpisodeReal();
  }, 0));
})();
"""
_PROJECT: Final = """\
# Written by `harness import miniwob`. Run it with: pytest tasks/ --agent NAME
[tool.harness]
init_script = "miniwob.js"

[tool.harness.services.miniwob]
command = ["{{python}}", "-m", "http.server", "{{port}}", "--bind", "127.0.0.1", "--directory", {pages}]
hosts = {{ "{host}" = "auto" }}
health = "http://{host}/core/core.js"
"""
_TASK: Final = """\
task_id: MINIWOB-{name}
goal: Open http://{host}/miniwob/{name}.html and do what the page asks for at its top. There is one attempt.
{cases}page_values: {{miniwob: {{seed: {seed}, seconds: {seconds}}}}}
allowed_domains: [{host}]
timeout: {timeout}
success_criteria:
  - "attr('html', 'data-miniwob') == 'passed'"
"""


def import_miniwob(pages: Path | None, folder: Path, only: Sequence[str], seeds: Sequence[int], *, force: bool) -> None:
    """Write the project: settings, the script that starts the pages, and a task for each page. Ends the command."""
    place = _pages(pages)
    known = sorted(file.stem for file in (place / "miniwob").glob("*.html"))
    for name in only:
        if name not in known:
            hint = did_you_mean(name, known)
            fail(f"MiniWoB++ has no page `{name}`{f' ({hint})' if hint else ''}: {shown_path(place / 'miniwob')}")
    names = [name for name in known if not only or name in only]
    project = _PROJECT.format(pages=json.dumps(str(place)), host=_HOST)
    texts = {folder / "pyproject.toml": project, folder / "miniwob.js": _SCRIPT}
    for name in names:
        file = folder / "tasks" / f"{name}.task.yaml"
        several = len(seeds) > 1
        cases = f"parametrize: {{seed: [{', '.join(map(str, seeds))}]}}\n" if several else ""
        seed = '"${param.seed}"' if several else seeds[0]
        task = _TASK.format(name=name, host=_HOST, cases=cases, seed=seed, seconds=SECONDS, timeout=2 * SECONDS)
        texts[file] = f"{schema_line(file)}{task}"
    if there := [file for file in texts if file.exists() and not force]:
        fail(f"{shown_path(there[0])} exists already: --force replaces it")
    for file, text in texts.items():
        write_text(file, text)
    count = len(names) * len(seeds)
    typer.echo(
        f"wrote {how_many(len(names), 'page')} of MiniWoB++ as {how_many(count, 'task')} into {shown_path(folder)}"
    )
    typer.echo(f"next: cd {shown_path(folder)} && pytest tasks/ --agent NAME")


def _pages(given: Path | None) -> Path:
    places = [given.absolute()] if given is not None else []
    if given is None and (spec := find_spec(NAME)):
        places += [Path(package) / _PAGES for package in spec.submodule_search_locations or ()]
    for place in places:
        for inside in (place, place / _PAGES, place / NAME / _PAGES):
            if (inside / "core/core.js").is_file() and (inside / "miniwob").is_dir():
                return inside
    fail(_NO_PAGES if given is None else f"{shown_path(given)}: {_NO_PAGES}")
