"""Generates the tables of all keys of a task file from the models' JSON Schema.

Run as `python -m tools.docs.key_table docs`, in the folder of the project. Each table stands between two marks that
name it, in the page where a reader looks for it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from harness.recovery import Rule
from harness.spec.faults import FaultBase, ModelFault, RequestFault, StepFault, ToolFault
from harness.spec.step_base import RepeatedStep, RequestingStep, StepBase
from harness.spec.step_groups import Parameter, StepGroup, Use
from harness.spec.task import TaskSpec
from harness.spec.validation import FAULTS
from tools.docs.key_type import described_type

UNITS = (
    *("seconds", "milliseconds", "pixels", "factor", "share", "weight", "plain number", "rank", "HTTP status"),
    *(
        "attempts",
        "degrees",
        "metres",
        "steps",
        "requests",
        "tokens",
        "US dollars",
        "connections",
        "bytes",
        "occasions",
        "step number",
        "place in the list",
    ),
)
_UNIT = re.compile(rf", (?:in|as a number of|as an?) (?P<unit>{'|'.join(UNITS)})\.$")
"""The end of a number's description."""
_SHOWN = frozenset({"seconds", "milliseconds", "pixels", "degrees", "metres", "tokens", "US dollars", "bytes"})
"""The other units say no more than the key does."""
_LONGEST = re.compile(r", at most [\d,]+ characters")
"""A bound that the error about a longer text names: the tables leave it out."""
_OF_STEPS = frozenset(StepBase.model_fields)
_OPTION = "#/$defs/Option"
_REQUIRED = "**required**"
_HEAD = "| key | type and default | meaning |\n|---|---|---|"
_TAGGED = re.compile(r"(?:\[(?P<kind>\w+)\]|: (?P<strategy>\w+))(?:\.(?P<key>[\w.]+))?")
"""The rest of a path after an act, a kind of fault or a strategy, and the key that belongs to it."""
_OCCASIONS: Mapping[str, tuple[str, type[BaseModel]]] = {
    "Faults of requests": ("request", RequestFault),
    "Faults of models": ("model", ModelFault),
    "Faults of tools": ("tool", ToolFault),
    "Faults of steps": ("step", StepFault),
}

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Key:
    """A key, or a value that selects others: an act, a strategy, a kind of fault."""

    path: str
    """`timeout`, `steps[click].selector`, `error_recovery.on_timeout: abort`."""
    type: str
    unit: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Section:
    """Keys under one heading."""

    title: str
    prefix: str
    """The common beginning of its keys' paths, which the table leaves out."""
    keys: tuple[Key, ...]


def tables() -> Mapping[str, tuple[Section, ...]]:
    """All keys that a file may declare, in the order of the models: the sections of each table, by its name."""
    schema = TaskSpec.model_json_schema()
    definitions, top = schema["$defs"], schema["properties"]
    part = {
        name: _part(f"`{name}`", name + place, _model(top[name], definitions), definitions)
        for name, place in _PLACES.items()
    }
    browser = [
        _part(f"`browser.{name}`", f"browser.{name}.", definitions[model], definitions)
        for name, model in (("geolocation", "Geolocation"), ("http_credentials", "HttpCredentials"))
    ]
    return {
        "task": (
            Section("Top level", "", tuple(_keys("", schema, definitions))),
            *(part["users"], part["skip_if"], part["browser"], *browser, part["expect"], part["allowed_writes"]),
            part["scoring_checkpoints"],
        ),
        "steps": tuple(_steps(_variants(top["steps"]["items"], definitions), definitions)),
        "routes": (
            part["routes"],
            *(
                _part(f"{title} of a route", f"routes[].{place}.", definitions[model], definitions)
                for title, place, model in _OF_ROUTES
            ),
        ),
        "reuse": (part["parametrize"], *_groups(definitions)),
        "recovery": (
            *_rules(definitions),
            *(part[name] for name in ("budget", "repairs", "handlers", "state_bindings", "fallback_plan")),
        ),
        "faults": tuple(_faults(_variants(top["faults"]["items"], definitions), definitions)),
    }


_OF_ROUTES = (
    ("`patch`", "patch", "Patch"),
    ("`messages`", "messages[]", "MessageRule"),
    ("`sent` and `received` in `messages`", "messages[].sent", "JsonPattern"),
    ("`patch` in `messages`", "messages[].patch", "JsonPatch"),
    ("`send` in `messages`", "messages[].send", "JsonMessage"),
)
"""Mappings in a route: the title, the place, the model."""
_PLACES = {
    "users": ".*.",
    "skip_if": "[].",
    "allowed_writes": "[].",
    "browser": ".",
    "scoring_checkpoints": "[].",
    "fallback_plan": ".",
    "state_bindings": ".*.",
    "repairs": "[].",
    "handlers": "[].",
    "routes": "[].",
    "budget": ".",
    "parametrize": ".",
    "expect": ".",
}
"""Keys that hold keys, and what follows their names in the paths of these."""


def sections() -> tuple[Section, ...]:
    """Those of all tables."""
    return tuple(chain.from_iterable(tables().values()))


def _steps(acts: Mapping[str, Schema], definitions: Schema) -> Iterator[Section]:
    """The acts with their keys, and the keys of all steps."""
    every, requesting = StepBase.model_json_schema(), RequestingStep.model_json_schema()
    repeated = RepeatedStep.model_json_schema()
    shared = {**requesting["properties"], **repeated["properties"], **every["properties"]}
    yield _tagged("Acts", "steps", acts, shared, definitions)
    yield _part("Every step", "steps[].", every, definitions, without=("act",))
    yield _part("Acts by which a page may send requests", "steps[].", requesting, definitions, without=_OF_STEPS)
    yield _part("Acts that can be repeated", "steps[].", repeated, definitions, without=_OF_STEPS)
    expected = definitions["ExpectedRequest"]
    yield _part("`expect_request` of a step, `request` of a `wait`", "steps[].expect_request.", expected, definitions)
    yield _part("`clock` of a `set`", "steps[set].clock.", definitions["ClockChange"], definitions)
    yield _part("A selector that is a mapping", "selector.", definitions["Locator"], definitions)
    yield _part("A place or a distance", "point.", definitions["Point"], definitions)


def _groups(definitions: Schema) -> Iterator[Section]:
    yield _part("`use` in place of a step", "use.", Use.model_json_schema(), definitions)
    group = StepGroup.model_json_schema()
    yield _part("Step groups (`*.steps.yaml`)", "group.", group, group["$defs"])
    yield _part("`parameters` of a step group", "group.parameters.*.", Parameter.model_json_schema(), {})


def _faults(kinds: Mapping[str, Schema], definitions: Schema) -> Iterator[Section]:
    """The keys of all faults, then the kinds with their keys, by what they strike."""
    every = FaultBase.model_json_schema()
    yield _part("Every fault", "faults[].", every, definitions, without=("kind",))
    yield _part("`expect` of a fault", "faults[].expect.", definitions["FaultExpect"], definitions)
    left = dict(kinds)
    found = []
    for title, (name, base) in _OCCASIONS.items():
        own = {kind: left.pop(kind) for kind in [*left] if issubclass(FAULTS[kind], base)}
        common = base.model_json_schema() if name in ("step", "request") else every
        keys = _keys(f"faults[{name}].", common, definitions, frozenset(every["properties"]))
        section = _tagged(title, "faults", own, common["properties"], definitions)
        found.append(Section(title, "faults", (*keys, *section.keys)))
    assert not left, f"kinds of faults that strike nothing: {left.keys()}"
    yield from (found[-1], *found[:-1])


def _part(title: str, prefix: str, model: Schema, definitions: Schema, without: Iterable[str] = ()) -> Section:
    return Section(title, prefix, tuple(_keys(prefix, model, definitions, frozenset(without))))


def _tagged(title: str, name: str, models: Mapping[str, Schema], shared: Schema, definitions: Schema) -> Section:
    """Each model, with the keys that are not those of all."""
    keys: list[Key] = []
    for tag, model in models.items():
        same = [key for key, each in shared.items() if each == model["properties"].get(key)]
        tag_key = next(key for key, each in model["properties"].items() if "const" in each)
        keys.append(Key(f"{name}[{tag}]", "", "", "", _first_line(model)))
        keys += _keys(f"{name}[{tag}].", model, definitions, frozenset([*same, tag_key]))
    return Section(title, name, tuple(keys))


def _first_line(model: Schema) -> str:
    return str(model["description"]).splitlines()[0]


def _rules(definitions: Schema) -> Iterator[Section]:
    """The keys of all rules, then a section for each rule, with its strategies and their settings."""
    book = definitions["Rulebook"]
    rules = {name: rule for name, rule in book["properties"].items() if "strategy" in (rule.get("default") or ())}
    whole = _keys("error_recovery.", book, definitions, frozenset(rules))
    shared = _keys("error_recovery.on_*.", Rule.model_json_schema(), definitions, frozenset(["strategy"]))
    yield Section("`error_recovery`", "error_recovery.", (*whole, *shared))
    for name, rule in rules.items():
        prefix, default = f"error_recovery.{name}", rule["default"]["strategy"]
        keys = [Key(prefix, "strategy, or mapping", "", f"`{default}`", rule["description"])]
        for strategy, model in _variants(rule, definitions).items():
            keys.append(Key(f"{prefix}: {strategy}", "", "", "", _first_line(model)))
            keys += _keys(f"{prefix}: {strategy}.", model, definitions, frozenset(Rule.model_fields))
        yield Section(f"`{name}`", prefix, tuple(keys))


def _keys(prefix: str, model: Schema, definitions: Schema, without: frozenset[str] = frozenset()) -> Iterator[Key]:
    for name, schema in model["properties"].items():
        if name in without:
            continue
        kind, text = described_type(schema), schema.get("description", "")
        unit = _UNIT.search(text)
        meaning = f"{text[: unit.start()]}." if unit else text
        default = _REQUIRED if name in model.get("required", ()) else _default(schema)
        yield Key(prefix + name, kind, unit["unit"] if unit else "", default, meaning)
        if any(each.get("$ref") == _OPTION for each in schema.get("anyOf", ())):
            yield from _keys(f"{prefix}{name}.", definitions["Option"], definitions)


def _default(schema: Schema) -> str:
    default = schema.get("default")
    if default is None or default in ("", []) or isinstance(default, dict):
        return ""
    if isinstance(default, str):
        return f"`{default}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{json.dumps(default)}`"


def _model(schema: Schema, definitions: Schema) -> Schema:
    """The one model that a property holds, alone, in a list or in a mapping."""
    inside = (schema, schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ()))
    name: str = next(each["$ref"] for each in inside if isinstance(each, Mapping) and "$ref" in each)
    return _definition(name, definitions)


def _definition(name: str, definitions: Schema) -> Schema:
    found: Schema = definitions[name.rpartition("/")[2]]
    return found


def _variants(union: Schema, definitions: Schema) -> dict[str, Schema]:
    """Tag -> model, in the order of the union."""
    names = {name: tag for tag, name in union["discriminator"]["mapping"].items()}
    return {names[each["$ref"]]: _definition(each["$ref"], definitions) for each in union["oneOf"]}


def rendered(found: Iterable[Section]) -> str:
    """The sections as Markdown."""
    return "\n\n".join(f"### {each.title}\n\n{_HEAD}\n" + "\n".join(_rows(each)) for each in found)


def _rows(section: Section) -> Iterator[str]:
    """After an act, a kind or a strategy follow the keys that it has alone; those of several stand first."""
    split = [(key, *_tag_and_name(key, section.prefix)) for key in section.keys]
    owners = Counter((name, key.type, key.default, key.meaning) for key, tag, name in split if tag and name)
    several = {each for each, count in owners.items() if count > 1}
    with_it: dict[str, list[str]] = {}
    for key, tag, name in split:
        if (name, key.type, key.default, key.meaning) in several:
            with_it.setdefault(tag, []).append(f"`{name}`")
    shown: set[tuple[str, str, str, str]] = set()
    early, late = [], []
    for key, tag, name in split:
        same = (name, key.type, key.default, key.meaning)
        if not tag:
            early.append(_row(name, key))
        elif not name:
            keys = f" Takes {', '.join(with_it[tag])}." if tag in with_it else ""
            late.append(_row(tag, key, keys))
        elif same not in several:
            late.append(_row(name, key))
        elif same not in shown:
            shown.add(same)
            early.append(_row(name, key))
    yield from (*early, *late)


def _tag_and_name(key: Key, prefix: str) -> tuple[str, str]:
    """The act, kind or strategy of a key, and its name there; one of both may be empty."""
    rest = key.path.removeprefix(prefix)
    found = _TAGGED.fullmatch(rest)
    if found is None:
        return "", rest or key.path.rpartition(".")[2]
    tag, name = found["kind"] or found["strategy"], found["key"] or ""
    return ("", name) if tag in ("step", "request") and name else (tag, name)


def _row(name: str, key: Key, more: str = "") -> str:
    kind = _LONGEST.sub("", key.type)
    if key.unit in _SHOWN:
        kind = f"{kind} ({key.unit})"
    if key.default:
        kind += f", {key.default}" if key.default == _REQUIRED else f"; default {key.default}"
    cells = (f"`{name}`" if key.type else f"**`{name}`**", kind, key.meaning + more)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def marks(name: str) -> tuple[str, str]:
    """The lines before and after a table."""
    return f"<!-- keys of {name}: begin (generated) -->", f"<!-- keys of {name}: end -->"


def updated(document: str, name: str, table: str) -> str:
    """The document with this table between the marks of this name. Raises ValueError if it has no marks."""
    first, last = marks(name)
    before, begin, rest = document.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the document has no lines {first} and {last}")
    return f"{before}{first}\n\n{table}\n\n{last}{after}"


PAGES = {
    "task": "taskspec.md",
    "steps": "steps.md",
    "routes": "steps.md",
    "reuse": "reuse.md",
    "recovery": "recovery.md",
    "faults": "faults.md",
}
"""The page of each table."""


if __name__ == "__main__":
    for _name, _sections in tables().items():
        _path = Path(sys.argv[1], PAGES[_name])
        _path.write_text(updated(_path.read_text("utf-8"), _name, rendered(_sections)), "utf-8")
