"""From trials to cells, tasks and totals. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from harness.campaign.cells import Attack
from harness.campaign.document import NO_FAILURE, Cell, Confusion, PassRate, Rate, Seconds, Task, Totals, Trial
from harness.spec.fault_plan import Gate
from harness.spec.faults import Fault


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
