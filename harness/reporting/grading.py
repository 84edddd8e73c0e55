"""What `harness regrade` needs beside the snapshots: the criteria that ran, and the page as they saw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, timedelta
from pathlib import Path

from harness.criteria import Criterion
from harness.model.plan import Plan
from harness.model.ports import Evidence, Json
from harness.model.record import TaskResult
from harness.recovery.failure import Failed
from harness.reporting.files import write_json
from harness.reporting.redaction import MARK, Redactor, is_secret_name
from harness.spec.references import BadReferenceError, MissingMemory, ReferenceScope, interpolate_criterion

PAGE_STATE = "page_state.json"
UNMET = "CRITERIA_UNMET"
_NAMING = ("id", "name", "autocomplete")


def grading(folder: Path, plan: Plan, result: TaskResult, evidence: Evidence, redactor: Redactor) -> dict[str, Json]:
    """The part of the manifest that regrading reads. Writes `page_state.json` when the page could be asked."""
    page = evidence.extra.get("page", "there was no page")
    if isinstance(page, dict):
        write_json(folder / PAGE_STATE, _redacted(page, redactor))
    now = (plan.start or result.started) + timedelta(seconds=result.elapsed)
    spec = plan.spec
    return {
        "world_time": now.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "url": evidence.url,
        "page": PAGE_STATE if isinstance(page, dict) else page,
        "success_criteria": list(_outcomes(spec.success_criteria, plan.success_criteria, result)),
        "relaxed_success_criteria": [{"text": text} for text in spec.fallback_plan.relaxed_success_criteria],
        "score": None if result.score is None else result.score.total,
        "attempts": _attempts(plan, result),
        "alternative": result.alternative.task_id if result.alternative else None,
    }


def _outcomes(texts: Sequence[str], ready: Sequence[Criterion], result: TaskResult) -> Iterator[dict[str, Json]]:
    """Each criterion as the file has it, and what became of it; `held` is null for one that was never reached."""
    unmet = _unmet(result)
    for place, text in enumerate(texts):
        as_judged = _resolved(str(ready[place]), result) if place < len(ready) else text
        yield {"text": text, "held": None if unmet is None else as_judged not in unmet}


def _unmet(result: TaskResult) -> frozenset[str] | None:
    """The criteria that did not hold; None when that is not known of each."""
    if result.failure is None:
        made_up = result.alternative or any(warning.type == "criteria_relaxed" for warning in result.warnings)
        return None if made_up else frozenset()
    if result.failure.code != UNMET:
        return None
    details = result.failure.details
    return frozenset(map(str, details.get("unmet_criteria") or [details.get("criterion")]))


def _resolved(text: str, result: TaskResult) -> str:
    try:
        return interpolate_criterion(text, ReferenceScope(memory=result.memory))
    except (BadReferenceError, MissingMemory, Failed):
        return text


def _attempts(plan: Plan, result: TaskResult) -> dict[str, int]:
    """What the metrics of `rubrics` count."""
    planned = len(plan.steps) or result.steps_total
    made = [each.passed for record in result.history for each in record.attempts if 0 <= record.index < planned]
    return {"planned": planned, "made": len(made), "passed": sum(made)}


def _redacted(page: dict[str, Json], redactor: Redactor) -> Json:
    """Without secrets, and without what stands in fields that are for secrets."""
    nodes = [_masked(node) if len(node) == 4 else node for node in page["nodes"]]
    return redactor.strings({**page, "nodes": nodes})


def _masked(node: list[Json]) -> list[Json]:
    parent, name, attributes, facts = node
    secret = str(attributes.get("type", "")).lower() == "password" or any(
        is_secret_name(str(attributes.get(naming, ""))) for naming in _NAMING
    )
    if name not in ("input", "textarea") or not secret:
        return node
    hidden, shown = ({"value": MARK} if each.get("value") else {} for each in (attributes, facts))
    return [parent, name, {**attributes, **hidden}, {**facts, **shown}]
