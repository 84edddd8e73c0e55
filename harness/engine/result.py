"""Ends a task: takes evidence once, makes the report and the artifact directory, and closes everything."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from harness.criteria import CriterionError, parse
from harness.criteria.syntax import Selected
from harness.engine.around import after_each
from harness.engine.conditions import UNMET
from harness.engine.events import task_ended
from harness.engine.judge import AssertionJudge
from harness.engine.run import Run, Suspension, TaskJournal, TaskStop, chosen_now
from harness.model.diagnosis import error_report, fault_effect, unmet_expectations
from harness.model.dialogs import with_dialogs
from harness.model.outcome import Looked, attempts_of, ended_as_declared, outcome_differences, score_of, shortcomings
from harness.model.plan import Plan
from harness.model.ports import USERS, Evidence, Ports, Snapshot, Stage
from harness.model.record import MetFault, MetRoute, Score, TaskResult, Warning_
from harness.model.report import AssertionContext, Context
from harness.model.warnings import DONE_TWICE, dialog_warnings, done_twice, takeover_warnings, warnings
from harness.recovery import NOTHING, Capture, GiveUp, Substitute
from harness.recovery.failure import Failed, Failure
from harness.resilience import Deadline
from harness.spec.references import BadReferenceError, MissingMemory, ReferenceScope, interpolate_criterion
from harness.spec.rounds import unused
from harness.spec.task import ScoringCheckpoint
from harness.values import replace

T = TypeVar("T")
SNAPSHOT_LIMIT = 3.0
"""Seconds for the snapshot of all environment channels together."""
_ERROR_PAGE = "chrome-error:"
"""The scheme of the page that Chromium shows if it could not load one: it is no address of the site."""
_NOT_BEGUN = "the task ended before it had a page"
TORN = "A fixture failed after the task, which itself had passed"
TRACE, VIDEO, _VIDEOS = "trace.zip", "video.webm", "video*.webm"
_OF_PAGE = ("screenshot.png", "dom_snapshot.html")
PASSED = Capture(screenshot=False, logs=False, why="the task passed")
"""The evidence of a task that passed, if it is wanted."""
_RECENT = 60.0
"""A service that crashed more seconds before a failure is not its cause, even in a long task."""
_AT_ONCE = 0.05
"""Seconds that are shown as none."""
FULL = (None, errno.ENOSPC, errno.EDQUOT)
"""The `errno` values of an OSError from a full disk; None, since some errors have none."""


async def close_task(played: TaskRun) -> TaskResult:
    """Finish the task; if it failed, its directory under `errors/` is complete afterwards."""
    plan, ports, stage = played.plan, played.ports, played.run.stage if played.run else None
    if stage:
        played.journal.attribute(await stage.session.take_settled())
    await _last_memory(stage, _scale(plan))
    score = await scored(played.run, played.ending) if played.run else None
    if played.run and played.failed is None:
        played.torn = await after_each(played.run, interrupted=False)
        played.ending = played.torn or played.ending
    result = judge_result(played, score)
    result = replace(result, unlike_expected=await _unlike_criteria(played, result))
    if stage and ended_as_declared(plan.spec, result):  # the pages are still open
        lost = await stage.session.leave_storage(plan.step_timeout, held_up=result.failure is not None)
        if lost:
            played.ending = TaskStop(lost, played.journal.under_way, GiveUp())
            result = judge_result(played, score)
    if played.failed is None or result.skipped:
        if stage:
            result = await _torn_down(played, result) if result.skipped else result
            result = await _hold_evidence(plan, ports, stage, played.folder, result)
            result = await _keep_final_view(plan, ports, stage, played.folder, result)
            result = await _end_session(played, stage, result)
        keep = ports.archive.skipped if result.skipped else partial(ports.archive.passed, result=result)
        _, result = await _kept(result, partial(keep, plan))
    else:
        result = await _report(played, stage, result, played.failed)
    task_ended(plan, ports, played.journal, played.ending, result)
    return result


async def _unlike_criteria(played: TaskRun, result: TaskResult) -> tuple[str, ...]:
    """Judge the criteria of `expect` on the page as the failure has left it; what cannot be judged does not hold.

    If the task did not even end as declared, that is said, and they are not asked.
    """
    plan, run, expect = played.plan, played.run, played.plan.spec.expect
    if expect is None or not plan.expected_criteria or outcome_differences(expect, result):
        return ()
    if run is None:
        return ("its criteria could not be judged: the task had no page",)
    until = Deadline.after(max(SECONDS, plan.expect_timeout, run.left), run.ports.clock.now())
    found = [await _unmet_reason(run, str(each), until, plan.expect_timeout) for each in plan.expected_criteria]
    return tuple(why for why in found if why is not None)


def _joined(page: Evidence, logs: Evidence) -> Evidence:
    """The evidence of the page as the failure has left it, and the logs of the whole task."""
    items = (each for each in page.items if each.name in _OF_PAGE)
    return replace(
        page, items=(*items, *(each for each in logs.items if each.name not in _OF_PAGE)), console=logs.console
    )


async def _torn_down(played: TaskRun, result: TaskResult) -> TaskResult:
    """The same result after `after_each`, whose failure is told beside that of the task, once its evidence is taken."""
    if played.run is None or played.torn is not None:
        return result
    interrupted = result.failure is not None and result.failure.code == "INTERRUPTED"
    played.torn = await after_each(played.run, interrupted=interrupted)
    if played.torn is None:
        return result
    text = played.torn.failure.message
    unlike = (*result.unlike_expected, text) if played.plan.spec.expect is not None else result.unlike_expected
    warned = Warning_("after_each_failed", text, None, {"code": played.torn.failure.code})
    return replace(result, warnings=(*result.warnings, warned), unlike_expected=unlike)


async def _last_memory(stage: Stage | None, scale: float) -> None:
    """Read the final memory from the system under test if it is kept there; on failure, earlier values are used."""
    if stage is not None:
        with suppress(Failed, TimeoutError):
            async with asyncio.timeout(SNAPSHOT_LIMIT * scale):
                await stage.world.synchronize()


async def _report(played: TaskRun, stage: Stage | None, result: TaskResult, ending: TaskStop) -> TaskResult:
    plan, ports, folder = played.plan, played.ports, played.folder
    evidence, state, failed = Evidence(folder, why=_NOT_BEGUN), Snapshot(), ports.clock.now()
    if stage:
        capture = plan.rulebook.evidence(ending.failure, ending.give_up.capture)
        if user := ending.failure.details.get("user"):
            stage.session.act_as(user)
        later = bool(plan.after_each) and played.torn is None and capture.logs  # taking the logs closes the pages
        evidence, state = await _taken(plan, stage, folder, replace(capture, logs=False) if later else capture)
        result = await _torn_down(played, result)
        if later:
            stage.session.act_as(evidence.user or None)  # `after_each` may have acted as another
            evidence = _joined(evidence, await stage.session.evidence(replace(NOTHING, logs=True), folder))
        result = await _end_session(played, stage, result)
    result = _after_crashes(result, ports.crashed(), failed)  # a crash is noticed a moment after what it causes
    expected = plan.spec.expect is not None and not outcome_differences(plan.spec.expect, result)
    report = error_report(plan, result, report_context(result, evidence, state), expected)
    result = replace(result, error=report)
    path, result = await _kept(result, partial(ports.archive.keep, plan, result, report, evidence, state))
    return replace(result, artifacts=path)


async def _kept(result: TaskResult, keep: Callable[[], T]) -> tuple[T | None, TaskResult]:
    """Keep something of a task. What fails here is lost, with a warning, and changes no verdict: a disk, our defect."""
    try:
        return await asyncio.to_thread(keep), result
    except Exception as error:  # noqa: BLE001 - the one place for evidence
        return None, not_kept(result, error)


def _after_crashes(result: TaskResult, crashes: Iterable[tuple[str, float]], failed: float) -> TaskResult:
    """The same result, whose failure names the services that crashed shortly before it."""
    since = {name: failed - at for name, at in crashes if failed - at <= _RECENT}
    if result.failure is None or not since:
        return result
    words = {name: f"{seconds:.1f} s before" if seconds >= _AT_ONCE else "at" for name, seconds in since.items()}
    told = {name: f"service `{name}` crashed {when} the failure" for name, when in words.items()}
    return replace(result, failure=replace(result.failure, details={**result.failure.details, "service_crashes": told}))


def not_kept(result: TaskResult, error: Exception) -> TaskResult:
    """The same result, with a warning about what was lost, and why."""
    why = f"The evidence of the task could not be kept: {_why(error)}"
    return replace(result, warnings=(*result.warnings, Warning_("evidence_not_kept", why, None)))


def _why(error: Exception) -> str:
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    where = f" ({error.filename})" if error.filename else ""
    mend = "free space on the disk" if error.errno in FULL else "make the folder writable"
    return f"{error.strerror or error}; {mend}{where}"


async def _hold_evidence(plan: Plan, ports: Ports, stage: Stage, folder: Path, result: TaskResult) -> TaskResult:
    """Hold the evidence of a task that passed, if a fixture may fail after it; an error of the disk fails no task."""
    if not plan.judged_later or result.skipped:
        return result
    evidence, state = await _taken(plan, stage, folder, Capture())
    failure, last = Failure("FIXTURE_FAILED", TORN), max(0, len(result.history) - 1)
    failed = replace(result, final_state="failed", failure=failure, failed_index=last)
    report = error_report(plan, failed, report_context(failed, evidence, state), expected=False)
    _, after = await _kept(result, partial(ports.archive.hold, plan, failed, report, evidence, state))
    if after is not result:
        return after
    names = (TRACE, _VIDEOS, f"{USERS}/*/{TRACE}", f"{USERS}/*/{_VIDEOS}")
    for path in [each for name in names for each in folder.glob(name)]:  # noqa: ASYNC240 - at most a few names
        if not {path, path.with_name(VIDEO) if path.suffix == ".webm" else path} & set(stage.session.files):
            path.unlink()
    return result


async def _keep_final_view(plan: Plan, ports: Ports, stage: Stage, folder: Path, result: TaskResult) -> TaskResult:
    """Keep the final view of a task that passed, if wanted; an error of the disk does not fail the task."""
    if ports.witness is None or result.skipped:
        return result
    evidence, state = await _taken(plan, stage, folder, PASSED)
    return (await _kept(result, partial(ports.witness, plan, result, evidence, state)))[1]


def _looked_at(plan: Plan, stage: Stage) -> list[Selected]:
    """The selectors of all criteria that judge the task's end, so that `regrade` can judge changed ones."""
    criteria = [str(criterion) for criterion in (*plan.success_criteria, *plan.relaxed, *plan.expected_criteria)]
    criteria += [text for part in plan.scoring for text in (part.assertion, part.when) if text and text.strip()]
    scope = ReferenceScope(memory=stage.world.memory())
    found: set[Selected] = set()
    for text in criteria:
        with suppress(CriterionError, BadReferenceError, MissingMemory, Failed):
            found |= parse(interpolate_criterion(text, scope)).selectors
    return sorted(found, key=str)


def _scale(plan: Plan) -> float:
    """The factor for the limits of evidence: `--task-timeout-scale`, but evidence is never cut short by it."""
    return max(1.0, plan.timeout_scale)


async def _taken(plan: Plan, stage: Stage, folder: Path, capture: Capture) -> tuple[Evidence, Snapshot]:
    """What the world and then the browser still show."""
    memory, environment = stage.world.entries() if capture.memory else None, None
    if capture.environment:
        within = SNAPSHOT_LIMIT * _scale(plan)
        try:
            async with asyncio.timeout(within):
                environment = await stage.world.snapshot()
        except TimeoutError:
            environment = {"error": f"the environment did not answer within {within:g} s"}
    evidence = await stage.session.evidence(capture, folder, _looked_at(plan, stage))
    return evidence, Snapshot(memory, environment, capture.why or "`capture_memory: false`")


def report_context(result: TaskResult, evidence: Evidence, state: Snapshot) -> Context:
    """The `context` of the report: the failure's own evidence beside the fixed keys."""
    failure = result.failure
    assertion = failure.assertion if failure else None
    taken = {item.name for item in evidence.items if item.status == "taken"}
    fixed = {
        "screenshot_id": "screenshot.png" if "screenshot.png" in taken else None,
        "dom_snapshot_id": "dom_snapshot.html" if "dom_snapshot.html" in taken else None,
        "memory_snapshot": state.memory,
        "env_snapshot": state.environment,
        "browser_console_logs": tuple(map(str, evidence.console[-50:])),
        "assertion": assertion
        and AssertionContext(
            expression=assertion.expression, expected=assertion.expected, actual=assertion.actual, diff=assertion.diff
        ),
    }
    if notes := {item.name: item.reason for item in evidence.items if item.status == "taken" and item.reason}:
        fixed["evidence_notes"] = notes
    fixed |= {"user": evidence.user} if evidence.user else {}
    if evidence.vanished:
        fixed["vanished_texts"] = evidence.vanished
    details = failure.evidence if failure else {}
    page = None if (evidence.url or "").startswith(_ERROR_PAGE) else evidence.url
    return Context(**{**details, **_of_the_step(result), **fixed, "url": page or details.get("url")})


def _of_the_step(result: TaskResult) -> dict[str, Any]:
    """The selectors that the step and its rule declare; or the precondition that did not hold."""
    failure = result.failure
    if failure is not None and failure.code == "PRECONDITION_NOT_MET":
        return {"precondition": failure.details.get("criterion"), "error": failure.message}
    record = next((r for r in reversed(result.history) if r.index == result.failed_index and not r.passed), None)
    if record is None or record.step.target is None:
        return {}
    fallbacks = [each.remedy.selector for each in record.answers if isinstance(each.remedy, Substitute)]
    return {"selector": record.step.target, "fallback_selectors": fallbacks}


def _unmatched(run: Run | None) -> tuple[Selected, ...]:
    """The selectors that criteria have read and that have matched nothing at any look."""
    return tuple(each for each, ever in run.stage.session.looked.items() if not ever) if run else ()


async def _end_session(played: TaskRun, stage: Stage, result: TaskResult) -> TaskResult:
    """Close the session; what left the pages until then belongs to the last act, so that nobody runs it again.

    The result has the final results of the faults, with a warning for each that could not be undone.
    """
    try:
        await stage.injector.close()
    finally:
        await stage.session.close()
    played.journal.attribute(await stage.session.take_settled())
    trace = tuple(played.journal.trace)
    late = (each for each in warnings(trace) if each.type in DONE_TWICE and each not in result.warnings)
    met = stage.injector.results()
    new = (each for each, before in zip(met, result.faults, strict=True) if each.problem and not before.problem)
    warned = (Warning_("fault_not_healed", f"Fault {each.describe()}", None, {"fault": each.name}) for each in new)
    all_warnings = (*result.warnings, *late, *warned)
    return replace(result, history=trace, warnings=all_warnings, faults=met, routes=stage.session.routes)


# The result of a task: its final state, its failure, its warnings. Pure over what was executed.


class TaskRun(Struct):
    """A task whose steps are over, with all that is needed to end it."""

    plan: Plan
    ports: Ports
    folder: Path
    """The folder for files that the task writes while it runs."""
    started: datetime
    began: float
    """The start in monotonic seconds."""
    unready: Failure | None = None
    """The reason why there is no such folder, so that the task cannot begin."""
    journal: TaskJournal = field(default_factory=TaskJournal)
    run: Run | None = None
    """The run; None if its stage could not be opened."""
    ending: TaskStop | None = None
    torn: TaskStop | None = None
    """The failure of `after_each`."""
    alternative: TaskResult | None = None
    inside: list[TaskResult] = field(default_factory=list)
    """All tasks that ran inside this one, the alternative task too."""

    @property
    def failed(self) -> TaskStop | None:
        """The ending, unless the alternative task made up for it."""
        made_up = self.alternative is not None and self.alternative.ok and self.torn is None
        return None if made_up else self.ending


def judge_result(played: TaskRun, score: Score | None) -> TaskResult:
    """The result with its final state, failure and warnings, before anything is written to disk."""
    result = _judge_run(played, score)
    return replace(result, warnings=(*result.warnings, *_unlike_expected(played.plan, result)))


def _judge_run(played: TaskRun, score: Score | None) -> TaskResult:
    plan, journal, ending = played.plan, played.journal, played.failed
    memory = dict(played.run.stage.world.memory()) if played.run else {}
    of_file = chosen_now(plan, journal) is None
    result = TaskResult(
        task_id=plan.task_id,
        key=plan.key,
        final_state="completed",
        history=tuple(journal.trace),
        started=played.started,
        elapsed=played.ports.clock.now() - played.began - journal.suspended,
        suspended=journal.suspended,
        steps_total=len(plan.steps) if of_file else len(journal.history),
        steps_unused=unused((each.guards for each in plan.steps), memory) if of_file else 0,
        step_numbers=plan.step_numbers if of_file else {},
        warnings=tuple(_warnings(played, score)),
        memory=memory,
        score=score,
        alternative=played.alternative,
        inner=tuple(each for each in played.inside if each is not played.alternative),
        takeovers=tuple(journal.takeovers),
        faults=played.run.stage.injector.results() if played.run else (),
        unmatched=_unmatched(played.run),
        dialogs=played.run.stage.session.dialogs if played.run else (),
        model_calls=played.ports.model_calls(plan),
        tool_calls=played.ports.tool_calls(plan),
        agent_events=played.ports.agent_events(plan),
    )
    if ending is None:
        skipped = any(record.skipped for record in journal.trace)
        partial_ = skipped or played.alternative or journal.relaxed or (score and score.unmet)  # left out or replaced
        return replace(result, final_state="partial_success" if partial_ else "completed")
    if ending.skipped:
        return replace(result, final_state="aborted", skipped=ending.failure.message)
    failure = ending.failure
    if (other := played.alternative) and not other.ok:
        why = other.failure.message if other.failure else other.skipped or other.final_state
        message = f"{failure.message}; the alternative task {other.task_id} did not succeed either: {why}"
        failure = replace(failure, message=message)
    failure = with_dialogs(failure, result.dialogs)
    return replace(result, final_state=ending.give_up.final_state, failure=failure, failed_index=ending.index)


def _warnings(played: TaskRun, score: Score | None) -> Iterator[Warning_]:
    yield from warnings(tuple(played.journal.trace))
    yield from takeover_warnings(played.journal.takeovers)
    yield from played.ports.agent_warnings(played.plan)
    for index, why in played.journal.unsaved.items():
        text = f"The checkpoint before step {index} could not be taken: {why}"
        yield Warning_("checkpoint_not_saved", text, index)
    yield from suspension_warnings(played.journal.suspensions)
    if (other := played.alternative) and other.ok and played.ending:
        yield _alternative_used(played.ending, other)
    yield from chain.from_iterable(map(done_twice, played.inside))
    if played.run is not None:
        yield from _unmet_faults(played.run.stage.injector.results())
        yield from _unused_routes(played.run.stage.session.routes)
        yield from dialog_warnings(played.run.stage.session.dialogs)
    yield from _unjudged_criteria(played)
    if played.failed is not None or played.run is None:
        return
    if relaxed := played.journal.relaxed:
        text = f"Only the relaxed success criteria hold. {relaxed.message}"
        yield Warning_("criteria_relaxed", text, played.journal.under_way, {"unmet": relaxed.message})
    for part in score.unmet if score else ():
        yield Warning_("required_part_unmet", f"The scoring checkpoint {part!r} is required, but not met", None)
    if not played.alternative:
        stage = played.run.stage
        yield from shortcomings(played.plan.spec, stage.world.memory(), stage.session.files)


def _unjudged_criteria(played: TaskRun) -> Iterator[Warning_]:
    """Yield a warning for success criteria of a task that failed, as its `expect` declares, before they were judged."""
    plan, ending = played.plan, played.failed
    if ending is None or not plan.success_criteria or plan.spec.expect is None or not plan.spec.expect.fails:
        return
    if ending.failure.code != UNMET:
        text = "The `success_criteria` were not judged: the task failed before, as its `expect` declares"
        yield Warning_("criteria_not_judged", text, None, {"criteria": list(plan.spec.success_criteria)})


def suspension_warnings(suspensions: Iterable[Suspension]) -> Iterator[Warning_]:
    """Yield a warning for each pause after which something was not as before."""
    for each in suspensions:
        if count := len(each.differences):
            differences = f"{count} difference{'s' * (count > 1)}"
            text = f"{differences} after the pause before step {each.index}: {'; '.join(each.differences[:5])}"
            yield Warning_("restore_incomplete", text, each.index, {"differences": list(each.differences)})


def _unmet_faults(faults: tuple[MetFault, ...]) -> Iterator[Warning_]:
    """Yield a warning for each fault that never struck. Faults of one name are one fault, in several places."""
    struck = {met.name for met in faults if met.count}
    for met in faults:
        if met.problem or (met.name not in struck and met.fault.probability == 1):
            yield Warning_("fault_not_met", f"Fault {met.describe()}", None, {"fault": met.name})


def _unused_routes(routes: tuple[MetRoute, ...]) -> Iterator[Warning_]:
    """Yield a warning for each route that answered nothing, and for one that could not answer a request."""
    for met in routes:
        if met.problem:
            yield Warning_("route_unanswered", f"Route {met.describe()}", None, {"route": met.number})
        elif (not met.count or met.idle) and not met.route.optional:
            yield Warning_("route_unused", f"Route {met.describe()}", None, {"route": met.number})


def _unlike_expected(plan: Plan, result: TaskResult) -> Iterator[Warning_]:
    """Yield a warning for each fault whose `expect` differs from what happened."""
    for met in result.faults:
        found = fault_effect(met, result)
        if said := list(unmet_expectations(met, found, reached=ended_as_declared(plan.spec, result))):
            text = f"Fault {met.describe()}: {'; '.join(said)}"
            yield Warning_("fault_not_as_expected", text, found.step, {"fault": met.name})


def _alternative_used(ending: TaskStop, alternative: TaskResult) -> Warning_:
    failure = ending.failure
    text = f"{alternative.task_id} ran instead, because of: {failure.message}"
    used = {"alternative_task_id": alternative.task_id, "alternative_state": alternative.final_state}
    because = {"error_type": str(failure.type), "code": failure.code, "error_message": failure.message}
    return Warning_("alternative_task_used", text, ending.index, {**used, **because})


# The score of a task: `scoring_checkpoints` and `rubrics` (docs/decisions/005).

SECONDS = 5.0
"""Seconds for all parts together."""


async def scored(run: Run, ending: TaskStop | None) -> Score | None:
    """Compute the score when the steps are over, passed or failed; None if none is declared."""
    spec = run.plan.spec
    if not run.plan.scoring and not spec.rubrics:
        return None
    until = Deadline.after(SECONDS * _scale(run.plan), run.ports.clock.now())
    planned = len(run.plan.steps) or len(run.journal.history)
    looked = [await _look(run, part, until) for part in run.plan.scoring]
    return score_of(looked, spec.rubrics, attempts_of(run.journal.trace, planned), ending is None)


async def _look(run: Run, part: ScoringCheckpoint, until: Deadline) -> Looked:
    if part.when and part.when.strip() and await _unmet_reason(run, part.when, until) is not None:
        return part, False, f"does not apply: {part.when} does not hold"
    return part, True, await _unmet_reason(run, part.assertion, until)


async def _unmet_reason(run: Run, criterion: str, until: Deadline, expect: float = 0.0) -> str | None:
    try:
        with run.acting(None):
            outcome = await AssertionJudge(run, until, expect=expect).criterion(criterion)
    except Failed as failed:
        return failed.failure.message
    return outcome.message if isinstance(outcome, Failure) else None
