"""The schemas in `schemas/` are those of the models, and take what specs/003 prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.schemas import BASE, schemas
from harness.spec.load import find_tasks
from harness.spec.source import read_source
from tests.unit.spec.files import STEPS, problems, task, write

ROOT = Path(__file__).parents[2]
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
LATER: dict[str, dict[str, Any]] = {
    "checkpoints": {"checkpoints": [0, 10, 20]},
    "fallback_plan": {
        "fallback_plan": {"enabled": True, "alternative_task_id": "B", "relaxed_success_criteria": ["url() == 'x'"]}
    },
    **{
        f"{rule}={word}": {"error_recovery": {rule: word}}
        for rule, words in {
            "on_timeout": ("retry_from_checkpoint", "skip_step"),
            "on_precondition_fail": ("attempt_repair", "skip_task"),
            "on_state_inconsistency": ("trust_env", "trust_memory", "manual_resolution", "abort"),
        }.items()
        for word in words
    },
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
    document = task(error_recovery=RECOVERIES[example], **{"... (other fields same as B1)": "..."})
    assert complaints("task_spec.schema.json", document) == []
    assert problems(write(tmp_path, document)) == ()


@pytest.mark.parametrize("example", LATER)
def test_what_comes_later_is_valid_and_refused_in_clear_words(example: str, tmp_path: Path) -> None:
    document = task(**LATER[example])
    assert complaints("task_spec.schema.json", document) == []
    assert "is not available in this version" in str(problems(write(tmp_path, document))[0])


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
