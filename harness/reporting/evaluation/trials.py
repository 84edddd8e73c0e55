"""The pages of an evaluation's trials: one for each task, with the way of each agent, also where it passed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup
from msgspec import Struct

from harness.model.evaluation import EvaluationTrial, condition_text
from harness.reporting.agent_way import way_table
from harness.reporting.dashboard.evidence import links_of
from harness.reporting.dashboard.page import asset, rendered
from harness.reporting.dashboard.view import PageLink
from harness.reporting.files import is_inside, write_text
from harness.reporting.trajectory import TrajectoryError, read
from harness.spec.names import slug

FOLDER = "trials"


class TrialView(Struct, frozen=True):
    """A trial, and what it has left."""

    trial: EvaluationTrial
    way: Markup
    """The way of its agent, as HTML; empty without one."""
    links: Sequence[PageLink] = ()


def cell_link(trial: EvaluationTrial) -> str:
    """The address of the trials of a cell, as from the page of the evaluation."""
    return f"{FOLDER}/{slug(trial.task_id)}.html#{cell_id(trial.agent, trial.fault)}"


def trial_link(trial: EvaluationTrial) -> str:
    """The address of one trial."""
    return f"{cell_link(trial)}--{trial.number}"


def cell_id(agent: str, fault: str | None) -> str:
    """The name of a cell in the page of its task."""
    return slug(f"{agent}--{condition_text(fault)}")


def cell_links(trials: Iterable[EvaluationTrial]) -> Mapping[tuple[str, str | None, str], str]:
    """(task, fault, agent) -> the address of its trials."""
    return {(each.task_id, each.fault, each.agent): cell_link(each) for each in trials}


def write_trial_pages(trials: Sequence[EvaluationTrial], folder: Path) -> None:
    """Write a page for each task into the folder of the evaluation. Raises OSError."""
    by_task: dict[str, list[EvaluationTrial]] = {}
    for each in trials:
        by_task.setdefault(each.task_id, []).append(each)
    for task_id, own in by_task.items():
        write_text(folder / FOLDER / f"{slug(task_id)}.html", _trial_page(task_id, own, folder))


def _trial_page(task_id: str, trials: Sequence[EvaluationTrial], folder: Path) -> str:
    cells: dict[tuple[str, str | None], list[TrialView]] = {}
    for each in sorted(trials, key=lambda trial: (trial.fault or "", trial.agent, trial.number, trial.attempt)):
        cells.setdefault((each.agent, each.fault), []).append(_view(each, folder))
    shown = [(cell_id(*cell), cell[0], condition_text(cell[1]), several) for cell, several in cells.items()]
    return rendered("trials.html", more_style=asset("evaluation.css"), task_id=task_id, cells=shown)


def _view(trial: EvaluationTrial, folder: Path) -> TrialView:
    return TrialView(trial, _way(trial, folder), tuple(_links(trial, folder)))


def _way(trial: EvaluationTrial, folder: Path) -> Markup:
    if trial.trajectory is None or not is_inside(folder, folder / trial.trajectory):
        return Markup("")
    try:
        return Markup(way_table(read(folder / trial.trajectory)))  # noqa: S704 - its texts are escaped
    except (OSError, TrajectoryError) as error:
        return Markup("<p>{}</p>").format(f"{trial.trajectory} cannot be read: {error}")


def _links(trial: EvaluationTrial, folder: Path) -> Iterator[PageLink]:
    place = folder / (trial.artifacts or "")
    if trial.artifacts and place.is_dir() and is_inside(folder, place):
        yield from links_of(place, folder / FOLDER)
    elif trial.trajectory is not None and is_inside(folder, folder / trial.trajectory):
        yield from links_of((folder / trial.trajectory).parent, folder / FOLDER)
