"""`harness validate`: task files checked without running them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import asdict

from harness.cli.advice import asked_problems, model_advice, unseen_in_last_run, write_advice
from harness.cli.project import project_of
from harness.faults.checks import Project, misplaced_faults, misplaced_in_plan
from harness.model.model_settings import CASSETTES
from harness.model.settings import Settings, load_settings
from harness.model.settings_errors import SettingsError
from harness.recovery.failure import Failed
from harness.spec.advice import advice, named_host
from harness.spec.advice.criteria import declares_failure, scopes
from harness.spec.agents import SCRIPTED
from harness.spec.checks import logins_of, unfit_for_login
from harness.spec.evaluation_gate import baseline_problem, load_gate
from harness.spec.expressions import steps_of
from harness.spec.fault_plan import idle_patterns, load_fault_plan
from harness.spec.file_names import (
    MEMORY_FILES,
    SPEC_FILE,
    TRACE_FILE,
    find_files,
    is_fault_plan,
    is_gate,
    is_step_group,
)
from harness.spec.load import check_group, exists, find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.names import how_many, with_scheme
from harness.spec.parametrize import expand
from harness.spec.problems import UNKNOWN, JsonPath, Problem, SpecError, did_you_mean, is_misspelt
from harness.spec.references import ReferenceScope, as_text, interpolate
from harness.spec.source import file_label
from harness.spec.step_groups import LoadedGroup, load_group
from harness.spec.steps import Api, Open, Step
from harness.spec.suite import check_suite
from harness.values import replace

# Checks task files, each against the settings of its project.


class Checked(Struct, frozen=True):
    """The checked files, those that load, and all problems and warnings."""

    files: tuple[str, ...]
    loaded: tuple[Loaded, ...]
    problems: tuple[Problem, ...]
    plans: tuple[str, ...] = ()
    """The checked fault plans."""
    groups: tuple[str, ...] = ()
    """The checked step groups."""
    gates: tuple[str, ...] = ()
    """The checked gates of evaluations."""

    @property
    def looked_at(self) -> tuple[str, ...]:
        """All checked files: tasks, fault plans, step groups and gates."""
        return (*self.files, *self.plans, *self.groups, *self.gates)

    @property
    def broken(self) -> frozenset[str]:
        """The files with errors; a folder's `task_spec.json` represents those beside it."""
        return frozenset(self._task_file(each.file) for each in self.problems if each.severity == "error")

    def _task_file(self, file: str) -> str:
        path = Path(file)
        main = str(path.with_name(SPEC_FILE)) if path.name in (TRACE_FILE, *MEMORY_FILES.values()) else file
        return main if main in self.files else file


def check_paths(
    paths: Sequence[Path], *, strict: bool, agent: str | None = None, needs_steps: bool = True, tools: bool = False
) -> Checked:
    """Check files. `strict`: warnings are errors, and the keys of a complete file are required.

    `agent` chooses the steps of tasks without steps, in place of the settings' one; `needs_steps` is False if steps are
    not required. `tools`: the tool servers that the tasks name are asked for their tools.
    """
    plans, groups, gates = (find_files(paths, each) for each in (is_fault_plan, is_step_group, is_gate))
    others = {*plans, *groups, *gates}
    try:
        files = find_tasks(path for path in paths if path not in others)
    except SpecError as error:
        return Checked((), (), error.problems)
    if not files and not others:
        where, hint = ", ".join(map(str, paths)), "*.task.yaml, *.task.json, folders with task_spec.json"
        return Checked((), (), (Problem("", None, None, "", f"no task files in {where} ({hint})"),))
    projects = _Projects(agent)
    read = [_read(file, projects, strict, needs_steps) for file in files]
    loaded = [task for task, _ in read if task is not None]
    inside = _run_inside(loaded)
    found = [_advised(task, problems, projects, strict, inside) for task, problems in read]
    cases = [case for task in loaded for case in expand(task)]
    suite = _promoted(check_suite(cases, _is_in_another_file), strict)
    planned = _promoted((each for file in plans for each in _of_plan(file, projects, cases)), strict)
    grouped = _promoted((each for file in groups for each in check_group(file)), strict)
    gated = [problem for file in gates for problem in _of_gate(file, projects)]
    recorded = [problem for folder in dict.fromkeys(file.parent for file in files) for problem in _of_cassettes(folder)]
    unseen = _promoted(unseen_in_last_run(loaded, projects.settings), strict)
    of_tasks = (each for several in found for each in several)
    asked = _promoted(_of_servers(loaded, projects), strict) if tools else ()
    problems = (*projects.problems(), *of_tasks, *suite, *planned, *grouped, *gated, *recorded, *asked, *unseen)
    labels, *more = (tuple(map(file_label, each)) for each in (files, plans, groups, gates))
    return Checked(labels, tuple(loaded), tuple(dict.fromkeys(problems)), *more)


def _of_servers(tasks: Sequence[Loaded], projects: _Projects) -> Iterator[Problem]:
    roots: dict[Path, list[Loaded]] = {}
    for task in tasks:
        roots.setdefault(projects.settings(task.folder).root, []).append(task)
    for several in roots.values():
        yield from asked_problems(several, projects.settings(several[0].folder))


def _of_plan(file: Path, projects: _Projects, tasks: Sequence[Loaded]) -> list[Problem]:
    """The problems of a fault plan; patterns that match no task are reported if there are tasks."""
    channels = frozenset(projects.settings(file.parent).channels) or None
    try:
        loaded = load_fault_plan(file, channels)
    except SpecError as error:
        return list(error.problems)
    found = misplaced_in_plan(loaded, projects.project(file.parent))
    idle = idle_patterns(loaded, tasks) if tasks else ()
    return sorted([*loaded.warnings, *found, *idle], key=_place)


def _of_gate(file: Path, projects: _Projects) -> Iterator[Problem]:
    project = projects.project(file.parent)
    try:
        gate = load_gate(file, tuple(project.settings.agents) if project.known else None)
    except SpecError as error:
        yield from error.problems
        return
    if gate.no_worse_than is None:
        return
    from harness.runner.evaluation.gate import read_evaluation  # few gates have an earlier evaluation

    try:
        read_evaluation(Path(gate.no_worse_than))
    except (ValueError, OSError) as error:
        yield baseline_problem(file, str(error))


def _of_cassettes(folder: Path) -> Iterator[Problem]:
    if not (folder / CASSETTES).is_dir():
        return
    from harness.models.cassettes import SUFFIX, problems

    for file in sorted((folder / CASSETTES).glob(f"*/*{SUFFIX}")):
        for line, message in problems(file):
            yield Problem(file_label(file), line, None, "", message, hint="record it anew: --task-models record")


def _is_in_another_file(task: Loaded, name: str) -> bool:
    """Return whether another file of the project has the task that this one depends on."""
    return exists(name, (task.folder.parent, *filter(None, (project_of(task.folder),))))


def _read(file: Path, projects: _Projects, strict: bool, needs_steps: bool) -> tuple[Loaded | None, list[Problem]]:
    """The task, unless it has errors, and its problems; in strict mode also those that only strict loading finds."""
    settings, unread = projects.settings(file.parent), projects.unread(file.parent)
    load = partial(
        load_file,
        file,
        known_channels=frozenset(settings.channels) or None,
        needs_steps=needs_steps and settings.chosen_agent in (None, SCRIPTED) and not unread,
        agents=None if unread else tuple(settings.agents),
        defaults=settings.defaults,
        extra_keys=settings.extra_keys,
        logins=None if unread else tuple(settings.logins),
        tools=None if unread else {name: each.allow for name, each in settings.tools.items()},
        profiles=None if unread else tuple(settings.browser.profiles),
    )
    try:
        task = load()
    except SpecError as error:
        return None, _strictly(load, list(error.problems)) if strict else list(error.problems)
    problems = list(task.warnings)
    return task, _strictly(load, _promoted(problems, strict)) if strict else problems


def _run_inside(tasks: Sequence[Loaded]) -> frozenset[str]:
    """The ids of tasks that others run in their own world: as an alternative, or as a repair."""
    repairs = (repair.task for task in tasks for repair in task.spec.repairs)
    named = [*repairs, *(task.spec.fallback_plan.alternative_task_id for task in tasks)]
    return frozenset(each for name in named if name for each in (name, name.partition("[")[0]))


def _advised(
    task: Loaded | None, problems: list[Problem], projects: _Projects, strict: bool, inside: frozenset[str]
) -> list[Problem]:
    """All problems and warnings of a task, in the order of the file."""
    if task is None:
        return problems
    settings = projects.settings(task.folder)
    profile = task.spec.timeout_profile or settings.timeout_profile
    limited = replace(task, spec=task.spec.model_copy(update={"timeout_profile": profile}))
    inner = task.spec.task_id in inside or settings.memory.channel is not None
    told = [*advice(limited, inner=inner, virtual_hosts=settings.virtual_hosts), *address_advice(task, settings)]
    told += model_advice(task, settings, file_label(settings.root / "pyproject.toml"))
    told += write_advice(task, settings)
    told += misplaced_faults(task, projects.project(task.folder))
    problems = [*problems, *(each for named in logins_of(task.spec) for each in _of_login(task, *named, settings))]
    return sorted([*problems, *_promoted(told, strict)], key=lambda each: (each.file != task.source, *_place(each)))


def _of_login(task: Loaded, path: JsonPath, name: str, settings: Settings) -> Iterator[Problem]:
    declared = settings.logins.get(name)
    if declared is None or declared.task is None:
        return
    file = settings.root / declared.task
    if not file.exists():
        message = f"the login `{name}` is made by {declared.task}, which does not exist"
        yield task.origin.problem(path, message, hint=f"see [tool.harness.logins.{name}]")
        return
    try:
        made = load_file(file, defaults=settings.defaults, extra_keys=settings.extra_keys)
    except SpecError as error:
        yield from error.problems
    else:
        yield from unfit_for_login(made.spec, made.origin.file, path, task.origin)


def _strictly(load: Callable[..., Loaded], problems: list[Problem]) -> list[Problem]:
    try:
        load(strict=True)
    except SpecError as error:
        problems = [*problems, *(each for each in error.problems if each not in problems)]
    return sorted(problems, key=_place)


def _place(problem: Problem) -> tuple[str, int, int]:
    return problem.file, problem.line or 0, problem.column or 0


def _promoted(problems: Iterable[Problem], strict: bool) -> list[Problem]:
    return [replace(each, severity="error") if strict else each for each in problems]


class _Projects:
    """The settings of the files' projects; settings that cannot be read are reported once."""

    def __init__(self, agent: str | None = None) -> None:
        self._chosen = {} if agent is None else {"agent": agent}
        self._broken: dict[str, Problem] = {}
        self._unread: set[Path] = set()
        self.settings = cache(self._settings)

    def _settings(self, folder: Path) -> Settings:
        project = project_of(folder)
        file = (project or Path()) / "pyproject.toml"
        label = file_label(file) if project and not self._chosen else "--agent"
        try:
            settings = load_settings(project, **self._chosen) if project else Settings(**self._chosen)
            if settings.agent is not None or settings.agents:
                from harness.agents.registry import Agents

                Agents(settings.agents, settings.root).check(settings.agent)
        except SettingsError as error:
            for each in error.problems:
                found = Problem(file_label(file), None, None, "", each) if isinstance(each, str) else each
                self._broken[str(found)] = replace(found, file=file_label(file))
            self._unread.add(folder)
            return Settings()
        except Failed as unknown:
            path = "" if self._chosen or str(unknown).startswith("[tool.harness.") else "tool.harness.agent"
            self._broken[label] = Problem(label, None, None, path, str(unknown))
        return settings

    def unread(self, folder: Path) -> bool:
        """Return whether the settings cannot be read: they may have an agent that chooses the steps."""
        self.settings(folder)
        return folder in self._unread

    def project(self, folder: Path) -> Project:
        """The project for faults in this folder; unknown outside of a project, and if its settings are unreadable."""
        settings = self.settings(folder)
        return Project(settings, known=project_of(folder) is not None and not self.unread(folder))

    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._broken.values())


# The findings of `harness validate`, for people, for programs, and for GitHub's annotations.

_PLACES = 3
"""The number of further places of the same problem that are named."""


class Format(StrEnum):
    """`text`: for people; `json`: one document; `github`: workflow commands."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def show(checked: Checked, form: Format) -> None:
    """Print it."""
    {Format.TEXT: _text, Format.JSON: _json, Format.GITHUB: _github}[form](checked)


def _text(checked: Checked) -> None:
    """Print as text. Errors come last, where they are seen; if nothing could be checked, stderr says so."""
    for severity in ("warning", "error"):
        for problems in _group_equal([each for each in checked.problems if each.severity == severity]):
            text = "\n".join([f"{severity}: {problems[0]}", *_other_places(problems[1:])])
            typer.echo(text, err=not checked.looked_at)
    if checked.looked_at:
        typer.echo(_summary(checked))


def _group_equal(problems: Sequence[Problem]) -> Iterable[list[Problem]]:
    """Groups of equal problems: warnings with the same text and key, and unknown keys with the same name."""
    groups: dict[Problem, list[Problem]] = {}
    for problem in problems:
        once = problem.severity == "warning" or problem.message.startswith(UNKNOWN)
        same = replace(problem, file="", line=None, column=None) if once else problem
        groups.setdefault(same, []).append(problem)
    return groups.values()


def _other_places(others: Sequence[Problem]) -> Iterator[str]:
    """A line with the number of other places of a problem, and the first few."""
    if others:
        times = "once more" if len(others) == 1 else f"{len(others)} times more"
        more = f" and {len(others) - _PLACES} more" if len(others) > _PLACES else ""
        yield f"  {times}: {', '.join(each.place for each in others[:_PLACES])}{more}"


def _github(checked: Checked) -> None:
    for problem in checked.problems:
        typer.echo(annotation(problem))
    typer.echo(_summary(checked))


def _json(checked: Checked) -> None:
    ids = {task.source: task.spec.task_id for task in checked.loaded}
    others = {"fault_plans": checked.plans, "step_groups": checked.groups, "gates": checked.gates}
    document = {
        "files": [
            {"file": file, "task_id": ids.get(file), "valid": file in ids and file not in checked.broken}
            for file in checked.files
        ],
        **{
            kind: [{"file": file, "valid": file not in checked.broken} for file in each]
            for kind, each in others.items()
        },
        "problems": [asdict(problem) for problem in checked.problems],
        "counts": counts(checked),
    }
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def counts(checked: Checked) -> dict[str, int]:
    """The numbers of files and problems."""
    errors = sum(problem.severity == "error" for problem in checked.problems)
    return {
        "files": len(checked.files),
        "loaded": len(checked.loaded),
        "with_errors": len(checked.broken),
        "errors": errors,
        "warnings": len(checked.problems) - errors,
    }


def _summary(checked: Checked) -> str:
    found = counts(checked)
    tasks = [how_many(found["files"], "task file"), f"{found['loaded']} loaded"] if checked.files else []
    others = {"fault plan": checked.plans, "step group": checked.groups, "gate": checked.gates}
    told = [*tasks, *(how_many(len(each), kind) for kind, each in others.items() if each)]
    warnings = f", {how_many(found['warnings'], 'warning')}" if found["warnings"] else ""
    return ", ".join([*told, f"{found['with_errors']} with errors{warnings}"])


def _list(checked: Checked, groups: Sequence[Path]) -> None:
    for task in checked.loaded:
        spec = task.spec
        typer.echo(f"{spec.task_id}  {task.source}  {how_many(len(spec.steps), 'step')}")
        typer.echo(f"    {spec.goal}" if spec.goal else "    (no goal)")
    for path in groups:
        with suppress(SpecError):
            typer.echo(_described(load_group(path)))


def _described(loaded: LoadedGroup) -> str:
    group = loaded.group
    lines = [f"use: {loaded.name}  {loaded.source.file}  {how_many(len(group.steps), 'step')}"]
    lines += [f"    {group.description}"] if group.description else []
    for name, parameter in group.parameters.items():
        usual = "required" if parameter.required else f"default {json.dumps(parameter.default, ensure_ascii=False)}"
        told = f": {parameter.description}" if parameter.description else ""
        lines.append(f"    with {name} ({parameter.type}, {usual}){told}")
    lines += [f"    output {name} = {text}" for name, text in group.outputs.items()]
    return "\n".join(lines)


def annotation(problem: Problem) -> str:
    """The GitHub command for a problem."""
    from harness.reporting.files import workflow_command

    place = {"file": problem.file, "line": problem.line, "col": problem.column, "title": problem.path or "task file"}
    more = (("expected", problem.expected), ("found", problem.found), ("hint", problem.hint))
    message = "\n".join([problem.message, *(f"{name}: {text}" for name, text in more if text)])
    return workflow_command(problem.severity, message, place)


def validate(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Task files, or folders with them.")],
    strict: Annotated[
        bool, typer.Option(help="Treat warnings as errors, and require all keys of a complete file.")
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            "--task-agent",
            metavar="NAME",
            help="The agent of tasks without steps.",
        ),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print the problems.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    tools: Annotated[bool, typer.Option("--tools", help="Ask the tool servers whether they have the tools.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the tasks and the step groups.")] = False,
) -> None:
    """Check files without running them: tasks, faults, groups, gates.

    Channels, hosts, agents and tool servers are those of the nearest pyproject.toml. With --tools it connects to the
    servers; no tool is called.
    Exit code: 1 when there are errors.

    Example: harness validate tasks/ --format github
    """
    checked = check_paths(paths, strict=strict, agent=agent, tools=tools)
    if listing:
        _list(checked, find_files(paths, is_step_group))
    show(checked, Format.JSON if as_json else form)
    if checked.broken:
        raise typer.Exit(1)


# Compares a task's hosts with those of the settings: only a run would show a typing error.


def address_advice(task: Loaded, settings: Settings) -> Iterator[Problem]:
    """Yield warnings for misspelt hosts and for URLs without `http://`. `harness.faults.checks` does so for faults."""
    if declares_failure(task.spec):
        return
    hosts = {host for service in settings.services.values() for host in service.declared}
    every = scopes(task.spec)
    for path, step in steps_of(task.spec):
        found = [_url_problem(step, scope, hosts, settings.base_url) for scope in every]
        if found[0] is not None and all(found):
            message, hint = found[0]
            yield task.origin.problem((*path, "url"), message, hint=hint, severity="warning")


def _url_problem(step: Step, scope: ReferenceScope, hosts: Collection[str], base: str | None) -> tuple[str, str] | None:
    """The problem of the URL that a step opens, and what was probably meant; None if there is none."""
    if not isinstance(step, Open | Api):
        return None
    meant = "" if base else with_scheme(as_text(interpolate(step.url, scope, last=False)))
    if meant:
        return "a URL without `http://` is relative, and no `base_url` is set", f"did you mean {meant} ?"
    host = named_host(step, scope)
    if host in hosts or not is_misspelt(host, [known for known in hosts if not _numbered_alike(host, known)]):
        return None
    return f"{host} is not a host of [tool.harness.services]", did_you_mean(host, hosts)


def _numbered_alike(one: str, other: str) -> bool:
    """Return whether two names differ only in a number: `node1.test` and `node2.test` are two hosts, no typo."""
    return re.sub(r"\d+", "0", one) == re.sub(r"\d+", "0", other)
