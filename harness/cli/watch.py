"""`harness watch`: runs tasks again when a file that concerns them is saved; services and browser stay up."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from msgspec import Struct

from harness.cli.ending import fail
from harness.cli.project import project_of, settings_at, settings_here
from harness.model.settings import Settings
from harness.model.settings_errors import SettingsError
from harness.reporting.console import failure_text
from harness.reporting.files import printable, shown_path
from harness.reporting.story import TaskStory
from harness.reporting.telemetry.log import events_of
from harness.reporting.telling import story_of
from harness.runner.compile import compile_plan
from harness.runner.sync import BegunRun, SyncHarness
from harness.spec.checks import logins_of
from harness.spec.file_names import is_step_group
from harness.spec.load import find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.names import new_run_id
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError
from harness.spec.suite import dependencies, tasks_before, with_episodes
from harness.spec.used_files import uses

_KEYS: Mapping[str, str] = {"r": "run again", "a": "run all", "b": "accept baselines", "t": "open trace", "q": "quit"}
"""Key -> what it does."""
_END = "\x04"
"""What stands for the end of the input: unlike `q`, it lets the tasks that run come to their end."""
_IGNORED = frozenset({"__pycache__", "node_modules", "allure-results", "allure-report"})

# What a change concerns. Pure.


def concerned(
    changed: Collection[Path],
    tasks: Sequence[Loaded],
    failed: Collection[str],
    logins: Mapping[str, Loaded] = MappingProxyType({}),
) -> list[Loaded]:
    """The tasks that a change of these files concerns, in their order.

    A task is concerned by its own file, the step groups and data that it uses, any other file that it names, and those
    of its login (`logins`: name -> the task that logs in). Python and the settings concern the tasks that failed last,
    or all tasks if none did: what they use cannot be seen.
    """
    if any(path.suffix == ".py" or path.name == "pyproject.toml" for path in changed):
        return [task for task in tasks if task.spec.task_id in failed] or list(tasks)
    parts = [(task, (task, *(logins[name] for _, name in logins_of(task.spec) if name in logins))) for task in tasks]
    return [task for task, used in parts if any(uses(each, path) for each in used for path in changed)]


def is_watched(path: Path, root: Path, artifacts: Path) -> bool:
    """Return whether a change of the file may concern tasks; what runs write does not."""
    if path.is_relative_to(artifacts) or not path.is_relative_to(root):
        return False
    return not any(part.startswith(".") or part in _IGNORED for part in path.relative_to(root).parts)


def _reload_python(harness: SyncHarness) -> None:
    """Forget the project's modules, so that channels and agents are loaded anew."""
    root = harness.settings.root
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(root) and "site-packages" not in file:
            del sys.modules[name]
    harness.forget_python()


# The session: what is watched, what ran, and what the keys do.


class Input(Struct, frozen=True):
    """A key, or files that were saved."""

    key: str = ""
    changed: frozenset[Path] = frozenset()


class WatchSession:
    """Runs tasks as files are saved and keys are pressed, until `q`."""

    has_keys = True
    """Whether somebody can press them."""

    def __init__(self, paths: Sequence[Path], settings: Settings, inputs: queue.Queue[Input]) -> None:
        self._paths = paths
        self._settings = settings
        self._inputs = inputs
        self._run = new_run_id(datetime.now(UTC), os.getpid())
        """The run of the whole session, for the live page: a task that runs again counts once."""
        self._begun: BegunRun | None = None
        self._pending: deque[Input] = deque()
        """Inputs that came while tasks ran."""
        self._tasks: list[Loaded] = []
        self._logins: dict[str, Loaded] = {}
        """Name of a login -> the task that logs in."""
        self._last: list[Loaded] = []
        """The tasks that ran last."""
        self._failed: list[str] = []
        """The ids of those that failed last."""
        self._rounds = 0
        self._viewers: list[subprocess.Popen[bytes]] = []

    def run(self) -> None:
        """Run all tasks, then whatever is asked for, until `q` or the end of the input."""
        self._load()
        self._play(self._tasks)
        while (found := self._next()).key not in ("q", _END):
            try:
                self._answer(found)
            except SettingsError as error:
                _say(str(error))

    def _next(self) -> Input:
        return self._pending.popleft() if self._pending else self._inputs.get()

    def _is_interrupted(self) -> bool:
        """Whether a key was pressed or a file saved that concerns tasks. What the site writes itself does not count."""
        with suppress(queue.Empty):
            while True:
                found = self._inputs.get_nowait()
                if found.key or self._concerned(found.changed) or any(map(self._may_be_new, found.changed)):
                    self._pending.append(found)
        return any(each.key != _END for each in self._pending)

    def _concerned(self, changed: Collection[Path]) -> list[Loaded]:
        return concerned(changed, self._tasks, self._failed, self._logins)

    def _may_be_new(self, path: Path) -> bool:
        """Whether the file may be a new task, or the step group that a task could not find."""
        return is_step_group(path) or path in {each.resolve() for each in find_tasks(self._paths)}

    def close(self) -> None:
        self.end_harness()
        for viewer in self._viewers:
            viewer.terminate()

    def _answer(self, found: Input) -> None:
        match found.key:
            case "r" | "\r" | "\n":
                self._load()
                again = {task.spec.task_id for task in self._last}
                self._play([task for task in self._tasks if task.spec.task_id in again])
            case "a":
                self._load()
                self._play(self._tasks)
            case "b":
                self._accept_baselines()
            case "t":
                self._open_trace()
            case _ if found.changed:
                self._saved(found.changed)
            case _:
                _say(_help_line())

    def _saved(self, changed: frozenset[Path]) -> None:
        names = ", ".join(sorted(shown_path(path) for path in changed))
        if any(path.name == "pyproject.toml" for path in changed):
            settings = settings_at(self._settings.root)  # a file that is half written changes nothing
            self.end_harness()  # the settings may name other services and another browser
            self._settings = settings
        elif any(path.suffix == ".py" for path in changed) and self._begun is not None:
            _reload_python(self._begun.harness)
        before = self._concerned(changed)  # a file may no longer be used
        self._load()
        again = {task.spec.task_id for task in (*before, *self._concerned(changed))}
        if tasks := [task for task in self._tasks if task.spec.task_id in again]:
            _say(f"saved: {names}")
            self._play(tasks)

    def _load(self) -> None:
        """Load the task files; errors are printed, and the other tasks stay."""
        found: list[Loaded] = []
        for path in find_tasks(self._paths):
            try:
                found += expand(load_file(path, defaults=self._settings.defaults, extra_keys=self._settings.extra_keys))
            except SpecError as error:
                _say(f"error: {printable(str(error))}")
        self._tasks = [task for task in found if not task.spec.left_out()]
        for name, login in self._settings.logins.items():
            if login.task is not None:
                with suppress(SpecError):  # the tasks that need it tell the problem
                    self._logins[name] = load_file(self._settings.root / login.task, defaults=self._settings.defaults)

    def _accept_baselines(self) -> None:
        """Run the tasks that failed again, and write the baselines that they compare with from what they find."""
        self._load()
        if tasks := [task for task in self._tasks if task.spec.task_id in self._failed]:
            self._play(tasks, self._settings.model_copy(update={"update_baselines": True}))
        else:
            _say("no task failed, so there is no baseline to accept")

    def _play(self, tasks: Sequence[Loaded], settings: Settings | None = None) -> None:
        """Run tasks, each after what it depends on; a save or a key ends the round after the task that runs.

        `settings`: those that the given tasks use instead of the session's; what comes before them does not.
        """
        self._rounds += 1
        self._last, results = list(tasks), dict[str, bool]()
        for task in self._with_what_comes_first(tasks):
            if self._is_interrupted():
                break
            chosen = settings if settings is not None and task in tasks else self._settings
            results[task.spec.task_id] = self._passes(task, chosen)
        failed = [name for name, passed in results.items() if not passed]
        self._failed = [*(name for name in self._failed if name not in results), *failed]
        _say(f"{len(results)} run, {len(failed)} failed" + (f"  ({_help_line()})" if self.has_keys else ""))

    def _with_what_comes_first(self, tasks: Sequence[Loaded]) -> list[Loaded]:
        known, graph = {task.spec.task_id: task for task in self._tasks}, dependencies(self._tasks)
        order = with_episodes(self._tasks, graph)
        names = (name for task in tasks for name in (*tasks_before(task.spec.task_id, order), task.spec.task_id))
        return [known[name] for name in dict.fromkeys(names)]

    def _passes(self, task: Loaded, settings: Settings) -> bool:
        """Run one task, and print its result."""
        try:
            begun = self._begin()
            plan = compile_plan(task, settings=settings, run_id=f"{self._run}-{self._rounds}")
            story = story_of(plan, begun.harness.run(plan, begun.stream.on), begun.harness.archive.redactor)
        except (ValueError, OSError) as error:
            _say(f"FAILED {task.spec.task_id}: {printable(str(error))}")
            return False
        _show_result(story)
        return story.as_declared

    def _begin(self) -> BegunRun:
        """Go on with the run, or begin it. Raises ValueError and OSError."""
        if self._begun is None:
            first = not events_of(self._settings.root, self._run).exists()
            self._begun = BegunRun(self._settings, self._run, say=_say, tasks=len(self._tasks) if first else None)
        return self._begun

    def end_harness(self) -> None:
        """End what runs; the next tasks begin with another one."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.close()

    def _open_trace(self) -> None:
        if not self._failed:
            _say("no task failed, so there is no trace to open")
            return
        command = [sys.executable, "-c", "from harness.cli import main; main()", "open", self._failed[-1]]
        self._viewers.append(subprocess.Popen(command, cwd=self._settings.root, stdin=subprocess.DEVNULL))


def _show_result(story: TaskStory) -> None:
    if not story.as_declared:
        _say(failure_text(story, shutil.get_terminal_size((100, 24)).columns))
        return
    _say(f"passed {story.task_id}  {story.seconds:.1f} s")
    for file in story.baselines:
        _say(f"baseline written: {shown_path(Path(file))}")


def _help_line() -> str:
    return ", ".join(f"{key}: {text}" for key, text in _KEYS.items())


def _say(text: str) -> None:
    print(text.replace("\n", "\r\n") if sys.stdout.isatty() else text, flush=True)


# Keys and files, each from a thread of its own.


@contextmanager
def _keys(inputs: queue.Queue[Input]) -> Iterator[None]:
    """Put each key that is pressed into the queue, and `_END` at the end of the input. Without an input it says so."""
    if not _has_input():
        _say("there is no terminal, so no keys are read: files that are saved run tasks, and Ctrl-C or SIGTERM ends")
        yield
        return

    def read() -> None:
        while key := sys.stdin.read(1):
            inputs.put(Input(key))
        inputs.put(Input(_END))

    with _single_keys():
        threading.Thread(target=read, daemon=True).start()
        yield


def _has_input() -> bool:
    """Whether keys can come; from the null device, as in a service or after `nohup`, none ever do."""
    if sys.stdin is None:
        return False
    return not os.path.samestat(os.fstat(sys.stdin.fileno()), os.stat(os.devnull))  # noqa: PTH116 - as os.fstat


@contextmanager
def _single_keys() -> Iterator[None]:
    """Let a terminal give each key at once, without Enter."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextmanager
def _saves(root: Path, artifacts: Path, inputs: queue.Queue[Input]) -> Iterator[None]:
    """Put the files that are saved below `root` into the queue. Ends the command if the library is not there."""
    try:
        from watchfiles import watch as changes
    except ImportError:
        fail("`harness watch` needs watchfiles: pip install 'pytest-taskspec[watch]'")
    stop = threading.Event()

    def tell() -> None:
        counts: Callable[[Any, str], bool] = lambda _, path: is_watched(Path(path), root, artifacts)  # noqa: E731
        for found in changes(root, watch_filter=counts, debounce=100, step=20, stop_event=stop, rust_timeout=500):
            inputs.put(Input(changed=frozenset(Path(path) for _, path in found)))

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        stop.set()


def watch(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH", help="Task files, or folders with them. Default: tasks.")
    ] = None,
    headed: Annotated[bool, typer.Option(help="Run the browser with a window.")] = False,
) -> None:
    """Run tasks, and again when a file that concerns them is saved.

    Services and browser stay up between the runs. Saving Python or pyproject.toml runs the tasks that failed last, or
    all if none did.
    Keys: r runs the same tasks again, a runs all, b accepts what failed tasks find as their baselines, t opens the
    trace of the last failure, q quits. No conftest.py is read.

    Example: harness watch tasks/
    """
    chosen = [path.resolve() for path in paths or [Path("tasks")]]
    if missing := [path for path in chosen if not path.exists()]:
        fail(f"there is no file or folder {shown_path(missing[0])}")
    settings = settings_here(chosen[0])
    if headed:
        settings = settings.model_copy(update={"browser": settings.browser.model_copy(update={"headed": True})})
    root = (project_of(chosen[0]) or chosen[0]).resolve()
    inputs: queue.Queue[Input] = queue.Queue()
    session = WatchSession(chosen, settings, inputs)
    session.has_keys = _has_input()
    with _saves(root, settings.artifacts.resolve(), inputs), _keys(inputs):
        try:
            session.run()
        except KeyboardInterrupt:
            _say("ended")
        finally:
            session.close()
