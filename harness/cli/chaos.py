"""`harness chaos`: a campaign of faults."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from msgspec import Struct
from rich.console import Console

from harness.cli.ending import fail
from harness.cli.main import INTERRUPTED
from harness.cli.project import project_of
from harness.cli.trials import WorkersOption, begun_run, say, say_progress, with_workers
from harness.cli.validate import check_paths
from harness.faults.checks import Project, misplaced_in_plan
from harness.model.settings import Settings, load_settings
from harness.reporting.files import shown_path
from harness.runner.campaign.document import Campaign, Trial
from harness.runner.campaign.summary import markdown, show, summed_up
from harness.runner.campaign.trials import BusyError, Running, Size, attacks, reserved
from harness.runner.trials import TrialRunner
from harness.spec.fault_plan import LoadedFaultPlan, idle_patterns, load_fault_plan
from harness.spec.loaded import Loaded
from harness.spec.names import new_run_id, slug
from harness.spec.parametrize import expand
from harness.spec.problems import Problem, SpecError
from harness.spec.suite import by_name
from harness.values import replace

# The files of a campaign, read and checked.


class Given(Struct, frozen=True):
    """A fault plan, the tasks that it may strike, and their project."""

    loaded: LoadedFaultPlan
    tasks: tuple[Loaded, ...]
    settings: Settings
    warnings: tuple[Problem, ...]


def given(paths: list[Path], faults: Path) -> Given:
    """Load them. Raises SpecError or SettingsError for files with errors."""
    tasks, settings = given_tasks(paths)
    loaded, places = given_faults(faults, settings)
    struck = [task for task in tasks if any(True for _ in loaded.plan.of(task.spec))]
    odd = (*loaded.warnings, *places, *idle_patterns(loaded, tasks), *missing_dependencies(struck, tasks))
    return Given(loaded, tasks, settings, odd)


def given_tasks(paths: list[Path]) -> tuple[tuple[Loaded, ...], Settings]:
    """All cases of the tasks, and the settings of their project. Raises SpecError or SettingsError."""
    checked = check_paths(paths, strict=False, needs_steps=False)
    others = (*checked.plans, *checked.gates)
    errors = [each for each in checked.problems if each.severity == "error" and each.file not in others]
    if errors or not checked.loaded:
        raise SpecError(errors or [Problem("", None, None, "", f"no task files in {', '.join(map(str, paths))}")])
    settings = load_settings(project_of(checked.loaded[0].folder) or Path.cwd())
    return tuple(case for task in checked.loaded for case in expand(task)), settings


def given_faults(faults: Path, settings: Settings) -> tuple[LoadedFaultPlan, tuple[Problem, ...]]:
    """A fault plan, and the warnings about hosts, services and the like that it names. Raises SpecError."""
    loaded = load_fault_plan(faults, frozenset(settings.channels) or None)
    places = tuple(misplaced_in_plan(loaded, Project(settings)))
    if wrong := [each for each in places if each.severity == "error"]:
        raise SpecError(wrong)
    return loaded, places


def missing_dependencies(wanted: Iterable[Loaded], tasks: tuple[Loaded, ...]) -> Iterator[Problem]:
    """Yield warnings for the wanted tasks with a missing dependency, which cannot run before them."""
    known = by_name(tasks)
    for task in wanted:
        for number, name in enumerate(task.spec.dependencies):
            if name not in known:
                message, hint = f"`{name}` is not among these tasks", "name its file too"
                yield task.origin.problem(("dependencies", number), message, hint=hint, severity="warning")


_PRINTED = Path("-")
LOCK = Path(".harness", "chaos", "lock")


def chaos(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Task files, or folders with them.")],
    faults: Annotated[Path, typer.Option("--faults", metavar="FILE", help="The fault plan, a file *.faults.yaml.")],
    trials: Annotated[int, typer.Option(min=1, help="Trials of each fault in each task.")] = 1,
    clean_trials: Annotated[
        int | None, typer.Option(min=0, help="Trials of each task without faults. Default: as --trials.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the first trials. Default: the plan's or 0.")] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the JSON; - prints it. Default: .harness/chaos.")
    ] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Also write a summary for a pull request.")
    ] = None,
    workers: WorkersOption = None,
) -> None:
    """Run tasks with each fault of a plan, and without faults.

    It tells for each fault whether it struck, whether its failure got the expected code, whether the task recovered,
    and how long that took.
    Exit code: 1 when a trial does not end as the plan expects or a clean trial fails, 2 when a file is wrong.

    Example: harness chaos tasks/ --faults tasks/campaigns/e2e.faults.yaml --trials 3
    """
    started = datetime.now(UTC)
    refuse_unwritable(None if json == _PRINTED else json, markdown_file)
    try:
        found = given(paths, faults)
    except ValueError as error:
        refuse(str(error))
    found = replace(found, settings=with_workers(found.settings, workers))
    seed = seed if seed is not None else found.loaded.plan.seed or 0
    size = Size(trials, trials if clean_trials is None else clean_trials, seed)
    running = _prepare_run(found, size, started)
    try:  # while no other campaign can disturb this one, or be disturbed by it
        with reserved(found.settings.root / LOCK, running.loaded.source, alone=running.ends_services):
            interrupted = make_trials(running, found)
    except BusyError as busy:
        refuse(str(busy))
    artifacts = running.folder.relative_to(found.settings.root).as_posix()
    document = summed_up(running, started, datetime.now(UTC), artifacts=artifacts, interrupted=interrupted)
    _tell(document, json, running)
    if markdown_file is not None:
        markdown_file.write_text(markdown(document), "utf-8")
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if document.unmet:
        raise typer.Exit(1)


def refuse(message: str) -> NoReturn:
    """End the command before any trial."""
    fail(message, 2)


def _prepare_run(found: Given, size: Size, started: datetime) -> Running:
    for warning in found.warnings:
        typer.echo(f"warning: {warning}", err=True)
    run = new_run_id(started, os.getpid())
    try:
        several = attacks(found.loaded, found.tasks, found.settings, run)
    except SpecError as error:
        refuse(str(error))
    if not several:
        refuse(f"{found.loaded.source}: none of its faults strikes one of these tasks")
    return Running(found.loaded, several, size, run, found.settings.root / ".harness" / "chaos" / run / "errors")


def make_trials(running: Running, found: Given) -> bool:
    """Make the trials, and print each. Returns whether they were interrupted."""
    of = len(running.schedule)
    try:
        run = begun_run(found.settings.model_copy(update={"artifacts": running.folder}), running.run)
    except (ValueError, OSError) as error:
        refuse(str(error))
    with run:
        try:
            running.make(
                TrialRunner(run.harness, run.stream.on),
                lambda trial: say_progress(len(running.done), of, _progress(trial)),
            )
        except KeyboardInterrupt:
            say(f"interrupted after {len(running.done)} of {of} trials")
            return True
    return False


def _progress(trial: Trial) -> str:
    name = f"{trial.task_id} {trial.fault or 'clean'}"
    ended = trial.error or f"{trial.final_state} in {trial.seconds:.1f} s"
    if trial.struck:
        ended += f", struck: {trial.seen or 'no failure'}"
    return f"{name}: {ended}" + "".join(f"\n    {why}" for why in trial.unmet if why != trial.error)


def refuse_unwritable(*files: Path | None) -> None:
    """End the command before any trial if a file cannot be written: hours later would be too late."""
    for file in filter(None, files):
        folder = file.absolute().parent
        if not folder.is_dir():
            refuse(f"{file}: there is no folder {shown_path(folder)}")
        try:
            existed = file.exists()
            file.open("a").close()
            if not existed:
                file.unlink()
        except OSError as error:
            refuse(f"{file}: it cannot be written: {error.strerror}")


def _tell(document: Campaign, json: Path | None, running: Running) -> None:
    """Print the table before the files are written, so that it is not lost if one cannot be written."""
    printed = json == _PRINTED
    show(document, console(stderr=printed))
    if document.interrupted:
        typer.echo(document.verdict, err=printed)
    text = document.model_dump_json(indent=1)
    if printed:
        typer.echo(text)
    place = running.folder.parent.parent / f"{slug(document.name)}-{running.run}.json"
    file = place if json is None or printed else json
    file.parent.mkdir(parents=True, exist_ok=True)  # the folder of the default place; a named one exists
    file.write_text(text + "\n", "utf-8")
    typer.echo(f"document: {shown_path(file)}", err=printed)


def console(*, stderr: bool = False) -> Console:
    """As wide as the terminal, and wide enough for a table."""
    width = max(60, shutil.get_terminal_size((120, 24)).columns)
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)
