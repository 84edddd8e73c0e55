"""The fence: each output raises at each of its methods, and the others go on."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.model.events import TaskEnded, TaskStarted
from harness.model.settings import Settings
from harness.reporting.fence import LOST, OutputFence
from harness.reporting.telemetry.log import LogSink
from harness.reporting.telemetry.sinks import PytestSinks, every_sink, stream_of
from harness.reporting.telemetry.stream import Sink, Telemetry
from harness.resilience.events import CircuitChanged
from harness.values import replace
from tests.unit.fakes import FakeClock
from tests.unit.reporting import sample
from tests.unit.reporting.telemetry.stage import Kept

METHODS = [name for name, _ in inspect.getmembers(Sink, inspect.isfunction) if not name.startswith("_")]
OPENED = CircuitChanged("origin:shop", "closed", "open", "consecutive_failures_5")


class PluginError(BaseException):
    """As pytest's `fail` and `skip` are, which are no Exception."""


ERRORS: list[Callable[[], BaseException]] = [
    lambda: OSError(28, "No space left on device", "/somewhere"),
    lambda: OverflowError("Python int too large to convert to SQLite INTEGER"),
    lambda: RecursionError("maximum recursion depth exceeded"),
    lambda: PluginError("a plugin's own"),
    lambda: pytest.fail.Exception("a plugin has failed"),
]


class Whole(Kept):
    """A sink that overrides every method, and notes each call."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.called: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in METHODS:
            object.__getattribute__(self, "called").append(name)
        return object.__getattribute__(self, name)

    def close(self) -> None:
        """Nothing is open."""


def sinks_of_pytest() -> PytestSinks:
    return PytestSinks(**{name: Whole(name) for name in PytestSinks.__struct_fields__})


def story(telemetry: Telemetry) -> None:
    """Everything that a stream does, once."""
    plan = sample.plan()
    telemetry.turn(TaskStarted(plan, sample.START), heard=False)
    telemetry.emit(OPENED)
    telemetry.turn(TaskEnded(plan, sample.completed(plan), sample.START), heard=False)
    telemetry.close()


def count_sinks() -> int:
    return len([*every_sink(Settings(root=Path("/nowhere")), "run-1", sinks_of_pytest())])


@pytest.mark.parametrize("error", ERRORS, ids=["disk", "number", "depth", "base", "outcome"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", range(count_sinks()))
@pytest.mark.sampled(25)
def test_each_sink_raises_at_each_method_and_the_others_hear_everything(
    tmp_path: Path, place: int, method: str, error: Callable[[], BaseException]
) -> None:
    whole = stream_of(Settings(root=tmp_path), "run-1", sinks_of_pytest())
    story(whole)
    telemetry = stream_of(Settings(root=tmp_path), "run-1", sinks_of_pytest())
    broken = telemetry.sinks[place]

    def fails(*_: object) -> None:
        raise error()

    overridden = getattr(type(broken), method) is not getattr(Sink, method)
    setattr(broken, method, fails)
    story(telemetry)
    for mine, other in zip(telemetry.sinks, whole.sinks, strict=True):
        if isinstance(mine, Whole) and isinstance(other, Whole) and mine is not broken:
            assert mine.called == other.called
            assert [each.event.type for each in mine.records] == [each.event.type for each in other.records]
    if overridden or method == "close":
        (line,) = telemetry.fence.lines()
        assert line.startswith(f"output failed: {broken.name}: {type(error()).__name__}: ")
    else:
        assert telemetry.fence.lines() == [], "what a sink does not override is not called"


def test_a_sink_that_cannot_be_made_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    whole = count_sinks()
    monkeypatch.setattr(LogSink, "__init__", fails)
    telemetry = stream_of(Settings(root=tmp_path), "run-1", replace(sinks_of_pytest(), hook=None))
    assert len(telemetry.sinks) == whole - 2
    (line,) = telemetry.fence.lines()
    assert line.startswith("output failed: logging: OSError: [Errno 28] No space left on device; free space on the")


def test_what_was_said_before_is_only_named_at_the_end() -> None:
    fence = OutputFence()
    fence.note("history", "full")
    assert len(fence.unsaid()) == 1
    fence.note("metrics", "full too")
    (line, named) = fence.summed_up()
    assert line.startswith("output failed: metrics: full too; ")
    assert named == "outputs that failed, as said above: history"
    assert fence.unsaid() == []


class Unredactable:
    """A redactor that fails, as one may at a text from outside."""

    def text(self, _: str) -> str:
        raise RecursionError("too deep")

    def plus(self, _: object) -> Unredactable:
        return self


def test_an_event_that_cannot_be_told_harms_nobody_who_emits_it() -> None:
    telemetry = Telemetry("run-1", FakeClock(), Unredactable(), (Whole("whole"),))
    story(telemetry)
    (line,) = telemetry.fence.lines()
    assert line.startswith("output failed: stream: RecursionError: too deep; events of this run are missing")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_is_meant_for_the_run_is_not_held_up(stop: type[BaseException]) -> None:
    def stopped() -> None:
        raise stop

    with pytest.raises(stop):
        OutputFence().call("history", stopped)


def sinks_of_the_package() -> Iterator[type[Sink]]:
    for module in pkgutil.walk_packages(harness.__path__, "harness."):
        if ".demo" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)
    found = [Sink]
    for each in found:
        found += each.__subclasses__()
    yield from (each for each in found[1:] if each.__module__.startswith("harness."))


def test_of_each_output_it_is_known_what_is_lost_with_it() -> None:
    assert {each.name for each in sinks_of_the_package()} <= {*LOST}
    sources = [path.read_text("utf-8") for path in Path(harness.__path__[0]).rglob("*.py") if path.name != "fence.py"]
    used = {name for name in LOST if any(f'"{name}"' in source for source in sources)}
    assert used == {*LOST}


class Plugin:
    """As those of pytest are."""

    def __init__(self) -> None:
        self.told: list[object] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: object) -> None:
        self.told.append(report)
        raise OverflowError("too large")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: object, call: object) -> Iterator[None]:
        result: Any = yield
        return result


def test_a_plugin_within_the_fence_is_one_for_pytest() -> None:
    fence, manager = OutputFence(), pytest.PytestPluginManager()
    plugin = fence.enclose("history", Plugin())
    manager.register(plugin, "enclosed")
    report: Any = object()
    manager.hook.pytest_runtest_logreport(report=report)
    manager.hook.pytest_runtest_logreport(report=report)
    assert plugin.told == [report, report], "it is called with what it asks for, and again after an error"
    (caller,) = [each for each in manager.get_hookcallers(plugin) or () if each.name == "pytest_runtest_logreport"]
    assert [each.tryfirst for each in caller.get_hookimpls() if each.plugin is plugin] == [True]
    assert fence.unsaid() == fence.lines() == [
        "output failed: history: OverflowError: too large; the history of this run is incomplete"
    ]  # fmt: skip
    assert fence.unsaid() == [], "it is said once"


def test_the_text_of_an_error_is_bounded_and_need_not_exist() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def fails(error: BaseException) -> None:
        raise error

    fence = OutputFence()
    fence.call("history", fails, Unspeakable())
    fence.call("store", fails, ValueError("x" * 10**6))
    assert fence.problems["history"] == "Unspeakable: "
    assert len(fence.problems["store"]) < 400
