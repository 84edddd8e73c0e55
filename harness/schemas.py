"""JSON Schemas, generated from the models; `schemas/` holds them as files (a test compares)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from harness.model.report import ErrorReport
from harness.recovery import Rulebook
from harness.runner.campaign.document import Campaign
from harness.spec import hover
from harness.spec.documents import MemoryKV, Trace
from harness.spec.fault_plan import FaultPlan
from harness.spec.task import TaskSpec
from harness.spec.validation import ACTS, FAULTS, RULES

BASE = "https://pytest-taskspec.dev/schemas/"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

SHORT_BINDING: Schema = {"type": "string", "pattern": r"^[^.]+\.."}
"""`env.shop.cart` for `{channel: env, path: shop.cart}`."""

EDITORS_KEY: Schema = {"type": "string", "description": hover.SCHEMA}


def schemas() -> dict[str, Schema]:
    """File name -> schema."""
    return {
        name: {"$schema": DIALECT, "$id": BASE + name, **hover.for_readers(document)}
        for name, document in {
            "task_spec.schema.json": _task_spec(),
            "error_report.schema.json": _error_report(),
            "trace.schema.json": Trace.model_json_schema(),
            "memory_kv.schema.json": MemoryKV.model_json_schema(),
            "fault_plan.schema.json": _fault_plan(),
            "campaign.schema.json": Campaign.model_json_schema(mode="serialization"),
        }.items()
    }


def _task_spec() -> Schema:
    """What files may hold: shorthands, settings of any strategy, keys of one's own (DESIGN 4.1)."""
    schema = {**TaskSpec.model_json_schema(), "description": hover.TASK}
    schema["properties"] = {"$schema": dict(EDITORS_KEY), **schema["properties"]}
    bindings = schema["properties"]["state_bindings"]
    bindings["additionalProperties"] = {"anyOf": [SHORT_BINDING, bindings["additionalProperties"]]}
    definitions: dict[str, Schema] = schema["$defs"]
    for rule, strategies in RULES.items():
        definitions["Rulebook"]["properties"][rule] = _rule(rule, strategies, definitions)
    for models, tag in ((ACTS.values(), "act"), (FAULTS.values(), "kind")):
        _require(definitions, models, tag)
    return _with_descriptions(_pruned(schema))


def _fault_plan() -> Schema:
    """In a file, the keys of a fault stand beside `tasks`, which may be a single id."""
    schema = FaultPlan.model_json_schema()
    schema["properties"] = {"$schema": dict(EDITORS_KEY), **schema["properties"]}
    definitions: dict[str, Schema] = schema["$defs"]
    _require(definitions, FAULTS.values(), "kind")
    planned = definitions["PlannedFault"]["properties"]
    several = {key: planned["tasks"][key] for key in ("type", "items", "minItems")}
    description = planned["tasks"]["description"]
    definitions["Tasks"] = {"anyOf": [{"type": "string"}, several], "default": "*", "description": description}
    for definition in _tagged(definitions, FAULTS.values(), "kind"):
        tasks = {"$ref": "#/$defs/Tasks", "description": description}
        definition["properties"] = {"tasks": tasks, **definition["properties"]}
    schema["properties"]["faults"]["items"] = planned["fault"]
    return _with_descriptions(_pruned(schema))


def _with_descriptions(schema: Schema) -> Schema:
    """The same, with what editors show for tags and enumerated values."""
    hover.describe_tags(schema["$defs"], "act", hover.ACT)
    hover.describe_tags(schema["$defs"], "kind", hover.KIND)
    hover.describe_values(schema)
    return schema


def _rule(name: str, strategies: Mapping[str, type[BaseModel]], definitions: Mapping[str, Schema]) -> Schema:
    """A strategy's name alone, or an object with the settings of all strategies, as specs/003 2.1 prints it."""
    settings: Schema = {}
    for model in strategies.values():
        settings = {**definitions[model.__name__]["properties"], **settings}
    meanings = [hover.first_line(definitions[model.__name__]) for model in strategies.values()]
    enum: Schema = {"type": "string", "enum": list(strategies), "enumDescriptions": meanings}
    settings["strategy"] = {**enum, "description": hover.STRATEGY}
    if "capture" in settings:
        hover.describe_values({"properties": {"capture": settings["capture"]}})
    words: list[Schema] = [enum]
    if name == "on_network_error":
        times = "Retry so many times, as in `retry_3_times`."
        words.append({"type": "string", "pattern": "^retry_[0-9]{1,3}_times?$", "description": times})
    mapping = {"type": "object", "additionalProperties": False, "properties": settings}
    absent: list[Schema] = [{"type": "null"}] if name == "on_state_inconsistency" else []
    said = hover.rule(Rulebook.model_fields[name].description or "", meanings, strategies, _default_of(name))
    return {"description": said, "anyOf": [*words, mapping, *absent]}


def _default_of(rule: str) -> str:
    """The strategy of a rule that is left out."""
    return str(Rulebook.model_fields[rule].default.strategy)


def _require(definitions: Mapping[str, Schema], models: Iterable[type[BaseModel]], tag: str) -> None:
    """pydantic holds the tag for optional, for it has a default; in a file it is what tells the models apart."""
    for definition in _tagged(definitions, models, tag):
        definition["properties"][tag].pop("default", None)
        definition["required"] = [tag, *definition.get("required", [])]


def _tagged(definitions: Mapping[str, Schema], models: Iterable[type[BaseModel]], tag: str) -> list[Schema]:
    """Those of the models. Found by their tags: an act and a fault may have one name, `Dialog`."""
    tags = {model.model_fields[tag].default for model in models}
    return [each for each in definitions.values() if each.get("properties", {}).get(tag, {}).get("const") in tags]


def _error_report() -> Schema:
    """Only what specs/003 3.1 requires is required."""
    schema = ErrorReport.model_json_schema()
    for definition in schema["$defs"].values():
        definition.pop("required", None)
    return schema


def _pruned(schema: Schema) -> Schema:
    """Without the definitions that nothing refers to any more."""
    definitions = schema["$defs"]
    used: set[str] = set()
    fresh = _mentioned({key: value for key, value in schema.items() if key != "$defs"})
    while fresh:
        used |= fresh
        fresh = set().union(*(_mentioned(definitions[name]) for name in fresh)) - used
    return {**schema, "$defs": {name: value for name, value in definitions.items() if name in used}}


def _mentioned(node: Any) -> set[str]:
    if isinstance(node, dict):
        here = {node["$ref"].rpartition("/")[2]} if isinstance(node.get("$ref"), str) else set()
        return here.union(*map(_mentioned, node.values()))
    return set().union(*map(_mentioned, node)) if isinstance(node, list) else set()
