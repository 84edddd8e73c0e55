"""Which services a task needs: those that its domains, steps or channels name; all of them if nobody can know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.model.settings import Settings
from harness.runner.compile import compile_plan
from harness.runner.needs import Needs
from harness.spec.task import TaskSpec
from tests.unit.spec.files import task


def service(*hosts: str) -> dict[str, Any]:
    return {"command": ["x", "{ports}"], "hosts": list(hosts), "health": f"http://{hosts[0]}/"}


SERVICES = {
    "shop": service("shop.test", "www.shop.test"),
    "mail": service("mail.test"),
    "lib": service("lib.test"),
}
CHANNELS = {
    "orders": {"url": "http://shop.test/state"},
    "box": {"sqlite": "{folder:mail}/box.db"},
    "books": {"python": "m:f", "arguments": {"port": "{port:lib.test}"}},
    "rates": {"file": "rates.json"},
    "clock": {"url": "http://mail.test/clock", "clock": "now"},
}
LOGIN = {"steps": [{"act": "open", "url": "http://mail.test/login"}], "check_url": "http://mail.test/",
         "holds": "exists('#out')"}  # fmt: skip
SHOP = {"act": "open", "url": "http://shop.test/"}


def needs(settings: dict[str, Any] | None = None, **fields: Any) -> frozenset[str] | None:
    given = Settings(
        root=Path("/project"), services=SERVICES, channels=CHANNELS, logins={"ann": LOGIN},
        agents={"ask": {"agent": "monkey"}}, **(settings or {}),
    )  # fmt: skip
    spec = TaskSpec.model_validate({**task(), "steps": [SHOP], "success_criteria": ["exists('#x')"], **fields})
    return Needs(given).of(compile_plan(spec, settings=given, run_id="r1", environ={}))


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, {"shop"}),
        ({"steps": [{**SHOP, "url": "http://WWW.shop.test:80/a"}]}, {"shop"}),
        ({"allowed_domains": ["shop.test", "lib.test"]}, {"shop", "lib"}),
        ({"allowed_domains": ["test"]}, {"shop", "mail", "lib"}),
        ({"allowed_domains": ["elsewhere.example"], "steps": [{**SHOP, "url": "http://elsewhere.example/"}]}, set()),
        ({"steps": [SHOP, {"act": "api", "method": "GET", "url": "https://mail.test/a"}]}, {"shop", "mail"}),
        ({"steps": [SHOP, {"act": "assert", "expr": "url() == 'http://mail.test/'"}]}, {"shop", "mail"}),
        ({"inputs": {"where": "http://lib.test/"}}, {"shop", "lib"}),
        ({"success_criteria": ["json('box', 'letters').length == 1"]}, {"shop", "mail"}),
        ({"success_criteria": ['json("books", "a") == 1']}, {"shop", "lib"}),
        ({"success_criteria": ["json('rates', 'a') == 1", "json('orders', 'a') == 1"]}, {"shop"}),
        ({"state_bindings": {"total": "box.total"}}, {"shop", "mail"}),
        ({"time": "2026-01-01T00:00:00Z"}, {"shop", "mail"}),
        ({"login": "ann"}, {"shop", "mail"}),
        ({"faults": [{"kind": "service_killed", "service": "lib"}]}, {"shop", "lib"}),
        ({"faults": [{"kind": "refuse", "host": "mail.test", "connections": 1}]}, {"shop", "mail"}),
        ({"routes": [{"url": "http://mail.test/*", "json": [], "optional": True}]}, {"shop"}),
        ({"repairs": [{"steps": [{"act": "open", "url": "http://lib.test/"}]}], "preconditions": ["exists('#a')"]},
         {"shop", "lib"}),
        ({"steps": [{**SHOP, "url": "${memory.where}"}]}, None),
        ({"steps": [SHOP, {**SHOP, "url": "http://${memory.where}/a"}]}, None),
        ({"steps": [SHOP, {**SHOP, "url": "http://shop.test/${memory.a}"}]}, {"shop"}),
        ({"steps": [{**SHOP, "url": "http://elsewhere.example/"}]}, set()),
        ({"steps": [{**SHOP, "url": "about:blank"}]}, None),
        ({"agent": "ask"}, None),
        ({"agent": "ask", "allowed_domains": ["mail.test", "www.shop.test"]}, {"shop", "mail"}),
    ],
)  # fmt: skip
def test_what_a_task_needs(fields: dict[str, Any], found: set[str] | None) -> None:
    assert needs(**fields) == found


def test_what_every_task_of_the_project_needs() -> None:
    assert needs({"memory": {"channel": "box"}}) == {"shop", "mail"}
    assert needs({"base_url": "http://lib.test/"}, steps=[{**SHOP, "url": "/a"}]) == {"lib"}
