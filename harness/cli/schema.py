"""`harness schema`: the JSON Schemas of the files that are read and written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from harness.bridge.messages import message_schema
from harness.cli.ending import fail
from harness.cli.project import settings_at
from harness.model.evaluation import Evaluation
from harness.model.report import ErrorReport
from harness.recovery import Rulebook
from harness.runner.campaign.document import Campaign
from harness.spec.documents import MemoryKV, Trace
from harness.spec.evaluation_gate import EvaluationGate
from harness.spec.fault_plan import FaultPlan
from harness.spec.file_names import HOOKS, SHORT_ACTS
from harness.spec.problems import did_you_mean
from harness.spec.short_forms import KEYS, PAIRS
from harness.spec.step_groups import SAMPLES, StepGroup, Use
from harness.spec.task import TaskSpec
from harness.spec.validation import ACTS, FAULTS, RULES

_VALUES: Mapping[str, Mapping[str, str]] = {
    "button": {
        "left": "The usual button.",
        "right": "The button that opens a context menu.",
        "middle": "The wheel.",
    },
    "state": {
        "load": "Everything is there, the pictures too.",
        "domcontentloaded": "The document is there.",
        "networkidle": "No request has been under way for half a second.",
    },
    "modifiers": {
        "Alt": "The Alt key, Option on macOS.",
        "Control": "The Control key.",
        "ControlOrMeta": "Control, on macOS Command.",
        "Meta": "The Windows key, Command on macOS.",
        "Shift": "The Shift key.",
    },
    "platform": {
        "linux": "The task runs on Linux.",
        "darwin": "The task runs on macOS.",
        "win32": "The task runs on Windows, of 32 or 64 bits.",
    },
    "method": {
        "GET": "Reads a resource.",
        "HEAD": "Reads the headers of a resource, without its body.",
        "POST": "Sends data, usually to create something; counts as a write.",
        "PUT": "Replaces a resource; counts as a write.",
        "PATCH": "Changes parts of a resource; counts as a write.",
        "DELETE": "Removes a resource; counts as a write.",
        "OPTIONS": "Asks what a resource allows.",
    },
    "missing": {
        "fail": "The request fails in the page, and the step fails with `ROUTE_UNANSWERED`.",
        "pass": "The request is sent to its site.",
    },
    "value": {
        "accept": "Press OK in the browser's dialog; a prompt gets the `text` of the step.",
        "dismiss": "Press Cancel in the browser's dialog.",
    },
    "effect": {
        "read": "The step only looks; it may be repeated at any time.",
        "idempotent": "The step may be repeated: twice has the same result as once.",
        "write": "The step changes something that must not happen twice; `done_when` decides before it is repeated.",
    },
    "capture": {
        "all": "A failure keeps everything that the strategy takes: screenshot, DOM, logs, memory and environment.",
        "none": "A failure keeps the report and the steps only.",
    },
    "timeout_profile": {
        "simple": "300 seconds for the task, 30 for one attempt of a step.",
        "medium": "450 seconds for the task, 45 for one attempt of a step.",
        "complex": "600 seconds for the task, 60 for one attempt of a step.",
    },
    "final_state": {
        "completed": "All steps were done and all success criteria hold.",
        "partial_success": "The criteria hold, but a step was skipped, criteria were relaxed, or an alternative ran.",
        "failed": "The task failed although its rules were applied.",
        "aborted": "The task was stopped by an `abort` strategy, a precondition, a policy, a budget or an interrupt.",
    },
    "error_type": {
        "timeout_task": "The whole task took longer than `timeout`.",
        "timeout_step": "One attempt of a step took longer than `step_timeout`.",
        "network_dns_failure": "The name of a host could not be resolved.",
        "network_connection_refused": "Nothing accepts connections at the host's port.",
        "network_timeout": "A host did not answer in time.",
        "element_not_found": "No element matches the step's selector.",
        "selector_ambiguous": "Several elements match a selector where one is needed.",
        "action_failed": "The element is there, but the act on it failed: covered, disabled, no such option.",
        "assertion_failed": "An `assert` step or a success criterion does not hold.",
        "precondition_not_met": "A precondition does not hold before the first step.",
        "state_inconsistency": "Memory and environment have different values in one of `state_bindings`.",
        "authentication_failed": "A login was refused, or the site answered 401 or 403.",
        "budget_exceeded": "The task used more than its `budget` allows.",
        "unknown": "Any other failure; the `code` in the report is more precise.",
    },
    "error": {
        "access_denied": "Chromium's `net::ERR_ACCESS_DENIED`.",
        "address_unreachable": "Chromium's `net::ERR_ADDRESS_UNREACHABLE`: there is no route to the host.",
        "blocked_by_client": "Chromium's `net::ERR_BLOCKED_BY_CLIENT`, as an ad blocker causes it.",
        "blocked_by_response": "Chromium's `net::ERR_BLOCKED_BY_RESPONSE`: a header of the answer forbids its use.",
        "connection_aborted": "Chromium's `net::ERR_CONNECTION_ABORTED`.",
        "connection_closed": "Chromium's `net::ERR_CONNECTION_CLOSED`: the server closed before it answered.",
        "connection_failed": "Chromium's `net::ERR_CONNECTION_FAILED`.",
        "connection_refused": "Chromium's `net::ERR_CONNECTION_REFUSED`: nothing listens on the port.",
        "connection_reset": "Chromium's `net::ERR_CONNECTION_RESET`: the server reset the connection.",
        "failed": "Chromium's `net::ERR_FAILED`, without a further reason.",
        "timed_out": "Chromium's `net::ERR_TIMED_OUT`.",
    },
    "status": {"ok": "The tool must answer with a result.", "error": "The tool must answer that it failed."},
    "until": {
        "load": "Everything of the page is there, its pictures too (the load event).",
        "domcontentloaded": "The document is there; pictures and other parts may still be missing.",
        "commit": "The document begins to arrive.",
    },
    "impact": {
        "minor": "Any violation fails the step.",
        "moderate": "Violations that are at least moderate fail the step.",
        "serious": "Violations that are at least serious fail the step.",
        "critical": "Only critical violations fail the step.",
    },
    "color_scheme": {
        "light": "Pages see that a light theme is wanted.",
        "dark": "Pages see that a dark theme is wanted.",
        "no-preference": "Pages see no wish.",
    },
    "reduced_motion": {"reduce": "Pages see that less motion is wanted.", "no-preference": "Pages see no wish."},
    "service_workers": {
        "allow": "Pages may register service workers.",
        "block": "Pages may not register service workers.",
    },
    "send": {
        "always": "`api` steps send them with each request.",
        "unauthorized": "`api` steps send them after an answer 401.",
    },
    "problem": {
        "untrusted": "The server shows a certificate that nobody trusts.",
        "protocol": "The server answers with something that is not TLS.",
    },
    "type": {
        "alert": "A message with OK only.",
        "confirm": "A question with OK and Cancel.",
        "prompt": "A question with a text field.",
        "beforeunload": "A question whether to leave the page.",
    },
}
"""Key -> the meaning of each of its values."""

_STRATEGY = "What is done about the failure. The settings beside it are those of this strategy."
_ACT = "What the step does."
_KIND = "What goes wrong."
_TASK = "A browser task: its goal, steps and success criteria, and what is done when something fails."
_ERROR_TYPE = "The type of a failure; `harness explain` lists the more precise codes."
_SCHEMA = "The JSON Schema that editors check this file with; a run ignores it."
_OWN_KEY = "A key of this project: [tool.harness.extra_keys] says what it means."
_REFERENCE = re.compile(r" \(docs/(?:design|decisions)/[^)]*\)")

_Schema = dict[str, Any]

_ONLY_NULL: _Schema = {"not": {"type": ["string", "number", "boolean", "object", "array"]}}
"""Null, in words from which no editor makes a proposal: a key that is left empty is not finished."""


def _without_proposed_null(node: Any) -> Any:
    """The schema with a reference to `Null` wherever null is allowed."""
    match node:
        case list():
            return [_without_proposed_null(each) for each in node]
        case {"type": "null"}:
            return {"$ref": "#/$defs/Null"}
        case dict():
            return {key: _without_proposed_null(value) for key, value in node.items()}
        case _:
            return node


def for_readers(node: Any) -> Any:
    """The schema without what editors should not show: pydantic's titles and references to documents."""
    match node:
        case list():
            return [for_readers(each) for each in node]
        case dict():
            return {key: _read(key, value) for key, value in node.items() if not _unread(key, value)}
        case _:
            return node


def _unread(key: str, value: Any) -> bool:
    """Return whether a keyword helps no reader: pydantic's title, or a default of null, which editors would write."""
    return (key == "title" and not isinstance(value, dict)) or (key == "default" and value is None)


def _read(key: str, value: Any) -> Any:
    """The value of one keyword of a schema. Below `properties` and `$defs`, `title` may be a name."""
    if key == "description" and isinstance(value, str):
        return _REFERENCE.sub("", value)
    if key in ("properties", "$defs"):
        return {name: for_readers(each) for name, each in value.items()}
    return for_readers(value)


def _describe_values(schema: _Schema) -> None:
    """Add a description to every enumerated value of a schema, in place. Raises KeyError for a value without one."""
    for definition in (schema, *schema.get("$defs", {}).values()):
        for name, each in definition.get("properties", {}).items():
            for enum in _enums(each):
                if "enumDescriptions" not in enum:
                    enum["enumDescriptions"] = [_VALUES[name][value] for value in enum["enum"]]
    if found := schema.get("$defs", {}).get("ErrorType"):
        found["enumDescriptions"] = [_VALUES["error_type"][value] for value in found["enum"]]
        found["description"] = _ERROR_TYPE


def _enums(schema: _Schema) -> Iterator[_Schema]:
    """The enumerations of one key: its own, those of its alternatives, and of a list or mapping that it holds."""
    if "enum" in schema:
        yield schema
    for each in (*schema.get("anyOf", ()), schema.get("items")):
        if isinstance(each, dict) and "properties" not in each:
            yield from _enums(each)


def _describe_tags(definitions: Mapping[str, _Schema], tag: str, text: str) -> None:
    """Describe each `act` and `kind` in place by the sentence of the act or the kind that it chooses."""
    for definition in definitions.values():
        property_ = definition.get("properties", {}).get(tag, {})
        if "const" in property_:
            property_["description"] = f"{text} `{property_['const']}`: {_first_line(definition)}"


def _describe_rule(answers: str, meanings: Iterable[str], strategies: Iterable[str], default: str) -> str:
    """The description of a rule for editors: when it answers, then a line for each strategy."""
    lines = (
        f"`{name}`{' (the default)' if name == default else ''}: {meaning}"
        for name, meaning in zip(strategies, meanings, strict=True)
    )
    return "\n".join((answers, *lines))


def _first_line(definition: _Schema) -> str:
    """The first sentence of the model's docstring."""
    return str(definition["description"]).partition("\n")[0]


# JSON Schemas, generated from the models; `schemas/` holds them as files (a test compares).

BASE = "https://pytest-taskspec.dev/schemas/"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SEE = "Assert that a text, or an element, is shown."
_SHORT_BINDING: _Schema = {"type": "string", "pattern": r"^[^.]+\.."}
"""`env.shop.cart` in place of `{channel: env, path: shop.cart}`."""

_SHORT_WRITE: _Schema = {"type": "string", "minLength": 1}
"""`POST http://shop.local/cart` in place of `{method: POST, url: http://shop.local/cart}`."""


def schemas(own_keys: Iterable[str] = ()) -> dict[str, _Schema]:
    """File name -> schema. `own_keys`: the keys that the project defines for its task files."""
    return {
        name: {"$schema": _DIALECT, "$id": BASE + name, **for_readers(document)}
        for name, document in {
            "task_spec.schema.json": _task_spec(own_keys),
            "error_report.schema.json": _error_report(),
            "trace.schema.json": Trace.model_json_schema(),
            "memory_kv.schema.json": MemoryKV.model_json_schema(),
            "step_group.schema.json": _step_group(),
            "fault_plan.schema.json": _fault_plan(),
            "campaign.schema.json": Campaign.model_json_schema(mode="serialization"),
            "evaluation.schema.json": Evaluation.model_json_schema(mode="serialization"),
            "evaluation_gate.schema.json": _for_editors(EvaluationGate),
            "trajectory.schema.json": _trajectory(),
            "bridge.schema.json": message_schema(),
        }.items()
    }


def _task_spec(own_keys: Iterable[str]) -> _Schema:
    """The schema of task files, with shorthands, settings of any strategy, and the project's own keys.

    A key that nobody knows is not valid: a run only warns of it, unless it is surely misspelt.
    """
    schema = {**_for_editors(TaskSpec), "description": _TASK, "additionalProperties": False}
    schema["properties"] |= {key: {"description": _OWN_KEY} for key in own_keys}
    bindings = schema["properties"]["state_bindings"]
    bindings["additionalProperties"] = {"anyOf": [_SHORT_BINDING, bindings["additionalProperties"]]}
    writes = schema["properties"]["allowed_writes"]
    writes["items"] = {"anyOf": [_SHORT_WRITE, writes["items"]]}
    definitions: dict[str, _Schema] = schema["$defs"]
    definitions["Use"] = _without_proposed_null(Use.model_json_schema())
    definitions["ShortStep"] = {}
    for around in (schema, definitions["Repair"], definitions["Handler"]):
        around["properties"]["steps"]["items"]["oneOf"] += [{"$ref": "#/$defs/Use"}, {"$ref": "#/$defs/ShortStep"}]
    for hook in HOOKS:
        uses = [{"$ref": "#/$defs/Use"}, {"$ref": "#/$defs/ShortStep"}, {"type": "string"}]
        schema["properties"][hook]["items"]["oneOf"] += uses
    schema["required"] = [key for key in schema["required"] if key != "task_id"]  # else it is the name of the file
    for rule, strategies in RULES.items():
        definitions["Rulebook"]["properties"][rule] = _rule(rule, strategies, definitions)
    for models, tag in ((ACTS.values(), "act"), (FAULTS.values(), "kind")):
        _require(definitions, models, tag)
    described = _with_descriptions(_without_unused_definitions(schema))
    described["$defs"]["ShortStep"] = _short_step(described["$defs"])
    return described


def _short_step(definitions: Mapping[str, _Schema]) -> _Schema:
    """The schema of a step whose first key is its act. Which keys go with which act is checked at loading only."""
    models = {name: definitions[model.__name__] for name, model in ACTS.items()}
    keys = {
        key: {"$ref": f"#/$defs/{ACTS[act].__name__}/properties/{key}", "description": each["description"]}
        for act, model in models.items()
        for key, each in model["properties"].items()
        if key != "act"
    }
    number, pairs = {"type": "number"}, {"type": "object", "minProperties": 1}
    selector = {"$ref": "#/$defs/Selector"}
    values: dict[str, _Schema] = {
        **{act: {"$ref": f"#/$defs/{ACTS[act].__name__}/properties/{key}"} for act, key in KEYS.items()},
        **dict.fromkeys(PAIRS, pairs),
        "drag": {"anyOf": [{"type": "string"}, pairs]},
        "scroll": _without_proposed_null({"anyOf": [selector, number, {"type": "null"}]}),
        "wait": {"anyOf": [selector, number, pairs]},
        "set": pairs,
        "assert": {"anyOf": [{"type": "string"}, pairs]},
        "see": selector,
        "tool": {"type": "string"},
        **{act: _without_proposed_null({"type": "null"}) for act in ("accessibility", "back", "forward", "reload")},
    }
    acts = {
        act: {**value, "description": _first_line(models[act]) if act in models else _SEE}
        for act, value in values.items()
    }
    return {
        "type": "object",
        "description": "A step in the short form: its first key is its act.",
        "properties": {**keys, **acts},
        "additionalProperties": False,
        "anyOf": [{"required": [act]} for act in acts],
    }


def _step_group() -> _Schema:
    """The schema of step groups. Their steps may have `${with.x}` everywhere, so only the acts are known."""
    schema = _for_editors(StepGroup)
    step = {"type": "object", "required": ["act"], "properties": {"act": {"enum": list(ACTS), "description": _ACT}}}
    schema["$defs"]["Use"] = _without_proposed_null(Use.model_json_schema())
    short = {"type": "object", "anyOf": [{"required": [act]} for act in sorted(SHORT_ACTS)]}
    schema["properties"]["steps"]["items"] = {"anyOf": [{"$ref": "#/$defs/Use"}, step, short]}
    words = {name: f"A value of this type: {each!r}." for name, each in SAMPLES.items()}
    schema["$defs"]["Parameter"]["properties"]["type"]["enumDescriptions"] = list(words.values())
    return schema


def _fault_plan() -> _Schema:
    """The schema of fault plans: the keys of a fault are beside `tasks`, which may be a single id."""
    schema = _for_editors(FaultPlan)
    definitions: dict[str, _Schema] = schema["$defs"]
    _require(definitions, FAULTS.values(), "kind")
    planned = definitions["PlannedFault"]["properties"]
    several = {key: planned["tasks"][key] for key in ("type", "items", "minItems")}
    description = planned["tasks"]["description"]
    definitions["Tasks"] = {"anyOf": [{"type": "string"}, several], "default": "*", "description": description}
    for definition in _tagged(definitions, FAULTS.values(), "kind"):
        tasks = {"$ref": "#/$defs/Tasks", "description": description}
        definition["properties"] = {"tasks": tasks, **definition["properties"]}
    schema["properties"]["faults"]["items"] = planned["fault"]
    return _with_descriptions(_without_unused_definitions(schema))


def _for_editors(model: type[BaseModel]) -> _Schema:
    """The schema of a file that editors check: it may name its schema."""
    schema: _Schema = _without_proposed_null(model.model_json_schema())
    schema.setdefault("$defs", {})["Null"] = _ONLY_NULL
    schema["properties"] = {"$schema": {"type": "string", "description": _SCHEMA}, **schema["properties"]}
    return schema


def _with_descriptions(schema: _Schema) -> _Schema:
    _describe_tags(schema["$defs"], "act", _ACT)
    _describe_tags(schema["$defs"], "kind", _KIND)
    _describe_values(schema)
    return schema


def _rule(name: str, strategies: Mapping[str, type[BaseModel]], definitions: Mapping[str, _Schema]) -> _Schema:
    """The schema of a rule: a strategy's name alone, or an object with the settings of all strategies."""
    settings: _Schema = {}
    for model in strategies.values():
        settings = {**definitions[model.__name__]["properties"], **settings}
    meanings = [_first_line(definitions[model.__name__]) for model in strategies.values()]
    enum: _Schema = {"type": "string", "enum": list(strategies), "enumDescriptions": meanings}
    settings["strategy"] = {**enum, "description": _STRATEGY}
    if "capture" in settings:
        _describe_values({"properties": {"capture": settings["capture"]}})
    words: list[_Schema] = [enum]
    if name == "on_network_error":
        times = "Retry this number of times, as in `retry_3_times`."
        words.append({"type": "string", "pattern": "^retry_[0-9]{1,3}_times?$", "description": times})
    mapping = {"type": "object", "additionalProperties": False, "properties": settings}
    absent: list[_Schema] = [{"$ref": "#/$defs/Null"}] if name == "on_state_inconsistency" else []
    field = Rulebook.model_fields[name]
    said = _describe_rule(field.description or "", meanings, strategies, str(field.default.strategy))
    return {"description": said, "anyOf": [*words, mapping, *absent]}


def _require(definitions: Mapping[str, _Schema], models: Iterable[type[BaseModel]], tag: str) -> None:
    """Require the tag, which pydantic takes for optional because it has a default: in a file it selects the model."""
    for definition in _tagged(definitions, models, tag):
        definition["properties"][tag].pop("default", None)
        definition["required"] = [tag, *definition.get("required", [])]


def _tagged(definitions: Mapping[str, _Schema], models: Iterable[type[BaseModel]], tag: str) -> list[_Schema]:
    """The definitions of the models, found by their tags, since an act and a fault may both be called `Dialog`."""
    tags = {model.model_fields[tag].default for model in models}
    return [each for each in definitions.values() if each.get("properties", {}).get(tag, {}).get("const") in tags]


def _error_report() -> _Schema:
    """The schema of error reports; it requires only what every report has."""
    schema = ErrorReport.model_json_schema()
    for definition in schema["$defs"].values():
        definition.pop("required", None)
    return schema


def _trajectory() -> _Schema:
    import msgspec

    from harness.model.trajectory import TrajectoryLine

    schema: _Schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(TrajectoryLine)))  # () becomes []
    described = "A line of trajectory.jsonl: the task, or a choice of an agent, which may have led to a step."
    return {"title": "Trajectory", "description": described, **schema}


def _without_unused_definitions(schema: _Schema) -> _Schema:
    definitions = schema["$defs"]
    used: set[str] = set()
    fresh = _referenced_definitions({key: value for key, value in schema.items() if key != "$defs"})
    while fresh:
        used |= fresh
        fresh = set().union(*(_referenced_definitions(definitions[name]) for name in fresh)) - used
    return {**schema, "$defs": {name: value for name, value in definitions.items() if name in used}}


def _referenced_definitions(node: Any) -> set[str]:
    if isinstance(node, dict):
        here = {node["$ref"].rpartition("/")[2]} if isinstance(node.get("$ref"), str) else set()
        return here.union(*map(_referenced_definitions, node.values()))
    return set().union(*map(_referenced_definitions, node)) if isinstance(node, list) else set()


_SUFFIX = ".schema.json"


def schema(
    which: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The schema to print. Default: task_spec.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The same as NAME.")] = None,
    names: Annotated[bool, typer.Option("--list", help="List the names of the schemas.")] = False,
    write: Annotated[Path | None, typer.Option(help="Write all schemas into this folder.")] = None,
) -> None:
    """Print a JSON Schema, list their names, or write all of them.

    Example: harness schema error_report > error_report.schema.json
    """
    documents = schemas(_own_keys())
    if names:
        typer.echo("\n".join(documents))
    elif write is not None:
        write.mkdir(parents=True, exist_ok=True)
        for file, document in documents.items():
            (write / file).write_text(_text(document), "utf-8")
            typer.echo(str(write / file))
    else:
        typer.echo(_text(documents[_schema_file(which or name or "task_spec", list(documents))]), nl=False)


def _own_keys() -> Iterable[str]:
    """The project's own keys; none outside of a project, or while its settings cannot be read."""
    from harness.model.settings_errors import SettingsError

    try:
        return settings_at(Path.cwd()).extra_keys
    except SettingsError:
        return ()


def _schema_file(name: str, known: list[str]) -> str:
    """The file name of a schema: `task_spec` means `task_spec.schema.json`."""
    for file in (name, name + _SUFFIX):
        if file in known:
            return file
    short = [each.removesuffix(_SUFFIX) for each in known]
    meant = did_you_mean(name.removesuffix(_SUFFIX), short)
    fail(f"no schema {name!r}; {meant or 'there are: ' + ', '.join(short)}")


def _text(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
