"""The task's rules as this run has them: `--task-no-recovery`, `--task-no-heal`, `--task-timeout-scale`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.model.settings import Settings
from harness.recovery import NoRecovery, Rulebook

OFF = ("false", "0", "no", "off")


def rulebook(rules: Rulebook, settings: Settings, environ: Mapping[str, str], text: Callable[[str], str]) -> Rulebook:
    """`text` fills in references."""
    rule: Any = rules.on_element_not_found
    if hasattr(rule, "fallback_selectors"):
        changed = _element_rule(rule, settings, text)
        rules = rules.model_copy(update={"on_element_not_found": rule.model_copy(update=changed)})
    if recovers(settings, environ):
        return rules
    return NoRecovery.model_construct(rules.model_fields_set, **dict(rules))


def recovers(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether anything is tried again: neither `--task-no-recovery` nor RESILIENCE_ENABLED=false (specs/004, FAQ)."""
    return settings.recovery and environ.get("RESILIENCE_ENABLED", "true").lower() not in OFF


def _element_rule(rule: Any, settings: Settings, text: Callable[[str], str]) -> dict[str, Any]:
    scale = settings.timeout_scale
    selectors = rule.fallback_selectors if settings.heal else {}
    return {
        "wait_seconds": rule.wait_seconds * scale,
        "fallback_wait_seconds": rule.fallback_wait_seconds * scale,
        "fallback_selectors": {text(key): tuple(text(each) for each in others) for key, others in selectors.items()},
    }
