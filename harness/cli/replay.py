"""`harness replay`: runs a failed task again, up to the step that failed."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from msgspec import Struct

from harness.agents.python import ModelsOf
from harness.agents.registry import Agents, Saw, TaskAgent
from harness.browser.context import Tab
from harness.cli.ending import AsJson, fail
from harness.cli.failures import ArtifactDirectory, Artifacts, Run, the_failure
from harness.cli.open_trace import has_display
from harness.cli.project import settings_here
from harness.environment.ownership import LOGS, label, owner_file, read_held
from harness.model.plan import Plan
from harness.model.ports import Ask, Sight
from harness.model.record import History
from harness.model.settings import Settings
from harness.model.tool_settings import offered_to_agents
from harness.recovery.failure import Failed, Failure
from harness.reporting.files import is_inside, printable, shown_path
from harness.reporting.story import TaskStory
from harness.reporting.telling import step_text, story_of
from harness.runner.compile import compile_plan
from harness.runner.harness import Harness
from harness.runner.loop import Caller, LoopThread
from harness.spec.file_names import NAMED_SUFFIXES
from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from harness.spec.names import host_of, new_run_id
from harness.spec.parametrize import expand, task_named
from harness.spec.problems import SpecError
from harness.spec.steps import Step, Tool
from harness.values import replace

# Runs a task up to a step, and stops there with its page open.


class ReplayStop(Struct, frozen=True):
    """The place to stop: before that step of the plan `key`; the number of steps means before the criteria."""

    key: str
    index: int
    reached: Callable[[str], Awaitable[None]]
    """Called with the page's address; when it returns, the task goes on to its end."""


class StoppingAgents(Agents):
    """The agents of the project, with a stop in the execution of the steps."""

    def __init__(self, settings: Settings, stop: ReplayStop) -> None:
        super().__init__(settings.agents, settings.root, tools=offered_to_agents(settings.tools))
        self._stop = stop

    def agent(
        self,
        name: str | None,
        *,
        models: ModelsOf | None = None,
        ask: Ask | None = None,  # noqa: ARG002 - nobody is asked
        saw: Saw | None = None,
    ) -> TaskAgent:
        """Like `Agents.agent`."""
        if name is not None:
            self.source(name)
        agent = StoppingAgent(self.source, self._breaker, models=models, saw=saw)
        agent.stop = self._stop
        return agent


class StoppingAgent(TaskAgent):
    """Executes the steps; before the step of the stop it waits, and then ends the task."""

    stop: ReplayStop

    async def propose(self, plan: Plan, history: History, observe: Sight) -> Step | None:
        """Like `TaskAgent.propose`. Raises Failed when the replay is over."""
        if plan.key != self.stop.key or len(history) < self.stop.index:
            return await super().propose(plan, history, observe)
        address = ""  # the page may not be readable
        with suppress(Failed):
            address = (await observe()).url
        await self.stop.reached(address)
        raise Failed(Failure("INTERRUPTED", f"The replay stopped before step {self.stop.index}"))


class Replayed(Struct, frozen=True):
    """How a replay ended, without secrets."""

    story: TaskStory
    stopped: bool
    """Whether it got to the place where it stops."""
    blocked: tuple[str, ...]
    """Lines about requests that were not sent, or could not be stopped."""


def _replay_until(
    plan: Plan,
    settings: Settings,
    run_id: str,
    index: int,
    at_stop: Callable[[str], None],
    held: RequestBlocker | None = None,
) -> Replayed:
    """Run up to a step, and call `at_stop` with the page's address.

    `held` decides which requests are blocked; without it, none is. The evidence is taken after that, and kept under
    `settings.artifacts`. Raises ValueError or OSError for bad settings.
    """
    there: list[str] = []
    alone = replace(plan, alternative=None, chain=None)  # neither goes on after the replay

    async def main(caller: Caller) -> Replayed:
        async def reached(address: str) -> None:
            there.append(address)
            await caller.call(partial(at_stop, harness.redactor.text(address)))

        harness = Harness(settings, run_id) if held is None else CarefulHarness(settings, run_id, held)
        harness.agents = StoppingAgents(settings, ReplayStop(plan.key, index, reached))
        try:
            story = story_of(alone, await harness.run(alone, caller), harness.redactor)
            redact = harness.redactor.plus(plan.all_secrets).text
            blocked = () if held is None else tuple(_blocked(held, redact, settings))
            return Replayed(story, bool(there), blocked)
        finally:  # browser and driver got the same Ctrl-C, so their errors after it say nothing
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            await harness.close()

    loop = LoopThread()
    try:
        return loop.run(main, lambda _: None)
    finally:
        loop.close()


# Requests that a replay does not send: they may change something on sites that the project does not serve.

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class RequestBlocker:
    """Blocks requests of Playwright that may write, except to hosts of the project, and remembers them."""

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._found: dict[str, None] = {}
        self._redirected: dict[str, None] = {}

    @property
    def found(self) -> tuple[str, ...]:
        """Method and address of each blocked request, without its query."""
        return tuple(self._found)

    @property
    def redirected(self) -> tuple[str, ...]:
        """The same for requests that a site of the project has redirected elsewhere: these were sent."""
        return tuple(self._redirected)

    def refuses(self, request: Any) -> bool:
        """Return whether the request is blocked. An address without a host (`data:`, `blob:`) is never sent."""
        host = host_of(request.url)
        return bool(host) and request.method.upper() not in _SAFE and host not in self._own

    async def install(self, tab: Tab) -> None:
        """Install it in a new context. Raises Playwright's errors."""
        await tab.context.route("**/*", self.judge)
        await tab.context.route_web_socket(self.refuses_socket, self.close)
        tab.context.on("request", self.watch)

    async def judge(self, route: Any) -> None:
        """Block or pass a request; a handler of Playwright's routes. Raises Playwright's errors."""
        request = route.request
        if not self.refuses(request):
            await route.fallback()
            return
        self._found.setdefault(f"{request.method} {_bare(request.url)}")
        await route.abort("blockedbyclient")

    def refuses_socket(self, url: str) -> bool:
        """Return whether a WebSocket is blocked; its messages are not examined."""
        return host_of(url) not in self._own

    async def close(self, socket: Any) -> None:
        """Close a WebSocket that waits to be opened. Raises Playwright's errors."""
        self._found.setdefault(f"WebSocket {_bare(socket.url)}")
        await socket.close()

    def watch(self, request: Any) -> None:
        """Note a request that came by a redirect, since Playwright calls no route handler for it."""
        if request.redirected_from is not None and self.refuses(request):
            self._redirected.setdefault(f"{request.method} {_bare(request.url)}")


def _bare(url: str) -> str:
    return urlsplit(url)._replace(query="", fragment="").geturl()


class CarefulHarness(Harness):
    """A harness whose browsers block requests, and that calls no tool that writes."""

    def __init__(self, settings: Settings, run_id: str, held: RequestBlocker) -> None:
        super().__init__(settings, run_id)
        self.browsers.on_tab = held.install
        self.tools.only_reads = True


# The plan of a replay: the task, its last step, and where the replay writes.

_LONGEST = 100
"""The number of characters shown of a step."""


def plan_of(kept: ArtifactDirectory, settings: Settings, run_id: str) -> Plan:
    """Compile the task's present file. Ends the command if there is none, or if an agent chooses the steps."""
    try:
        task = _task(kept, settings)
        plan = compile_plan(task, settings=settings, run_id=run_id)
    except SpecError as error:
        fail(str(error))
    if plan.agent is not None:
        fail(f"an agent chose the steps of {plan.task_id} and may choose others next time: there is nothing to replay")
    return replace(plan, world=f"{run_id}.{plan.key}")  # a world of its own, even if its episode shares one


def _task(kept: ArtifactDirectory, settings: Settings) -> Loaded:
    report, root = kept.report, settings.root
    places = [place for place in (Path(report.source), root / report.source) if _is_task_file(place, root)]
    if not places:
        named = report.source or "its report names no file"
        fail(printable(f"the project has no task file of {report.task_id}: {named}"))
    cases = expand(load_file(places[0], needs_steps=False, defaults=settings.defaults))
    found = task_named(report.task_id, cases)
    if found is None:
        fail(f"{shown_path(places[0])} has no task {report.task_id!r} any more")
    return found


def _is_task_file(place: Path, root: Path) -> bool:
    """Return whether a path is a task file of the project: a report from elsewhere may name any path."""
    return place.suffix in NAMED_SUFFIXES and place.is_file() and is_inside(root, place)


def stop_index(kept: ArtifactDirectory, plan: Plan, step: int | None) -> int:
    """The step before which to stop; the number of steps means before the success criteria."""
    index = kept.report.step_index if step is None else step
    if index < 0:
        fail(f"{plan.task_id} failed before its first step: there is no page to stop at (harness show says why)")
    if step is None and (kept.report.context.model_extra or {}).get("hook") == "after_each":
        return len(plan.steps)
    if index > len(plan.steps):
        fail(f"{plan.source} has steps 0 to {len(plan.steps) - 1} now; choose with --step")
    return index


def writes(plan: Plan, index: int, settings: Settings) -> tuple[str, ...]:
    """The steps before the stop, and those around the task, that write, as text."""
    around = (each for each in (*plan.before_each, *plan.after_each) if _writes(each, settings))
    found = (number for number in range(index) if _writes(plan.steps[number], settings))
    return tuple(step_text(plan, each, settings, _LONGEST) for each in (*found, *around))


def _writes(step: Step, settings: Settings) -> bool:
    """Return whether a step writes, as far as file and settings say; a tool that neither names may be one that reads.

    If it writes after all, it is not called without `--yes`.
    """
    if not isinstance(step, Tool) or step.effect is not None:
        return step.effect_class == "write"
    table = settings.tools.get(step.server)
    return table is not None and table.declared_effect(step.tool) == "write"


def place(plan: Plan, index: int, settings: Settings) -> str:
    """The place where the replay stops, as text."""
    return "the success criteria" if index == len(plan.steps) else f"step {step_text(plan, index, settings, _LONGEST)}"


def setting(settings: Settings) -> str:
    """The state in which the replay begins, as text."""
    anew = {"world": "in a fresh world", "reset": "with the state reset"}
    return anew.get(settings.isolation or "", "in the present state (no `isolation` resets it)")


def _own_hosts(settings: Settings) -> frozenset[str]:
    """The hosts that the project serves, and where a replay's writes do not last."""
    served = frozenset(host.lower() for service in settings.services.values() for host in service.hosts)
    return served - _lasting_hosts(settings)


def _lasting_hosts(settings: Settings) -> frozenset[str]:
    """The project's own hosts where writes last, because the service outlives the replay and is not reset."""
    if settings.isolation in ("world", "reset"):
        return frozenset()
    return frozenset(
        host.lower()
        for name, service in settings.services.items()
        if service.command is None or any(_is_kept(settings, label(name, each)) for each in range(service.instances))
        for host in service.hosts
    )


def _is_kept(settings: Settings, name: str) -> bool:
    held = read_held(owner_file(settings.root / LOGS, name))
    return held is not None and held.owner.alive


def why_asked(hosts: Iterable[str], settings: Settings) -> str:
    """The reason why writes to these hosts last."""
    if set(hosts) <= _lasting_hosts(settings):
        return "kept between runs, and no `isolation` resets its state"
    return "not served by this project"


def foreign_hosts(plan: Plan, index: int, settings: Settings) -> tuple[str, ...]:
    """The hosts that the task visits and where its writes last."""
    own = _own_hosts(settings)
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


def left_out(plan: Plan, settings: Settings) -> Iterator[str]:
    """Lines about what a run does before this task, and a replay does not."""
    if plan.spec.dependencies:
        yield f"its dependencies are not run first: {', '.join(plan.spec.dependencies)}"
    if plan.spec.episode_id:
        yield f"the earlier tasks of episode {plan.spec.episode_id} are not run first; it begins {setting(settings)}"


_PLACE = Path(".harness", "replay")
"""The folder of a replay's evidence; the failure itself is not changed."""


def replay(
    task: Annotated[str, typer.Argument(metavar="TASK_ID|DIR", help="A failed task's id, its directory, or `last`.")],
    headed: Annotated[
        bool, typer.Option("--headed", help="Show the browser window, and keep it open until Enter.")
    ] = False,
    step: Annotated[
        int | None, typer.Option(min=0, help="Stop before this step. Default: the step that failed.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Send writes also where they last, and call tools that do.")
    ] = False,
    run: Run = None,
    artifacts: Artifacts = None,
    as_json: AsJson = False,
) -> None:
    """Run a failed task again, up to the step that failed.

    With --headed the window stays open until Enter or Ctrl-C; without it, screenshot, DOM and trace of that moment are
    kept in .harness/replay. The task runs as its file is now. The steps before are done again, also those that write;
    these are named. Without --yes no tool that writes is called, and no write is sent to a site that this project does
    not serve or whose state is kept.
    Exit code: 1 when the task fails before that step.

    Example: harness replay B1-2025-001 --headed
    """
    kept, settings = the_failure(task, run, artifacts, "harness replay"), _settings(headed)
    plan = plan_of(kept, settings, run_id := new_run_id(datetime.now(UTC), os.getpid()))
    index = stop_index(kept, plan, step)
    _announce(plan, index, settings, yes)
    held = None if yes else RequestBlocker(_own_hosts(settings))
    at_stop = partial(pause, headed, place(plan, index, settings))
    try:
        replayed = _replay_until(plan, settings, run_id, index, at_stop, held)
    except (ValueError, OSError) as error:
        fail(str(error))
    for line in replayed.blocked:
        typer.echo(line, err=True)
    _tell(replayed) if not as_json else typer.echo(document(replayed, index))
    if not replayed.stopped:
        raise typer.Exit(1)


def _settings(headed: bool) -> Settings:
    """The settings of the project, with full recording and a separate artifact folder."""
    settings = settings_here()
    if headed and not has_display(os.environ, sys.platform):
        fail("there is no display for a window: leave out --headed, or use xvfb-run")
    browser = settings.browser.model_copy(update={"headed": headed})
    apart = {"artifacts": settings.root / _PLACE, "keep_previous": 0, "recording": "full", "browser": browser}
    return settings.model_copy(update=apart)


def _announce(plan: Plan, index: int, settings: Settings, yes: bool) -> None:
    where = place(plan, index, settings)
    typer.echo(f"{plan.task_id} {setting(settings)}, up to {where} (of 0-{len(plan.steps) - 1})", err=True)
    for line in left_out(plan, settings):
        typer.echo(line, err=True)
    if not (found := writes(plan, index, settings)):
        return
    typer.echo(f"these steps write again: {'; '.join(found)}", err=True)
    if (hosts := foreign_hosts(plan, index, settings)) and not yes:
        fail(
            f"{', '.join(hosts)}: {why_asked(hosts, settings)}, so what the replay writes there stays; --yes allows it"
        )


def pause(headed: bool, place: str, address: str) -> None:
    """Say where the task has stopped; a person may look around in the window until Enter, Ctrl-C or the input's end."""
    typer.echo(printable(f"stopped before {place}, at {address or 'no page'}"), err=True)
    if not headed:
        return
    typer.echo("you can use the window now; Enter or Ctrl-C ends the replay", err=True)
    try:
        sys.stdin.readline()
    except KeyboardInterrupt:
        typer.echo("", err=True)


def _blocked(held: RequestBlocker, redact: Callable[[str], str], settings: Settings) -> Iterator[str]:
    for request in held.found:
        why = why_asked([host_of(request.partition(" ")[2])], settings)
        yield f"not sent: {printable(redact(request))}: {why}; --yes sends it"
    for request in held.redirected:
        yield f"sent nevertheless: {printable(redact(request))}: a redirect led there, which cannot be stopped"


def _tell(replayed: Replayed) -> None:
    story, failure = replayed.story, replayed.story.failure
    if not replayed.stopped:
        why = f"{failure.code} at step {story.failed_index}: {failure.message}" if failure else story.final_state
        typer.echo(printable(f"the task ended before it reached that step: {why}"))
    if not story.artifacts:
        return
    folder, picture = shlex.quote(shown_path(Path(story.artifacts))), Path(story.artifacts, "screenshot.png")
    typer.echo(f"screenshot: {shown_path(picture)}" if picture.is_file() else "no screenshot could be taken")
    typer.echo(f"more: harness show {folder}; harness open {folder}")


def document(replayed: Replayed, index: int) -> str:
    """What `--json` prints."""
    story, page = replayed.story, replayed.story.page
    failure = None if replayed.stopped else story.failure
    found = {
        "task_id": story.task_id,
        "step_index": index,
        "stopped": replayed.stopped,
        "url": (page and page.url) or None,
        "folder": story.artifacts or None,
        "screenshot": (page and page.picture) or None,
        "failure": failure and {"code": failure.code, "step_index": story.failed_index, "message": failure.message},
    }
    return json.dumps(found, indent=2, ensure_ascii=False)
