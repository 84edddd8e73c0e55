"""The last lines of a run: its results, what a person must do, healed selectors, places of reports."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from harness.reporting.files import shown_path
from harness.reporting.healings import healings
from harness.reporting.task_record import FaultState, TaskRecord
from harness.reporting.words import shortened
from harness.spec.names import how_many
from harness.spec.task import FinalState, TaskSpec
from harness.spec.warnings import WARNINGS

if TYPE_CHECKING:
    from harness.spec.fault_plan import LoadedFaultPlan

# The tasks of a run that its fault plans strike.

_NAMED = 3
"""The number of faults without effect that are named for each plan."""


def reach_lines(plans: Sequence[LoadedFaultPlan], specs: Sequence[TaskSpec]) -> Iterator[str]:
    """The lines after the collection: `taskspec faults: nightly.faults.yaml (3 faults, 15 tasks)`."""
    for each in plans:
        struck = sum(any(planned.strikes(spec) for planned in each.plan.faults) for spec in specs)
        yield f"taskspec faults: {each.source} ({how_many(len(each.plan.faults), 'fault')}, {how_many(struck, 'task')})"


def idle_lines(plans: Sequence[LoadedFaultPlan], specs: Sequence[TaskSpec]) -> Iterator[str]:
    """A line for each plan that, in part or as a whole, strikes none of the tasks."""
    for each in plans:
        idle = [
            f"{each.name_of(number)} (tasks: {', '.join(planned.tasks)})"
            for number, planned in enumerate(each.plan.faults)
            if not any(planned.strikes(spec) for spec in specs)
        ]
        if len(idle) == len(each.plan.faults):
            yield f"{each.source}: strikes no task of this run: {_few(idle)}"
        elif idle:
            part = f"{len(idle)} of {len(each.plan.faults)} faults"
            yield f"{each.source}: {part} strike no task of this run: {_few(idle)}"


def header_lines(plans: Sequence[LoadedFaultPlan]) -> Iterator[str]:
    """The lines of the header, if nothing is collected in this process."""
    return (f"taskspec faults: {each.source} ({how_many(len(each.plan.faults), 'fault')})" for each in plans)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


# The line of a run's summary that counts its faults, and the entries of fault plans without effect.

_WARNED = {"fault_not_as_expected": "not as expected", "fault_not_healed": "not undone"}
"""Types of warnings that are counted too -> their words."""


def _fault_lines(records: Sequence[TaskRecord], idle: Sequence[str] | None = None) -> Iterator[str]:
    """`faults: 2 struck, 1 never struck, 1 not as expected`; each fault counts once for every task that declares it.

    `idle`: the plans, or entries of them, that strike no task of the run; None for a run without plans, which without
    faults has no line.
    """
    found = Counter(state for record in records for state in record.faults.values())
    if not found and idle is None:
        return
    warned = Counter(str(warning.get("type")) for record in records for warning in record.warnings)
    parts = [f"{found[state]} {state}" for state in get_args(FaultState) if found[state]]
    parts += [f"{warned[kind]} {words}" for kind, words in _WARNED.items() if warned[kind]]
    yield f"faults: {', '.join(parts) or 'none struck'}"
    yield from (f"  {line}" for line in idle or ())


_ORDER: tuple[FinalState, ...] = ("completed", "partial_success", "failed", "aborted")
_TO_ACT_ON = frozenset(name for name, facts in WARNINGS.items() if facts.to_act_on)
_OF_EXPECTED = frozenset(name for name, facts in WARNINGS.items() if facts.of_expected)
_WARNINGS, _WIDTH = 10, 200
"""The number of warnings that are listed, and the length of each."""
_SKIPPED = 10
"""The number of tasks left out that are listed."""


def summary_lines(
    records: Sequence[TaskRecord],
    artifacts: Path | None = None,
    allure: Path | None = None,
    skipped: Sequence[tuple[str, str]] = (),
    command: str = "harness",
    idle: Sequence[str] | None = None,
    more: Sequence[str] = (),
) -> list[str]:
    """The lines of the summary; without tasks only `more`. `allure` is the results folder, if there is one.

    `skipped`: ids of the tasks that were left out, and why. `command`: the name of the command line. `idle`: the
    entries of fault plans that strike no task; None: there are no plans. `more`: what others say of the run.
    """
    if not (records or skipped):
        return list(more)
    lines = [
        _counts(records, len(skipped)),
        *_scores(records),
        *_required(records),
        *_listed("skipped", skipped, "-rs"),
    ]
    known = [(each.task_id, each.known_defect) for each in records if _kind(each) == "failed as expected"]
    lines += _listed("failed as expected", known, "-rx")
    lines += [*_fault_lines(records, idle), *_warnings(records), *_healed_lines(records), *_baselines(records)]
    places = list(_artifacts(records, artifacts)) if artifacts is not None else []
    if allure is not None:
        places.append(f"Allure results: {shown_path(allure)} (build the report: {command} report)")
    lines += [*filter(None, ["; ".join(places)]), *more]
    return [*lines, *(_closer(records, command) if artifacts is not None else ())]


_RERUN = 5
"""The number of tasks that are named of those that passed only in a rerun."""


def rerun_lines(records: Sequence[TaskRecord], earlier: Sequence[TaskRecord]) -> Iterator[str]:
    """What `--reruns` has done: the tasks that passed only in a rerun, and the number of those that did not.

    `earlier`: the executions before the last one of each task, in order.
    """
    first: dict[str, TaskRecord] = {}
    for record in earlier:
        first.setdefault(record.task_id, record)
    again = [record for record in records if record.task_id in first]
    flaky = [record for record in again if record.verdict in ("passed", "passed as declared")]
    if flaky:
        named = [f"{each.task_id} (at first {first[each.task_id].code or 'failed'})" for each in flaky[:_RERUN]]
        more = f" and {len(flaky) - _RERUN} more" if len(flaky) > _RERUN else ""
        yield f"flaky: {how_many(len(flaky), 'task')} passed only in a rerun: {', '.join(named)}{more}"
    if earlier:
        failed = len(again) - len(flaky)
        yield f"reruns: {len(earlier)}" + (f"; {how_many(failed, 'task')} failed again" if failed else "")


def _closer(records: Sequence[TaskRecord], command: str) -> Iterator[str]:
    """The commands to use after a failed run."""
    red = [each for each in records if each.verdict == "failed" or each.code == "WORKER_CRASHED"]
    if red:
        kept = next((each.task_id for each in red if each.artifacts or not each.ok), None)
        shown = f"{command} show {shlex.quote(kept)}, " if kept else ""
        yield f"look closer: {command} triage, {shown}{command} dashboard"


def _counts(records: Sequence[TaskRecord], skipped: int) -> str:
    """The numbers of tasks by result; each task counts once."""
    kinds = Counter(map(_kind, records))
    parts = [*_states([record for record in records if not _kind(record)])]
    for kind in (
        "passed as declared",
        "failed as expected",
        "unexpected outcome",
        "refused partial success",
        "refused takeover",
        "failed in teardown",
        "not judged",
        "interrupted",
    ):
        if count := kinds[kind]:
            parts.append(f"{count} {kind}{'s' if kind == 'unexpected outcome' and count > 1 else ''}")
    if skipped:
        parts.append(f"{skipped} skipped")
    return f"tasks: {len(records) + skipped}: {', '.join(parts)}"


def _kind(record: TaskRecord) -> str:
    """A kind of result that says more than the final state; empty for most tasks."""
    match record.verdict:
        case "not judged":
            return "interrupted" if record.code == "INTERRUPTED" else "not judged"
        case "failed" if record.torn and record.ok:
            return "failed in teardown"
        case "failed" if record.ok and not record.unexpected:
            return f"refused {'partial success' if record.final_state == 'partial_success' else 'takeover'}"
        case "failed" if record.unexpected:
            return "unexpected outcome"
        case "passed as declared":
            return "failed as expected" if record.known_defect else "passed as declared"
        case _:
            return ""


def _baselines(records: Sequence[TaskRecord]) -> Iterator[str]:
    """The baselines that were written, which a person must look at."""
    written = dict.fromkeys(each for record in records for each in record.baselines)
    if written:
        yield f"{how_many(len(written), 'baseline')} written; look at what changed:"
    yield from (f"  {shown_path(Path(each))}" for each in written)


def _warned(record: TaskRecord, kind: str) -> bool:
    return any(each.get("type") == kind for each in record.warnings)


def _artifacts(records: Sequence[TaskRecord], place: Path) -> Iterator[str]:
    """The folder of the reports; in a passed run also why there are any."""
    failed = [record for record in records if not record.ok]
    if not failed:
        return
    why = ""
    if all(_kind(record) in ("passed as declared", "failed as expected") for record in failed):
        several = "reports: failures that their tasks expect"
        why = f" ({len(failed)} {'report: a failure that its task expects' if len(failed) == 1 else several})"
    none_kept = all(not each.artifacts and _warned(each, "evidence_not_kept") for each in failed)
    yield f"artifacts: {'none could be kept in ' if none_kept else ''}{shown_path(place)}{why}"


def _states(records: Sequence[TaskRecord]) -> Iterator[str]:
    for state in _ORDER:
        if those := [record for record in records if record.final_state == state]:
            yield f"{len(those)} {state.replace('_', ' ')}{_recovered_text(those)}"


def _recovered_text(records: Sequence[TaskRecord]) -> str:
    """` (3 of them recovered)`, for tasks that passed."""
    recovered = sum(record.recovered > 0 and record.ok for record in records)
    return f" ({recovered} of them recovered)" if recovered else ""


def _scores(records: Sequence[TaskRecord]) -> Iterator[str]:
    """`score: 0.83 on average of 3 tasks; below 1: T-1 0.5`; nothing where all have the whole score."""
    scored = {record.task_id: record.score for record in records if record.score is not None}
    if below := [f"{name} {score:g}" for name, score in scored.items() if score < 1]:
        mean, number = sum(scored.values()) / len(scored), how_many(len(scored), "task")
        yield shortened(f"score: {mean:.2f} on average of {number}; below 1: {', '.join(below)}", _WIDTH)


def _required(records: Sequence[TaskRecord]) -> Iterator[str]:
    """Tasks that pytest counts as passed although a required part of their score was not met."""
    for record in records:
        parts = [each for each in record.warnings if each.get("type") == "required_part_unmet"]
        if record.ok and parts and "required_part_unmet" not in record.declared:
            score = "" if record.score is None else f", score {record.score:g}"
            told = "; ".join(str(each.get("message")) for each in parts)
            yield shortened(f"passed only in part: {record.task_id}{score}: {told}", _WIDTH)


def _listed(title: str, tasks: Sequence[tuple[str, str]], option: str) -> Iterator[str]:
    """Tasks with their whole reason, which may end with a command that helps. `option`: lets pytest list them all."""
    if tasks:
        yield f"{title}:"
        yield from (f"  {name}: {reason}" for name, reason in tasks[:_SKIPPED])
    if len(tasks) > _SKIPPED:
        yield f"  ... {len(tasks) - _SKIPPED} more (pytest {option})"


def _warnings(records: Sequence[TaskRecord]) -> Iterator[str]:
    """The warnings of tests that passed and need action; a failed test shows its warnings itself.

    Of a task that failed as declared, only those that it shows too (`of_expected`).
    """
    found = [
        f"  {record.task_id}{_step(warning, record)}: {shortened(str(warning.get('message')), _WIDTH)}"
        for record in records
        if (record.ok or record.expected) and not record.unexpected
        for warning in _to_act_on(record)
        if record.ok or warning.get("type") in _OF_EXPECTED
    ]
    if found:
        yield "warnings:"
        yield from found[:_WARNINGS]
    if len(found) > _WARNINGS:
        yield f"  ... {len(found) - _WARNINGS} more"


def _to_act_on(record: TaskRecord) -> Iterator[Mapping[str, object]]:
    """The warnings that need action; of several faults that were not met only the first."""
    unmet = []
    for warning in record.warnings:
        kind = warning.get("type")
        if kind not in _TO_ACT_ON or kind in record.declared:
            continue
        if kind == "fault_not_met":
            unmet.append(warning)
        else:
            yield warning
    if unmet:
        count = f"{len(unmet)} faults never struck; the first: " if len(unmet) > 1 else ""
        yield {**unmet[0], "message": f"{count}{unmet[0].get('message')}"}


def _step(warning: Mapping[str, object], record: TaskRecord) -> str:
    index = warning.get("step_index")
    return "" if index is None else f" step {record.place_of(index)}"


def _healed_lines(records: Sequence[TaskRecord]) -> Iterator[str]:
    """One line for each selector that must be changed in its file."""
    found = dict.fromkeys(
        f"  {record.steps_source or record.source or record.task_id}{_step(each.warning, record)}: "
        f"`{each.original}` -> `{each.used}`{_element_text(each.warning)}"
        for record in records
        for each in healings(record)
        if not each.settled
    )
    if found:
        yield "healed selectors (update the spec):"
        yield from found


def _element_text(warning: Mapping[str, object]) -> str:
    """The healed element, such as `(button 'Pay')`, so that a wrong one is noticed."""
    role, name = warning.get("role"), warning.get("name")
    return f" ({role} {name!r})" if role and name else f" ({role})" if role else ""
