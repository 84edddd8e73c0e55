"""What a process does of a part that others have begun: each task has one end, and no write is done twice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.events import StepStarted, WriteSeen
from harness.model.settings import Settings
from harness.pytest_plugin.state import UPLINK, SessionState
from harness.pytest_plugin.stored import Earlier, StoredRun, StorePlace, begin_store, resumption, shows_write
from harness.runner.stored_part import show_attempt, wrote_name
from tests.unit.reporting.history.runs import execution, failed, run

TASKS = {"a::A": ("A", None), "b::B": ("B", None), "e::1": ("1", "E"), "e::2": ("2", "E")}


def earlier(ended: dict[str, bool] | None = None, *wrote: str) -> Earlier:
    return Earlier(ended or {}, frozenset(map(wrote_name, wrote)))


def codes(found: Any) -> dict[str, str]:
    return {task_id: failure.code for task_id, failure in found.lost.items()}


def test_nothing_was_done() -> None:
    found = resumption(TASKS, earlier())
    assert (found.done, codes(found)) == (frozenset(), {})


def test_what_has_an_end_does_not_run_and_what_only_began_does() -> None:
    assert resumption(TASKS, earlier({"a::A": False}, "A")).done == {"a::A"}


def test_a_task_that_had_begun_to_write_and_has_no_end_is_lost() -> None:
    found = resumption(TASKS, earlier({}, "A"))
    assert (found.done, codes(found)) == (frozenset(), {"A": "WORKER_CRASHED"})


def test_an_episode_runs_again_from_its_start() -> None:
    found = resumption(TASKS, earlier({"e::1": True}))
    assert (found.done, codes(found)) == (frozenset(), {})
    assert resumption(TASKS, earlier({"e::1": True, "e::2": True})).done == {"e::1", "e::2"}


def test_an_episode_that_had_begun_to_write_does_not_run_again() -> None:
    found = resumption(TASKS, earlier({"e::1": True}, "1"))
    assert (found.done, codes(found)) == ({"e::1"}, {"2": "EPISODE_STATE_LOST"})
    found = resumption(TASKS, earlier({"e::1": True}, "2"))
    assert (found.done, codes(found)) == ({"e::1"}, {"2": "WORKER_CRASHED"})


@given(st.sets(st.sampled_from(sorted(TASKS))), st.sets(st.sampled_from("AB12")))
def test_nothing_runs_again_that_has_begun_to_write(ended: set[str], wrote: set[str]) -> None:
    found = resumption(TASKS, earlier(dict.fromkeys(ended, True), *wrote))
    runs = {nodeid for nodeid, (task_id, _) in TASKS.items() if nodeid not in found.done and task_id not in found.lost}
    assert not {TASKS[nodeid][0] for nodeid in runs} & wrote
    assert not {task_id for nodeid, (task_id, _) in TASKS.items() if nodeid in found.done} & set(found.lost)
    assert found.done <= ended


def test_a_step_that_begins_has_not_written() -> None:
    """It asks first: a note would keep for ever that a task has written, although nothing was sent."""
    step: Any = SimpleNamespace(effect_class="write")
    assert not shows_write(StepStarted(None, 0, step, None))  # type: ignore[arg-type]
    assert shows_write(WriteSeen(None, 0, None))  # type: ignore[arg-type]


# In a cluster, the process that runs a task stores its directory, and the driver its end.


def config(tmp_path: Path, *arguments: str, slot: bool = False, **options: Any) -> Any:
    """What `StoredRun` asks of pytest's config: of a driver, or of the process of a slot."""
    made = SimpleNamespace(
        stash={UPLINK: None} if slot else {},
        rootpath=tmp_path,
        invocation_params=SimpleNamespace(dir=tmp_path, args=arguments),
        getoption=lambda name, default=None: options.get(name, default),
    )
    if slot:
        made.workerinput = {}
    return made


def stored(tmp_path: Path, place: StorePlace, *, slot: bool = False) -> StoredRun:
    state = SessionState(Settings(root=tmp_path))
    return StoredRun(config(tmp_path, slot=slot), state, place, "one", Earlier())


def test_a_directory_that_a_slot_has_stored_is_not_stored_again(tmp_path: Path) -> None:
    place = StorePlace(f"memory://{uuid4()}", "whole")
    part = place.open()
    folder = tmp_path / "errors" / "T-1"
    folder.mkdir(parents=True)
    (folder / "error_report.json").write_text("{}")
    show_attempt(part, "one")
    name = stored(tmp_path, place, slot=True).put(folder, 2)
    assert part.names("errors") == [f"{name}/error_report.json"]
    assert name == "errors/one.2/T-1"
    driver, ended = stored(tmp_path, place), execution(failed("T-1", "CRITERIA_UNMET", artifacts="errors/T-1"))
    driver.has(ended.nodeid, name)
    driver.add(ended)
    driver.add(execution(failed("T-2", "CRITERIA_UNMET", artifacts="errors/T-1")))  # no slot has stored it
    assert driver.finish(run()) == []
    assert part.names("errors") == ["errors/one.2/T-1/error_report.json", "errors/one/T-1/error_report.json"]
    lines = "".join(part.lines("journal/one"))
    assert ('"artifacts":"errors/one.2/T-1"' in lines, '"artifacts":"errors/one/T-1"' in lines) == (True, True)


def test_a_slot_that_may_see_another_store_leaves_the_directory_to_its_driver(tmp_path: Path) -> None:
    place = StorePlace(f"memory://{uuid4()}", "whole")
    (tmp_path / "T-1").mkdir()
    (tmp_path / "T-1" / "error_report.json").write_text("{}")
    assert stored(tmp_path, place, slot=True).put(tmp_path / "T-1", 1) == ""
    assert place.open().names() == []


def test_a_slot_that_sees_another_store_is_refused_and_one_that_cannot_ask_goes_on(tmp_path: Path) -> None:
    there, given = config(tmp_path, slot=True), StorePlace(str(tmp_path / "store"), "whole")
    there.workerinput = {"taskspec_store": given.url, "taskspec_part": given.part, "taskspec_attempt": "one"}
    state = SessionState(Settings(root=tmp_path))
    with pytest.raises(pytest.UsageError, match="is not the store of the run, seen from this machine"):
        begin_store(there, state)
    (tmp_path / "store").symlink_to("store")  # it leads nowhere, so nothing can be read
    assert begin_store(there, state).put(tmp_path, 1) == ""
    (tmp_path / "store").unlink()
    show_attempt(given.open(), "one")
    assert begin_store(there, state).attempt == "one"


def test_a_run_that_its_machines_have_left_is_to_be_repeated(tmp_path: Path) -> None:
    found = stored(tmp_path, StorePlace(f"memory://{uuid4()}", "whole"))
    assert found.status(2) == 2
    found.deserted = True
    assert (found.status(2), found.status(4)) == (75, 4)


@pytest.mark.parametrize(
    ("root", "arguments", "store", "misled"),
    [
        (".", ("--task-store", "store"), "store", True),
        (".", ("--task-store=store",), "store", False),
        ("project", ("--task-store", "store"), "store", False),
        (".", ("--task-store", "project/store"), "project/store", False),
    ],
)
def test_a_store_that_pytest_takes_for_a_path_of_tests_is_refused(
    tmp_path: Path, root: str, arguments: tuple[str, ...], store: str, misled: bool
) -> None:
    """The second run of a command finds another root than the first, because the folder exists now."""
    (tmp_path / "project").mkdir()
    (tmp_path / store).mkdir(exist_ok=True)
    url = str(tmp_path / store)
    given = config(tmp_path, *(each.replace(store, url) for each in arguments), task_store=url, collectonly=True)
    given.rootpath, given.invocation_params.dir = tmp_path / root, tmp_path / "project"
    if misled:
        with pytest.raises(pytest.UsageError, match="Expected: --task-store="):
            begin_store(given, SessionState(Settings(root=tmp_path)))
    else:
        assert begin_store(given, SessionState(Settings(root=tmp_path))).earlier == Earlier()


def test_a_store_may_be_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    begin_store(config(tmp_path, task_store="~/run"), SessionState(Settings(root=tmp_path)))
    assert (tmp_path / "home/run/run.json").is_file()
