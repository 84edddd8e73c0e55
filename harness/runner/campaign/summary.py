"""A campaign as Markdown, for a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from harness.runner.campaign.document import (
    NO_FAILURE,
    Campaign,
    Cell,
    Confusion,
    PassRate,
    Rate,
    Seconds,
    Task,
    Totals,
    Trial,
)
from harness.runner.campaign.trials import Attack
from harness.spec.fault_plan import Gate
from harness.spec.faults import Fault

_HEAD = ("task", "fault", "struck", "code", "right", "recovered", "seconds", "kept", "outcome")


def markdown(found: Campaign) -> str:
    """The whole document."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Campaign) -> Iterator[str]:
    yield f"# Campaign {_plain(found.name)}: {found.verdict}\n"
    if found.goal:
        yield f"{_plain(found.goal)}\n"
    yield from (f"- {line}" for line in total_lines(found))
    if found.unmet:
        yield "\n## Not as expected\n"
        yield from (f"- {_plain(line)}" for line in found.unmet)
    yield "\n## Faults\n"
    yield from _table(_HEAD, [row(cell) for cell in found.cells])
    yield "\n## Tasks\n"
    rates = [
        (t.task_id, counted(t.clean), interval(t.clean), counted(t.faulted), interval(t.faulted)) for t in found.tasks
    ]
    yield from _table(("task", "clean", "95 %", "faulted", "95 %"), rates)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for cells in rows:
        yield f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """On one line, and without what Markdown or HTML would read as its own."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


# From trials to cells, tasks and totals. Pure.


def cells(attacks: Sequence[Attack], trials: Sequence[Trial]) -> tuple[Cell, ...]:
    """One for each fault in each task, in the order in which they were first tried."""
    return tuple(_cell(each, each.fault, _of(each, trials)) for each in attacks if each.fault is not None)


def _of(attack: Attack, trials: Iterable[Trial]) -> tuple[Trial, ...]:
    label = (attack.task.spec.task_id, attack.name or None)
    return tuple(trial for trial in trials if (trial.task_id, trial.fault) == label)


def _cell(attack: Attack, fault: Fault, trials: tuple[Trial, ...]) -> Cell:
    struck = [trial for trial in trials if trial.struck]
    code = expected_code(fault)
    return Cell(
        fault=attack.name,
        kind=fault.kind,
        describe=fault.describe(),
        task_id=attack.task.spec.task_id,
        transient=fault.transient,
        expected_code=code,
        expected_recovered=fault.expect.recovered,
        struck=Rate.made(len(struck), len(trials)),
        classified=_rate(seen(trial) == code for trial in struck if code is not None),
        recovered=_rate(trial.reached for trial in struck),
        recovery=times(trials),
        artifacts=kept(trials),
        outcomes=dict(Counter(map(outcome, trials))),
        passed=passed(trials),
        trials=trials,
    )


def expected_code(fault: Fault) -> str | None:
    """None when the fault says nothing of it."""
    return (fault.expect.code or NO_FAILURE) if "code" in fault.expect.model_fields_set else None


def seen(trial: Trial) -> str:
    """The code that the failure got; `-` when there was none."""
    return trial.seen or NO_FAILURE


def outcome(trial: Trial) -> str:
    """`completed`, `failed STEP_TIMEOUT`, `not tried`."""
    return " ".join(filter(None, (trial.final_state, trial.code))) or "not tried"


def passed(trials: Sequence[Trial]) -> PassRate:
    return PassRate.made(sum(trial.reached for trial in trials), len(trials))


def kept(trials: Iterable[Trial]) -> Rate:
    """Failures with all their artifacts."""
    return _rate(not trial.missing for trial in trials if trial.missing is not None)


def times(trials: Iterable[Trial]) -> Seconds | None:
    """How long recovery took, where there was some."""
    found = [trial.recovery_seconds for trial in trials if trial.recovery_seconds is not None]
    return Seconds(median=round(median(found), 3), max=max(found)) if found else None


def tasks(attacks: Sequence[Attack], trials: Sequence[Trial]) -> tuple[Task, ...]:
    """Each task, clean and faulted side by side."""
    return tuple(_task(each, trials) for each in attacks if each.fault is None)


def _task(attack: Attack, trials: Sequence[Trial]) -> Task:
    own = [trial for trial in trials if trial.task_id == attack.task.spec.task_id]
    clean, faulted = split(own)
    return Task(
        task_id=attack.task.spec.task_id, source=attack.task.source, clean=passed(clean), faulted=passed(faulted)
    )


def split(trials: Iterable[Trial]) -> tuple[list[Trial], list[Trial]]:
    """The clean ones, and those with a fault."""
    found = list(trials)
    return [trial for trial in found if trial.fault is None], [trial for trial in found if trial.fault is not None]


def confusion(found: Iterable[Cell]) -> tuple[Confusion, ...]:
    """Expected code x code seen, of all struck trials of faults that say which they expect."""
    pairs = Counter(
        (cell.expected_code, seen(trial))
        for cell in found
        if cell.expected_code is not None
        for trial in cell.trials
        if trial.struck
    )
    return tuple(Confusion(expected=str(a), seen=b, count=n) for (a, b), n in sorted(pairs.items(), key=str))


def totals(found: Sequence[Cell], trials: Sequence[Trial]) -> Totals:
    """Over all cells."""
    clean, faulted = split(trials)
    recoverable = [cell.recovered for cell in found if cell.transient and cell.expected_recovered]
    return Totals(
        clean=passed(clean),
        faulted=passed(faulted),
        struck=_sum(cell.struck for cell in found),
        classification=_sum(cell.classified for cell in found),
        recovery=_sum(recoverable),
        artifacts=kept(trials),
        recovery_time=times(faulted),
    )


def _rate(verdicts: Iterable[bool]) -> Rate:
    several = list(verdicts)
    return Rate.made(sum(several), len(several))


def _sum(rates: Iterable[Rate]) -> Rate:
    several = list(rates)
    return Rate.made(sum(each.good for each in several), sum(each.of for each in several))


def unmet(trials: Iterable[Trial], gate: Gate | None, sums: Totals) -> tuple[str, ...]:
    """Why the campaign does not pass: what is below its gate; without one, each trial that is not as expected."""
    if gate is not None:
        trials = list(trials)
        return (*_below(gate, sums), *(f"{_label(each)}: {why}" for each in trials for why in _void(each)))
    return tuple(f"{_label(trial)}: {why}" for trial in trials for why in trial.unmet)


def _void(trial: Trial) -> Iterator[str]:
    """Why a trial tests nothing, which no threshold makes up for."""
    if trial.error:
        yield trial.error
    yield from (why for why in trial.unmet if why.startswith("the fault never struck") and why != trial.error)


def _label(trial: Trial) -> str:
    return f"{trial.task_id} {trial.fault or 'clean'} (trial {trial.number}, seed {trial.seed})"


def _below(gate: Gate, sums: Totals) -> Iterator[str]:
    measured = {
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
            yield f"gate {name}: nothing to measure it by, wanted at least {wanted:g}"
        elif rate.share is not None and rate.good / rate.of < wanted:
            yield f"gate {name}: {rate.share:g} ({rate.good} of {rate.of}), wanted at least {wanted:g}"


# A campaign as a terminal shows it.


def show(found: Campaign, console: Console) -> None:
    """Cells, confusions, tasks and totals, then why it did not pass."""
    for part in _parts(found):
        console.print(part)


def _parts(found: Campaign) -> Iterator[RenderableType]:
    yield _cells(found)
    wrong = [each for each in found.confusion if each.expected != each.seen]
    if wrong:
        yield "not as expected, code x code:"
        yield from (Text(f"  {each.expected} was seen as {each.seen}: {each.count}") for each in wrong)
    yield _tasks(found)
    yield from map(Text, total_lines(found))
    if found.unmet:
        yield f"not as expected: {len(found.unmet)}"
        yield from (Text(f"  {line}") for line in found.unmet)


def _cells(found: Campaign) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in ("task", "fault", "struck", "code", "right", "recovered", "seconds", "kept", "outcome"):
        table.add_column(name, overflow="fold", justify="right" if name in _NUMBERS else "left")
    for cell in found.cells:
        table.add_row(*map(Text, row(cell)))
    return table


_NUMBERS = ("struck", "right", "recovered", "seconds", "kept")


def row(cell: Cell) -> tuple[str, ...]:
    """One line of the table of cells."""
    return (
        cell.task_id,
        cell.fault,
        counted(cell.struck),
        _codes(cell),
        counted(cell.classified),
        _recovered(cell),
        seconds(cell.recovery),
        counted(cell.artifacts),
        _outcomes(cell),
    )


def _codes(cell: Cell) -> str:
    """What was seen; with what was expected, where that is something else."""
    several = Counter(seen(trial) for trial in cell.trials if trial.struck)
    text = ", ".join(several)
    wrong = cell.expected_code is not None and set(several) - {cell.expected_code}
    return f"{text} (not {cell.expected_code})" if wrong else text


def _recovered(cell: Cell) -> str:
    """Marked where it is not what was expected."""
    rate, wanted = cell.recovered, cell.expected_recovered
    wrong = wanted is not None and rate.good != (rate.of if wanted else 0)
    return f"{counted(rate)} !" if wrong else counted(rate)


def _outcomes(cell: Cell) -> str:
    """A code that stands in the row already is not told again."""
    codes = {seen(trial) for trial in cell.trials}
    names: Counter[str] = Counter()
    for name, count in cell.outcomes.items():
        state, _, code = name.partition(" ")
        names[state if code in codes else name] += count
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in names.items())


def counted(rate: Rate) -> str:
    """`3/4`; empty when nothing counts."""
    return f"{rate.good}/{rate.of}" if rate.of else ""


def seconds(found: Seconds | None) -> str:
    """Median, and the longest where it is longer."""
    if found is None:
        return ""
    middle, longest = f"{found.median:.1f}", f"{found.max:.1f}"
    return middle if middle == longest else f"{middle} to {longest}"


def _tasks(found: Campaign) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in ("task", "clean", "95 %", "faulted", "95 %"):
        table.add_column(name, overflow="fold")
    for each in found.tasks:
        cells = (each.task_id, counted(each.clean), interval(each.clean), counted(each.faulted), interval(each.faulted))
        table.add_row(*map(Text, cells))
    return table


def interval(rate: PassRate) -> str:
    """`0.72-1.00`; empty without trials."""
    return f"{rate.interval[0]:.2f}-{rate.interval[1]:.2f}" if rate.interval else ""


def total_lines(found: Campaign) -> Iterator[str]:
    """The figures over all cells; where there is nothing to count, why."""
    sums = found.totals
    recovered = _share(sums.recovery, "of the transient faults to recover from", "no such fault struck")
    yield f"recovered: {recovered}{_times(sums.recovery_time)}"
    yield "classified: " + _share(
        sums.classification, "of the failures whose code is declared", "no fault struck that declares a code"
    )
    yield f"artifacts: {_share(sums.artifacts, 'of the failures are complete', 'no task failed, nothing to keep')}"
    yield f"struck: {_share(sums.struck, 'of the faulted trials', 'none was tried')}"
    for name, rate in (("clean", sums.clean), ("faulted", sums.faulted)):
        yield f"{name} trials that pass: {_passed(rate)}"


def _share(rate: Rate, what: str, nothing: str) -> str:
    return nothing if rate.share is None else f"{rate.share * 100:.0f} % ({rate.good}/{rate.of}) {what}"


def _passed(rate: PassRate) -> str:
    if rate.share is None:
        return "not tried"
    return f"{rate.share * 100:.0f} % ({rate.good}/{rate.of}), 95 %: {interval(rate)}{_pass_hat(rate)}"


def _times(found: Seconds | None) -> str:
    return f", in {found.median:.1f} s (median), {found.max:.1f} s (longest)" if found else ""


def _pass_hat(rate: PassRate) -> str:
    """A few of them: 2, 4, 8 in a row."""
    some = [k for k in (2, 4, 8) if k <= rate.of]
    return "".join(f", pass^{k} {rate.pass_hat[k - 1]:.2f}" for k in some)
