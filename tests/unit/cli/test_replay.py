"""A replay: what it does again, and how it waits for a person."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from harness.cli import replay as replayed
from harness.cli.failures import ArtifactDirectory, read_kept
from harness.cli.open_trace import has_desktop, has_display
from harness.cli.replay import (
    foreign_hosts,
    left_out,
    pause,
    place,
    plan_of,
    setting,
    stop_index,
    why_asked,
    writes,
)
from harness.model.plan import Plan
from harness.model.service_settings import ServiceSettings
from harness.model.settings import Settings
from harness.values import replace
from tests.unit.cli.test_show import keep

TASK = """task_id: T-1
goal: g
episode_id: E-1
dependencies: [T-0]
steps:
  - {act: open, url: 'http://shop.local/'}
  - {act: type, selector: '#password', value: '${env:OF_T_1}'}
  - {act: submit, selector: form}
  - {act: open, url: 'http://other.example/'}
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactDirectory:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_T_1", "hunter2")
    (tmp_path / "t.task.yaml").write_text(TASK, "utf-8")
    return read_kept(keep(tmp_path / "errors" / "T-1", source="t.task.yaml", step_index=3))


@pytest.fixture
def plan(kept: ArtifactDirectory) -> Plan:
    return plan_of(kept, Settings(), "run-1")


def changed(kept: ArtifactDirectory, **fields: Any) -> ArtifactDirectory:
    return replace(kept, report=kept.report.model_copy(update=fields))


def test_the_task_has_a_world_of_its_own_and_stops_where_it_failed(kept: ArtifactDirectory, plan: Plan) -> None:
    assert plan.world == "run-1.T-1"
    assert (stop_index(kept, plan, None), stop_index(kept, plan, 1)) == (3, 1)
    assert place(plan, 4, Settings()) == "the success criteria"
    assert place(plan, 3, Settings()) == "step 3 open http://other.example/"


def test_what_it_writes_is_named_without_secrets(plan: Plan) -> None:
    assert writes(plan, 4, Settings()) == ("2 submit form",)
    assert writes(plan, 2, Settings()) == ()
    assert "hunter2" not in place(plan, 1, Settings())
    tidies = plan.steps[2].model_copy(update={"note": "after_each: tidy"})
    assert writes(replace(plan, after_each=(tidies,)), 2, Settings()) == ("after_each: tidy submit form",)


def test_a_failure_after_the_task_is_looked_at_before_its_criteria(kept: ArtifactDirectory, plan: Plan) -> None:
    context = type(kept.report.context).model_validate({**kept.report.context.model_dump(), "hook": "after_each"})
    assert stop_index(changed(kept, step_index=5, context=context), plan, None) == 4


def test_sites_that_the_project_does_not_serve(plan: Plan) -> None:
    service = ServiceSettings(command=("x",), hosts={"shop.local": 1}, health="http://shop.local/")
    settings = Settings(services={"shop": service})
    assert foreign_hosts(plan, 3, settings) == ()
    assert foreign_hosts(plan, 4, settings) == ("other.example",)
    assert foreign_hosts(plan, 3, Settings(base_url="http://base.example/")) == ("shop.local", "base.example")


@pytest.mark.parametrize(
    ("isolation", "kept_now", "command", "asked"),
    [
        (None, True, ("x",), True),
        ("none", True, ("x",), True),
        (None, False, ("x",), False),
        (None, False, None, True),
        ("world", True, ("x",), False),
        ("reset", True, ("x",), False),
    ],
)
def test_a_service_that_is_kept_and_not_put_back_is_written_to_only_when_asked(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, isolation: Any, kept_now: bool, command: Any, asked: bool
) -> None:
    held = SimpleNamespace(owner=SimpleNamespace(alive=True)) if kept_now else None
    monkeypatch.setattr(replayed, "read_held", lambda _: held)
    service = ServiceSettings(command=command, hosts={"shop.local": 1}, health="http://shop.local/")
    settings = Settings(services={"shop": service}, isolation=isolation)
    assert foreign_hosts(plan, 3, settings) == (("shop.local",) if asked else ())
    assert ("kept between runs" in why_asked(["shop.local"], settings)) == asked
    assert ("fresh world" in setting(settings)) == (isolation == "world")


@pytest.mark.parametrize("isolation", ["world", "reset", "none", None])
def test_what_a_run_does_before_it_is_said_to_be_missing(plan: Plan, isolation: Any) -> None:
    settings = Settings(isolation=isolation)
    first, second = left_out(plan, settings)
    assert "T-0" in first
    assert "E-1" in second
    assert second.endswith(setting(settings))


@pytest.mark.parametrize(
    ("fields", "step", "said"),
    [({"step_index": -1}, None, "before its first step"), ({}, 9, "has steps 0 to 3 now; choose with --step")],
)
def test_where_nothing_can_be_stopped_at(
    kept: ArtifactDirectory,
    plan: Plan,
    capsys: pytest.CaptureFixture[str],
    fields: dict[str, Any],
    step: int | None,
    said: str,
) -> None:
    with pytest.raises(typer.Exit):
        stop_index(changed(kept, **fields), plan, step)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"source": "gone.task.yaml"}, "the project has no task file of T-1: gone.task.yaml"),
        ({"source": ""}, "its report names no file"),
        ({"task_id": "T-2"}, "t.task.yaml has no task 'T-2' any more"),
    ],
)
def test_a_task_that_is_not_there_any_more(
    kept: ArtifactDirectory, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(typer.Exit):
        plan_of(changed(kept, **fields), Settings(), "run-1")
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["secret.conf", "t.task.yaml", "link.task.yaml"])
def test_a_foreign_report_leads_to_no_file_outside_of_the_project(
    kept: ArtifactDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    project, outside = tmp_path / "project", tmp_path / name
    project.mkdir()
    if name.startswith("link"):
        outside = project / name
        outside.symlink_to(tmp_path / "t.task.yaml")
    elif name == "secret.conf":
        outside.write_text("hunter2: [", "utf-8")
    with pytest.raises(typer.Exit):
        plan_of(changed(kept, source=str(outside)), Settings(root=project), "run-1")
    said = capsys.readouterr().err
    assert "the project has no task file of T-1" in said
    assert "hunter2" not in said


class Impatient(io.StringIO):
    """A person who presses Ctrl-C."""

    def readline(self, size: int | None = -1, /) -> str:
        raise KeyboardInterrupt


@pytest.mark.parametrize("person", [io.StringIO("\nrest"), io.StringIO(""), Impatient()])
def test_a_person_may_look_until_enter_the_end_or_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], person: io.StringIO
) -> None:
    monkeypatch.setattr(sys, "stdin", person)
    pause(True, "step 3", "http://shop.local/\x1b[2J")
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [
        "stopped before step 3, at http://shop.local/ [2J",
        "you can use the window now; Enter or Ctrl-C ends the replay",
    ]


def test_without_a_window_nobody_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Impatient())
    pause(False, "step 3", "")
    assert capsys.readouterr().err == "stopped before step 3, at no page\n"


def test_where_a_window_can_be_opened() -> None:
    assert has_display({"DISPLAY": ":0"}, "linux")
    assert has_display({"WAYLAND_DISPLAY": "wayland-0"}, "linux")
    assert has_display({}, "darwin")
    assert not has_display({}, "linux")
    assert has_desktop({"DISPLAY": ":0"}, "linux")
    assert not has_desktop({"DISPLAY": ":0", "CI": "true"}, "linux")
