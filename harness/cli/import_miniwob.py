"""`harness import miniwob`: the pages of MiniWoB++ become a project of tasks for agents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import typer

from harness.cli.ending import fail
from harness.cli.record import schema_line
from harness.reporting.files import shown_path, write_text
from harness.spec.names import how_many
from harness.spec.problems import did_you_mean

NAME: Final = "miniwob"
"""What `harness import` is given in place of a file."""
HOST: Final = "miniwob.local"
_PAGES: Final = Path("html")
_NO_PAGES: Final = (
    "the pages of MiniWoB++ are not here: `pip install --no-deps miniwob` brings them, and --pages names a folder "
    "that has them (it contains `core/core.js` and `miniwob/`)"
)
SECONDS: Final = 60
"""Seconds for which a page waits for its answer; the pages' own 10 are for people."""
SCRIPT: Final = """\
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
PROJECT: Final = """\
# Written by `harness import miniwob`. Run it with: pytest tasks/ --agent NAME
[tool.harness]
init_script = "miniwob.js"

[tool.harness.services.miniwob]
command = ["{{python}}", "-m", "http.server", "{{port}}", "--bind", "127.0.0.1", "--directory", {pages}]
hosts = {{ "{host}" = "auto" }}
health = "http://{host}/core/core.js"
"""
TASK: Final = """\
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
    project = PROJECT.format(pages=json.dumps(str(place)), host=HOST)
    texts = {folder / "pyproject.toml": project, folder / "miniwob.js": SCRIPT}
    for name in names:
        file = folder / "tasks" / f"{name}.task.yaml"
        several = len(seeds) > 1
        cases = f"parametrize: {{seed: [{', '.join(map(str, seeds))}]}}\n" if several else ""
        seed = '"${param.seed}"' if several else seeds[0]
        task = TASK.format(name=name, host=HOST, cases=cases, seed=seed, seconds=SECONDS, timeout=2 * SECONDS)
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
    spec = find_spec(NAME) if given is None else None
    for package in (spec.submodule_search_locations or ()) if spec else ():
        places.append(Path(package) / _PAGES)
    for place in places:
        for inside in (place, place / _PAGES, place / NAME / _PAGES):
            if (inside / "core/core.js").is_file() and (inside / "miniwob").is_dir():
                return inside
    fail(_NO_PAGES if given is None else f"{shown_path(given)}: {_NO_PAGES}")
