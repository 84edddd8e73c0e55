"""`harness import`: suites of Playwright tests become task files."""

from __future__ import annotations

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
from harness.spec.imported.importing import Import, ImportedTest
from harness.spec.imported.project import NoParserError
from harness.spec.load import find_tasks, load_file
from harness.spec.names import how_many
from harness.spec.problems import Problem, SpecError, did_you_mean
from harness.spec.recorded.journey import Omission

_TESTS: Final = re.compile(r"(test_.*|.*_test)\.py|.*\.(spec|test)\.[cm]?[jt]sx?")
"""The names of files with tests, in a folder."""
_WHERE = "The folder of the task files. Default: tasks; of miniwob: miniwob."
_VALUE = "Value of a fixture, a constant or an environment variable, as `live_server.url=http://shop.test`. Repeatable."


def import_tests(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Tests, folders of tests, or what codegen wrote.")
    ],
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help=_WHERE, show_default=False)
    ] = None,
    value: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help=_VALUE, show_default=False)] = None,
    pages: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Of miniwob: the folder with its pages.", show_default=False)
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="PAGE,PAGE", help="Of miniwob: only these pages.", show_default=False)
    ] = "",
    seeds: Annotated[str, typer.Option(metavar="N,N", help="Of miniwob: the seeds; each makes a task.")] = "1",
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Turn Playwright tests into task files, page objects into step groups.

    It reads suites for pytest-playwright (sync and async), Playwright Test in TypeScript and JavaScript (with the extra
    `import`), and the output of `playwright codegen`; nothing is executed. Each test becomes one file. What a task
    cannot say stands there as a comment `MISSING`, and the file is a draft, which no run counts as passed. In place of
    files, `miniwob` makes a project of the pages of MiniWoB++.
    Exit code: 1 when there is a draft or a test without a step, 2 when nothing was written.

    Example: harness import tests/ -o tasks/
    """
    if files == [Path(NAME)] and not Path(NAME).is_file():
        chosen = [each for each in only.split(",") if each]
        import_miniwob(pages, folder or Path(NAME), chosen, _numbers(seeds), force=force)
        return
    for option, given in (("--pages", pages), ("--only", only), ("--seeds", seeds if seeds != "1" else "")):
        if given:
            fail(f"{option} is for `harness import miniwob`")
    folder = folder or Path("tasks")
    work = Import(_values(value or []), _ids(folder) if folder.is_dir() else [])
    tests = [test for file in _test_files(files) for test in _tests(work, file)]
    if not tests:
        fail(f"no test in {', '.join(map(str, files))}: expected functions `test_...`, or `run(playwright)` of codegen")
    there = [file for test in tests if test.task and (file := folder / _name(test.task.task_id)).exists()]
    if there and not force:
        fail(f"{shown_path(there[0])} exists already: replace it with --force, or choose a folder with -o")
    _write_groups(work, folder)
    results = [_write(work, test, folder) for test in tests]
    _write_groups(work, folder)
    _tell(results)


def _numbers(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdigit() for word in words):
        fail(f"--seeds {text!r}: expected whole numbers, as in --seeds 1,2,3")
    return list(dict.fromkeys(map(int, words)))


def _values(given: list[str]) -> dict[str, str]:
    if bad := next((each for each in given if "=" not in each), None):
        fail(f"--value {bad!r}: expected NAME=VALUE, as in --value live_server.url=http://shop.test")
    return {name: value for name, _, value in (each.partition("=") for each in given)}


def _test_files(given: list[Path]) -> list[Path]:
    """The files with tests: those that are named, and those in folders."""
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if _TESTS.fullmatch(file.name))
            found += [file for file in inside if not _is_installed(file.relative_to(path)) and file.is_file()]
        else:
            found.append(path)
    return found


def _is_installed(file: Path) -> bool:
    """Whether a file belongs to what is installed, and not to the suite."""
    return any(part.startswith(".") or part in ("node_modules", "site-packages", "venv") for part in file.parts)


def _tests(work: Import, file: Path) -> list[ImportedTest]:
    """The tests of a file; a file that cannot be read is told of, and does not stop the others."""
    try:
        return work.tests(file)
    except FileNotFoundError:
        fail(f"there is no file {file}", file=file)
    except NoParserError as error:
        fail(str(error), file=file)
    except (SyntaxError, UnicodeDecodeError, OSError) as error:
        typer.echo(printable(f"{file}: it cannot be read: {error}"), err=True)
        return []


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


def _name(task_id: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', task_id)}.task.yaml"


def _write_groups(work: Import, folder: Path) -> None:
    for name, group in work.groups.found.items():
        file = folder / "steps" / f"{name}.steps.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, str(group))


def _write(work: Import, test: ImportedTest, folder: Path) -> ImportedTest:
    """Write the file of a test. One that cannot be loaded is a draft, whatever was thought of it."""
    if test.task is None:
        return test
    file = folder / _name(test.task.task_id)
    write_text(file, f"{schema_line(file)}{test.task.text}")
    if not test.task.missing:
        try:
            load_file(file)
        except SpecError as error:
            problem = error.problems[0]
            test = work.again(
                test, Omission(problem.path, f"{problem.message}{_expected(problem)}", str(test.file.name))
            )
            assert test.task is not None
            write_text(file, f"{schema_line(file)}{test.task.text}")
    typer.echo(f"wrote {shown_path(file)}: {_result(test)}")
    return test


def _expected(problem: Problem) -> str:
    return f" ({problem.found})" if problem.found else ""


def _result(test: ImportedTest) -> str:
    steps = test.task.steps if test.task is not None else 0
    whole = "complete" if not test.missing else f"draft, {len(test.missing)} missing"
    return f"{how_many(test.statements, 'statement')} -> {how_many(steps, 'step')}, {whole}"


def _tell(tests: list[ImportedTest]) -> None:
    """Print each statement that was not carried over, and how complete all is. Ends the command."""
    told = dict.fromkeys((each.place, each.why, each.what) for test in tests for each in test.missing)
    for place, why, what in told:
        typer.echo(printable(f"{place}: {why}"), err=True)
        typer.echo(f"    {printable(what.partition(chr(10))[0])}", err=True)
    for test in tests:
        if test.result == "none":
            typer.echo(printable(f"{test.file}: {test.name} leads to no step, so it has no task"), err=True)
    count = {name: sum(1 for test in tests if test.result == name) for name in ("complete", "draft", "none")}
    typer.echo(
        f"{count['complete']} of {len(tests)} complete, {how_many(count['draft'], 'draft')}, "
        f"{count['none']} without a step"
    )
    if count["none"] == len(tests):
        raise typer.Exit(2)
    if count["complete"] < len(tests):
        raise typer.Exit(1)


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
