"""What a person sees of the stream, in the terminal and in Allure; and extras that are not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import allure_commons
import pytest
from allure_commons import model2
from allure_commons.reporter import AllureReporter

from harness.model.figures import TaskDone
from harness.model.settings import Settings
from harness.pytest_plugin import telemetry
from harness.pytest_plugin.telemetry import AllureEvents, check_extras, is_shown, printable
from harness.reporting.telemetry.record import TelemetryEvent
from harness.resilience.events import CircuitChanged, GaveUp, Retrying, ServiceChanged, SlotAwaited, Waiting
from harness.resilience.thresholds import ThresholdCrossed
from tests.unit.reporting.telemetry.stage import record

QUICK = Retrying("open", 1, 3, 1.0, "refused")
OPENED = CircuitChanged("origin:shop", "closed", "open", "consecutive_failures_5")


@pytest.mark.parametrize(
    ("event", "least"),
    [
        (QUICK, 1),
        (Retrying("open", 3, 3, 10.0, "refused"), 0),
        (Waiting("open", 30.0, "circuit c is open"), 0),
        (Waiting("open", 5.0, "circuit c is open"), 1),
        (SlotAwaited("T-1", ".harness/slots", 5.0), 0),
        (OPENED, 1),
        (ThresholdCrossed("error_rate", "ok", "warning", 0.1, 0.05, "share"), 1),
        (ThresholdCrossed("error_rate", "warning", "ok", 0.0, 0.05, "share"), 1),
        (ServiceChanged("shop", "up", "restarting", "crash_1"), 0),
        (ServiceChanged("shop", "up", "restarting", "ended_on_purpose"), 1),
        (GaveUp("open", "refused", True), 9),
        (TaskDone("completed", 1, 1, 1, 0), 9),
    ],
)
def test_how_much_is_shown(event: TelemetryEvent, least: int) -> None:
    """`least`: the verbosity from which on it is; 9: never."""
    assert [is_shown(record(event), verbosity) for verbosity in (-1, 0, 1)] == [False, least <= 0, least <= 1]


def test_nothing_steers_the_terminal() -> None:
    assert printable("a\x1b]0;title\x07\nb") == "a ]0;title  b"


def test_nothing_commands_the_runner_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert printable("retry: ##[error]no") == "retry: ##\u200b[error]no"


class Listener:
    """As allure-pytest's: it holds the reporter."""

    def __init__(self) -> None:
        self.allure_logger = AllureReporter()
        self.attached: list[tuple[str, str]] = []

    @allure_commons.hookimpl
    def attach_data(self, body: str, name: str, attachment_type: Any, extension: Any) -> None:
        self.attached.append((name, body))


@pytest.fixture
def allure() -> Iterator[Listener]:
    manager = allure_commons.plugin_manager
    others = [each for each in manager.get_plugins() if hasattr(each, "allure_logger")]
    for other in others:
        manager.unregister(other)
    listener = Listener()
    listener.allure_logger.schedule_test("u", model2.TestResult(name="T", uuid="u"))
    manager.register(listener)
    yield listener
    manager.unregister(listener)
    for other in others:
        manager.register(other)


def test_allure_has_what_steps_do_not_show(allure: Listener) -> None:
    events = AllureEvents()
    events.on_delivery(record(QUICK, task_id="T-1", step=0))
    events.on_delivery(record(TaskDone("completed", 1, 1, 1, 0), task_id="T-1"))
    events.attach("T-1")
    assert allure.attached == []
    events.on_delivery(record(OPENED, task_id="T-1"))
    events.on_delivery(record(ServiceChanged("demo", "down", "booting", "crash 1 of 3")))
    events.attach("T-1")
    events.attach("T-1")
    ((name, text),) = allure.attached
    assert name == "resilience events"
    assert text.splitlines() == [
        "09:00:00.000 ERROR circuit origin:shop: closed -> open (consecutive_failures_5) [T-1]",
        "09:00:00.000 INFO service demo: down -> booting (crash 1 of 3)",
    ]


@pytest.mark.parametrize(("name", "module"), telemetry.EXTRAS.items())
def test_an_extra_that_is_not_there(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.model_validate({"telemetry": {name: True}})
    check_extras(settings)
    monkeypatch.setattr(telemetry, "find_spec", lambda _module: None)
    with pytest.raises(pytest.UsageError, match=rf"{name} = true needs the package {module}: pip install"):
        check_extras(settings)
    check_extras(Settings())
