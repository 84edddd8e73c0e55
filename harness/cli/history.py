"""`harness history`: what became of earlier runs, one by one, side by side, and task by task."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from pydantic_core import to_jsonable_python

from harness.cli.ending import AsJson, fail
from harness.cli.project import project_of
from harness.model.consumption import ModelFigures, money_text, tokens_text
from harness.reporting.history import reading
from harness.reporting.history.comparison import (
    FEWEST,
    ExecutionRate,
    Flakiness,
    Flaky,
    RunComparison,
    TaskChange,
    Timing,
    flaky_tasks,
    rate_of,
)
from harness.reporting.history.file import HistoryError
from harness.reporting.history.record import Execution, RunRecord, RunSummary, TaskPoint, still_running
from harness.reporting.history.writing import drop_old_runs
from harness.reporting.tables import terminal_table
from harness.spec.names import blank_unprintable, how_many
from harness.spec.problems import did_you_mean

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(rich_markup_mode=None, help="Show and compare earlier runs, and find flaky tasks.")

_NEWEST = 30
"""The default number of runs."""

_Project = Annotated[Path | None, typer.Option(metavar="DIR", help="Default: the project of this folder.")]
_Runs = Annotated[int, typer.Option("--runs", min=1, help="Newest runs to read.")]
_Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="Newest runs to list.")]


@app.callback(invoke_without_command=True)
def history(context: typer.Context, limit: _Limit = _NEWEST, project: _Project = None, as_json: AsJson = False) -> None:
    """Show and compare earlier runs from .harness/history.sqlite3. Without a command, list them.

    Example: harness history
    """
    if context.invoked_subcommand is None:
        list_runs(limit, project, as_json)
    elif project is not None or as_json or limit != _NEWEST:
        raise typer.BadParameter(f"options go after the command: harness history {context.invoked_subcommand} ...")


@app.command(name="list")
def list_runs(limit: _Limit = _NEWEST, project: _Project = None, as_json: AsJson = False) -> None:
    """List the newest runs: when they ran and how they ended.

    Example: harness history list --limit 10 --json
    """
    with _history_of(project) as root:
        found = reading.recent_runs(root, limit)
    _tell(found, as_json, lambda: _run_lines(found))


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="last, last-1, an id, or its beginning.")] = "last",
    project: _Project = None,
    as_json: AsJson = False,
) -> None:
    """Show one run: its environment, tasks, services and circuits.

    Example: harness history show last-1
    """
    with _history_of(project) as root:
        found = reading.load_run(root, run)
    _tell(found, as_json, lambda: _single_run_lines(found))


@app.command()
def compare(
    old: Annotated[
        str | None,
        typer.Argument(
            help="The older run, written as for `show`. Default: the run before the new one, or the newest run that "
            "ran at least half of the tasks of the new one."
        ),
    ] = None,
    new: Annotated[str, typer.Argument(help="The newer run.")] = "last",
    project: _Project = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs: newly failing, fixed, slower, faster, flakier, new.

    A task is slower or faster when its time differs from the median of the 30 runs before by more than 3 standard
    deviations.
    Exit code: 0, also when tasks are newly failing; 1 when there is no such run.

    Example: harness history compare last-5 last
    """
    with _history_of(project) as root:
        found = reading.compare_runs(root, old, new)
    _tell(found, as_json, lambda: _comparison_lines(found))


@app.command()
def task(
    task_id: Annotated[str, typer.Argument(metavar="TASK_ID", help="A task's id, or its node id.")],
    runs: _Runs = _NEWEST,
    project: _Project = None,
    as_json: AsJson = False,
) -> None:
    """Show how one task ended in each run.

    Example: harness history task B1-2025-001
    """
    with _history_of(project) as root:
        points = reading.task_points(root, runs)
    found = {name: each for name, each in points.items() if task_id in (name, name.partition("::")[2])}
    if not found:
        hint = did_you_mean(task_id, [name.partition("::")[2] for name in points])
        fail(f"no task {task_id!r} in the last {runs} runs" + (f"; {hint}" if hint else ""))
    _tell(found, as_json, lambda: [line for name, p in found.items() for line in _point_lines(name, p, rate_of(p))])


@app.command()
def flaky(runs: _Runs = _NEWEST, project: _Project = None, as_json: AsJson = False) -> None:
    """List the flaky tasks, the worst first.

    A task is flaky when it passed after a rerun in the same run, or when its outcome changed from run to run at least
    three times.

    Example: harness history flaky --runs 50
    """
    with _history_of(project) as root:
        found = flaky_tasks(reading.task_points(root, runs))
    _tell(found, as_json, lambda: _flaky_lines(found, runs))


@app.command()
def durations(runs: _Runs = _NEWEST, project: _Project = None) -> None:
    """Print the usual seconds of each task, for --task-durations.

    Example: harness history durations > durations.json
    """
    with _history_of(project) as root:
        seconds = reading.usual_seconds(root, runs)
    document = msgspec.to_builtins(reading.Durations(dict(sorted(seconds.items())), runs))
    typer.echo(json.dumps(document, indent=2))


@app.command()
def prune(
    keep: Annotated[int, typer.Option(min=0, help="Newest runs to keep.")],
    project: _Project = None,
    as_json: AsJson = False,
) -> None:
    """Delete old runs; pytest does so by `history_runs`, too.

    Example: harness history prune --keep 50
    """
    with _history_of(project) as root:
        reading.recent_runs(root, 1)  # otherwise an empty history would be created
        gone = drop_old_runs(root, keep)
    if as_json:
        typer.echo(json.dumps({"dropped": gone}))
    else:
        typer.echo(f"{how_many(len(gone), 'run')} dropped")


@contextmanager
def _history_of(project: Path | None) -> Iterator[Path]:
    """The named folder, else the project of the current one, or that itself. An error ends the command."""
    try:
        yield project or project_of(Path.cwd()) or Path.cwd()
    except HistoryError as error:
        fail(blank_unprintable(str(error)))


def _tell(found: object, as_json: bool, lines: Callable[[], Iterable[Table | str]]) -> None:
    if as_json:
        typer.echo(json.dumps(to_jsonable_python(found), indent=2))
    else:
        _print_lines(lines())


# Runs, comparisons and tasks over time as terminal tables; in a pipe without colours, one row in a line.

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


def _print_lines(lines: Iterable[Table | str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else _IN_A_PIPE
    console = Console(file=sys.stdout, width=max(_NARROWEST, width), highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(
            line if isinstance(line, Table) else Text(blank_unprintable(line)), soft_wrap=not isinstance(line, Table)
        )


def _run_lines(runs: Sequence[RunSummary]) -> Iterator[Table | str]:
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


def _single_run_lines(run: RunRecord) -> Iterator[Table | str]:
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


def _comparison_lines(found: RunComparison) -> Iterator[Table | str]:
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


def _point_lines(nodeid: str, points: Sequence[TaskPoint], rate: ExecutionRate | None) -> Iterator[Table | str]:
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


def _flaky_lines(tasks: Sequence[Flaky], runs: int) -> Iterator[Table | str]:
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
