"""Faults from Python: what they may say, and which task they strike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.faults.python import InjectionError, PendingInjections, check, fault_of
from harness.model.channel_settings import ChannelSettings
from harness.model.service_settings import ServiceSettings
from harness.model.settings import Settings
from harness.model.tool_settings import ToolServerSettings
from harness.runner.api import inject_network_failure
from harness.spec.faults import Refuse
from tests.unit.fakes import Theatre

REFUSE = {"kind": "refuse", "host": "shop.local", "seconds": 2}


def test_a_fault_is_written_as_in_a_file_or_made_by_its_class() -> None:
    assert fault_of(REFUSE) == fault_of(Refuse(host="shop.local", seconds=2))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"kind": "refus"}, "`kind` is 'refus'; did you mean `refuse`?"),
        ({"host": "shop.local"}, "`kind` is None; expected one of: abort, alert_on_load"),
        ({"kind": ["refuse"]}, "expected one of"),
        ({"kind": "refuse", "host": "a"}, "needs either `connections` or `seconds`"),
        ({"kind": "refuse", "hots": "a", "seconds": 1}, "has no key `hots`: did you mean `host`?"),
        ({"kind": "refuse", "seconds": 1}, "fault `refuse` needs `host`: A host of"),
        ({**REFUSE, "seconds": 0}, "`seconds`: Input should be greater than 0, found 0"),
        ({**REFUSE, "xyzzy": 0}, "has no key `xyzzy`: it has: kind, id, step"),
    ],
)
def test_what_is_no_fault_is_told(fault: dict[str, Any], words: str) -> None:
    with pytest.raises(InjectionError) as caught:
        fault_of(fault)
    assert words in str(caught.value)


SETTINGS = Settings(
    services={
        "demo": ServiceSettings(command=("x",), hosts={"Shop.local": 1, "bank.local": 2}, health="http://shop.local/")
    },
    channels={"env": ChannelSettings(file="env.json")},
    tools={"mail": ToolServerSettings(command=("x",)), "shop": ToolServerSettings(url="http://shop.local/mcp")},
)
LATE = {"kind": "delayed_state", "path": "a", "value": 1, "seconds": 1}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({**REFUSE, "step": 1}, "there is no step 1: T-1 has the steps 0 to 0"),
        ({**REFUSE, "host": "shop.loca"}, "no host `shop.loca` in [tool.harness.services]; did you mean `shop.local`?"),
        ({**LATE, "channel": "db"}, "no channel `db` in [tool.harness.channels]; known: env"),
        ({"kind": "service_killed", "service": "demos"}, "no service `demos` in [tool.harness.services]; did you mean"),
        ({"kind": "tool_slow", "server": "mial"}, "no server `mial` in [tool.harness.tools]; did you mean `mail`?"),
        ({"kind": "tool_killed", "server": "shop"}, "has a `url`, so the run does not own its process"),
    ],
)
def test_what_does_not_fit_the_task_is_told(fault: dict[str, Any], words: str) -> None:
    with pytest.raises(InjectionError) as caught:
        check([fault_of(fault)], Theatre().plan(), SETTINGS)
    assert words in str(caught.value)


def test_what_fits_passes() -> None:
    others = ({"kind": "service_killed", "service": "demo"}, {"kind": "tool_killed", "server": "mail"})
    faults = [
        fault_of(REFUSE),
        fault_of(LATE),
        *map(fault_of, others),
        fault_of({"kind": "tool_error", "server": "page"}),
    ]
    plan = Theatre().plan()
    check(faults, plan, SETTINGS)
    assert plan.faults == ()


def test_an_injection_is_for_the_next_task_unless_it_stands() -> None:
    pending, fault = PendingInjections(), fault_of(REFUSE)
    pending.add(fault)
    assert pending.look() == (fault,)
    pending.forget()
    assert pending.look() == ()
    with pending.add(fault, fault) as standing:
        pending.forget()
        assert pending.look() == standing.faults == (fault, fault)
        with pending.add(fault):
            assert len(pending.look()) == 3
        assert len(pending.look()) == 2
    assert pending.look() == ()


PROJECT = """
[tool.harness.services.demo]
command = ["x"]
hosts = {"Shop.local" = 1, "bank.local" = 2}
health = "http://shop.local/"
"""


def test_a_network_failure_is_one_fault_of_all_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT, "utf-8")
    monkeypatch.chdir(tmp_path)
    with inject_network_failure(2000) as one, inject_network_failure(2000, step=3) as other:
        assert [fault.target for fault in one.faults] == ["shop.local", "bank.local"]
        assert len({fault.id for fault in one.faults}) == 1
        assert {fault.id for fault in one.faults}.isdisjoint(fault.id for fault in other.faults)
    with inject_network_failure(2000, host="shop.local") as alone:
        assert [fault.id for fault in alone.faults] == [""]


def test_clear_takes_all_away() -> None:
    pending, fault = PendingInjections(), fault_of(REFUSE)
    with pending.add(fault):
        pending.add(fault)
        pending.clear()
        assert pending.look() == ()


def test_a_text_is_no_fault() -> None:
    with pytest.raises(InjectionError) as caught:
        fault_of("refuse")  # type: ignore[arg-type]
    assert str(caught.value).startswith("'refuse' is not a fault: expected a mapping such as {'kind': 'refuse', ...}")


def test_a_network_failure_of_a_host_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT, "utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InjectionError, match=r"there is no host `nope\.example` in .*; known: shop\.local, bank"):
        inject_network_failure(host="nope.example")
