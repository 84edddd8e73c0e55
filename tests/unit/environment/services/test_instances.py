"""`instances = N`: each with ports and a folder of its own, started when its slot is needed, and reset."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.environment.services import Services
from harness.model.service_settings import ServiceSettings
from harness.recovery.failure import Failed
from tests.ports import listens
from tests.unit.environment.services.conftest import PROGRAM, play, reborn, site

Make = Callable[..., Services]


def several(**more: Any) -> ServiceSettings:
    given = {
        "command": ["{python}", str(PROGRAM), "{port}"],
        "hosts": ["shop.local"],
        "health": "http://shop.local/health",
        "ready_timeout": 60,
        "instances": 2,
        "template": "seed",
        **more,
    }
    return ServiceSettings.model_validate(given)


def test_each_slot_has_its_own_and_reset_copies_the_template_again(make: Make, tmp_path: Path) -> None:
    (tmp_path / "seed").mkdir()
    (tmp_path / "seed" / "state").write_text("first")
    services = make(several(reset="restart"))

    async def main() -> None:
        one, two = services.hosts_of(0)["shop.local"], services.hosts_of(1)["shop.local"]
        assert one != two
        assert services.states == {"site": "up", "site[2]": "down"}, "the second is started when it is needed"
        await services.await_ready(1)
        assert listens(services.hosts_of(1)["shop.local"])
        states = [services.folder_of("site", slot) / "state" for slot in (0, 1)]
        for state in states:
            state.write_text("changed")
        await services.reset(1)
        assert [state.read_text() for state in states] == ["changed", "first"]
        assert services.states == {"site": "up", "site[2]": "up"}

    assert services.instances == 2
    play(services, main)
    assert not list((tmp_path / "services").iterdir())


def test_what_a_crash_leaves_is_kept_until_the_next_reset(make: Make, tmp_path: Path) -> None:
    """Whoever keeps the program: this process, or another one, as the controller of xdist does."""
    (tmp_path / "seed").mkdir()
    (tmp_path / "seed" / "state").write_text("first")
    services = make(several(instances=1, reset="restart"))
    user = make(several(instances=1, reset="restart"))
    port = services.hosts["shop.local"]

    async def main() -> None:
        await user.start()
        assert user.started == ()
        state = services.folder_of("site") / "state"
        assert user.folder_of("site") / "state" == state, "the folder is the owner's"
        state.write_text("changed")
        pid = site(port).pid
        os.kill(pid, signal.SIGKILL)
        assert await reborn(port, pid)
        assert state.read_text() == "changed"
        await user.end("site", orderly=False)
        await user.await_ready()
        assert state.read_text() == "changed", "an end that a fault plan orders is no reset"
        await user.reset()
        assert state.read_text() == "first"

    play(services, main)


def test_a_reset_command_runs_in_the_projects_folder_and_its_failure_is_told(make: Make, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    code = "import os, sys; print('no such state', os.path.exists('site'), file=sys.stderr); sys.exit(3)"
    services = make(several(instances=1, template=None, cwd="site", reset=[sys.executable, "-c", code]))

    async def main() -> None:
        with pytest.raises(Failed) as caught:
            await services.reset(0)
        failure = caught.value.failure
        assert failure.code == "RESET_FAILED"
        first, *rest = failure.message.splitlines()
        assert first.startswith(
            f"the state could not be reset before the task: the `reset` of service `site`, `{sys.executable}"
        )
        assert first.endswith(f" in {tmp_path}, ended with exit status 3. Its last lines:")
        assert rest == ["no such state True"]
        assert "by hand in that folder" in failure.hint
        assert "services start" not in failure.hint

    play(services, main)


def test_numbers_that_do_not_agree_are_refused(make: Make) -> None:
    other = several(hosts=["b.local"], health="http://b.local/")
    with pytest.raises(ValueError, match="all `instances` must be equal"):
        make(several(), other.model_copy(update={"instances": 3}))
    with pytest.raises(ValueError, match="is shared by the 2 instances of `site`"):
        make(several(), other.model_copy(update={"instances": 1, "reset": "restart"}))
    with pytest.raises(IndexError):
        make(several()).hosts_of(2)
    assert asyncio.run(make().await_ready()) is None
