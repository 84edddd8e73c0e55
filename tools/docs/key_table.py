"""Generates the table of all keys of a task file in docs/taskspec.md from the models' JSON Schema.

Run as `python -m tools.docs.key_table docs/taskspec.md`, in the folder of the project.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.recovery import Rule
from harness.spec.faults import FaultBase, RequestFault, StepFault
from harness.spec.step_base import RepeatedStep, RequestingStep, StepBase
from harness.spec.step_groups import Parameter, StepGroup, Use
from harness.spec.task import TaskSpec
from tools.docs.key_type import described_type

BEGIN, END = "<!-- keys: begin (generated) -->", "<!-- keys: end -->"
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
_OF_STEPS = frozenset(StepBase.model_fields)
_OPTION = "#/$defs/Option"
_HEAD = "| key | type | unit | default | meaning |\n|---|---|---|---|---|"

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


def sections() -> tuple[Section, ...]:
    """All keys that a file may declare, in the order of the models."""
    schema = TaskSpec.model_json_schema()
    definitions, top = schema["$defs"], schema["properties"]
    found = [Section("Top level", "", tuple(_keys("", schema, definitions)))]
    for name, place in (
        ("allowed_writes", "[]."),
        ("browser", "."),
        ("scoring_checkpoints", "[]."),
        ("fallback_plan", "."),
        ("state_bindings", ".*."),
        ("repairs", "[]."),
        ("routes", "[]."),
        ("budget", "."),
        ("parametrize", "."),
        ("expect", "."),
    ):
        found.append(_part(f"`{name}`", name + place, _model(top[name], definitions), definitions))
    for name, model in (("geolocation", "Geolocation"), ("http_credentials", "HttpCredentials")):
        found.append(_part(f"`browser.{name}`", f"browser.{name}.", definitions[model], definitions))
    steps, faults = _variants(top["steps"]["items"], definitions), _variants(top["faults"]["items"], definitions)
    found += [_part("Every step", "steps[].", StepBase.model_json_schema(), definitions, without=("act",))]
    requesting = RequestingStep.model_json_schema()
    found += [_part("Acts by which a page may send requests", "steps[].", requesting, definitions, without=_OF_STEPS)]
    repeated = RepeatedStep.model_json_schema()
    found += [_part("Acts that can be repeated", "steps[].", repeated, definitions, without=_OF_STEPS)]
    expected = definitions["ExpectedRequest"]
    found += [_part("`expect_request` of a step", "steps[].expect_request.", expected, definitions)]
    found.append(_part("A place or a distance", "point.", definitions["Point"], definitions))
    found.append(_part("A selector that is a mapping", "selector.", definitions["Locator"], definitions))
    shared = {
        "properties": {
            **requesting["properties"],
            **repeated["properties"],
            **StepBase.model_json_schema()["properties"],
        }
    }
    found += [_tagged("Acts", "steps", steps, shared, definitions)]
    found.append(_part("`use` in place of a step", "use.", Use.model_json_schema(), definitions))
    group = StepGroup.model_json_schema()
    found.append(_part("Step groups (`*.steps.yaml`)", "group.", group, group["$defs"]))
    parameter = Parameter.model_json_schema()
    found.append(_part("`parameters` of a step group", "group.parameters.*.", parameter, {}))
    found += _rules(definitions)
    found += _faults(faults, definitions)
    return tuple(found)


def _faults(kinds: Mapping[str, Schema], definitions: Schema) -> Iterator[Section]:
    """The keys of all faults, those of faults of steps and of requests, and the kinds with their other keys."""
    every, step, request = (each.model_json_schema() for each in (FaultBase, StepFault, RequestFault))
    yield _part("Every fault", "faults[].", every, definitions, without=("kind",))
    yield _part("`expect` of a fault", "faults[].expect.", definitions["FaultExpect"], definitions)
    yield _part("Faults of steps", "faults[step].", step, definitions, without=every["properties"])
    yield _part("Faults of requests", "faults[request].", request, definitions, without=every["properties"])
    shared = {"properties": {**request["properties"], **step["properties"]}}
    yield _tagged("Kinds of faults", "faults", kinds, shared, definitions)


def _part(title: str, prefix: str, model: Schema, definitions: Schema, without: Iterable[str] = ()) -> Section:
    return Section(title, prefix, tuple(_keys(prefix, model, definitions, frozenset(without))))


def _tagged(title: str, name: str, models: Mapping[str, Schema], base: Schema, definitions: Schema) -> Section:
    """Each model, with the keys that the models do not share."""
    keys: list[Key] = []
    for tag, model in models.items():
        shared = [key for key, each in base["properties"].items() if each == model["properties"].get(key)]
        tag_key = next(key for key, each in model["properties"].items() if "const" in each)
        keys.append(Key(f"{name}[{tag}]", "", "", "", model["description"].splitlines()[0]))
        keys += _keys(f"{name}[{tag}].", model, definitions, frozenset([*shared, tag_key]))
    return Section(title, name, tuple(keys))


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
            keys.append(Key(f"{prefix}: {strategy}", "", "", "", model["description"].splitlines()[0]))
            keys += _keys(f"{prefix}: {strategy}.", model, definitions, frozenset(Rule.model_fields))
        yield Section(f"`{name}`", prefix, tuple(keys))


def _keys(prefix: str, model: Schema, definitions: Schema, without: frozenset[str] = frozenset()) -> Iterator[Key]:
    for name, schema in model["properties"].items():
        if name in without:
            continue
        kind, text = described_type(schema), schema.get("description", "")
        unit = _UNIT.search(text)
        meaning = f"{text[: unit.start()]}." if unit else text
        default = "**required**" if name in model.get("required", ()) else _default(schema)
        yield Key(prefix + name, kind, unit["unit"] if unit else "", default, meaning)
        if any(each.get("$ref") == _OPTION for each in schema.get("anyOf", ())):
            yield from _keys(f"{prefix}{name}.", definitions["Option"], definitions)


def _default(schema: Schema) -> str:
    default = schema.get("default")
    if default is None or default in ("", []) or isinstance(default, dict):
        return ""
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
    return "\n\n".join(
        f"### {each.title}\n\n{_HEAD}\n" + "\n".join(_row(key, each.prefix) for key in each.keys) for each in found
    )


def _row(key: Key, prefix: str) -> str:
    shown = key.path.removeprefix(prefix).removeprefix(": ")
    tag = re.fullmatch(r"\[(\w+)\](.*)", shown)
    shown = tag[1] + tag[2] if tag else shown or key.path.rpartition(".")[2]
    name = f"**`{shown}`**" if not key.type else f"`{shown}`"
    cells = (name, key.type, key.unit, key.default, key.meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def updated(document: str, table: str) -> str:
    """The document with this table between its marks. Raises ValueError if it has no marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    _path = Path(sys.argv[1])
    _path.write_text(updated(_path.read_text("utf-8"), rendered(sections())), "utf-8")
