"""Records for `harness regrade`, in addition to the snapshots: the criteria that ran, and the page as they read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, timedelta
from pathlib import Path

from harness.criteria import Criterion
from harness.masking import MARK
from harness.model.outcome import attempts_of
from harness.model.plan import Plan
from harness.model.ports import Evidence, Json
from harness.model.record import TaskResult
from harness.recovery.failure import Failed
from harness.reporting.files import write_json
from harness.reporting.redaction import Redactor
from harness.spec.references import BadReferenceError, MissingMemory, ReferenceScope, interpolate_criterion
from harness.task_secrets import is_secret_name

PAGE_STATE = "page_state.json"
UNMET = "CRITERIA_UNMET"


def grading(folder: Path, plan: Plan, result: TaskResult, evidence: Evidence, redactor: Redactor) -> dict[str, Json]:
    """The part of the manifest that regrading reads. Writes `page_state.json` if the page answered."""
    page, planned = evidence.page, len(plan.steps) or result.steps_total
    if isinstance(page, Mapping):
        write_json(folder / PAGE_STATE, _redacted(page, redactor))
    now = (plan.start or result.started) + timedelta(seconds=result.elapsed)
    spec = plan.spec
    return {
        "world_time": now.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "url": evidence.url,
        "locale": plan.context.locale,
        "page": PAGE_STATE if isinstance(page, Mapping) else page,
        "success_criteria": list(_criteria_outcomes(spec.success_criteria, plan.success_criteria, result)),
        "score": None if result.score is None else result.score.total,
        "attempts": attempts_of(result.history, planned),
        "skipped": any(record.skipped for record in result.history),
        "generated": {} if plan.generated is None else plan.generated.made,
        "alternative": result.alternative.task_id if result.alternative else None,
    }


def _criteria_outcomes(
    texts: Sequence[str], ready: Sequence[Criterion], result: TaskResult
) -> Iterator[dict[str, Json]]:
    """Each criterion as the file has it, and its outcome; `held` is null for one that was never reached."""
    unmet = _unmet_criteria(result)
    for place, text in enumerate(texts):
        as_judged = _resolve_references(str(ready[place]), result) if place < len(ready) else text
        yield {"text": text, "held": None if unmet is None else as_judged not in unmet}


def _unmet_criteria(result: TaskResult) -> frozenset[str] | None:
    """The criteria that did not hold; None if that is not known for each."""
    if result.failure is None:
        made_up = result.alternative or any(warning.type == "criteria_relaxed" for warning in result.warnings)
        return None if made_up else frozenset()
    if result.failure.code != UNMET:
        return None
    details = result.failure.details
    return frozenset(map(str, details.get("unmet_criteria") or [details.get("criterion")]))


def _resolve_references(text: str, result: TaskResult) -> str:
    try:
        return interpolate_criterion(text, ReferenceScope(memory=result.memory))
    except (BadReferenceError, MissingMemory, Failed):
        return text


def _redacted(page: Mapping[str, Json], redactor: Redactor) -> Json:
    """The page without secrets, and without the values of fields that are for secrets."""
    return redactor.strings({**page, "elements": [_masked(element) for element in page["elements"]]})


def _masked(element: dict[str, Json]) -> dict[str, Json]:
    attributes = element["attributes"]
    names = (element["selector"], *(attributes.get(naming, "") for naming in ("id", "name", "autocomplete")))
    secret = attributes.get("type", "").lower() == "password" or any(map(is_secret_name, map(str, names)))
    if not element["field"] or not secret:
        return element
    hidden = {name: MARK for name in ("text", "text_content", "value") if element[name]}
    shown = {"value": MARK} if attributes.get("value") else {}
    return {**element, **hidden, "attributes": {**attributes, **shown}}
