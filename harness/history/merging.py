"""Several runs as one: the shards of a suite, the machines of a night."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import JsonValue

from harness.history.record import Ending, Execution, RunRecord
from harness.history.rows import stamp
from harness.reporting.metrics import error_metrics

_ENDINGS: tuple[Ending, ...] = ("unfinished", "interrupted", "finished")
"""The worst of them is that of the whole."""
_LEVELS = ("ok", "warning", "critical")
_AND = " | "
"""Between values of an environment that machines do not share."""


def merged(runs: Sequence[RunRecord]) -> RunRecord:
    """One run with the executions of all (at least one), each of them once, in the order of time.

    Its name follows from theirs, so that merging the same runs again gives the same.
    """
    runs = sorted(runs, key=lambda run: (stamp(run.started) or "", run.run, run.model_dump_json()))
    sources = tuple(sorted({name for run in runs for name in run.merged_from or (run.run,)}))
    executions = merged_executions(run.executions for run in runs)
    added_up = _parts(runs)
    done = all(run.finished for run in runs)
    statuses = [run.exit_status for run in runs if run.exit_status is not None]
    return RunRecord(
        run=f"{min(run.started for run in runs):%Y%m%dT%H%M%S}-merged-{_digest(sources, 8)}",
        started=min(run.started for run in runs),
        finished=max((run.finished for run in runs if run.finished), default=None) if done else None,
        ending=min((run.ending for run in runs), key=_ENDINGS.index),
        exit_status=max(statuses, default=None),
        project=_one(run.project for run in runs),
        arguments=runs[0].arguments if len({run.arguments for run in runs}) == 1 else (),
        environment=_environment([run.environment for run in runs]),
        commit=_one(run.commit for run in runs),
        branch=_one(run.branch for run in runs),
        ci=next((_safe(run.ci) for run in runs if run.ci), {}),
        shard=", ".join(sorted({part for run in runs for part in run.shard.split(", ") if part})),
        executions=executions,
        happenings=tuple(sorted({each.model_dump_json(): each for run in runs for each in run.happenings}.values(),
                                key=lambda each: stamp(each.at) or "")),
        metrics=_metrics([run.metrics for run in runs], list(added_up.values()), executions),
        added_up=added_up,
        merged_from=sources,
        note=_note(runs),
    )  # fmt: skip


def identity_of(run: RunRecord) -> str:
    """Two folders of which it is the same hold the same run, wherever their files lie."""
    return _digest([run.run, stamp(run.started) or "", *sorted(map(identity_of_execution, run.executions))], None)


def merged_executions(parts: Iterable[Sequence[Execution]]) -> tuple[Execution, ...]:
    """Those that are the same but for where their files lie are one; they are numbered anew, for each node."""
    distinct: dict[str, Execution] = {}
    for each in (each for part in parts for each in part):
        distinct.setdefault(identity_of_execution(each), each)
    numbers: Counter[str] = Counter()
    return tuple(
        _numbered(distinct[key], numbers) for key in sorted(distinct, key=lambda key: _when(distinct[key], key))
    )


def _when(each: Execution, identity: str) -> tuple[str, str, str]:
    """Those of which no time is known come first: what ran counts more than what was left out."""
    return (stamp(each.began) or "", each.nodeid, identity)


def identity_of_execution(each: Execution) -> str:
    """The same for one wherever its files lie, and whatever its number is."""
    record = each.record and each.record.model_copy(update={"artifacts": None, "key": ""})
    return each.model_copy(update={"record": record, "number": 1}).model_dump_json()


def _numbered(each: Execution, numbers: Counter[str]) -> Execution:
    numbers[each.nodeid] += 1
    return each.model_copy(update={"number": numbers[each.nodeid]})


def _digest(parts: Sequence[str], letters: int | None) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:letters]


def _one(values: Iterable[str]) -> str:
    """What all say that say anything; empty when they do not agree."""
    found = {value for value in values if value}
    return found.pop() if len(found) == 1 else ""


def _safe(ci: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A report makes a link of the URL: one that is no page of the web goes."""
    web = str(ci.get("buildUrl", "")).startswith(("https://", "http://"))
    return ci if web else {name: value for name, value in ci.items() if name != "buildUrl"}


def _environment(several: Sequence[dict[str, str]]) -> dict[str, str]:
    names = dict.fromkeys(name for each in several for name in each if name != "Run")
    values = {name: {v for each in several for v in each.get(name, "").split(_AND) if v} for name in names}
    return {name: _AND.join(sorted(found)) for name, found in values.items()}


def _note(runs: Sequence[RunRecord]) -> str:
    commits = sorted({run.commit for run in runs if run.commit})
    of_several = [f"of several commits: {', '.join(commits)}"] if len(commits) > 1 else []
    return "; ".join([*of_several, *dict.fromkeys(run.note for run in runs if run.note)])


def _parts(runs: Sequence[RunRecord]) -> dict[str, dict[str, Any]]:
    """The figures that are added up, of each run once: what was put together before brings those of its parts."""
    parts: dict[str, dict[str, Any]] = {}
    for run in runs:
        found = run.metrics.get("resilience")
        parts |= run.added_up or ({identity_of(run): found} if isinstance(found, dict) else {})
    return dict(sorted(parts.items()))


def _metrics(
    documents: Sequence[dict[str, Any]], resilience: Sequence[dict[str, Any]], executions: Sequence[Execution]
) -> dict[str, Any]:
    """Error rates are counted anew; other figures are added up, and of each threshold the worst stays."""
    last = {each.nodeid: each for each in executions}.values()
    thresholds = [found for each in documents if isinstance(found := each.get("thresholds"), dict)]
    return {
        "error_metrics": error_metrics([each.record for each in last if each.record is not None]),
        "resilience": _added(resilience),
        "thresholds": _worst(thresholds),
    }


def _added(several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts; a mean (avgRecoveryTime) is that of the means, by the retries that worked."""
    names = dict.fromkeys(name for each in several for name in each)
    return {name: _mean(several, name) if name.startswith("avg") else _sum(several, name) for name in names}


def _sum(several: Sequence[dict[str, Any]], name: str) -> float:
    numbers: Iterable[float] = (each[name] for each in several if isinstance(each.get(name), int | float))
    return sum(numbers)


def _mean(several: Sequence[dict[str, Any]], name: str) -> float | None:
    known = [each for each in several if isinstance(each.get(name), int | float)]
    weights = [max(1, _sum([each], "successfulRetries")) for each in known]
    total = sum(weight * each[name] for weight, each in zip(weights, known, strict=True))
    return round(total / sum(weights), 3) if known else None


def _worst(several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, reading in ((name, reading) for each in several for name, reading in each.items()):
        if isinstance(reading, dict) and (name not in found or _gravity(reading) > _gravity(found[name])):
            found[name] = reading
    return found


def _gravity(reading: dict[str, Any]) -> tuple[int, float]:
    level, value = str(reading.get("level")), reading.get("value")
    return (_LEVELS.index(level) if level in _LEVELS else 0, value if isinstance(value, int | float) else 0)
