"""`harness eval`: agents compared on the same tasks."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from harness.cli.chaos import LOCK, console, given_faults, given_tasks, missing_dependencies, refuse, refuse_unwritable
from harness.cli.main import INTERRUPTED
from harness.cli.trials import WorkersOption, begun_run, say, say_progress, with_workers
from harness.model.evaluation import Evaluation, EvaluationTrial
from harness.model.model_settings import CassetteMode
from harness.model.settings import Settings
from harness.reporting.evaluation.page import evaluation_page
from harness.reporting.evaluation.tables import evaluation_markdown, show_evaluation
from harness.reporting.evaluation.trials import write_trial_pages
from harness.reporting.files import shown_path, write_text
from harness.resilience import SystemClock
from harness.runner.campaign.trials import BusyError, ends_services, reserved
from harness.runner.evaluation import lock
from harness.runner.evaluation.gate import gate_problem, judged_by, read_evaluation
from harness.runner.evaluation.run import TRIALS, EvaluationRun, TrialJournal, opened
from harness.runner.evaluation.trials import EvaluationSize, Judging, agents_attacks, without_memory
from harness.runner.trials import TrialRunner
from harness.spec.agents import BRIDGE, MANUAL, SCRIPTED, unknown_agent
from harness.spec.evaluation_gate import EvaluationGate, load_gate
from harness.spec.fault_plan import LoadedFaultPlan, idle_patterns
from harness.spec.loaded import Loaded
from harness.spec.names import new_run_id
from harness.spec.problems import SpecError
from harness.values import replace

if TYPE_CHECKING:
    from harness.runner.sync import SyncHarness

_NO_VERDICT = 3
_PLACE = Path(".harness", "eval")
DOCUMENT, MARKDOWN, PAGE = "evaluation.json", "evaluation.md", "index.html"


class EvaluationFiles(Struct, frozen=True):
    """The files of an evaluation, read and checked."""

    tasks: tuple[Loaded, ...]
    settings: Settings
    loaded: LoadedFaultPlan | None
    agents: tuple[str, ...]
    gate: EvaluationGate | None
    earlier: Evaluation | None


def evaluate(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Task files, or folders with them.")],
    agents: Annotated[str, typer.Option("--agents", metavar="A,B", help="The agents.")],
    faults: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also try the agents under the faults of this plan.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each task, agent and fault.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first trials.")] = 0,
    models: Annotated[
        CassetteMode | None, typer.Option(help="Where the answers of models come from, as `pytest --task-models`.")
    ] = None,
    gate: Annotated[Path | None, typer.Option(metavar="FILE", help="Thresholds that decide the exit code.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the evaluation of --output, or the last one.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the results. Default: .harness/eval/<run>.")
    ] = None,
    summary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append the Markdown to this file, for the page of a job.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    workers: WorkersOption = None,
) -> None:
    """Compare agents: all do the same tasks several times.

    It tells how much passes, how sure that is, which agent is better, whether they survive faults, and what each costs.
    Exit code: 1 when the gate is not passed, 2 when a file is wrong or has changed since the evaluation began, 3 when
    too many trials are void, because infrastructure broke, for a verdict.

    Example: harness eval tasks/agents/ --agents scripted,builder --trials 5
    """
    refuse_unwritable(summary)
    found = _read_all(paths, agents, faults, gate, models)
    found = replace(found, settings=with_workers(found.settings, workers))
    size, run = EvaluationSize(trials, seed), new_run_id(datetime.now(UTC), os.getpid())
    evaluation = _prepared(found, size, run)
    folder = _folder(found.settings.root, output, run, resume=resume)
    interrupted, document, made = _run_in(folder, evaluation, found, resume=resume)
    if document is None:
        raise typer.Exit(INTERRUPTED)
    try:
        _write_all(document, made, folder, summary, err=as_json)
    except OSError as error:
        refuse(_not_written(error, folder))
    if as_json:
        typer.echo(document.model_dump_json(indent=1))
    else:
        show_evaluation(document, console())
    if document.no_verdict and not interrupted:
        typer.echo("mend what broke the void trials: --resume makes them once more", err=True)
    code = _NO_VERDICT if document.no_verdict else int(not all(each.met for each in document.gate))
    raise typer.Exit(INTERRUPTED if interrupted else code)


# The files and options, checked before the first trial.


def _read_all(
    paths: list[Path], agents: str, faults: Path | None, gate: Path | None, models: CassetteMode | None
) -> EvaluationFiles:
    try:
        tasks, settings = given_tasks(paths)
        names = _agents(agents, settings)
        loaded, warnings = given_faults(faults, settings) if faults else (None, ())
        thresholds = load_gate(gate) if gate else None
        earlier = read_evaluation(Path(thresholds.no_worse_than)) if thresholds and thresholds.no_worse_than else None
    except ValueError as error:
        refuse(str(error))
    odd = (*loaded.warnings, *warnings, *idle_patterns(loaded, tasks)) if loaded else ()
    for warning in (*odd, *missing_dependencies(tasks, tasks)):
        typer.echo(f"warning: {warning}", err=True)
    mode = models or settings.cassettes.mode_in(os.environ)
    settings = settings.model_copy(update={"cassettes": settings.cassettes.model_copy(update={"mode": mode})})
    return EvaluationFiles(_wanted(tasks), settings, loaded, names, thresholds, earlier)


def _agents(text: str, settings: Settings) -> tuple[str, ...]:
    """The names of the agents. Raises ValueError for one that there is not, or that cannot be evaluated."""
    names = tuple(each.strip() for each in text.split(","))
    for number, name in enumerate(names):
        if not name:
            raise ValueError(f"--agents: an empty name in {text!r}: write names with one comma between them")
        if name in names[:number]:
            raise ValueError(f"--agents: `{name}` is there twice")
        if name in (MANUAL, BRIDGE):
            raise ValueError(f"--agents: `{name}` cannot be evaluated: nobody is there for each of its trials")
        if unknown := unknown_agent(name, settings.agents):
            raise ValueError(f"--agents: there is no agent `{name}`: expected {unknown[0]}. {unknown[1]}")
    return names


def _wanted(tasks: tuple[Loaded, ...]) -> tuple[Loaded, ...]:
    """The tasks without those that their files skip, which are named."""
    for task in tasks:
        if task.spec.own.skip:
            typer.echo(f"skipped: {task.spec.task_id} ({task.spec.own.skip})", err=True)
    return tuple(task for task in tasks if not task.spec.own.skip)


def _prepared(found: EvaluationFiles, size: EvaluationSize, run: str) -> EvaluationRun:
    """The evaluation with its plans. Ends the command if there is nothing to try."""
    without = [each.spec.task_id for each in found.tasks if not each.spec.steps]
    if SCRIPTED in found.agents and without:
        refuse(f"--agents: `scripted` does the steps of the file, and {', '.join(without)} has none: leave one out")
    try:
        attacks = agents_attacks(found.agents, found.loaded, found.tasks, found.settings, run)
    except SpecError as error:
        refuse(str(error))
    if not any(attacks.values()):
        refuse("there is nothing to evaluate: all of these tasks are skipped")
    evaluation = EvaluationRun(attacks, size, run)
    if found.gate is not None and (wrong := gate_problem(found.gate, evaluation.shape, found.earlier)):
        refuse(f"--gate: {wrong}")
    return evaluation


# The folder of the results.


def _folder(root: Path, output: Path | None, run: str, *, resume: bool) -> Path:
    """The folder of a new evaluation, or of the one that goes on. Ends the command if it is not fit for that."""
    if output is not None:
        folder = output.absolute()
    elif resume:
        made = sorted((root / _PLACE).glob(f"*/{lock.LOCK}"))
        if not made:
            refuse(f"--resume: there is no evaluation in {shown_path(root / _PLACE)}: begin one without --resume")
        folder = made[-1].parent
    else:
        folder = root / _PLACE / run
    if wrong := _unfit(folder, resume=resume):
        refuse(wrong)
    return folder


def _unfit(folder: Path, *, resume: bool) -> str:
    """Why no evaluation can begin in the folder, or go on there; empty if it can.

    An empty file of trials without a lock file is what a command leaves that was killed before it had begun.
    """
    shown, locked = shown_path(folder), (folder / lock.LOCK).exists()
    if folder.exists() and not folder.is_dir():
        return f"{shown} is a file: name a folder"
    if not locked and _has_trials(folder):
        return f"{shown} has {TRIALS} without {lock.LOCK}, so nobody knows what they depend on: name another folder"
    if locked and not resume:
        return f"{shown} has an evaluation: go on with it (--resume), or name another folder"
    if resume and not locked:
        return f"--resume: there is no evaluation in {shown}: begin one without --resume"
    return ""


def _has_trials(folder: Path) -> bool:
    file = folder / TRIALS
    return file.is_file() and file.stat().st_size > 0


def _run_in(
    folder: Path, evaluation: EvaluationRun, found: EvaluationFiles, *, resume: bool
) -> tuple[bool, Evaluation | None, Sequence[EvaluationTrial]]:
    """Make the trials in the folder. Returns whether they were interrupted, the document, and all trials."""
    now = lock.digests(evaluation.attacks, evaluation.size, found.loaded, found.settings)
    alone = any(ends_services(several) for several in evaluation.attacks.values())
    try:
        with ExitStack() as held:
            held.enter_context(reserved(found.settings.root / LOCK, "harness eval", alone=alone))
            journal = held.enter_context(opened(folder))
            if resume:
                if several := list(lock.changes(lock.read_lock(folder), now)):
                    raise ValueError(_cannot_go_on(folder, several))
                journal.check(evaluation.seeds)
            else:
                lock.write_lock(folder, now)
            with redirect_stdout(sys.stderr):  # what an agent prints must not stand in the document of --json
                interrupted = make_trials(folder, evaluation, found, journal)
            document = evaluation.document(journal)
    except (BusyError, ValueError) as error:
        refuse(str(error))
    except OSError as error:
        refuse(_not_written(error, folder))
    if document is not None and found.gate is not None and not interrupted:
        document = document.model_copy(update={"gate": judged_by(found.gate, document, found.earlier)})
    return interrupted, document, journal.trials


def _not_written(error: OSError, folder: Path) -> str:
    """What could not be written, and that the trials are kept."""
    kept = ". The trials so far are kept: go on with --resume" if _has_trials(folder) else ""
    return f"{shown_path(Path(error.filename or folder))}: {error.strerror or error}{kept}"


def _refuse_browser(folder: Path, harness: SyncHarness) -> None:
    """Keep the browser's version. Raises ValueError if it is another one than before."""
    try:
        lock.lock_browser(folder, harness.browser)
    except ValueError as change:
        raise ValueError(_cannot_go_on(folder, [str(change)])) from None


def _cannot_go_on(folder: Path, several: Sequence[str]) -> str:
    lines = "".join(f"\n  {each}" for each in several)
    return (
        f"{shown_path(folder)} cannot go on, because its trials would not be comparable:{lines}\n"
        "Put that back as it was, or begin a new evaluation without --resume"
    )


# The trials.


def make_trials(folder: Path, evaluation: EvaluationRun, found: EvaluationFiles, journal: TrialJournal) -> bool:
    """Make the trials, and print each. Returns whether they were interrupted. Raises ValueError or OSError."""
    settings, of = without_memory(found.settings, found.agents), evaluation.shape.planned
    hosts = frozenset(host for each in settings.services.values() for host in each.hosts)
    with begun_run(settings.model_copy(update={"artifacts": folder / "errors"}), evaluation.run) as run:
        redactor = run.harness.archive.redactor
        judging = Judging(
            hosts, folder, lambda text, plan: redactor.plus(plan.all_secrets).text(text), SystemClock().wall
        )
        if journal.trials:
            say(f"going on after {len(journal.by_place)} of {of} trials")
        try:
            evaluation.make(
                TrialRunner(run.harness, run.stream.on),
                judging,
                journal,
                lambda trial: say_progress(len(journal.by_place), of, _progress(trial)),
                partial(_refuse_browser, folder, run.harness),
            )
        except KeyboardInterrupt:
            say(f"interrupted after {len(journal.by_place)} of {of} trials: go on with --resume")
            return True
    return False


def _progress(trial: EvaluationTrial) -> str:
    name = f"{trial.task_id} {trial.agent} {trial.fault or 'clean'}{' again' if trial.attempt > 1 else ''}"
    why = trial.why_void or trial.code or ""
    return f"{name}: {trial.outcome} in {trial.seconds:.1f} s" + (f" ({why})" if why else "")


# The results.


def _write_all(
    document: Evaluation, trials: Sequence[EvaluationTrial], folder: Path, summary: Path | None, *, err: bool
) -> None:
    """Write document, Markdown and pages; the file of the job gets the Markdown at its end."""
    text = evaluation_markdown(document)
    write_text(folder / DOCUMENT, document.model_dump_json(indent=1) + "\n")
    write_text(folder / MARKDOWN, text)
    write_trial_pages(trials, folder)
    write_text(folder / PAGE, evaluation_page(document, trials))
    if summary is not None:
        with summary.open("a", encoding="utf-8") as stream:
            stream.write(text)
    typer.echo(f"evaluation: {shown_path(folder / PAGE)}, {DOCUMENT}, {MARKDOWN}", err=err)
