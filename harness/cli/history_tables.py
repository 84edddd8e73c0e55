"""Runs, comparisons and tasks over time as terminal tables; in a pipe without colours, one row in a line."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from harness.model.consumption import ModelFigures, money_text, tokens_text
from harness.reporting.history.comparison import (
    FEWEST,
    ExecutionRate,
    Flakiness,
    Flaky,
    RunComparison,
    TaskChange,
    Timing,
)
from harness.reporting.history.record import Execution, RunRecord, RunSummary, TaskPoint, still_running
from harness.reporting.tables import terminal_table
from harness.spec.names import blank_unprintable

if TYPE_CHECKING:
    from rich.table import Table

_NARROWEST, _IN_A_PIPE = 60, 10_000
_OUTCOMES = ("passed", "failed", "not judged", "skipped", "flaky", "healed", "retries")
_OF_AGENTS = ("calls", "tokens", "cost")
"""Columns that are shown if any run or task of the table has asked a model."""
_OF_TOOLS = ("tool calls", "tool errors", "unanswered")
"""Columns that are shown if a run of the table has called a tool."""
_NUMBERS = {*_OUTCOMES, *_OF_AGENTS, *_OF_TOOLS, "seconds", "runs", "flips", "executions"}
_STYLES = {
    "failed": "red", "passed": "green", "rerun": "yellow", "unfinished": "yellow", "killed": "yellow",
    "interrupted": "yellow",
}  # fmt: skip


def print_lines(lines: Iterable[Table | str]) -> None:
    """Print the lines on stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else _IN_A_PIPE
    console = Console(file=sys.stdout, width=max(_NARROWEST, width), highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(
            line if isinstance(line, Table) else Text(blank_unprintable(line)), soft_wrap=not isinstance(line, Table)
        )


def run_lines(runs: Sequence[RunSummary]) -> Iterator[Table | str]:
    """A row for each run, the newest first."""
    agents, tools = any(each.used.calls for each in runs), any(each.tool_calls for each in runs)
    chosen = (*(_OF_AGENTS if agents else ()), *(_OF_TOOLS if tools else ()))
    head = ("run", "began", "ended", "seconds", *_OUTCOMES, *chosen, "commit")
    rows = [
        (each.run, _local_time(each.started), still_running(each.tasks) if each.running else each.ending,
         f"{each.seconds:.1f}", each.passed, each.failed,
         each.not_judged, each.skipped, each.flaky, each.healed, each.retries, *(_used(each.used) if agents else ()),
         *(_called(each) if tools else ()), _commit(each.commit, each.branch))
        for each in runs
    ]  # fmt: skip
    yield _table(head, rows)
    yield from (f"{each.run}: {each.note}" for each in runs if each.note)


def _called(each: RunSummary) -> tuple[str, ...]:
    """The cells of `_OF_TOOLS`; no zeros."""
    return tuple(str(number or "") for number in (each.tool_calls, each.tool_errors, each.tool_failures))


def _used(used: ModelFigures) -> tuple[str, ...]:
    """The cells of `_OF_AGENTS`; empty without calls."""
    if not used.calls:
        return ("", "", "")
    return str(used.calls), tokens_text(used.input_tokens + used.output_tokens), _cost(used)


def _cost(used: ModelFigures) -> str:
    """`$0.62`; with calls without a known price `$0.62+?`."""
    known = money_text(used.cost_usd) if used.unpriced_calls < used.calls else ""
    return f"{known}+?".removeprefix("+") if used.unpriced_calls else known


def single_run_lines(run: RunRecord) -> Iterator[Table | str]:
    """The facts about a run, and its tasks; failed ones come first."""
    ended = still_running(len(run.last)) if run.running else run.ending
    ended += "" if run.exit_status is None else f", exit code {run.exit_status}"
    yield f"run {run.run}: {_local_time(run.started)}, {run.seconds:.1f} s, {ended}"
    facts = {
        "note": run.note,
        "merged from": ", ".join(run.merged_from),
        "commit": _commit(run.commit, run.branch),
        "arguments": " ".join(run.arguments),
        "environment": ", ".join(f"{name} {value}" for name, value in run.environment.items() if name != "Run"),
        "ci": " ".join(str(run.ci[name]) for name in ("buildName", "buildUrl") if run.ci.get(name)),
    }
    yield from (f"  {label}: {text}" for label, text in facts.items() if text)
    if run.used.calls:
        yield f"  models: {run.used.describe()}"
        yield from (f"    {name}: {used.describe()}" for name, used in run.models.items() if len(run.models) > 1)
    yield from _tool_lines(run)
    order = {"failed": 0, "rerun": 1, "skipped": 2}
    executions = sorted(run.executions, key=lambda each: order.get(each.outcome, 3))
    agents = any(each.record and each.record.agent for each in executions)
    head = ("outcome", "task", "seconds", "code", *(("agent", *_OF_AGENTS) if agents else ()), "what")
    yield _table(head, [_execution(each, agents=agents) for each in executions])
    yield from (f"{each.at.astimezone():%H:%M:%S} {each.level} {each.text}" for each in run.happenings)


def _tool_lines(run: RunRecord) -> Iterator[str]:
    """`tools: 12 calls, 1 failed`, and each tool if there are several."""
    if not run.called.calls:
        return
    yield f"  tools: {run.called.describe()}"
    each = [(f"{server}.{tool}", used) for server, tools in run.tools.items() for tool, used in tools.items()]
    yield from (f"    {name}: {used.describe()}" for name, used in each if len(each) > 1)


def comparison_lines(found: RunComparison) -> Iterator[Table | str]:
    """The differences between two runs; empty parts are left out."""
    yield f"{found.old} -> {found.new}{f' ({found.why})' if found.why else ''}"
    yield from _list_with_title("newly failing", map(_verdict, found.newly_failing))
    yield from _list_with_title("fixed", map(_verdict, found.fixed))
    yield from _list_with_title("still failing", map(_verdict, found.still_failing))
    yield from _list_with_title("slower", map(_timing, found.slower))
    yield from _list_with_title("faster", map(_timing, found.faster))
    yield from _list_with_title(
        f"different time, but too few runs to judge ({FEWEST} are needed)", map(_timing, found.undecided)
    )
    yield from _list_with_title("flakier", map(_flakier, found.flakier))
    yield from _list_with_title("new tasks", (f"{each.outcome}  {_verdict(each)}" for each in found.new_tasks))
    yield from _list_with_title("not judged (stopped from outside)", map(_verdict, found.not_judged))
    yield from _list_with_title("not run (removed, or not selected)", found.not_run)
    if not found.different:
        yield "no difference beyond the usual variation"


def point_lines(nodeid: str, points: Sequence[TaskPoint], rate: ExecutionRate | None) -> Iterator[Table | str]:
    """One task over runs, oldest first."""
    yield f"{nodeid}: failed {_rate(rate)}" if rate else nodeid
    agents = any(each.agent for each in points)
    head = ("run", "began", "outcome", "executions", "seconds", "retries", "healed", "code")
    rows = [
        (each.run, _local_time(each.started), _outcome(each), each.executions, f"{each.seconds:.1f}", each.retries,
         "yes" if each.healed else "", each.code or "", *(_agent_cells(each) if agents else ()))
        for each in points
    ]  # fmt: skip
    yield _table((*head, "agent", *_OF_AGENTS) if agents else head, rows)


def _agent_cells(each: TaskPoint) -> tuple[str, ...]:
    if not each.calls:
        return each.agent, "", "", ""
    cost = "?" if each.cost_usd is None else money_text(each.cost_usd)
    return each.agent, str(each.calls), tokens_text(each.tokens), cost


def flaky_lines(tasks: Sequence[Flaky], runs: int) -> Iterator[Table | str]:
    """Flaky tasks, the worst first."""
    if not tasks:
        yield f"no flaky tasks in the last {runs} runs"
        return
    head = ("task", "failed executions", "runs", "flips", "passed when run again", "last")
    rows = [
        (each.nodeid, _rate(each.rate), each.runs, each.flips, each.reruns_that_passed, each.last) for each in tasks
    ]
    yield _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    texts = ([blank_unprintable(str(cell)) for cell in row] for row in rows)
    return terminal_table(head, texts, numbers=_NUMBERS, styles=_STYLES)


def _local_time(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def _commit(commit: str, branch: str) -> str:
    return " ".join(filter(None, (commit[:10], branch)))


def _outcome(each: Execution | TaskPoint) -> str:
    return each.outcome if each.judged or each.outcome == "skipped" else "not judged"


def _execution(each: Execution, *, agents: bool) -> tuple[str, ...]:
    """The cells of an execution; with those of agents if any has one."""
    record = each.record
    what = each.reason or (record.message if record else "")
    again = f" (execution {each.number})" if each.number > 1 else ""
    chosen = ((record.agent, *_used(record.used)) if record else ("", "", "", "")) if agents else ()
    facts = (_outcome(each), f"{each.task_id}{again}", f"{each.seconds:.1f}", (record and record.code) or "")
    return (*facts, *chosen, what)


def _list_with_title(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield f"{title}: {len(found)}"
        yield from (f"  {line}" for line in found)


def _verdict(each: TaskChange) -> str:
    why = ": ".join(filter(None, (each.code, each.message)))
    return f"{each.nodeid}{f'  {why}' if why else ''}"


def _timing(each: Timing) -> str:
    text = f"{each.nodeid}  {each.before:.1f} -> {each.after:.1f} s"
    if each.usual is None:
        return text
    return f"{text} (usual: {each.usual.low:.1f} to {each.usual.high:.1f} s, of {each.usual.runs} runs)"


def _flakier(each: Flakiness) -> str:
    doubt = "" if each.significant else "; not significant: the intervals overlap"
    return f"{each.nodeid}  failed {_rate(each.before)} -> {_rate(each.after)}{doubt}"


def _rate(rate: ExecutionRate) -> str:
    low, high = rate.interval
    return f"{rate.failed}/{rate.executions} (95 %: {low:.2f}-{high:.2f})"
