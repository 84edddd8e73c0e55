"""A campaign as a terminal shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from harness.campaign.document import Campaign, Cell, PassRate, Rate, Seconds
from harness.campaign.summing import seen


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
