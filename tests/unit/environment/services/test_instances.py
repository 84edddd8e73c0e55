"""`instances = N`: each with ports and a folder of its own, started when its slot is needed, and reset."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.environment.services import Services
from harness.model.service_settings import ServiceSettings
from harness.recovery.failure import Failed
from tests.ports import listens
from tests.unit.environment.services.conftest import PROGRAM, play

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


def test_a_reset_command_that_fails_is_told(make: Make) -> None:
    code = "import sys; print('no such state', file=sys.stderr); sys.exit(3)"
    services = make(several(instances=1, template=None, reset=[sys.executable, "-c", code]))

    async def main() -> None:
        with pytest.raises(Failed, match=r"was not reset: .* ended with exit code 3\. It wrote:\nno such state"):
            await services.reset(0)

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
