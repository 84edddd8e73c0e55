"""`harness freeze`: the steps that an agent chose in a run that passed, written into the task's file."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from harness.cli.ending import fail
from harness.cli.project import project_of, settings_at
from harness.model.trajectory import TrajectoryStep
from harness.reporting.files import shown_path, write_text
from harness.reporting.redaction import MARK
from harness.reporting.trajectory import Trajectory, TrajectoryError, trajectories
from harness.spec.agents import SCRIPTED
from harness.spec.load import find_tasks, load_file, mentions
from harness.spec.loaded import Loaded
from harness.spec.problems import SpecError, did_you_mean


def freeze(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="A task file, or the task_id of a task below this folder.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing, and say whether the file has the steps of the last run.")
    ] = False,
) -> None:
    """Write the steps of an agent's last passed run into the task file.

    The file gets `steps`, `agent: scripted`, and `agent_fallback` with the agent, which goes on where a step no longer
    fits the site. After such a run, freeze again.
    Exit code: 1 when there is no such run, a step has no lasting selector, or, with --check, the file has other steps.

    Example: harness freeze tasks/buy.task.yaml
    """
    file, loaded = _task(task)
    found = _passed(project_of(file) or Path.cwd(), loaded.spec.task_id)
    steps = _steps(found)
    if check:
        _check(file, steps, found)
        return
    text = file.read_text("utf-8")
    wanted = _wanted(found, steps, _document(text, file))
    frozen = yaml_with(text, wanted)
    if file.suffix == ".json":
        frozen = json.dumps({**json.loads(text), **wanted}, indent=2, ensure_ascii=False) + "\n"
    if _document(frozen, file) != {**_document(text, file), **wanted}:
        fail(f"{shown_path(file)} cannot be changed safely: write its top keys at the beginning of lines", file=file)
    write_text(file, frozen)
    net = f"and {', '.join(wanted['agent_fallback'])} goes on where one of them fails"
    typer.echo(f"{shown_path(file)}: {len(steps)} steps of run {found.task.run}, {net}")


def _task(name: str) -> tuple[Path, Loaded]:
    """The task's file, and the task. Ends the command if there is none, or if it is no file that can be frozen."""
    path = Path(name)
    try:
        file, loaded = (path, _load(path)) if path.is_file() else _named(name)
    except SpecError as error:
        fail(str(error))
    if loaded.spec.parametrize:
        fail(f"{shown_path(file)} has `parametrize`: its cases may need different steps", file=file)
    return file, loaded


def _named(name: str) -> tuple[Path, Loaded]:
    """The task of that id below the current folder. Raises SpecError for a broken file that may have it."""
    known: list[str] = []
    broken: SpecError | None = None
    for file in find_tasks([Path.cwd()]):
        try:
            loaded = _load(file)
        except SpecError as error:
            broken = error if broken is None and mentions(file, [name]) else broken
            continue
        if loaded.spec.task_id == name:
            return file, loaded
        known.append(loaded.spec.task_id)
    if broken is not None:
        raise broken
    fail(f"there is no task `{name}` below this folder; {did_you_mean(name, known) or 'name its file'}")


def _load(file: Path) -> Loaded:
    settings = settings_at(file)
    return load_file(file, needs_steps=False, agents=tuple(settings.agents), extra_keys=settings.extra_keys)


def _passed(root: Path, task_id: str) -> Trajectory:
    """The last run of the task that an agent has passed; ends the command if there is none."""
    failed: Trajectory | None = None
    try:
        for found in trajectories(root, task_id):
            if found.task.passed:
                return found
            failed = failed or found
    except (TrajectoryError, OSError) as error:
        fail(str(error))
    if failed is not None:
        fail(f"no kept run of {task_id} has passed: the last one ended with {failed.task.code}", file=failed.file)
    fail(f"there is no run of {task_id} with an agent in {shown_path(root / '.harness/agents')}: run it first")


def _steps(found: Trajectory) -> list[dict[str, Any]]:
    """The steps that passed, as a file has them. Ends the command if one of them cannot be done again."""
    passed = [step for step in found.steps if step.passed]
    if not passed:
        fail(f"the agent has passed {found.task.task_id} without a step", file=found.file)
    for step in passed:
        if problem := _problem(step):
            fail(f"{shown_path(found.file)}: step {step.index} ({step.step['act']}) {problem}", file=found.file)
    return [_declared(step) for step in passed]


def _declared(step: TrajectoryStep) -> dict[str, Any]:
    """The step with the effect that it was seen to have: from its first attempt on, no retry does it twice.

    A dialog for which the agent had only prepared an answer need not come.
    """
    if step.step["act"] == "dialog":
        return {**step.step, "optional": True}
    return {**step.step, "effect": "write"} if step.seen_writing else step.step


def _problem(step: TrajectoryStep) -> str:
    if not step.lasting:
        return "has no lasting selector: its element can only be named for the view of the page that the agent saw"
    if MARK in json.dumps(step.step):
        return "has a secret that no variable of the environment has: use ${env:NAME} in the task"
    return ""


def _wanted(found: Trajectory, steps: Sequence[dict[str, Any]], document: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the frozen file. An agent that is already its safety net stays so."""
    named = [each.agent for each in found.steps if each.agent and each.agent != SCRIPTED]
    agents = document.get("agent_fallback") or list(dict.fromkeys(named))
    return {"agent": SCRIPTED, "agent_fallback": list(agents), "steps": list(steps)}


def _check(file: Path, steps: Sequence[dict[str, Any]], found: Trajectory) -> None:
    """Compare the steps of the file with those of the run; ends the command with the difference."""
    written = _document(file.read_text("utf-8"), file).get("steps") or []
    if written == list(steps):
        typer.echo(f"{shown_path(file)} has the steps of run {found.task.run}")
        return
    before, after = _dumped(written).splitlines(), _dumped(list(steps)).splitlines()
    difference = difflib.unified_diff(before, after, shown_path(file), f"run {found.task.run}", lineterm="", n=1)
    typer.echo("\n".join(difference))
    fail(f"{shown_path(file)} does not have the steps of run {found.task.run}: harness freeze writes them", file=file)


def yaml_with(text: str, wanted: Mapping[str, Any]) -> str:
    """A YAML file with these values of top keys; comments and all other lines stay."""
    lines = text.splitlines()
    for key, value in wanted.items():
        made = _dumped({key: value}).splitlines()
        block = _block(lines, key)
        if block is None:
            lines += made
        else:
            lines[block] = made
    return "\n".join(lines) + "\n"


def _block(lines: Sequence[str], key: str) -> slice | None:
    """The lines of a top key, without the comments and empty lines after it."""
    begin = next((number for number, line in enumerate(lines) if re.match(rf"{key}\s*:", line)), None)
    if begin is None:
        return None
    end = begin + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][0] in " -#\t"):
        end += 1
    while not lines[end - 1].strip() or lines[end - 1].startswith("#"):
        end -= 1
    return slice(begin, end)


def _dumped(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)


def _document(text: str, file: Path) -> dict[str, Any]:
    try:
        found = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        fail(f"{shown_path(file)}: {error}", file=file)
    return found if isinstance(found, dict) else {}
