"""The story of a kept failure, read back from its directory: from error_report.json and partial_trace.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.model.diagnosis import undone_fault
from harness.model.report import ErrorReport, control_of
from harness.recovery.catalog import CATALOG
from harness.reporting.story import (
    StepStatus,
    StoryAttempt,
    StoryCall,
    StoryFailure,
    StoryFile,
    StoryPage,
    StoryPart,
    StoryScore,
    StoryStep,
    StoryTakeOver,
    TaskStory,
    cause_of,
    cleaned,
    compared,
    failed,
    writable,
)
from harness.reporting.words import (
    absent_words,
    called_at,
    fails_the_choice,
    failure_place,
    place,
    target_text,
)

_WENT_BACK = "; WENT BACK "


def story_from(folder: Path, report: ErrorReport, lines: Sequence[Mapping[str, Any]]) -> TaskStory:
    """The story of a failure. `lines`: those of its trace, one for each attempt."""
    reader = _KeptReader(folder, report, lines)
    story: TaskStory = cleaned(reader.story(), writable)
    return story


class _KeptReader:
    def __init__(self, folder: Path, report: ErrorReport, lines: Sequence[Mapping[str, Any]]) -> None:
        self._folder, self._report, self._lines = folder, report, lines
        self._details: Mapping[str, Any] = report.context.model_extra or {}
        self._total = report.metrics.steps_total + report.metrics.steps_unused if report.metrics else None

    def story(self) -> TaskStory:
        report, metrics, failure = self._report, self._report.metrics, self._failure()
        cause = cause_of(failure, report.faults, self._tried(), self._details.get("problems") or ())
        return TaskStory(
            task_id=report.task_id,
            key=self._folder.name,
            final_state=report.final_state,
            headline=f"{report.task_id} {report.final_state}: {cause}",
            cause=cause,
            file=StoryFile(source=report.source, location=called_at(report.step or {}) or report.source),
            seconds=metrics.time_elapsed_seconds if metrics else 0.0,
            failure=failure,
            failed_index=report.step_index,
            steps_total=self._total if self._total is not None else report.step_index + 1,
            steps_completed=metrics.steps_completed if metrics else 0,
            steps=tuple(self._steps()),
            faults=report.faults,
            routes=report.routes,
            warnings=report.warnings,
            score=_score(report.score) if report.score else None,
            page=StoryPage(
                report.context.url or "",
                tuple(report.context.vanished),
                report.context.browser_console_logs,
                user=report.context.user or "",
            ),
            artifacts=str(self._folder),
            expected=report.expected,
            agent=report.agent,
            control=control_of(report.warnings),
            takeovers=tuple(StoryTakeOver(each, 0.0, "") for each in report.takeovers),
            models=report.models,
            model_calls=report.model_calls,
            tools=report.tools,
            calls=tuple(StoryCall(call, step=line.get("step_index")) for line, call in self._calls()),
        )

    def _calls(self) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
        for line in self._lines:
            found = line.get("tool_calls")
            yield from ((line, each) for each in (found if isinstance(found, list) else ()) if isinstance(each, dict))

    # The failure.

    def _tried(self) -> str:
        """The step that failed, as written."""
        report = self._report
        if not report.step or report.code in ("INCOMPLETE", "WORKER_CRASHED") or fails_the_choice(report.code):
            return ""
        return f"{report.step.get('act', '')} {target_text(report.step)}".strip()

    def _failure(self) -> StoryFailure:
        report, details = self._report, self._details
        found, undone = report.context.assertion, undone_fault(report.faults)
        began = report.step_index >= 0 or report.code == "PRECONDITION_NOT_MET" or bool(report.step)
        called = called_at(report.step or {})
        usual = report.code in CATALOG and CATALOG[report.code].hint in report.hint
        return failed(
            report.code,
            f"at {called}"
            if called
            else failure_place(
                report.code, report.step_index, self._total, report.step_number, began=began, hook=details.get("hook")
            ),
            report.error_message,
            details,
            "",
            comparison=found and compared(found.expression, found.expected, found.actual, found.diff, found.diff),
            call=self._failed_call(),
            selector=str(details.get("selector") or (report.step or {}).get("selector") or ""),
            url=report.context.url or "",
            hint=report.hint,
            absent=absent_words(self._folder, found.diff if found else "") if usual else (),
            advised=not usual,
            suspect=str(report.suspect or ""),
            fault=f"{undone.kind} {undone.target}" if undone else "",
        )

    def _failed_call(self) -> dict[str, Any] | None:
        """The call of a tool behind the failure: that of the trace, or what the report says of a channel's call."""
        failed = self._report.tool_error.payload if self._report.tool_error else None
        if failed is None:
            return None
        of_trace = next((call for _, call in self._calls() if call.get("id") == failed.tool_call_id), None)
        if of_trace is not None:
            return of_trace
        server, _, tool = failed.tool.partition(".")
        answered = failed.details.stdout
        seconds = (failed.details.execution_time_ms or 0) / 1000
        ended = {"outcome": "error" if answered else "failed", "code": failed.code, "seconds": seconds}
        found = {"server": server, "tool": tool, "arguments": failed.arguments, **ended}
        told = {"result": answered, "exit_code": failed.details.exit_code, "stderr": failed.details.stderr}
        return {**found, **{name: value for name, value in told.items() if value not in (None, "")}}

    # The steps.

    def _steps(self) -> Iterator[StoryStep]:
        groups = list(_groups(self._lines))
        yield from (self._step(group) for group in groups)
        report = self._report
        if report.step and not any(each[-1].get("step_index") == report.step_index for each in groups):
            attempts = [
                {**report.step, "step_index": report.step_index, "step_number": report.step_number, "note": note}
                for note in report.tried or [""]
            ]
            yield self._step(attempts)  # a trace begins with the first step

    def _step(self, lines: Sequence[Mapping[str, Any]]) -> StoryStep:
        first, last = lines[0], lines[-1]
        index = last.get("step_index")
        index = index if isinstance(index, int) else -1
        back = str(last.get("note", "")).partition(_WENT_BACK)[2].rpartition(" ")[2]
        act, total = str(first.get("act", "")), self._total
        fixed = total is not None and not fails_the_choice(self._report.code)
        return StoryStep(
            index=index,
            place=place(index, total or 0, str(last.get("step_number", ""))) if fixed else str(index),
            act=act,
            target=target_text(first),
            instead=_instead(first, last),
            status=self._status(last, index),
            left_out=str(last.get("left_out", "")),
            attempts=tuple(map(_attempt, lines)),
            written=f"{act} {target_text(first)}",
            went_back_to=int(back) if back.lstrip("-").isdecimal() else None,
            agent=str(last.get("agent", "")),
        )

    def _status(self, last: Mapping[str, Any], index: int) -> StepStatus:
        if ": FAILED" not in str(last.get("note", "")):
            return "skipped" if last.get("left_out") else "ok"
        own = {str(each.get("type")) for each in self._report.warnings if each.get("step_index") == index}
        return "skipped" if "step_skipped" in own else "done" if "effect_already_done" in own else "FAILED"


def _groups(lines: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The consecutive attempts at each step, until the task went back from it."""
    group: list[Mapping[str, Any]] = []
    for line in lines:
        if group and not _once_more(group[-1], line):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _once_more(before: Mapping[str, Any], line: Mapping[str, Any]) -> bool:
    """Return whether the line is another attempt: all success criteria have one number."""
    if any(line.get(name) != before.get(name) for name in ("step_index", "expr")):
        return False
    return _WENT_BACK not in str(before.get("note"))


def _attempt(line: Mapping[str, Any]) -> StoryAttempt:
    note = str(line.get("note") or "").partition(_WENT_BACK)[0]
    way, failed, message = note.partition(": FAILED")
    seconds = line.get("seconds")
    return StoryAttempt(
        way=(way if failed else note.removesuffix(": SUCCESS")) or "ATTEMPT 1",
        passed=not failed,
        t=float(line.get("t") or 0.0),
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        message=message.removeprefix(" - "),
    )


def _instead(first: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    """What the last attempt did in place of the step as written."""
    if last.get("act") == first.get("act"):
        return ""
    return f" by {'opening' if last.get('act') == 'open' else last.get('act')} {target_text(last)}"


def _score(found: Mapping[str, Any]) -> StoryScore:
    parts = (each for each in found.get("parts") or () if isinstance(each, dict))
    names = StoryPart.__struct_fields__
    return StoryScore(
        float(found.get("total") or 0.0),
        tuple(StoryPart(**{name: each[name] for name in names if name in each}) for each in parts),
        dict(found.get("rubrics") or {}),
    )
