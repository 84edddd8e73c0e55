"""What editors show for the words of a file: descriptions of tags, rules, strategies and enumerated values.

Editors (the YAML language server, VS Code) take them from `description` and `enumDescriptions` of a JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

VALUES: Mapping[str, Mapping[str, str]] = {
    "method": {
        "GET": "Reads a resource.",
        "HEAD": "Reads the headers of a resource, without its body.",
        "POST": "Sends data, usually to create something; counts as a write.",
        "PUT": "Replaces a resource; counts as a write.",
        "PATCH": "Changes parts of a resource; counts as a write.",
        "DELETE": "Removes a resource; counts as a write.",
    },
    "value": {
        "accept": "Press OK in the browser's dialog; a prompt gets the step's `text`.",
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
        "partial_success": "The criteria hold, but a step was skipped, criteria were relaxed or an alternative ran.",
        "failed": "The task failed, and what its rules declare did not help.",
        "aborted": "The task was ended: by an `abort` strategy, a precondition, a policy, a budget or an interrupt.",
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
        "unknown": "Any other failure; the finer `code` in the report says which.",
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
        "connection_reset": "Chromium's `net::ERR_CONNECTION_RESET`: the server broke the connection off.",
        "failed": "Chromium's `net::ERR_FAILED`, without a further reason.",
        "timed_out": "Chromium's `net::ERR_TIMED_OUT`.",
    },
    "problem": {
        "untrusted": "The server shows a certificate that nobody trusts.",
        "protocol": "The server answers with something that is not TLS.",
    },
    "type": {
        "alert": "A message with OK only.",
        "confirm": "A question with OK and Cancel.",
        "prompt": "A question with a text field.",
        "beforeunload": "The question whether to leave the page.",
    },
}
"""Key -> what each of its values means."""

STRATEGY = "What is done about the failure. The settings beside it are those of this strategy."
ACT = "What the step does."
KIND = "What goes wrong."
TASK = "A browser task: its goal, steps and success criteria, and what is done when something fails."
ERROR_TYPE = "The kind of a failure; `harness explain` knows the finer codes."
SCHEMA = "The JSON Schema that editors check this file with; a run ignores it."
_REFERENCE = re.compile(r" \((?:DESIGN|specs/)[^)]*\)")

Schema = dict[str, Any]


def for_readers(node: Any) -> Any:
    """Without what editors would show to nobody's use: titles that pydantic makes of names, references to documents."""
    match node:
        case list():
            return [for_readers(each) for each in node]
        case dict():
            return {key: _read(key, value) for key, value in node.items() if key != "title" or isinstance(value, dict)}
        case _:
            return node


def _read(key: str, value: Any) -> Any:
    """Of one keyword of a schema. Where names of keys and models stand, a key may be called `title`."""
    if key == "description" and isinstance(value, str):
        return _REFERENCE.sub("", value)
    if key in ("properties", "$defs"):
        return {name: for_readers(each) for name, each in value.items()}
    return for_readers(value)


def describe_values(schema: Schema) -> None:
    """Give every enumerated value of a schema its description, in place. KeyError for a value that has none."""
    for definition in (schema, *schema.get("$defs", {}).values()):
        for name, each in definition.get("properties", {}).items():
            for enum in _enums(each):
                if "enumDescriptions" not in enum:
                    enum["enumDescriptions"] = [VALUES[name][value] for value in enum["enum"]]
    if found := schema.get("$defs", {}).get("ErrorType"):
        found["enumDescriptions"] = [VALUES["error_type"][value] for value in found["enum"]]
        found["description"] = ERROR_TYPE


def _enums(schema: Schema) -> Iterator[Schema]:
    """Those of one key: itself, its alternatives, what a list or a mapping of it holds, keys of a mapping excepted."""
    if "enum" in schema:
        yield schema
    for each in (*schema.get("anyOf", ()), schema.get("items")):
        if isinstance(each, dict) and "properties" not in each:
            yield from _enums(each)


def describe_tags(definitions: Mapping[str, Schema], tag: str, text: str) -> None:
    """Give `act` and `kind` the sentence of the act or the kind that they choose, in place."""
    for definition in definitions.values():
        property_ = definition.get("properties", {}).get(tag, {})
        if "const" in property_:
            property_["description"] = f"{text} `{property_['const']}`: {first_line(definition)}"


def rule(answers: str, meanings: Iterable[str], strategies: Iterable[str], default: str) -> str:
    """What editors show for a rule: when it answers, then a line for each strategy."""
    lines = (
        f"`{name}`{' (the default)' if name == default else ''}: {meaning}"
        for name, meaning in zip(strategies, meanings, strict=True)
    )
    return "\n".join((answers, *lines))


def first_line(definition: Schema) -> str:
    """The sentence with which the model's docstring begins."""
    return str(definition["description"]).partition("\n")[0]
