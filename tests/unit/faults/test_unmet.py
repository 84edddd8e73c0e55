"""A fault that never struck says what was missing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.faults.injector import Triggers, why_unmet
from harness.spec.faults import Fault

FAULT: TypeAdapter[Any] = TypeAdapter(Fault)
CRASH = {"kind": "page_crash"}
RESET = {"kind": "reset", "url": "*"}


@pytest.mark.parametrize(
    ("fault", "seen", "words"),
    [
        ({**CRASH, "step": 3}, {}, "step 3 was never reached"),
        ({**RESET, "step": 3}, {}, "step 3 was never reached"),
        ({**CRASH, "act": "submit"}, {}, "no submit step began from step 0 on"),
        (RESET, {}, "no request matched its `url`"),
        (
            {**CRASH, "after": 9},
            {"early_or_late": 2},
            "all 2 of its occasions were before `after` or later than `until`",
        ),
        ({**CRASH, "nth": 3}, {"seen": 2}, "`nth` is 3, and it had only 2 occasions"),
        (
            {**CRASH, "probability": 0.1},
            {"seen": 4},
            "it had 4 occasions, and its `probability` of 0.1 chose none",
        ),
        (
            {**CRASH, "delay": 90},
            {"seen": 1, "struck": 1, "waits": True},
            "the task ended before its `delay` of 90 s was over",
        ),
        (
            {"kind": "missing", "selector": "#x"},
            {"seen": 1, "struck": 1},
            "its `selector` matched nothing on any page while the fault was active",
        ),
        (
            {"kind": "refuse", "host": "a.local", "seconds": 1},
            {"seen": 1, "struck": 1},
            "nothing connected to its `host` while the fault was active",
        ),
        ({"kind": "dns", "url": "*"}, {"struck": 1}, "no request matched its `url`"),
        ({"kind": "alert_on_load"}, {"struck": 1}, "no page was loaded while the fault was active"),
        ({"kind": "session_expired"}, {"struck": 1}, "there were no cookies to delete"),
        ({"kind": "storage_cleared"}, {"struck": 1}, "the open pages had stored nothing"),
        ({"kind": "popup"}, {"struck": 1}, "the page did not open it"),
        ({"kind": "model_cut"}, {}, "no model was asked"),
        ({"kind": "model_cut", "model": "claude"}, {}, "the model `claude` was not asked"),
        ({"kind": "tool_refused"}, {}, "no tool was called"),
        ({"kind": "tool_refused", "server": "mail"}, {}, "`mail` was not called"),
        ({"kind": "tool_refused", "tool": "get_*"}, {}, "`*.get_*` was not called"),
        (CRASH, {"struck": 1}, "its target did not exist or did not answer"),
    ],
)
def test_why(fault: dict[str, Any], seen: dict[str, Any], words: str) -> None:
    assert why_unmet(Triggers(FAULT.validate_python(fault), Random(1), **seen), reached=2) == words
