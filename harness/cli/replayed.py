"""What a replay does again: the task, up to which step, and what that writes where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from harness.cli.ending import fail
from harness.cli.kept import Kept
from harness.environment.ownership import LOGS, label, owner_file, read_held
from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.reporting.console import described, shortened
from harness.reporting.files import inside, printable, shown_path
from harness.reporting.redaction import Redactor
from harness.runner.compile import compile_plan
from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError

SUFFIXES = (".yaml", ".yml", ".json")
"""Of files of tasks."""
LONGEST = 100
"""Characters of a step."""


def plan_of(kept: Kept, settings: Settings, run_id: str) -> Plan:
    """Of the task as its file says now. Ends the command when there is none, or when an agent chooses its steps."""
    try:
        task = _task(kept, settings)
        plan = compile_plan(task, settings=settings, run_id=run_id)
    except SpecError as error:
        fail(str(error))
    if plan.agent is not None:
        fail(f"an agent chose the steps of {plan.task_id}, and may choose others: there is nothing to replay")
    return replace(plan, world=f"{run_id}.{plan.key}")  # its own, also where its episode shares one


def _task(kept: Kept, settings: Settings) -> Loaded:
    report, root = kept.report, settings.root
    places = [place for place in (Path(report.source), root / report.source) if _is_task_file(place, root)]
    if not places:
        named = report.source or "its report names none"
        fail(printable(f"the file of {report.task_id} is not here: {named}; a task file of the project is meant"))
    cases = expand(load_file(places[0], needs_steps=False, defaults=settings.defaults))
    found = next((case for case in cases if case.spec.task_id == report.task_id), None)
    if found is None:
        fail(f"{shown_path(places[0])} has no task {report.task_id!r} any more")
    return found


def _is_task_file(place: Path, root: Path) -> bool:
    """What a report names may be anything: a directory of artifacts can come from elsewhere."""
    return place.suffix in SUFFIXES and place.is_file() and inside(root, place)


def stop_index(kept: Kept, plan: Plan, step: int | None) -> int:
    """Before which step to stop; the number of steps: before the success criteria."""
    index = kept.report.step_index if step is None else step
    if index < 0:
        fail(f"{plan.task_id} failed before its first step: there is no page to stop at (harness show says why)")
    if index > len(plan.steps):
        fail(f"{plan.source} has steps 0 to {len(plan.steps) - 1} now; choose with --step")
    return index


def writes(plan: Plan, index: int) -> tuple[str, ...]:
    """The steps before the stop that change something of the site, as people read them."""
    return tuple(shown(plan, number) for number in range(index) if plan.steps[number].effect_class == "write")


def place(plan: Plan, index: int) -> str:
    """Where the replay stops."""
    return "the success criteria" if index == len(plan.steps) else f"step {shown(plan, index)}"


def shown(plan: Plan, index: int) -> str:
    """`4 click #buy`, without secrets."""
    step = plan.steps[index]
    return printable(Redactor(plan.secrets).text(shortened(f"{index} {step.act} {described(step)}", LONGEST)))


def setting(settings: Settings) -> str:
    """In which state the replay begins."""
    match settings.isolation:
        case "world":
            return "in a fresh world"
        case "reset":
            return "with the state reset"
        case _:
            return "in the state that is there (no `isolation` puts it back)"


def own_hosts(settings: Settings) -> frozenset[str]:
    """What the project serves itself, and where nothing stays of what a replay writes."""
    return _served(settings) - lasting_hosts(settings)


def lasting_hosts(settings: Settings) -> frozenset[str]:
    """Of the project's own: where what is written stays, since the service outlives the replay and is not put back."""
    if settings.isolation in ("world", "reset"):
        return frozenset()
    return frozenset(
        host.lower()
        for name, service in settings.services.items()
        if service.command is None or any(_kept(settings, label(name, each)) for each in range(service.instances))
        for host in service.hosts
    )


def _kept(settings: Settings, name: str) -> bool:
    held = read_held(owner_file(settings.root / LOGS, name))
    return held is not None and held.owner.alive


def _served(settings: Settings) -> frozenset[str]:
    return frozenset(host.lower() for service in settings.services.values() for host in service.hosts)


def why_asked(hosts: Iterable[str], settings: Settings) -> str:
    """Why what is written there stays."""
    if set(hosts) <= lasting_hosts(settings):
        return "kept between runs, and no `isolation` puts its state back"
    return "not served by this project"


def foreign_hosts(plan: Plan, index: int, settings: Settings) -> tuple[str, ...]:
    """Where it goes, and what it writes stays."""
    own = own_hosts(settings)
    return tuple(host for host in dict.fromkeys(_hosts(plan, index, settings)) if host not in own)


def _hosts(plan: Plan, index: int, settings: Settings) -> Iterator[str]:
    urls = [getattr(step, "url", None) for step in plan.steps[:index]]
    for url in (*urls, settings.base_url):
        try:
            host = urlsplit(url or "").hostname
        except ValueError:
            continue
        if host:
            yield host


def left_out(plan: Plan) -> Iterator[str]:
    """What a run does before this task, and a replay does not."""
    if plan.spec.dependencies:
        yield f"not run first: {', '.join(plan.spec.dependencies)}, which it depends on"
    if plan.spec.episode_id:
        yield f"earlier tasks of episode {plan.spec.episode_id} are not run first: it begins in an empty world"
