"""docs/architecture.md leads where it says: rooms, files, functions, and what to touch to add something."""

from __future__ import annotations

import ast
import inspect
import json
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import get_args

from harness.browser.acts import ACTIONS
from harness.browser.request import SessionRequest
from harness.cli.commands import COMMANDS, Imported
from harness.model.settings import Settings
from harness.recovery.catalog import CATALOG, FAMILIES, Family
from harness.recovery.remedy import Rule
from harness.recovery.rulebook import Rulebook
from harness.reporting.files import NAMES
from harness.reporting.telemetry.log import EventLog, LogSink
from harness.reporting.telemetry.metrics import MetricsSink
from harness.reporting.telemetry.stream import Sink
from harness.spec.faults import Fault
from harness.spec.steps import Assert, Step
from harness.spec.task import TaskSpec
from harness.spec.warnings import WARNINGS
from tests.architecture.syntax import tree

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")
NAMED = re.compile(r"`((?:harness|tests)/[\w/]+(?:\.\w+|/))(?::(\w+))?`")
ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)
EVERYWHERE = 5
"""A file that names so many families, or artifacts, holds a table of them."""


def test_every_file_and_function_exists() -> None:
    missing = {f"{file}:{name}" for file, name in NAMED.findall(PAGE) if not there(ROOT / file, name)}
    assert missing == set()


def there(path: Path, name: str) -> bool:
    return path.exists() and (not name or name in names(path))


@cache
def names(path: Path) -> frozenset[str]:
    """Functions, classes and variables of a module, and methods of its classes."""
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = list(ast.walk(tree(path)))
    assigned = (target for node in nodes for target in targets(node) if isinstance(target, ast.Name))
    return frozenset([node.name for node in nodes if isinstance(node, defined)] + [each.id for each in assigned])


def targets(node: ast.AST) -> Iterable[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []


def test_all_rooms_are_listed_and_no_other() -> None:
    rooms = {path.parent.name for path in (ROOT / "harness").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `harness/(\w+)/` \|", PAGE, re.MULTILINE)) == rooms


def test_the_floors_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    assert re.findall(r"^\d   (.+)$", PAGE, re.MULTILINE) == layers


def test_no_word_is_explained_twice() -> None:
    """A word is either one of task files, for which there is the glossary, or one of the code."""
    _, _, last = PAGE.partition("## Page 3")
    words, glossary = (
        {word for cell, _ in ROW.findall(text) for word in cell.split(", ")} - {"word"}
        for text in (last, (ROOT / "docs/glossary.md").read_text("utf-8"))
    )
    assert words & glossary == set()
    assert 20 <= len(words) <= 30


def touched(what: str) -> set[Path]:
    """Files and folders of a row of "To add something"."""
    _, _, table = PAGE.partition("### To add something")
    row = next(files for added, files in ROW.findall(table) if added == what)
    return {ROOT / file for file, _ in NAMED.findall(row)}


def within(file: Path, places: Iterable[Path]) -> bool:
    return any(place in (file, *file.parents) for place in places)


def home(thing: object) -> Path:
    return Path(inspect.getfile(thing)).resolve()  # type: ignore[arg-type]


def tables(word: str) -> set[Path]:
    """Modules that hold a table by what `word` matches."""
    files = (path for path in (ROOT / "harness").rglob("*.py"))
    return {file for file in files if len(set(re.findall(word, file.read_text("utf-8")))) >= EVERYWHERE}


def members(annotation: object) -> tuple[type, ...]:
    return get_args(get_args(annotation)[0])


def test_strategies_stand_in_the_file_of_their_rule() -> None:
    def strategies(base: type) -> set[type]:
        return {each for kind in base.__subclasses__() for each in (kind, *strategies(kind))}

    files = {home(each) for each in strategies(Rule) if each.__module__.startswith("harness.")}
    assert files
    assert [file for file in files if not within(file, touched("a strategy of a rule"))] == []


def test_every_rule_is_where_the_map_says() -> None:
    places = touched("a rule")
    families = {each.value for each in Family if each is not Family.NONE}
    assert families == {name for name in Rulebook.model_fields if name.startswith("on_")}
    assert {home(Rulebook), home(Family)} <= places
    assert tables(r"Family\.([A-Z]+)") <= places, "one more table by family: can it be a column of the catalog?"
    idle = [place.name for place in places - {home(Rulebook)} if place.is_file() and "Family" not in place.read_text()]
    assert idle == []


def test_every_act_is_where_the_map_says() -> None:
    places = touched("an act")
    assert {home(each) for each in members(Step)} <= places
    assert set(ACTIONS) == set(members(Step)) - {Assert}, "the engine judges `assert`"
    assert [act for act in ACTIONS.values() if not within(home(act), places)] == []


def test_every_artifact_is_where_the_map_says() -> None:
    assert tables("|".join(f'"({re.escape(name)})"' for name in NAMES)) <= touched("an artifact")


def test_every_failure_code_is_where_the_map_says() -> None:
    table, examples = ROOT / "harness/recovery/catalog.py", ROOT / "harness/cli/error_examples.json"
    assert {table, examples} <= touched("a failure code")
    assert [code for code in CATALOG if f'"{code}"' not in table.read_text("utf-8")] == []
    assert set(CATALOG) <= set(json.loads(examples.read_text("utf-8")))


def test_what_the_browser_must_know_is_where_the_map_says() -> None:
    assert {home(each) for each in (SessionRequest, TaskSpec, Settings, Rulebook)} == touched(
        "a key that the browser must know"
    )
    run = (
        (ROOT / "harness/runner/harness.py").read_text("utf-8").partition("SessionRequest.of(")[2].partition("\n\n")[0]
    )
    assert re.findall(r"=self\.settings\.|=plan\.", run) == [], "what task and settings say is read in `of`"


def test_every_warning_is_where_the_map_says() -> None:
    places, given = touched("a warning"), set[str]()
    for file in (ROOT / "harness").rglob("*.py"):
        if found := re.findall(r'Warning_\(\s*"(\w+)"', file.read_text("utf-8")):
            assert file in places
            given.update(found)
    families = {facts.warning for facts in FAMILIES.values()}
    assert given | families | {"circuit_opened", "circuit_closed"} == set(WARNINGS)
    assert given & families == set(), "a family's warning stands in its row alone"


def test_every_event_sink_is_where_the_map_says() -> None:
    places = touched("an event sink")
    assert home(Sink) in places
    listed = [place.read_text("utf-8") for place in places - {home(Sink)} if place.is_file()]
    files = (path.read_text("utf-8") for path in (ROOT / "harness").rglob("*.py"))
    sinks = {name for text in files for name in re.findall(r"^class (\w+)\(Sink\):", text, re.MULTILINE)}
    assert {each.__name__ for each in (EventLog, LogSink, MetricsSink)} <= sinks
    assert [name for name in sinks if not any(re.search(rf"\b{name}\b", text) for text in listed)] == []


def test_every_command_is_where_the_map_says() -> None:
    places = touched("a command")
    groups = [getattr(each, "commands", {"": each}) for each in Imported().values()]
    commands = [inspect.unwrap(each.callback) for group in groups for each in group.values()]
    assert len(commands) > len(COMMANDS)
    assert [each for each in commands if not within(home(each), places)] == []
    assert home(Imported) in places


def test_every_fault_kind_is_where_the_map_says() -> None:
    places, union = touched("a fault kind"), (ROOT / "harness/spec/faults/__init__.py").read_text("utf-8")
    assert [kind for kind in members(Fault) if home(kind) not in places] == []
    assert [kind for kind in members(Fault) if not re.search(rf"\b{kind.__name__}\b", union)] == []
