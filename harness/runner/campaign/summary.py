"""A campaign summed up in cells, tasks and totals, and judged; and its results as Markdown and in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from statistics import median

from rich.console import Console, RenderableType
from rich.text import Text

from harness.model.statistics import FEWEST_TASKS, TaskTally
from harness.reporting.tables import markdown_table, terminal_table
from harness.runner.campaign.document import (
    NO_FAILURE,
    Campaign,
    Cell,
    Confusion,
    OverallRate,
    PassRate,
    Rate,
    Seconds,
    Task,
    Totals,
    Trial,
)
from harness.runner.campaign.trials import Attack, Running
from harness.spec.fault_plan import Gate
from harness.spec.faults import Fault
from harness.spec.names import how_many

_HEAD = ("task", "fault", "struck", "code", "right", "recovered", "seconds", "kept", "outcome")
_NUMBERS = ("struck", "right", "recovered", "seconds", "kept")
_OF_TASKS = ("task", "clean", "95 %", "faulted", "95 %")


def markdown(found: Campaign) -> str:
    """The whole document."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Campaign) -> Iterator[str]:
    yield f"# Campaign {_plain(found.name)}: {found.verdict}\n"
    if found.goal:
        yield f"{_plain(found.goal)}\n"
    yield from (f"- {line}" for line in _total_lines(found))
    if found.unmet:
        yield "\n## Not as expected\n"
        yield from (f"- {_plain(line)}" for line in found.unmet)
    yield "\n## Faults\n"
    yield from markdown_table(_HEAD, (map(_plain, row(cell)) for cell in found.cells))
    yield "\n## Tasks\n"
    yield from markdown_table(_OF_TASKS, (map(_plain, each) for each in _task_rows(found)))


def _plain(text: str) -> str:
    """The text in one line, with the marks of Markdown and HTML escaped."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


# Summarizes trials in cells, tasks and totals. Pure.


def summed_up(running: Running, started: datetime, ended: datetime, *, artifacts: str, interrupted: bool) -> Campaign:
    """The document with the results so far."""
    places = [(each.attack.task.spec.task_id, each.attack.name or None, each.number) for each in running.schedule]
    done = sorted(running.done, key=lambda each: places.index((each.task_id, each.fault, each.number)))
    found = cells(running.attacks, done)
    sums, loaded, size = totals(found, done), running.loaded, running.size
    return Campaign(
        name=loaded.name,
        goal=loaded.plan.goal,
        source=loaded.source,
        run=running.run,
        started=started,
        seconds=round((ended - started).total_seconds(), 3),
        seed=size.seed,
        trials=size.trials,
        clean_trials=size.clean,
        interrupted=interrupted,
        artifacts=artifacts,
        unmet=gate_failures(done, loaded.plan.gate, sums),
        gate=loaded.plan.gate,
        totals=sums,
        tasks=tasks(running.attacks, done),
        cells=found,
        confusion=confusion(found),
        clean=tuple(split(done)[0]),
    )


def cells(attacks: Sequence[Attack], trials: Sequence[Trial]) -> tuple[Cell, ...]:
    """One cell for each fault in each task, in the order in which they were first tried."""
    return tuple(_cell(each, each.fault, trials) for each in attacks if each.fault is not None)


def _cell(attack: Attack, fault: Fault, of_all: Sequence[Trial]) -> Cell:
    label, code = (attack.task.spec.task_id, attack.name), expected_code(fault)
    trials = tuple(trial for trial in of_all if (trial.task_id, trial.fault) == label)
    struck = [trial for trial in trials if trial.struck]
    return Cell(
        fault=attack.name,
        kind=fault.kind,
        describe=fault.describe(),
        task_id=attack.task.spec.task_id,
        transient=fault.transient,
        expected_code=code,
        expected_recovered=fault.expect.recovered,
        struck=_rate(trial.struck > 0 for trial in trials),
        classified=_rate(_failure_code(trial) == code for trial in struck if code is not None),
        recovered=_rate(trial.reached for trial in struck),
        recovery=times(trials),
        artifacts=_artifact_rate(trials),
        outcomes=dict(Counter(map(outcome, trials))),
        passed=_pass_rate(trials),
        trials=trials,
    )


def expected_code(fault: Fault) -> str | None:
    """The expected code; None if the fault does not say."""
    return (fault.expect.code or NO_FAILURE) if "code" in fault.expect.model_fields_set else None


def _failure_code(trial: Trial) -> str:
    """The code of the failure; `-` if there was none."""
    return trial.seen or NO_FAILURE


def outcome(trial: Trial) -> str:
    """The outcome: `completed`, `failed STEP_TIMEOUT`, `not tried`."""
    return " ".join(filter(None, (trial.final_state, trial.code))) or "not tried"


def _pass_rate(trials: Iterable[Trial]) -> PassRate:
    return PassRate.of_tally(TaskTally.of(trial.reached for trial in trials))


def _overall_rate(trials: Iterable[Trial]) -> OverallRate:
    """The rate over all tasks of the trials; one that was not made is void."""
    outcomes: dict[str, list[bool | None]] = {}
    for trial in trials:
        outcomes.setdefault(trial.task_id, []).append(trial.reached if trial.final_state else None)
    return OverallRate.from_tallies([TaskTally.of(each) for each in outcomes.values()])


def _artifact_rate(trials: Iterable[Trial]) -> Rate:
    """The failures with all their artifacts."""
    return _rate(not trial.missing for trial in trials if trial.missing is not None)


def times(trials: Iterable[Trial]) -> Seconds | None:
    """The times of recovery, if there was any."""
    found = [trial.recovery_seconds for trial in trials if trial.recovery_seconds is not None]
    return Seconds(median=round(median(found), 3), max=max(found)) if found else None


def tasks(attacks: Sequence[Attack], trials: Sequence[Trial]) -> tuple[Task, ...]:
    """Each task, clean and faulted side by side."""
    found = []
    for task in (each.task for each in attacks if each.fault is None):
        clean, faulted = map(_pass_rate, split(trial for trial in trials if trial.task_id == task.spec.task_id))
        found.append(Task(task_id=task.spec.task_id, source=task.source, clean=clean, faulted=faulted))
    return tuple(found)


def split(trials: Iterable[Trial]) -> tuple[list[Trial], list[Trial]]:
    """The clean trials, and those with a fault."""
    found = list(trials)
    return [trial for trial in found if trial.fault is None], [trial for trial in found if trial.fault is not None]


def confusion(found: Iterable[Cell]) -> tuple[Confusion, ...]:
    """Expected code x seen code, for all struck trials of faults with a declared code."""
    pairs = Counter(
        (cell.expected_code, _failure_code(trial))
        for cell in found
        if cell.expected_code is not None
        for trial in cell.trials
        if trial.struck
    )
    return tuple(Confusion(expected=str(a), seen=b, count=n) for (a, b), n in sorted(pairs.items(), key=str))


def totals(found: Sequence[Cell], trials: Sequence[Trial]) -> Totals:
    """The totals over all cells."""
    clean, faulted = split(trials)
    recoverable = [cell.recovered for cell in found if cell.transient and cell.expected_recovered]
    return Totals(
        clean=_overall_rate(clean),
        faulted=_overall_rate(faulted),
        struck=_sum(cell.struck for cell in found),
        classification=_sum(cell.classified for cell in found),
        recovery=_sum(recoverable),
        artifacts=_artifact_rate(trials),
        recovery_time=times(faulted),
    )


def _rate(verdicts: Iterable[bool]) -> Rate:
    return Rate.of_tally(TaskTally.of(verdicts))


def _sum(rates: Iterable[Rate]) -> Rate:
    several = list(rates)
    good = sum(each.good for each in several)
    return Rate.of_tally(TaskTally(good, sum(each.of for each in several) - good))


def gate_failures(trials: Iterable[Trial], gate: Gate | None, sums: Totals) -> tuple[str, ...]:
    """The reasons why the campaign does not pass: rates below its gate, or without one, each unexpected trial."""
    if gate is not None:
        trials = list(trials)
        return (*_rates_below(gate, sums), *(f"{_label(each)}: {why}" for each in trials for why in _void(each)))
    return tuple(f"{_label(trial)}: {why}" for trial in trials for why in trial.unmet)


def _void(trial: Trial) -> Iterator[str]:
    """The reasons why a trial tests nothing, which no threshold makes up for."""
    if trial.error:
        yield trial.error
    yield from (why for why in trial.unmet if why.startswith("the fault never struck") and why != trial.error)


def _label(trial: Trial) -> str:
    return f"{trial.task_id} {trial.fault or 'clean'} (trial {trial.number}, seed {trial.seed})"


def _rates_below(gate: Gate, sums: Totals) -> Iterator[str]:
    measured: dict[str, Rate | OverallRate] = {
        "recovery": sums.recovery,
        "classification": sums.classification,
        "artifacts": sums.artifacts,
        "clean": sums.clean,
    }
    for name, rate in measured.items():
        wanted: float | None = getattr(gate, name)
        if wanted is None:
            continue
        if rate.share is None and name != "artifacts":
            yield f"gate {name}: no trial to measure, wanted at least {wanted:g}"
        elif rate.share is not None:
            exact = rate.share if isinstance(rate, OverallRate) else rate.good / rate.of  # a mean has four digits
            if exact < wanted:
                yield f"gate {name}: {rate.share:g} ({rate.good} of {rate.of}), wanted at least {wanted:g}"


# A campaign in the terminal.


def show(found: Campaign, console: Console) -> None:
    """Print cells, confusions, tasks and totals, then why the campaign did not pass."""
    for part in _parts(found):
        console.print(part)


def _parts(found: Campaign) -> Iterator[RenderableType]:
    yield terminal_table(_HEAD, map(row, found.cells), numbers=_NUMBERS)
    wrong = [each for each in found.confusion if each.expected != each.seen]
    if wrong:
        yield "not as expected, code x code:"
        yield from (Text(f"  {each.expected} was seen as {each.seen}: {each.count}") for each in wrong)
    yield terminal_table(_OF_TASKS, _task_rows(found))
    yield from map(Text, _total_lines(found))
    if found.unmet:
        yield f"not as expected: {len(found.unmet)}"
        yield from (Text(f"  {line}") for line in found.unmet)


def row(cell: Cell) -> tuple[str, ...]:
    """One line of the table of cells; the recovered share is marked if it is not as expected."""
    rate, wanted = cell.recovered, cell.expected_recovered
    surprises = wanted is not None and rate.good != (rate.of if wanted else 0)
    return (
        cell.task_id,
        cell.fault,
        counted(cell.struck),
        _codes(cell),
        counted(cell.classified),
        counted(rate) + (" !" if surprises else ""),
        seconds(cell.recovery),
        counted(cell.artifacts),
        _outcomes(cell),
    )


def _codes(cell: Cell) -> str:
    """The seen codes; with the expected one, if it differs."""
    several = Counter(_failure_code(trial) for trial in cell.trials if trial.struck)
    text = ", ".join(several)
    wrong = cell.expected_code is not None and set(several) - {cell.expected_code}
    return f"{text} (not {cell.expected_code})" if wrong else text


def _outcomes(cell: Cell) -> str:
    """The outcomes, without a code that the row shows already."""
    codes = {_failure_code(trial) for trial in cell.trials}
    names: Counter[str] = Counter()
    for name, count in cell.outcomes.items():
        state, _, code = name.partition(" ")
        names[state if code in codes else name] += count
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in names.items())


def counted(rate: Rate) -> str:
    """`3/4`; empty if nothing counts."""
    return f"{rate.good}/{rate.of}" if rate.of else ""


def seconds(found: Seconds | None) -> str:
    """The median, and the longest time if it is longer."""
    if found is None:
        return ""
    middle, longest = f"{found.median:.1f}", f"{found.max:.1f}"
    return middle if middle == longest else f"{middle} to {longest}"


def _task_rows(found: Campaign) -> Iterator[tuple[str, ...]]:
    for each in found.tasks:
        yield (each.task_id, counted(each.clean), interval(each.clean), counted(each.faulted), interval(each.faulted))


def interval(rate: PassRate | OverallRate) -> str:
    """`0.72-1.00`; empty without trials."""
    return f"{rate.interval[0]:.2f}-{rate.interval[1]:.2f}" if rate.interval else ""


def _total_lines(found: Campaign) -> Iterator[str]:
    """The figures over all cells; where there is nothing to count, the reason."""
    sums = found.totals
    recovered = _share(sums.recovery, "of the transient faults with `recovered: true`", "no such fault struck")
    took = sums.recovery_time
    yield f"recovered: {recovered}" + (f", in {took.median:.1f} s (median), {took.max:.1f} s (longest)" if took else "")
    yield "classified: " + _share(
        sums.classification, "of the failures whose code is declared", "no fault struck that declares a code"
    )
    yield f"artifacts: {_share(sums.artifacts, 'of the failures are complete', 'no task failed, nothing to keep')}"
    yield f"struck: {_share(sums.struck, 'of the faulted trials', 'none was tried')}"
    for name, rate in (("clean", sums.clean), ("faulted", sums.faulted)):
        yield f"{name} trials that pass: {_overall_text(rate)}"


def _share(rate: Rate, what: str, nothing: str) -> str:
    return nothing if rate.share is None else f"{rate.share * 100:.0f} % ({rate.good}/{rate.of}) {what}"


def _overall_text(rate: OverallRate) -> str:
    if rate.share is None:
        return "not tried"
    mean = f"{rate.share * 100:.0f} % ({rate.good}/{rate.of}), mean of {how_many(rate.tasks, 'task')}"
    spread = f", 95 %: {interval(rate)}" if rate.interval else f", no interval below {FEWEST_TASKS} tasks"
    hats = "".join(f", pass^{k} {rate.pass_hat[k - 1]:.2f}" for k in (2, 4, 8) if k <= len(rate.pass_hat))
    return f"{mean}{spread}{hats}"
