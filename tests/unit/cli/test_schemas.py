"""The schemas in `schemas/` are those of the models, and take documents that other tools write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.cli.schema import BASE, schemas
from harness.spec.load import find_tasks
from harness.spec.source import read_source
from harness.spec.validation import RULES
from tests.unit.spec.files import STEPS, problems, task, write

ROOT = Path(__file__).parents[3]
SCHEMAS = schemas()

CHECKOUT = {
    "#checkout-button": [
        "button[aria-label='Checkout']",
        ".checkout-btn",
        "//button[contains(text(),'Checkout')]",
    ]
}
RECOVERIES: dict[str, dict[str, Any]] = {
    "5.1": {
        "on_timeout": "capture_state_and_abort",
        "on_network_error": {"strategy": "retry", "max_retries": 3},
    },
    "5.2": {
        "on_network_error": {
            "strategy": "exponential_backoff",
            "max_retries": 3,
            "retry_delay_ms": 1000,
            "backoff_multiplier": 2.0,
        }
    },
    "5.3": {
        "on_assertion_fail": {
            "strategy": "retry_after_wait",
            "wait_before_retry_seconds": 5,
            "capture_screenshot": True,
            "capture_dom": True,
        }
    },
    "4.3": {
        "on_element_not_found": {
            "strategy": "try_fallback_selector",
            "wait_seconds": 10,
            "fallback_selectors": CHECKOUT,
        }
    },
    "defaults of 2.1": {
        "on_timeout": "capture_state_and_abort",
        "on_network_error": {"max_retries": 3, "retry_delay_ms": 1000, "backoff_multiplier": 2.0},
        "on_element_not_found": {"wait_seconds": 10, "fallback_selectors": {}},
        "on_assertion_fail": {
            "strategy": "save_trace_and_report",
            "capture_screenshot": True,
            "capture_dom": True,
            "capture_memory": True,
            "wait_before_retry_seconds": 5,
        },
        "on_precondition_fail": "abort_with_warning",
    },
    "shorthands": {"on_network_error": "retry_3_times", "on_element_not_found": "abort"},
}
WHOLE: dict[str, dict[str, Any]] = {
    "checkpoints": {"checkpoints": [0, 1, 2]},
    "fallback_plan": {
        "fallback_plan": {"enabled": True, "alternative_task_id": "B", "relaxed_success_criteria": ["url() == 'x'"]}
    },
    "state_bindings": {"state_bindings": {"card": {"channel": "env", "path": "bank.last4"}}},
    "state_bindings: short": {"state_bindings": {"card": "env.bank.last4"}},
    "repairs": {
        "preconditions": ["mem('a') == 1"],
        "error_recovery": {"on_precondition_fail": "attempt_repair"},
        "repairs": [{"precondition": "mem('a') == 1", "memory": {"a": 1}, "task": "LOGIN", "steps": STEPS}],
    },
    "budget": {"budget": {"max_steps": 9, "max_requests": 100, "max_seconds": 2.5, "max_retries": 0}},
    "rubrics": {"rubrics": {"SR": 1.0, "LH-F1": 0.5, "cost_efficiency": 1}},
    "scoring_checkpoints": {
        "scoring_checkpoints": [
            {"id": "a", "name": "Cart", "assertion": "mem('a') == 1", "weight": 2, "required": True},
            {"id": "b", "assertion": "mem('b') == 1", "depends_on": ["a"], "when": "mem('c') == 1"},
        ]
    },
    "parametrize: lists": {"goal": "${param.x}${param.y}", "parametrize": {"x": ["a", 1], "y": [None]}},
    "parametrize: cases": {"goal": "${param.x}", "parametrize": [{"id": "a", "x": 1}, {"x": {"deep": [1]}}]},
    **{
        act: {"steps": [{"act": act, **keys}]}
        for act, keys in {
            "hover": {"selector": "#a", "frame": "#b >>> #c"},
            "uncheck": {"selector": "#a", "force": True},
            "drag": {"selector": "#a", "value": "#b"},
            "switch_page": {"value": -1},
            "dialog": {"value": "accept", "text": "Ada", "message": {"matches": "^Who"}},
            "screenshot": {"screenshot_id": "cart"},
            "select": {"selector": "#a", "value": {"index": 1}},
        }.items()
    },
    **{f"{rule}={word}": {"error_recovery": {rule: word}} for rule, words in RULES.items() for word in words},
}
REPORT = {
    "task_id": "B1-2025-001-ERROR-TIMEOUT",
    "error_type": "timeout_step",
    "timestamp": "2025-11-16T09:00:32Z",
    "step_index": 4,
    "step": {"t": 32.5, "act": "wait", "selector": ".product-grid .product-item"},
    "error_message": "Step timeout: wait for .product-grid .product-item exceeded 30s",
    "context": {
        "url": "https://shop.local/search?q=wireless+mouse",
        "screenshot_id": "error_timeout_b1_step4.png",
        "dom_snapshot_id": "error_timeout_b1_step4.html",
        "browser_console_logs": ["[ERROR] Failed to fetch /api/search: net::ERR_CONNECTION_TIMED_OUT"],
    },
    "recovery_attempted": False,
    "final_state": "failed",
    "metrics": {"steps_completed": 4, "steps_total": 23, "time_elapsed_seconds": 32.5, "retries_count": 0},
}
TRACES: dict[str, dict[str, Any]] = {
    "5.1": {
        "steps": [
            {"t": 0, "url": "https://shop.local", "act": "open"},
            {"t": 1.5, "act": "type", "selector": "#search-box", "value": "wireless mouse"},
            {"t": 32.5, "act": "wait", "selector": ".product-item", "note": "TIMEOUT: not visible after 30 seconds"},
        ],
        "error": {"type": "timeout_step", "step_index": 4, "message": "Step timeout"},
    },
    "5.2": {
        "steps": [{"t": 0, "url": "https://bank.local/cards", "act": "open", "note": "ATTEMPT 1: FAILED"}],
        "warnings": [{"type": "network_error_recovered", "step_index": 0, "retries": 2, "message": "recovered"}],
    },
    "5.4": {
        "steps": [
            {"t": 53, "act": "click", "selector": "//td[@data-date='2025-12-01']", "note": "FALLBACK 2: SUCCESS"}
        ],
        "warnings": [{"type": "fallback_selector_used", "step_index": 38, "original_selector": ".calendar-date"}],
    },
}


def complaints(name: str, document: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMAS[name]).iter_errors(document)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_files_are_those_of_the_models(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == BASE + name
    written = json.loads((ROOT / "schemas" / name).read_text("utf-8"))
    assert written == SCHEMAS[name], "run `harness schema --write schemas`"


@pytest.mark.parametrize("example", RECOVERIES)
def test_the_examples_of_the_specification_are_valid_and_load(example: str, tmp_path: Path) -> None:
    document = task(error_recovery=RECOVERIES[example])
    assert complaints("task_spec.schema.json", document) == []
    assert problems(write(tmp_path, {**document, "... (other fields same as B1)": "..."})) == ()


def test_a_key_that_nobody_knows_is_marked_and_those_of_the_project_are_not() -> None:
    assert complaints("task_spec.schema.json", task(expect_timout=3))
    assert complaints("task_spec.schema.json", task(quarantine="x"))
    own = Draft202012Validator(schemas(["quarantine"])["task_spec.schema.json"])
    assert own.is_valid(task(quarantine="x"))
    assert not own.is_valid(task(quarantin="x"))


@pytest.mark.parametrize("name", ["task_spec", "step_group", "fault_plan", "evaluation_gate"])
def test_no_editor_is_led_to_null(name: str) -> None:
    """It would propose a default of null, and null itself wherever its type is named."""
    text = json.dumps(SCHEMAS[f"{name}.schema.json"])
    assert '"default": null' not in text
    assert '"type": "null"' not in text


def test_null_is_valid_where_it_may_stand() -> None:
    assert complaints("task_spec.schema.json", task(login=None, browser=None)) == []
    assert complaints("task_spec.schema.json", task(goal=None))


@pytest.mark.parametrize("example", WHOLE)
def test_every_part_and_strategy_is_valid_and_loads(example: str, tmp_path: Path) -> None:
    document = task(**WHOLE[example])
    assert complaints("task_spec.schema.json", document) == []
    assert problems(write(tmp_path, document)) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"timeout": 5},
        {"timeout": "300"},
        {"steps": [{"act": "clik", "selector": "a"}]},
        {"steps": [{"selector": "a"}]},
        {"steps": [{"act": "click", "selector": "a", "optinal": True}]},
        {"error_recovery": {"on_timeout": "abrt"}},
        {"error_recovery": {"on_network_error": {"max_retry": 1}}},
        {"error_recovery": {"on_tmeout": "abort"}},
        {"faults": [{"kind": "refus", "host": "a"}]},
        {"tags": ["_x"]},
        {"tags": ["a b"]},
        {"family": "a b"},
        {"steps": [{"act": "upload", "selector": "a", "value": "${memory.f}", "force": True}]},
        {"steps": [{"act": "submit", "selector": "a", "force": True}]},
        {"fallback_plan": {"enable": True}},
        {"budget": {"max_steps": 0}},
        {"scoring_checkpoints": [{"id": "a"}]},
        {"repairs": [{"precondition": 1, "memory": {"a": 1}}]},
        {"checkpoints": [-1]},
        {"state_bindings": {"card": {"channel": "env"}}},
        {"state_bindings": {"card": "env"}},
        {"state_bindings": {"card": "env."}},
        {"parametrize": "x"},
        {"parametrize": [1]},
    ],
)
def test_what_does_not_load_is_not_valid(fields: dict[str, Any], tmp_path: Path) -> None:
    assert complaints("task_spec.schema.json", task(**fields))
    assert problems(write(tmp_path, task(**fields)))


def test_the_shipped_tasks_are_valid() -> None:
    for path in find_tasks([ROOT / "tasks", ROOT / "examples"]):
        assert complaints("task_spec.schema.json", read_source(path).data) == [], path


def test_reports() -> None:
    assert complaints("error_report.schema.json", REPORT) == []
    assert complaints("error_report.schema.json", {**REPORT, "error_type": "timeout"})
    assert complaints("error_report.schema.json", {"task_id": "T-1"})


@pytest.mark.parametrize("example", TRACES)
def test_traces(example: str) -> None:
    assert complaints("trace.schema.json", TRACES[example]) == []


def test_a_trace_has_steps_and_a_step_an_act() -> None:
    assert complaints("trace.schema.json", {"task_id": "T-1"})
    assert complaints("trace.schema.json", {"steps": [{"t": 1}]})
    assert complaints("trace.schema.json", {"task_id": "T-1", "steps": STEPS, "recorded_by": "us"}) == []


def test_memory_entries() -> None:
    entry = {"key": "a", "value": [1], "ts": "2025-11-16T09:00:23Z", "source": "T-1", "confidence": 0.5}
    assert complaints("memory_kv.schema.json", entry) == []
    assert complaints("memory_kv.schema.json", {**entry, "confidence": 1.5})
    assert complaints("memory_kv.schema.json", {"key": "a"})
