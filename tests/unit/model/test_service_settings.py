"""What a service's table may say: ports, placeholders, ports from outside."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.service_settings import ServiceSettings, expand, overridden, ports_of_environment


def table(**more: Any) -> ServiceSettings:
    given = {"command": ["x", "{port}"], "hosts": ["Shop.test", "www.shop.test"], "health": "http://shop.test/"}
    return ServiceSettings.model_validate({**given, **more})


def test_hosts_as_a_list_are_on_one_port() -> None:
    assert table().declared == {"shop.test": "auto", "www.shop.test": "auto"}
    assert table(port=81).declared == {"shop.test": 81, "www.shop.test": 81}
    assert table(hosts={"shop.test": 81, "b.test": 81}).declared == {"shop.test": 81, "b.test": 81}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"command": ["x", "{prot}"]}, r"command: unknown placeholder `\{prot\}` \(did you mean `port`\?\)"),
        ({"command": ["x", "{port:a.test}"]}, r"names no host of this service"),
        ({"command": ["x"]}, "the port of shop.test is set from outside, but the program does not learn it"),
        ({"hosts": []}, "`hosts` is empty"),
        ({"hosts": ["a.test", "A.test"]}, "must name each host once"),
        ({"port": 70_000}, 'is neither "auto" nor a port'),
        ({"port": 81, "hosts": {"shop.test": 81}}, "`port` belongs to `hosts` as a list"),
        ({"port": 81, "instances": 2}, "needs a port for each instance"),
        ({"command": None}, "`port` must be a number"),
        ({"command": None, "port": 81, "template": "t"}, "`template` belongs to a service that the run starts"),
        ({"reset": "again"}, 'must be "restart", or a command'),
    ],
)
def test_what_cannot_be_is_told(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        table(**more)


def test_placeholders() -> None:
    values = {"port": "81", "port:a.test": "82", "folder": "/f"}
    assert expand("{folder}/{port}-{port:A.test} {{port}} ${HOME} {1}", values) == "/f/81-82 {port} ${HOME} {1}"


def test_ports_from_outside() -> None:
    services = {"my-shop": table(), "two": table(command=["x", "{ports}"], hosts={"shop.test": 1, "b.test": 2})}
    assert ports_of_environment(services, {"HARNESS_PORT_MY_SHOP": "90", "HOME": "/"}) == {"my-shop": "90"}
    found = overridden(services, {"my-shop": "90", "two:b.test": "91"})
    assert found["my-shop"].declared == {"shop.test": 90, "www.shop.test": 90}
    assert found["two"].declared == {"shop.test": 1, "b.test": 91}
    with pytest.raises(ValueError, match="HARNESS_PORT_SHIP matches no service"):
        ports_of_environment(services, {"HARNESS_PORT_SHIP": "90"})
    for ports, said in (
        ({"my-shp": "1"}, "did you mean `my-shop`"),
        ({"two": "1"}, "it has 2 ports: say which one"),
        ({"my-shop": "x"}, "nor a port"),
        ({"two:c.test": "1"}, "there is no host `c.test`"),
    ):
        with pytest.raises(ValueError, match=said):
            overridden(services, ports)
    with pytest.raises(ValueError, match="the program does not learn it"):
        overridden({"fixed": table(command=["x"], port=1)}, {"fixed": "2"})
