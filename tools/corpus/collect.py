"""Plays the runs of the corpus, and writes down what a user would see of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tools.corpus.masks import masked

QUIET = {"COLUMNS": "120", "NO_COLOR": "1", "TZ": "UTC", "PYTHONUTF8": "1", "PYTHONHASHSEED": "0", "TASKSPEC_TESTS": ""}
HARNESS = str(Path(sys.executable).with_name("harness"))
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
REPORTS = ("--junit-xml", "junit.xml", "--alluredir", "allure-results", "--task-summary", "summary.md")

RED = "(ERROR or REPAIR or TRUST or RELAXED or ALTERNATIVE) and not NETWORK and not AGENT"
"""The tasks that need recovery, and are quick without it."""

RUNS: Mapping[str, Sequence[str]] = {
    "tasks": (*PYTEST, "tasks", "--task-models", "replay", *REPORTS),
    "red": (
        *PYTEST,
        "tasks",
        "--task-models",
        "replay",
        "--task-no-recovery",
        "-k",
        RED,
        *REPORTS,
    ),
    "examples": (*PYTEST, "examples", *REPORTS),
    "campaign": (
        *(HARNESS, "chaos", "tasks/C2-2025-002.task.yaml", "tasks/B1-2025-001.task.yaml"),
        *("--faults", "campaign.faults.yaml", "--json", "chaos.json", "--markdown", "chaos.md"),
    ),
}
"""What is played, each in its own copy of the project."""

SURFACE = "surface"
"""The part of what is there without a run."""

QUESTIONS = (
    *("show", "triage", "history list", "history show", "history flaky", "history durations", "dashboard", "circuits"),
    *("services status", "tools status", "sessions list", "validate tasks examples", "regrade"),
)
"""The commands that are asked about each run, as text and with --json."""
OF_A_FAILURE = ("show {}", "history task {}")
"""The same, about each directory under errors/."""
ONCE = ("replay RED-2025-001 --json", "replay RED-2025-001 --step 1", "verify tasks/C2-2025-002.task.yaml --json")
"""What runs tasks again, for the examples alone."""

LEFT_OUT = {
    "*.zip": "A trace of Playwright has the moment and the size of everything.",
    "*.har": "The order and number of requests depends on when the page was left.",
    "*.png": "A picture has the moment at which it was taken.",
    "*network*": "The same, as Allure has it.",
    "*requests.html": "The same, as a table.",
    "step-begun": "The event is sent once a second at most, for whichever step it is then.",
    "service-status": "The event comes when the service has started, between which others is chance.",
    "pages-ended": "A busy machine closes a browser context late.",
    "threshold": "It depends on how many steps a minute had.",
    "*-container.json": "Fixtures of the tests, which allure-pytest writes.",
    "documents": "The rows of the history with a packed document: `history show --json` and `show --json` print it.",
}
"""What is not in the corpus, and why: files by their name, a kind of event, a table of the history."""


def write(folder: Path, project: Path, parts: Sequence[str] = (), *, bench: bool) -> None:
    """Write the corpus of a worktree to a new folder; `parts`: only these."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="corpus-") as scratch, ThreadPoolExecutor(2) as pool:
        place = Path(scratch)
        wanted = [name for name in RUNS if name in (parts or RUNS)]
        for each in [pool.submit(_played, name, folder, project, place / name) for name in wanted]:
            each.result()
        if SURFACE in (parts or [SURFACE]):
            Corpus(folder / SURFACE, project, project).surface()
    if bench:
        for name in ("steps", "collection"):
            text = _output(project, sys.executable, "-m", "benchmarks", name)
            (folder / "bench").mkdir(exist_ok=True)
            (folder / "bench" / f"{name}.txt").write_text(text, "utf-8")


def _played(name: str, folder: Path, project: Path, place: Path) -> None:
    """Play one of the runs in a copy of the project, and write it down."""
    place.mkdir()
    for each in ("tasks", "examples"):
        shutil.copytree(project / each, place / each)
    shutil.copy(project / "pyproject.toml", place)
    shutil.copy(Path(__file__).with_name("campaign.faults.yaml"), place)
    corpus = Corpus(folder / name, project, place)
    corpus.keep("screen.txt", _output(place, *RUNS[name]))
    corpus.files()
    if name == "campaign":
        return
    corpus.history()
    corpus.allure()
    tasks = sorted(path.name for path in (place / "errors").iterdir() if not path.name.startswith("."))
    about = [*QUESTIONS, *(each.format(task) for task in tasks for each in OF_A_FAILURE)]
    corpus.ask(*about, *(f"{each} --json" for each in about), *(ONCE if name == "examples" else ()))


class Corpus:
    """One part of a corpus that is being written: its folder, and where the commands run."""

    def __init__(self, folder: Path, project: Path, place: Path) -> None:
        self._folder, self._project, self._place = folder, project, place

    def keep(self, name: str, text: str) -> None:
        """Write one file, masked; JSON one value on a line."""
        if name.endswith(".json"):
            text = _lines(text)
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        python = Path(sys.executable).parents[1]
        places = {str(self._place): "<project>", str(self._project): "<worktree>", str(python): "<venv>"}
        path.write_text(masked(text, f"{self._folder.name}/{name}", places), "utf-8")

    def surface(self) -> None:
        """Keep what is there without a run: ids of tests, help, schemas, tables of codes, warnings and settings."""
        for folder in ("tests", "tasks"):
            self.keep(f"collect/{folder}.txt", _output(self._place, *PYTEST, "--collect-only", "-q", folder))
        self._help("")
        group = re.search(r"(?m)^TaskSpec .*:\n(?: .*\n)+", _output(self._place, *PYTEST, "--help"))
        self.keep("help/pytest.txt", group[0] if group else "no group of options")
        self.ask("explain --json")
        for path in (*self._place.glob("schemas/*.json"), self._place / "harness/spec/warnings.py"):
            self.keep(f"tables/{path.name}", path.read_text("utf-8"))
        for name in ("error-codes", "settings", "taskspec"):
            self.keep(f"tables/{name}.md", (self._place / f"docs/{name}.md").read_text("utf-8"))

    def _help(self, *commands: str) -> None:
        """Keep the help of commands and of those below them."""
        below = []
        for question, text in self._answers(*(f"{each} --help".strip() for each in commands)).items():
            command = question.removesuffix("--help").strip()
            self.keep(f"help/{f'harness {command}'.strip()}.txt", text)
            lines = text.partition("\nCommands:\n")[2].splitlines()
            below += [f"{command} {line.split()[0]}".strip() for line in lines if line[:2] == "  " and line[2] != " "]
        if below:
            self._help(*below)

    def ask(self, *questions: str) -> None:
        """Keep what commands print."""
        for question, text in self._answers(*questions).items():
            self.keep(f"commands/{question.replace('/', '+')}.{'json' if '--json' in question else 'txt'}", text)

    def _answers(self, *questions: str) -> dict[str, str]:
        """What commands print, by command; `ask.py` says how."""
        text = _output(self._place, sys.executable, str(Path(__file__).with_name("ask.py")), given="\n".join(questions))
        answers: dict[str, str] = json.loads(text)
        return answers

    def files(self) -> None:
        """Keep the files that a run leaves."""
        for pattern in ("errors/**/*", ".harness/*.json", "*.xml", "summary.md", "chaos.*"):
            for path in sorted(self._place.glob(pattern)):
                if path.is_file():
                    name, left_out = path.relative_to(self._place).as_posix(), _left_out(path.name)
                    self.keep(f"{name}.left-out" if left_out else name, "" if left_out else path.read_text("utf-8"))
        for path in self._place.glob(".harness/events.jsonl"):
            lines = path.read_text("utf-8").splitlines(keepends=True)
            self.keep("events.jsonl", "".join(each for each in lines if json.loads(each)["type"] not in LEFT_OUT))

    def history(self) -> None:
        """Keep the tables of the history and their rows."""
        with sqlite3.connect(self._place / ".harness/history.sqlite3") as history:
            history.row_factory = sqlite3.Row
            tables = history.execute(
                "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
            ).fetchall()
            self.keep("history/tables.txt", "\n".join(" ".join(sql.split()) for _, sql in tables))
            for name in (name for name, sql in tables if sql.startswith("CREATE TABLE") and name not in LEFT_OUT):
                rows = [dict(row) for row in history.execute(f"SELECT * FROM {name} ORDER BY 1, 2")]  # noqa: S608
                rows = [row for row in rows if row.get("type") not in LEFT_OUT]
                for row in rows:
                    row.update({key: json.loads(row[key]) for key in row.keys() & {"document"}})
                self.keep(f"history/{name}.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
        history.close()

    def allure(self) -> None:
        """Keep the results of Allure under the names of their tests, each attachment beside its result."""
        results = self._place / "allure-results"
        for path in (path for path in results.iterdir() if "-" not in path.name):
            self.keep(f"allure/{path.name}", path.read_text("utf-8"))
        for path in results.glob("*-result.json"):
            result = json.loads(path.read_text("utf-8"))
            name = result["fullName"].replace("/", "+")
            self.keep(f"allure/{name}.json", json.dumps(result))
            for number, (what, source) in enumerate(_attachments(result)):
                file = f"{name}.{number:02} {what.replace('/', '+')}{Path(source).suffix}"
                if not _left_out(file):
                    self.keep(f"allure/{file}", (results / source).read_text("utf-8"))


def _attachments(value: Any) -> Iterator[tuple[str, str]]:
    """The name and the file of all attachments of a result, in order."""
    if isinstance(value, dict):
        yield from [(value["name"], value["source"])] if "source" in value else ()
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _attachments(each)


def _left_out(name: str) -> bool:
    return any(fnmatch(name, each) for each in LEFT_OUT)


def _lines(text: str) -> str:
    try:
        return f"{json.dumps(json.loads(text), indent=1, ensure_ascii=False)}\n"
    except ValueError:
        return text


def _output(folder: Path, *arguments: str, given: str = "") -> str:
    """What a program of this Python prints, and how it ends."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("CI", "PYTEST_", "TASKSPEC_"))}
    ran = subprocess.run(
        arguments,
        cwd=folder,
        env={**environ, **QUIET},
        input=given.encode(),
        capture_output=True,
        check=False,
    )
    text = ran.stdout.decode("utf-8", "replace")
    ending = f"\nexit code {ran.returncode}\n" if ran.returncode else ""
    return f"{text}{ran.stderr.decode('utf-8', 'replace')}{ending}"
