"""`--task-workers`: which items may run before their turn, and the look-ahead that runs them."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from harness.pytest_plugin.crashed_workers import ALONE
from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.not_run import CODE as INTERRUPTED
from harness.pytest_plugin.role import role_of, worker_input
from harness.pytest_plugin.run import HARMLESS, asking, has_own_fixtures, plan_of, repair, session_wide
from harness.pytest_plugin.selection import task_items, ties
from harness.pytest_plugin.state import RECORD, SessionState
from harness.pytest_plugin.telemetry import telemetry_of
from harness.reporting.allure.labels import running_test
from harness.reporting.files import shown_path
from harness.reporting.task_record import TaskRecord, task_record
from harness.reporting.telling import story_of
from harness.runner.parallel import BrokenTask, Make, ParallelRunner, Ran, ThreadInteraction, is_deferred, keep
from harness.runner.schedule import SHARED, Job
from harness.runner.trials import declared_faults
from harness.spec.task import TaskSpec

_TOLD_IN_TURN = ("skip", "skipif", "xfail")
"""Marks that decide only in the item's turn whether it runs."""
STEPPING_IN = (
    "pytest_runtest_setup", "pytest_runtest_call", "pytest_runtest_teardown", "pytest_pyfunc_call",
    "pytest_runtest_protocol",
)  # fmt: skip
"""Hooks in which a project prepares an item, decides about it, or cleans up after it for the next one."""


class ParallelItems:
    """The look-ahead of one session; items are added as soon as this process knows that it will run them."""

    def __init__(self, state: SessionState, runner: ParallelRunner) -> None:
        self._state = state
        self._runner = runner
        self._known: set[str] = set()
        self._wanted: dict[str, frozenset[str]] | None = None
        self._before: dict[str, frozenset[str]] = {}
        self._episodes: dict[str, list[TaskItem]] = {}

    def run(self, item: pytest.Item, sink: Callable[[Any], None], idle: Callable[[], None] | None = None) -> Ran:
        """Return the result of the task whose turn it is. Raises SpecError, KeyboardInterrupt."""
        self._add(item)
        return self._runner.run(item.nodeid, sink, idle)

    def skip(self, item: pytest.Item) -> None:
        """The item's turn has come, and it does not run."""
        self._add(item)
        self._runner.skip(item.nodeid)

    def stop(self) -> list[Ran | BrokenTask]:
        """Stop, since no item follows; returns the tasks that ran and were not reported."""
        return self._runner.stop()

    def _add(self, current: pytest.Item) -> None:
        found = [item for item in task_items(_upcoming(current)) if item.nodeid not in self._known]
        if found:
            self._known.update(item.nodeid for item in found)
            held = _steps_in(current.config)
            self._runner.add([self._job(item, current, held=held) for item in found])

    def _job(self, item: TaskItem, current: pytest.Item, *, held: bool) -> tuple[Job, Make]:
        self._look(item.session.items)
        spec, name = item.loaded.spec, item.nodeid
        make = partial(plan_of, self._state, item.loaded, judged_later=has_own_fixtures(item))
        wants, after = (self._wanted or {}).get(name, frozenset()), self._before.get(name, frozenset())
        alone = any(fault.kind in SHARED for fault in declared_faults(spec, self._state.settings))
        free = not held and self._may_run_ahead(item, current)
        return Job(name, wants, after, alone, episode=spec.episode_id or "", ahead=free), make

    def _may_run_ahead(self, item: TaskItem, current: pytest.Item) -> bool:
        """Return whether it may run ahead; an episode with a shared state begins only if all of its tasks may."""
        episode = item.loaded.spec.episode_id
        if episode is None:
            return self._is_prepared(item, current)
        together = self._episodes[episode] if self._state.settings.shared_state else [item]
        return not _may_run_again(item) and all(self._is_prepared(each, current) for each in together)

    def _is_prepared(self, item: TaskItem, current: pytest.Item) -> bool:
        task_id = item.task_id
        apart = item.unloaded or item.loaded.source in self._state.problems or task_id in self._state.lost
        return _is_plain(item, current) and not apart

    def _look(self, items: Sequence[pytest.Item]) -> None:
        """Find the ties between the tasks of the session; once."""
        if self._wanted is not None:
            return
        tasks, last = task_items(items), dict[str, str]()
        self._wanted = {each: frozenset(wanted) for each, wanted in ties(tasks).items()}
        for item in tasks:
            if episode := item.loaded.spec.episode_id:
                self._before[item.nodeid] = frozenset(filter(None, [last.get(episode)]))
                last[episode] = item.nodeid
                self._episodes.setdefault(episode, []).append(item)


def begin(config: pytest.Config, state: SessionState) -> None:
    """Start the look-ahead, if `task_workers` requires one."""
    workers = state.settings.task_workers
    if workers == 1 or state.ahead is not None or worker_input(config).get(ALONE):
        return
    interaction = ThreadInteraction(asking(state, config), partial(repair, config) if _hooked(config) else None)
    limit = 1 if workers == "auto" else workers
    runner = ParallelRunner(state.harness(), limit, interaction, telemetry_of(config).stream.on)
    if workers == "auto":
        runner.measure(processes(config))
    state.ahead = ParallelItems(state, runner)
    config.pluginmanager.register(RealTimes(), "taskspec-real-times")
    config.pluginmanager.register(DeferredOutput(config), "taskspec-aside")


def processes(config: pytest.Config) -> int:
    """The number of processes that share the machine. A pytest started by an xdist worker is not one of its workers."""
    return 1 if role_of(config).reports else int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


class RealTimes:
    """Reports the real times of a task that ran before its turn, in place of its turn's. Only with look-ahead."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Wrap Allure's own hook, which sets the times of the turn."""
        try:
            return (yield)
        finally:
            record, test = item.stash.get(RECORD, None), running_test()
            if record is not None and record.started is not None and test is not None:
                test.start = round(record.started.timestamp() * 1000)
                test.stop = test.start + round(record.seconds * 1000)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        """Set the times for junit.xml and `--durations`."""
        report = yield
        if call.when == "call" and (record := item.stash.get(RECORD, None)):
            report.duration = record.seconds
        return report


def end(state: SessionState) -> None:
    """End the look-ahead. Tasks that ran ahead and were not requested are listed: pytest reports nothing of them."""
    ahead, state.ahead = state.ahead, None
    for left in ahead.stop() if ahead else ():
        redactor = state.harness().archive.redactor
        if isinstance(left, BrokenTask):
            why = redactor.text(f"{type(left.error).__name__}: {left.error}")
            state.broken_off.append(f"{left.name.rpartition('::')[2]} ({why})")
        else:
            record = task_record(story_of(left.plan, left.result, redactor))
            (state.interrupted if record.code == INTERRUPTED else state.passed_over).append(record)


def passed_over_lines(state: SessionState) -> list[str]:
    """Lines of the summary about what had run when the run ended early."""
    told = [_describe_record(record) for record in state.passed_over]
    lines = [f"ran ahead, not reported: {', '.join(told)}"] if told else []
    return lines + [f"ran ahead, could not be finished: {each}" for each in state.broken_off]


def _describe_record(record: TaskRecord) -> str:
    place = f": {record.code}, {shown_path(Path(record.artifacts))}" if record.artifacts else ""
    return f"{record.task_id} ({record.final_state}{place})"


def _upcoming(item: pytest.Item) -> Sequence[pytest.Item]:
    """The item, and those that this process will run after it, as far as it knows."""
    items = item.session.items
    if role_of(item.config).reports:
        return items[items.index(item) :]
    return [item, *(items[index] for index in _assigned(item.config) if items[index] is not item)]


def _assigned(config: pytest.Config) -> Iterator[int]:
    """Indices in the session's items that xdist has assigned to this worker and that have not begun."""
    for plugin in config.pluginmanager.get_plugins():
        queue = getattr(plugin, "torun", None)
        if queue is not None and hasattr(queue, "lock"):
            following = getattr(plugin, "nextitem_index", None)
            with queue.lock() as waiting:
                yield from (index for index in (following, *waiting) if isinstance(index, int))


def _is_plain(item: TaskItem, current: pytest.Item) -> bool:
    """Return whether nothing is prepared for the item, or decided about it, in its own turn."""
    ready = HARMLESS | set(session_wide(current))
    if not ready.issuperset(item.fixturenames) or any(map(item.get_closest_marker, _TOLD_IN_TURN)):
        return False
    spec = item.loaded.spec
    if spec.error_recovery.on_state_inconsistency.strategy == "manual_resolution":
        return False
    return not (_hooked(item.config) and _may_ask_the_hook(spec))


def _hooked(config: pytest.Config) -> bool:
    """Return whether the project has a repair hook. It is called on pytest's own thread, in the turn of its task."""
    return bool(config.hook.pytest_taskspec_repair.get_hookimpls())


def _may_ask_the_hook(spec: TaskSpec) -> bool:
    """Return whether the task may call the repair hook, also inside it.

    Such a task does not run ahead: the wait for its turn would count against its time.
    """
    inner = [spec.fallback_plan.alternative_task_id, *(repair.task for repair in spec.repairs)]
    return spec.error_recovery.on_precondition_fail.strategy == "attempt_repair" or any(inner)


def _may_run_again(item: pytest.Item) -> bool:
    """Return whether `--reruns` may run it again: then the next task of its episode must wait for it."""
    config = item.config
    if not config.pluginmanager.hasplugin("rerunfailures"):
        return False
    asked = config.getoption("reruns", 0) or config.getoption("force_reruns", 0) or config.getini("reruns")
    return bool(asked) or any(each.get_closest_marker("flaky") for each in item.session.items)


def _steps_in(config: pytest.Config) -> bool:
    """Return whether a conftest.py or a plugin of the project handles each item in its turn."""
    hooks = (getattr(config.hook, name) for name in STEPPING_IN)
    return any(_own(impl, config.rootpath) for hook in hooks for impl in hook.get_hookimpls())


def _own(impl: Any, root: Path) -> bool:
    """Return whether a hook is the project's: in a conftest.py, or a plugin of its own that was not installed."""
    file = Path(getattr(impl.plugin, "__file__", None) or "")
    ours = str(getattr(impl.plugin, "__name__", "")).startswith("harness.")
    below = file.is_relative_to(root) and "site-packages" not in file.parts
    return file.name == "conftest.py" or (below and not ours)


# Output and log records of tasks before their turn must not appear in another test's report (`--task-workers`).

_NAMES = ("stdout", "stderr")
_KEPT = "taskspec_kept"
"""The attribute of a log record that is printed later."""


class DeferredOutput:
    """Defers the output of tasks; registered only with look-ahead, while tasks run."""

    def __init__(self, config: pytest.Config) -> None:
        captures = config.pluginmanager.hasplugin("capturemanager") and config.getoption("capture") != "no"
        self._streams = Streams(_NAMES, straight=not captures)
        self._logs = DeferredLogs(config.pluginmanager.getplugin("logging-plugin"))
        self._over = False
        config.add_cleanup(self._end)  # an interrupted session may never call the end hook

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        self._streams.look()
        return (yield)

    pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self) -> Generator[None, Any, Any]:
        """Watch the streams again: `capsys` has streams of its own."""
        try:
            return (yield)
        finally:
            self._streams.look()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._end()

    def _end(self) -> None:
        if self._over:
            return
        self._over = True
        self._streams.end()
        self._logs.end()


class Streams:
    """Makes the streams of `sys` keep early output of tasks. pytest replaces streams by others: each is watched."""

    def __init__(self, names: Sequence[str], *, straight: bool = False) -> None:
        """`straight`: early output goes to the present streams, which need not be watched."""
        self._begun = {name: getattr(sys, name) for name in names} if straight else {}
        self._names = names
        self._before: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        """Stream -> the `write` that was set on it before; None: it had only that of its class."""
        self.look()

    def look(self) -> None:
        """Watch the present streams."""
        for name in self._names:
            stream = getattr(sys, name)
            if name in self._begun and stream is self._begun[name]:
                continue
            with contextlib.suppress(AttributeError, TypeError):  # a stream that does not allow it
                if stream not in self._before:
                    before, write = vars(stream).get("write"), stream.write
                    past = name in self._begun
                    stream.write = (
                        partial(_write_directly, self._begun[name], write) if past else partial(_write, name, write)
                    )
                    self._before[stream] = before

    def end(self) -> None:
        """Restore each stream."""
        for stream, before in self._before.items():
            if before is None:
                del stream.write
            else:
                stream.write = before
        self._before.clear()


def _write(name: str, write: Any, text: Any) -> Any:
    """Replaces a stream's own `write`, which has to refuse values that are no text."""
    if isinstance(text, str) and keep(partial(_say, name, text)):
        return len(text)
    return write(text)


def _write_directly(begun: Any, write: Any, text: Any) -> Any:
    """The same if nothing is deferred. `begun`: the stream at the start; None: there was none."""
    if not is_deferred():
        return write(text)
    return begun.write(text) if begun is not None else len(text)


def _say(name: str, text: str) -> None:
    stream = getattr(sys, name)
    if stream is not None:
        stream.write(text)


class DeferredLogs(logging.Handler):
    """Keeps log records from pytest's own handlers until the turn of their task; other records pass at once."""

    def __init__(self, plugin: Any) -> None:
        super().__init__()
        names = ("caplog_handler", "report_handler", "log_cli_handler")
        found = (getattr(plugin, name, None) for name in names)
        self._handlers = [handler for handler in found if isinstance(handler, logging.Handler)]
        root, level = logging.getLogger(), getattr(plugin, "log_level", None)
        self._level = root.level
        if level is not None:  # pytest sets it only while an item runs
            root.setLevel(min(root.level, level))
        for handler in self._handlers:
            handler.addFilter(_is_due)
        if self._handlers:
            root.addHandler(self)  # pytest adds its own handlers later, for each item: this one comes first

    def emit(self, record: logging.LogRecord) -> None:
        """Handle a record. Errors of formatting are raised, as by pytest's handlers: the code that logs made them."""
        if is_deferred() and keep(partial(self._say, _as_now(record))):
            setattr(record, _KEPT, True)

    def _say(self, record: logging.LogRecord) -> None:
        for handler in self._handlers:
            if record.levelno >= handler.level:
                handler.handle(record)

    def end(self) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self._level)
        for handler in self._handlers:
            handler.removeFilter(_is_due)


def _as_now(record: logging.LogRecord) -> logging.LogRecord:
    """A copy with the formatted text: the arguments may have changed when it is printed."""
    kept = copy(record)
    kept.msg, kept.args = record.getMessage(), None
    if record.exc_info and not record.exc_text:
        kept.exc_text = logging.Formatter().formatException(record.exc_info)
    return kept


def _is_due(record: logging.LogRecord) -> bool:
    return not getattr(record, _KEPT, False)
