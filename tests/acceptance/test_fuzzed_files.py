"""Any file gives a task or a clear error, never a traceback, within 2 s of processor time and 500 MB of memory.

The files are made from the project's own JSON Schemas, and from the shipped tasks by changing them.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.model.settings import Settings
from tests.conftest import FULL

ROOT = Path(__file__).parents[2]
EXAMPLES = 1000 if FULL else 15
"""For each kind of file."""
JUDGED_WITHIN = 120

# Hostile values: long, deep, many, huge, and whatever refers to itself.

TEXTS = [
    "",
    " ",
    "\0",
    "\ud83d\ude00",
    "a" * 3000,
    "'" * 500,
    "(" * 2000,
    "${",
    "${inputs.x}" * 50,
    "${param.p}",
    "${memory.a}",
    "${env:HOME}",
    "${fake.name}",
    "${now + 1d}",
    "${now-9999999y | %Y}",
    "$${",
    "../../etc/passwd",
    "/",
    "*" * 200,
    ".*" * 50,
    "(a+)+$",
    "text('#a') matches '(a|a)*b'",
    "NOT[" * 60,
    "ALL[]",
    "json('env', 'a[?b==1]')",
    "count('a') > 1e999",
    "mem('a.b[*]') == 1",
    "role=button[name='x'",
    'internal:has="a"',
    ":has(" * 60,
    "//*[",
    "a >> b >> c",
    "http://[",
    "1e400",
    "http://a:99999/",
    "2025-02-30T00:00:00Z",
    "9999-12-31T23:59:59-14:00",
    "\u202e",
    "- a: [",
    "<<",
    "!!python/object:os.system x",
]
NUMBERS = [0, -1, 1, 2**31, 10**12, -(10**12), 10**300, 1e308, -1e308, 5e-324, 0.1, float("nan"), float("inf")]
plain = st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS) | st.text(max_size=20)
many = st.tuples(plain, st.sampled_from([3, 200, 3000])).map(lambda pair: [pair[0]] * pair[1])
hostile = st.recursive(
    plain | many,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


# Values from a JSON Schema.


class FromSchema:
    """Draws values of a schema; one in some is hostile. Below some depth little more than what is required is there."""

    def __init__(self, draw: st.DrawFn, schema: dict[str, Any]) -> None:
        self._draw = draw
        self._known = schema.get("$defs", {})

    def value(self, schema: Any, depth: int = 0) -> Any:
        if not isinstance(schema, dict) or (depth and self._draw(st.integers(0, 24)) == 0):
            return self._draw(hostile)
        if "not" in schema:
            return None  # how a schema for editors says null
        if "$ref" in schema:
            return self.value(self._known[schema["$ref"].rpartition("/")[2]], depth)
        for key in ("anyOf", "oneOf", "allOf"):
            if key in schema:
                return self.value(self._draw(st.sampled_from(schema[key])), depth)
        if "const" in schema or "enum" in schema:
            return self._draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
        match schema.get("type"):
            case "string":
                return self._draw(WORDS)
            case "integer" | "number":
                return self._number(schema)
            case "boolean":
                return self._draw(st.booleans())
            case "array":
                count = self._draw(st.integers(min(schema.get("minItems", 0), 3), 1 if depth > 5 else 3))
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "object":
                return self._mapping(schema, depth)
            case _:
                return self._draw(hostile)

    def _number(self, schema: dict[str, Any]) -> Any:
        least, most = schema.get("minimum", schema.get("exclusiveMinimum", -5)), schema.get("maximum", 100)
        whole = self._draw(st.integers(int(least), max(int(least), int(most))))
        return whole if schema["type"] == "integer" else whole + self._draw(st.sampled_from([0, 0.5]))

    def _mapping(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        keys, more = schema.get("properties", {}), schema.get("additionalProperties", False)
        if not keys:
            names = self._draw(st.lists(WORDS, max_size=3))
            return {name: self.value(more, depth + 1) for name in names}
        some = self._draw(st.lists(st.sampled_from(sorted(keys)), max_size=2 if depth > 3 else 8))
        return {key: self.value(keys[key], depth + 1) for key in dict.fromkeys([*schema.get("required", ()), *some])}


WORDS = st.sampled_from([*["T-1", "shop", "#buy", "http://shop.local/", "text('#a') == 'b'", "env", "a"] * 8, *TEXTS])


@st.composite
def documents(draw: st.DrawFn, name: str) -> Any:
    schema = SETTINGS if name == "settings" else json.loads((ROOT / "schemas" / name).read_text("utf-8"))
    return FromSchema(draw, schema).value(schema)


SETTINGS = Settings.model_json_schema()
"""The schema of `[tool.harness]`."""


# The shipped tasks, changed in a few places.

SHIPPED = [yaml.safe_load(path.read_text("utf-8")) for path in sorted((ROOT / "tasks").rglob("*.task.yaml"))]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(each, (*path, key))


@st.composite
def changed_tasks(draw: st.DrawFn) -> Any:
    document = copy.deepcopy(draw(st.sampled_from(SHIPPED)))
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(document))
        if not found:
            break
        *above, key = draw(st.sampled_from(found))
        around = document
        for each in above:
            around = around[each]
        match draw(st.sampled_from(["replace", "delete", "rename", "many", "wrap"])):
            case "replace":
                around[key] = draw(hostile)
            case "delete":
                del around[key]
            case "rename" if isinstance(around, dict):
                around[draw(st.text(max_size=10))] = around.pop(key)
            case "many" if isinstance(around[key], list):
                around[key] = around[key] * draw(st.sampled_from([2, 100, 1500]))
            case _:
                around[key] = [around[key]]
    return document


@st.composite
def changed_texts(draw: st.DrawFn) -> bytes:
    """The text of a file with some characters changed: what no reader may stumble over."""
    text = yaml.safe_dump(draw(st.sampled_from(SHIPPED)), allow_unicode=True, sort_keys=False).encode()
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(text)))
        piece = draw(
            st.binary(max_size=3) | st.sampled_from([b"*a", b"&a ", b"\t", b"[" * 60, b"{", b"- ", b": ", b"|\n"])
        )
        text = text[:place] + piece + text[place + draw(st.integers(0, 8)) :]
    return text


def as_json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=True).encode()


def as_toml(value: Any) -> str:
    """A value of TOML on one line; what TOML cannot say is left out."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {as_toml(each)}" for key, each in value.items() if each is not None)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(as_toml(each) for each in value if each is not None) + "]"
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf").replace("\\ud83d\\ude00", "x")


# The child that loads them.


class Child:
    """A process that loads files one after the other, within its bounds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pyproject.toml").write_text("", "utf-8")
        warm = folder / "warm.task.json"
        warm.write_bytes(as_json({"task_id": "WARM", "steps": [{"act": "wait", "value": 0}]}))
        command = [sys.executable, str(Path(__file__).with_name("fuzz_child.py")), str(warm)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env={"PYTHONPATH": str(ROOT)}
        )

    def load(self, name: str, content: bytes) -> None:
        """Load a file of this content. Raises AssertionError for whatever no file may cause."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        asked, answered = self.process.stdin, self.process.stdout
        assert asked is not None
        assert answered is not None
        asked.write(f"{path}\n")
        asked.flush()
        told = json.loads(_line(answered) or '{"failed": "the process has died", "said": ""}')
        assert not told["failed"], f"{told['failed']}\n{content[:3000]!r}"
        assert told["said"].strip(), "neither loaded nor told why not"


def _line(stream: IO[str]) -> str:
    import select

    ready, _, _ = select.select([stream], [], [], JUDGED_WITHIN)
    return stream.readline() if ready else '{"failed": "it hangs", "said": ""}'


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    folder = tmp_path_factory.mktemp("fuzzed") / "project"  # the folder above it is searched for tasks, too
    folder.mkdir()
    made = Child(folder)
    yield made
    made.process.kill()
    made.process.communicate()


fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=not FULL,
    database=None,
    phases=[Phase.generate],  # a failing file is shown as it is: making it smaller may take as long as it hangs
)


@fuzzed
@given(document=documents("task_spec.schema.json"))
def test_tasks_made_from_the_schema(child: Child, document: Any) -> None:
    child.load("T.task.json", as_json(document))


@fuzzed
@given(document=changed_tasks())
def test_shipped_tasks_that_were_changed(child: Child, document: Any) -> None:
    child.load("T.task.json", as_json(document))


@fuzzed
@given(content=changed_texts())
def test_texts_that_were_changed(child: Child, content: bytes) -> None:
    child.load("T.task.yaml", content)


@fuzzed
@given(document=documents("fault_plan.schema.json"))
def test_fault_plans(child: Child, document: Any) -> None:
    child.load("x.faults.json", as_json(document))


@fuzzed
@given(document=documents("step_group.schema.json"))
def test_step_groups(child: Child, document: Any) -> None:
    child.load("g.steps.json", as_json(document))


@fuzzed
@given(table=documents("settings"))
def test_settings(child: Child, table: Any) -> None:
    child.load("project/pyproject.toml", f"tool.harness = {as_toml(table)}\n".encode())
